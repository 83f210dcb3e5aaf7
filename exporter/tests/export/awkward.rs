//! Weights of zero, of hardly anything, and of too much.

use super::{A, B, C, bytes, load, open, options};
use exporter::{ExportError, export};
use float_engine::source::{Checkpoint, LayerWeights, Matrix};

/// A copy with changed weights.
fn changed(
    c: &Checkpoint,
    embed: impl Fn(&mut Matrix),
    layer: impl Fn(&mut LayerWeights),
    norm: impl Fn(&mut Vec<f32>),
) -> Checkpoint {
    let mut e = c.embed().unwrap();
    embed(&mut e);
    let layers = (0..c.config().layers).map(|i| {
        let mut w = c.layer(i).unwrap();
        layer(&mut w);
        w
    });
    let mut n = c.final_norm().unwrap();
    norm(&mut n);
    let head = c.lm_head().unwrap();
    Checkpoint::from_parts(c.config().clone(), e, layers.collect(), n, head).unwrap()
}

fn set_row(m: &mut Matrix, row: usize, f: impl Fn(f32) -> f32) {
    let cols = m.cols;
    m.data[row * cols..][..cols]
        .iter_mut()
        .for_each(|v| *v = f(*v));
}

#[test]
fn zero_tiny_and_denormal_rows_stay_in_range() {
    for name in [A, B, C] {
        let c = open(name);
        for factor in [0.0, 1e-8, 1e-38, 1e-44] {
            let scale = |v: f32| v * factor;
            let small = changed(
                &c,
                |e| set_row(e, 7, scale),
                |w| {
                    for m in [&mut w.q, &mut w.k, &mut w.v, &mut w.gate, &mut w.up] {
                        set_row(m, 1, scale);
                        set_row(m, 5, scale);
                    }
                },
                |_| {},
            );
            let blob = bytes(&small, &options(&small, 1)).unwrap();
            let model = int_engine::model::Model::from_bytes(&blob).unwrap();
            if factor == 0.0 {
                // Gate rows are not mixed with others by a rotation of their outputs.
                let gate = &model.layers()[0].gate;
                assert!(gate.weight.row(1).all(|w| w == 0));
                assert!(model.embed().weight.row(7).all(|w| w == 0));
            }
            assert_eq!(load(&blob).all_logits(&[7, 3, 7]).unwrap().len(), 3);
        }
    }
}

#[test]
fn a_model_of_zeros_gives_zero_logits() {
    for name in [A, B, C] {
        let c = open(name);
        let zero = |m: &mut Matrix| m.data.fill(0.0);
        let everything = changed(
            &c,
            zero,
            |w| {
                let LayerWeights {
                    q,
                    k,
                    v,
                    o,
                    gate,
                    up,
                    down,
                    ..
                } = w;
                [q, k, v, o, gate, up, down].into_iter().for_each(zero);
                w.attn_norm.fill(0.0);
                w.ffn_norm.fill(0.0);
            },
            |n| n.fill(0.0),
        );
        let model = load(&bytes(&everything, &options(&everything, 1)).unwrap());
        let logits = model.all_logits(&[0, 1, 2]).unwrap();
        assert!(logits.iter().flatten().all(|&v| v == 0), "{name}");
    }
}

#[test]
fn an_outlier_beyond_the_format_is_named() {
    let c = open(C);
    // Id 299 does not occur in this calibration.
    let mut o = options(&c, 1);
    o.calibration = vec![vec![1, 2, 3, 4]];
    let huge = changed(&c, |e| set_row(e, 299, |_| 3e38), |_| {}, |_| {});
    match bytes(&huge, &o) {
        Err(ExportError::Scale { tensor, row, .. }) => {
            assert_eq!((&tensor[..], row), ("embed", 299));
        }
        other => panic!("{:?}", other.map(|b| b.len())),
    }
    // Only the pieces for another attempt are left.
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("model.blob");
    assert!(export(&huge, &out, &o, &mut ()).is_err());
    let left = std::fs::read_dir(dir.path()).unwrap();
    let left: Vec<_> = left.map(|f| f.unwrap().file_name()).collect();
    assert_eq!(left, ["model.blob.partial"]);
    let overflowing = changed(&c, |_| {}, |w| w.up.data[3] = 3e38, |_| {});
    match bytes(&overflowing, &o) {
        Err(ExportError::Activation { .. } | ExportError::Scale { .. }) => {}
        other => panic!("{:?}", other.map(|b| b.len())),
    }
}

#[test]
fn one_large_weight_does_not_spoil_the_others_channels() {
    let c = open(C);
    let outlier = changed(&c, |_| {}, |w| w.gate.data[0] = -300.0, |_| {});
    load(&bytes(&outlier, &options(&outlier, 1)).unwrap());
}
