//! The residual's unit covers the residual wherever it is largest.

use super::{A, C, open, options};
use exporter::export;
use float_engine::source::{Checkpoint, Matrix};

/// A copy whose layers add constants to channel 0 of the residual: `steps[2 * i]` by the attention of layer i,
/// `steps[2 * i + 1]` by its MLP. Channel 0 starts at 10 and outweighs all others.
fn steps(c: &Checkpoint, steps: [f32; 4]) -> Checkpoint {
    let mut config = c.config().clone();
    config.layers = 2;
    let n = config.hidden;
    let mut embed = c.embed().unwrap();
    embed.data.iter_mut().step_by(n).for_each(|v| *v = 10.0);
    // Channel 0 after a norm, as good as alone.
    let x = (n as f32).sqrt();
    let layers = (0..2).map(|i| {
        let mut w = c.layer(i).unwrap();
        w.attn_norm.fill(1.0);
        w.ffn_norm.fill(1.0);
        let one = |m: &mut Matrix, value: f32| {
            m.data.fill(0.0);
            m.data[0] = value;
        };
        one(&mut w.v, 1.0);
        one(&mut w.o, steps[2 * i] / x);
        one(&mut w.gate, 1.0);
        one(&mut w.up, 1.0);
        one(&mut w.down, steps[2 * i + 1] / (x * x));
        w
    });
    let layers = layers.collect();
    let (norm, head) = (c.final_norm().unwrap(), c.lm_head().unwrap());
    Checkpoint::from_parts(config, embed, layers, norm, head).unwrap()
}

#[test]
fn the_largest_residual_may_be_inside() {
    for name in [A, C] {
        let c = open(name);
        let rotated = (int_engine::config::had_block(c.config().hidden) as f64).sqrt();
        for (at, values) in [
            ("between attention and MLP", [1000.0, -1000.0, 0.0, 0.0]),
            ("between layers", [0.0, 1000.0, -1000.0, 0.0]),
            (
                "between attention and MLP at last",
                [0.0, 0.0, 1000.0, -1000.0],
            ),
            ("at the end", [0.0, 0.0, 0.0, 1000.0]),
        ] {
            let model = steps(&c, values);
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("model.blob");
            let report = export(&model, &out, &options(&model, 1), &mut ()).unwrap();
            let channel = report.residual_max * rotated;
            assert!(
                (950.0..1070.0).contains(&channel),
                "{name}, {at}: {channel}"
            );
        }
    }
}
