//! Configurations of random blobs, chosen by mechanism.

/// The configuration of spec 3.1, unchecked: a test may ask for an invalid one.
#[derive(Clone, Debug)]
pub struct Shape {
    /// The static scheme instead of the dynamic one.
    pub static_scheme: bool,
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub intermediate: usize,
    pub vocab: usize,
    pub accepted: usize,
    pub ctx: usize,
    pub qk_norm: bool,
    pub tied: bool,
    /// `None`: fitting the style.
    pub eps: Option<u64>,
    pub stop_ids: Vec<u32>,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            static_scheme: false,
            hidden: 64,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            intermediate: 96,
            vocab: 67,
            accepted: 61,
            ctx: 48,
            qk_norm: false,
            tied: true,
            eps: None,
            stop_ids: vec![],
        }
    }
}

impl Shape {
    /// A shape whose blob has every part and few bytes: for trying every change.
    pub fn small() -> Self {
        Shape {
            hidden: 12,
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            intermediate: 10,
            vocab: 9,
            accepted: 7,
            ctx: 4,
            layers: 1,
            ..Self::default()
        }
    }
}

/// Shapes chosen by mechanism: the reason is beside each.
pub fn shapes() -> Vec<(&'static str, Shape)> {
    let shape = |hidden, layers, (heads, kv_heads, head_dim), intermediate| Shape {
        hidden,
        layers,
        heads,
        kv_heads,
        head_dim,
        intermediate,
        ..Shape::default()
    };
    let vocab = |vocab, accepted, s: Shape| Shape {
        vocab,
        accepted,
        ..s
    };
    let qk_norm = |s: Shape| Shape { qk_norm: true, ..s };
    let untied = |s: Shape| Shape { tied: false, ..s };
    let constant = |s: Shape| Shape {
        static_scheme: true,
        ..s
    };
    vec![
        // The smallest of everything.
        ("ones", vocab(1, 1, shape(1, 1, (1, 1, 2), 1))),
        ("default", Shape::default()),
        ("default, q/k norm", qk_norm(Shape::default())),
        // Blocks of 1 on the residual, of 2 on the head.
        ("odd hidden", shape(63, 2, (3, 3, 6), 31)),
        // H_20 (x) H_4 on the residual and on the head, blocks of 1 on the intermediate.
        ("80", shape(80, 2, (2, 1, 80), 77)),
        // H_12 (x) H_8.
        ("96", qk_norm(untied(shape(96, 2, (6, 2, 32), 160)))),
        // H_12 (x) H_16; seven query heads on one kv head.
        ("192", untied(shape(192, 2, (7, 1, 16), 200))),
        // 13 * 16: thirteen blocks of 16; the smallest head.
        ("208", qk_norm(shape(208, 2, (5, 5, 2), 63))),
        // H_12 (x) H_12 on the residual, H_12 on the head.
        ("144", shape(144, 3, (4, 4, 12), 65)),
        // H_12 (x) H_20 on the residual, H_20 on the head.
        ("240", qk_norm(shape(240, 1, (6, 3, 20), 48))),
        // H_20 (x) H_20; the largest head.
        ("400", vocab(9, 9, shape(400, 1, (1, 1, 256), 3))),
        // The smallest K whose full rows need psh -4.
        ("4161", vocab(5, 5, shape(2, 2, (1, 1, 2), 4161))),
        // psh -3, blocks of 256.
        ("8448", vocab(5, 4, shape(4, 1, (2, 1, 4), 8448))),
        // The static scheme; its rotation of the intermediate has other blocks.
        (
            "static ones",
            constant(vocab(1, 1, shape(1, 1, (1, 1, 2), 1))),
        ),
        // H_12 (x) H_8.
        ("static", constant(Shape::default())),
        // H_12 (x) H_4.
        (
            "static 48, q/k norm",
            constant(qk_norm(untied(shape(33, 2, (4, 2, 16), 48)))),
        ),
        // H_12 (x) H_12 and H_12 (x) H_20.
        ("static 144", constant(shape(40, 3, (3, 1, 14), 144))),
        (
            "static 240",
            constant(qk_norm(shape(60, 1, (2, 2, 10), 240))),
        ),
        // Five blocks of H_20 (x) H_2.
        (
            "static 200",
            constant(untied(shape(64, 2, (4, 4, 16), 200))),
        ),
        // Blocks of 1: the least headroom is not the most shift.
        ("static 63", constant(shape(48, 2, (4, 1, 12), 63))),
        // psh -4, eleven blocks of H_12 (x) H_32.
        (
            "static 4224",
            constant(vocab(5, 4, shape(4, 1, (2, 1, 4), 4224))),
        ),
    ]
}
