//! What options do, and which are refused.

use super::{A, bytes, open, options};
use exporter::{CalibrationError, ExportError, ExportOptions};

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
    let model = int_engine::model::Model::from_bytes(&bytes(&c, &o).unwrap()).unwrap();
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
