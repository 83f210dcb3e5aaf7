//! What options do, and which are refused.

use super::{A, B, C, bytes, open, options};
use exporter::{CalibrationError, ExportError, ExportOptions, Scheme, export};
use int_engine::config::{had_block, pow2_block};
use int_engine::model::Model;

#[test]
fn unusable_options_are_refused_before_the_work() {
    let c = open(A);
    let vocab = c.config().vocab;
    let with = |windows: Vec<Vec<u32>>| {
        let mut o = options(&c, 1);
        o.calibration = windows;
        match bytes(&c, &o) {
            Err(ExportError::Calibration(e)) => e,
            other => panic!("{:?}", other.map(|b| b.len())),
        }
    };
    assert_eq!(with(vec![]), CalibrationError::NoWindows);
    assert_eq!(
        with(vec![vec![1], vec![]]),
        CalibrationError::EmptyWindow(1)
    );
    let (window, id) = (0, vocab as u32);
    let expected = CalibrationError::TokenOutOfRange { window, id, vocab };
    assert_eq!(with(vec![vec![0, id]]), expected);
    let max = c.config().max_context;
    let len = max + 1;
    let expected = CalibrationError::TooLong { window, len, max };
    assert_eq!(with(vec![vec![0; len]]), expected);
    let changes: [fn(&mut ExportOptions); 5] = [
        |o| o.accepted_ids = 0,
        |o| o.accepted_ids = 1 << 20,
        |o| o.max_context = Some(32769),
        |o| o.max_context = Some(0),
        |o| o.stop_ids = vec![u32::MAX],
    ];
    for change in changes {
        let mut o = options(&c, 1);
        change(&mut o);
        assert!(matches!(bytes(&c, &o), Err(ExportError::Config(_))));
    }
}

#[test]
fn options_reach_the_blob() {
    let c = open(A);
    let mut o = options(&c, 1);
    o.stop_ids = vec![9, 4, 9];
    o.accepted_ids = 300;
    o.max_context = Some(77);
    o.tokenizer_digest = [3; 32];
    o.metadata = vec![("license".into(), "none".into())];
    let model = Model::from_bytes(&bytes(&c, &o).unwrap()).unwrap();
    let config = model.config();
    assert_eq!(config.stop_ids(), [4, 9]);
    assert_eq!((config.accepted_ids(), config.max_context()), (300, 77));
    assert_eq!(model.tokenizer_digest(), [3; 32]);
    let keys: Vec<&str> = model.metadata().iter().map(|(k, _)| &k[..]).collect();
    let expected = [
        "calibration.sha256",
        "exporter.revision",
        "license",
        "rms.eps",
        "rope.theta",
        "source.family",
        "source.fingerprint",
    ];
    assert_eq!(keys, expected);
}

#[test]
fn static_scales_are_those_of_the_report() {
    for name in [A, B, C] {
        let c = open(name);
        let mut o = options(&c, 1);
        let plain = Model::from_bytes(&bytes(&c, &o).unwrap()).unwrap();
        assert_eq!(plain.config().scheme(), Scheme::Dynamic);
        let none = |m: &Model| m.layers().iter().all(|l| l.static_scales.is_none());
        assert!(none(&plain));

        o.scheme = Scheme::Static;
        let dir = tempfile::tempdir().unwrap();
        let out = dir.path().join("model.blob");
        let report = export(&c, &out, &o, &mut ()).unwrap();
        let model = Model::from_bytes(&std::fs::read(&out).unwrap()).unwrap();
        let config = model.config();
        assert_eq!(config.scheme(), Scheme::Static);
        assert_eq!(report.scheme, "static");
        let width = config.intermediate();
        assert_eq!(config.mlp_block(), had_block(width));
        assert_eq!(plain.config().mlp_block(), pow2_block(width));
        assert_eq!(report.static_sites.len(), config.layers());
        let sites = report.sites.iter().zip(&report.static_sites);
        for (layer, (maxima, site)) in model.layers().iter().zip(sites) {
            let s = layer.static_scales.expect("static scales");
            // The largest of n values is at least their root mean square and at most their root.
            let least = 1.0 / (config.hidden() as f64).sqrt();
            for (peak, stored) in [(site.attn_norm, s.attn_norm), (site.mlp_norm, s.mlp_norm)] {
                assert!((0.999 * least..=1.0).contains(&peak), "{name}: {peak}");
                assert_eq!(stored, (peak * 65536.0).round() as u32);
            }
            let near = |stored: u32, expected: f64| {
                let stored = f64::from(stored);
                assert!((stored - expected).abs() <= 0.5 + 1e-9 * expected, "{name}");
            };
            near(s.o, maxima.o_in * 32767.0 * 32512.0 / (4.0 * maxima.v));
            let shift = 2f64.powi(24 - s.down_shift as i32);
            near(s.down, maxima.down_in * shift);
            // The largest gated activation fills the block's headroom to more than half, or needs no shift.
            let room = (31 - (32 - (config.mlp_block() as u32).leading_zeros())) as i32;
            let filled = site.gated * shift / 2f64.powi(room);
            assert!(
                filled <= 1.0 && (filled > 0.499 || s.down_shift == 0),
                "{name}: {filled}"
            );
        }
    }
}
