//! Blobs with pseudo-random contents, written from spec/4 alone: no code of the engine, the exporter or
//! the reference. The same shape, style and seed give the same bytes on every machine.
#![allow(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "a module of several test crates; each uses its part"
)]
#![allow(
    clippy::manual_is_multiple_of,
    reason = "also compiled at the reference's MSRV, 1.85"
)]

#[path = "shapes.rs"]
mod shapes;

pub use shapes::{Shape, shapes};
use std::ops::Range;

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Rng(pub u64);

impl Rng {
    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A value in `low..=high`.
    pub fn range(&mut self, low: i64, high: i64) -> i64 {
        low + (self.word() % (high - low + 1) as u64) as i64
    }

    /// One of the values.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.word() % from.len() as u64) as usize]
    }

    /// `len` ids below `below`.
    pub fn tokens(&mut self, len: usize, below: usize) -> Vec<u32> {
        (0..len)
            .map(|_| (self.word() % below as u64) as u32)
            .collect()
    }
}

/// How the contents are drawn; all are within the ranges of spec 4.5.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Shifts fit the sums, so that activations neither vanish nor saturate.
    Plausible,
    /// Weights +-127, constants at the ends of their ranges, among plausible rows.
    Extreme,
    /// Weights and gains zero.
    Zero,
}

/// One tensor of the directory.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub name: String,
    pub dtype: u8,
    pub shape: Vec<u32>,
    pub offset: usize,
    pub length: usize,
}

/// A file and where its parts are.
#[derive(Clone, Debug)]
pub struct RandomBlob {
    pub bytes: Vec<u8>,
    pub manifest_len: usize,
    pub tensors: Vec<Tensor>,
}

impl RandomBlob {
    /// The bytes of a tensor.
    pub fn range(&self, name: &str) -> Range<usize> {
        let t = self
            .tensors
            .iter()
            .find(|t| t.name == name)
            .unwrap_or_else(|| panic!("no tensor {name}"));
        t.offset..t.offset + t.length
    }
}

/// Keccak-256 of the frozen tables, as spec 2 prints them.
const TABLE_DIGESTS: [&str; 3] = [
    "8da51de79047aacee79721349cb001def560f23a9aca96037d5ca2b8ba1c7b5f",
    "6458519d667f356a6644e6a75c98069bc7457e55c76dafd1dfb748dbb281fcea",
    "1523853c1a6fd045f5e78c5e6e45f8522cd338a975a1376ab50f5977042e9d0e",
];

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hex"))
        .collect()
}

fn bit_length(x: i64) -> i64 {
    64 - i64::from(x.leading_zeros())
}

/// About log2 of the square root.
fn half_log(x: usize) -> i64 {
    bit_length(x as i64) / 2
}

struct Builder {
    style: Style,
    rng: Rng,
    data: Vec<(String, u8, Vec<u32>, Vec<u8>)>,
}

impl Builder {
    fn push(&mut self, name: String, dtype: u8, shape: &[usize], bytes: Vec<u8>) {
        self.data.push((
            name,
            dtype,
            shape.iter().map(|&s| s as u32).collect(),
            bytes,
        ));
    }

    fn ints(&mut self, name: String, values: &[i64]) {
        self.push(
            name,
            2,
            &[values.len()],
            values
                .iter()
                .flat_map(|&v| (v as i32).to_le_bytes())
                .collect(),
        );
    }

    fn codes(&mut self, rows: usize, cols: usize) -> Vec<i8> {
        let style = self.style;
        let rng = &mut self.rng;
        // A matrix of extreme blobs has one sign, its rows alternating signs, or random signs.
        let pattern = rng.range(0, 3);
        let code = |i: usize| match style {
            Style::Plausible => rng.range(-127, 127) as i8,
            Style::Zero => 0,
            Style::Extreme => match pattern {
                0 => 127,
                1 if (i / cols) % 2 == 0 => -127,
                1 => 127,
                _ => rng.pick(&[-127, 127]),
            },
        };
        (0..rows * cols).map(code).collect()
    }

    /// The shift that accumulators of this style are given, around `plausible`.
    fn shift(&mut self, plausible: i64) -> i64 {
        match self.style {
            Style::Extreme => self.rng.pick(&[
                -64,
                64,
                -32,
                -31,
                -30,
                plausible - 3,
                plausible,
                plausible + 3,
            ]),
            _ => self.rng.range(plausible, plausible + 1),
        }
    }

    fn channel(&mut self, name: &str, rows: usize, shift: i64) {
        let (low, high) = (1 << 30, (1 << 31) - 1);
        let mult: Vec<i64> = match self.style {
            Style::Extreme => (0..rows).map(|_| self.rng.pick(&[low, high])).collect(),
            _ => (0..rows).map(|_| self.rng.range(low, high)).collect(),
        };
        self.ints(format!("{name}.mult"), &mult);
        let shifts = (0..rows).map(|_| self.shift(shift) as i8 as u8).collect();
        self.push(format!("{name}.shift"), 0, &[rows], shifts);
    }

    /// Weights, multipliers and shifts; returns psh. `shift` is the one wanted at psh 0.
    fn matrix(&mut self, name: &str, rows: usize, cols: usize, shift: i64) -> i64 {
        let codes = self.codes(rows, cols);
        let psh = psh_of(&codes, cols);
        self.push(
            format!("{name}.weight"),
            0,
            &[rows, cols],
            codes.iter().map(|&w| w as u8).collect(),
        );
        self.channel(name, rows, shift - psh);
        psh
    }

    fn gains(&mut self, len: usize, limit: i64) -> Vec<i64> {
        let style = self.style;
        let rng = &mut self.rng;
        let gain = |_| match style {
            Style::Plausible => rng.range(limit / 4, limit) * rng.pick(&[1, 1, 1, -1]),
            Style::Extreme => rng.pick(&[-limit, limit, 0, 1]),
            Style::Zero => 0,
        };
        (0..len).map(gain).collect()
    }

    fn phases(&mut self, pairs: usize) -> Vec<u8> {
        let one_radian: u64 = 2_935_890_503_282_001_226; // 2^64 / (2 pi)
        let style = self.style;
        let rng = &mut self.rng;
        let phase = |i: usize| match style {
            Style::Extreme => {
                rng.pick(&[0, u64::MAX, 1 << 63, 1]) ^ (rng.word() & rng.pick(&[0, u64::MAX]))
            }
            _ => (one_radian >> (13 * i / pairs)) ^ (rng.word() >> 20),
        };
        (0..pairs).map(phase).flat_map(u64::to_le_bytes).collect()
    }

    /// c_attn_norm, c_mlp_norm, m_o, c_down, m_down: a plausible one clamps the largest values of some rows.
    fn static_scales(&mut self, s: &Shape) -> [i64; 5] {
        let block = mlp_block(s);
        let headroom = 31 - bit_length(block as i64);
        let fraction = (1 << 17) / (s.hidden as i64).isqrt();
        let c = (27 - headroom).max(0);
        let down = 1 << (26 - c + half_log(block)).min(30);
        let mut pick = |low: i64, plausible: (i64, i64), high: i64| {
            let ends = [low, high, plausible.0.clamp(low, high)];
            match self.style {
                Style::Plausible => self.rng.range(plausible.0, plausible.1).clamp(low, high),
                _ => self.rng.pick(&ends),
            }
        };
        let (norm, int31) = (
            (fraction - fraction / 4, fraction + fraction / 4),
            (1 << 31) - 1,
        );
        [
            pick(1, norm, 1 << 16),
            pick(1, norm, 1 << 16),
            pick(1, (1 << 27, 1 << 28), int31),
            pick(0, (c, c + 1), 39),
            pick(1, (down / 2, down), int31),
        ]
    }

    fn layer(&mut self, s: &Shape, i: usize) {
        let p = format!("layers.{i}.");
        let (n, ff, hd) = (s.hidden, s.intermediate, s.head_dim);
        let (qd, kd) = (s.heads * hd, s.kv_heads * hd);
        // The constants precede the matrices that determine them: their place is kept.
        let consts_at = self.data.len();
        self.ints(format!("{p}consts"), &[0; 9]);
        if s.static_scheme {
            let scales = self.static_scales(s);
            self.ints(format!("{p}static"), &scales);
        }
        let qk = if s.qk_norm { -6 } else { 1 };
        let mut consts = vec![
            self.matrix(&format!("{p}q"), qd, n, qk),
            self.matrix(&format!("{p}k"), kd, n, qk),
            self.matrix(&format!("{p}v"), kd, n, 1),
        ];
        if s.qk_norm {
            for name in ["q_norm", "k_norm"] {
                let gain = self.gains(hd, 32767 << 15);
                self.ints(format!("{p}{name}.gain"), &gain);
            }
        }
        consts.push(self.matrix(&format!("{p}o"), n, qd, 24 + half_log(qd)));
        consts.push(self.matrix(&format!("{p}gate"), ff, n, 0));
        consts.push(self.matrix(&format!("{p}up"), ff, n, 0));
        let block = mlp_block(s);
        consts.push(self.matrix(
            &format!("{p}down"),
            n,
            ff,
            21 + half_log(ff) + half_log(block),
        ));
        let score_shift = if s.qk_norm {
            35 - half_log(hd)
        } else {
            29 + half_log(hd)
        };
        consts.extend(match self.style {
            Style::Extreme => [
                self.rng.pick(&[1 << 30, (1 << 31) - 1]),
                self.rng.pick(&[0, 61, 13, score_shift]),
            ],
            _ => [
                self.rng.range(1 << 30, (1 << 31) - 1),
                self.rng.range(score_shift - 1, score_shift),
            ],
        });
        self.data[consts_at].3 = consts
            .iter()
            .flat_map(|&v| (v as i32).to_le_bytes())
            .collect();
    }
}

/// spec 4.5: the psh that the weights require.
pub fn psh_of(codes: &[i8], cols: usize) -> i64 {
    let sum = |row: &[i8]| row.iter().map(|&w| i64::from(w).abs()).sum::<i64>();
    let largest = codes.chunks(cols).map(sum).max().expect("a row");
    (bit_length(127 * largest) - 31).max(-5)
}

/// A whole blob.
pub fn build(s: &Shape, style: Style, seed: u64) -> RandomBlob {
    let mut b = Builder {
        style,
        rng: Rng(seed),
        data: Vec::new(),
    };
    let (n, v) = (s.hidden, s.vocab);
    b.matrix("embed", v, n, 0);
    // The embedding is requantised from codes << 24 without psh: the residual's scale, +-2^18.
    b.data.truncate(1);
    b.channel("embed", v, 13);
    let phases = b.phases(s.head_dim / 2);
    b.push("rope.phase".into(), 3, &[s.head_dim / 2], phases);
    for i in 0..s.layers {
        b.layer(s, i);
    }
    let gain = b.gains(n, 32767);
    b.push(
        "final_norm.gain".into(),
        1,
        &[n],
        gain.iter()
            .flat_map(|&g| (g as i16).to_le_bytes())
            .collect(),
    );
    let consts_at = b.data.len();
    b.ints("head.consts".into(), &[0]);
    // The two rotations of the head grow the row by the residual's Hadamard block.
    let head_shift = 11 + bit_length(hadamard_block(n) as i64);
    let psh = if s.tied {
        let codes: Vec<i8> = b.data[0].3.iter().map(|&w| w as i8).collect();
        let psh = psh_of(&codes, n);
        b.channel("head", v, head_shift - psh);
        psh
    } else {
        b.matrix("head", v, n, head_shift)
    };
    b.data[consts_at].3 = (psh as i32).to_le_bytes().to_vec();
    let eps = s.eps.unwrap_or_else(|| match style {
        Style::Plausible => 40_000 * n as u64,
        Style::Extreme => b.rng.pick(&[0, (1 << 53) - 1]),
        Style::Zero => 0,
    });
    assemble(s, eps, b.data)
}

/// spec 3.3: the block of the rotation before the down projection.
fn mlp_block(s: &Shape) -> usize {
    if s.static_scheme {
        hadamard_block(s.intermediate)
    } else {
        1 << s.intermediate.trailing_zeros()
    }
}

/// spec 2.4: the largest divisor of `n` with a Hadamard matrix.
fn hadamard_block(n: usize) -> usize {
    let has = |d: usize| {
        let k = d.trailing_zeros();
        match d >> k {
            1 => true,
            3 | 5 => k >= 2,
            9 | 15 | 25 => k >= 4,
            _ => false,
        }
    };
    (1..=n)
        .rev()
        .find(|&d| n % d == 0 && has(d))
        .expect("1 divides")
}

fn text(out: &mut Vec<u8>, s: &str) {
    out.extend((s.len() as u32).to_le_bytes());
    out.extend(s.as_bytes());
}

/// spec 4.2: the manifest of tensors placed at these offsets.
fn manifest(tensors: &[Tensor]) -> Vec<u8> {
    let mut m = 2u32.to_le_bytes().to_vec();
    for (key, value) in [("maker", "random"), ("note", "größe")] {
        text(&mut m, key);
        text(&mut m, value);
    }
    m.extend((tensors.len() as u32).to_le_bytes());
    for t in tensors {
        text(&mut m, &t.name);
        m.push(t.dtype);
        m.extend((t.shape.len() as u32).to_le_bytes());
        t.shape.iter().for_each(|s| m.extend(s.to_le_bytes()));
        m.extend((t.offset as u64).to_le_bytes());
        m.extend((t.length as u64).to_le_bytes());
    }
    m
}

fn assemble(s: &Shape, eps: u64, data: Vec<(String, u8, Vec<u32>, Vec<u8>)>) -> RandomBlob {
    let mut tensors: Vec<Tensor> = data
        .iter()
        .map(|(name, dtype, shape, bytes)| Tensor {
            name: name.clone(),
            dtype: *dtype,
            shape: shape.clone(),
            offset: 0,
            length: bytes.len(),
        })
        .collect();
    let manifest_len = manifest(&tensors).len(); // offsets have a fixed width
    let mut at = 1024 + manifest_len;
    for t in &mut tensors {
        t.offset = at.next_multiple_of(64);
        at = t.offset + t.length;
    }
    let mut bytes = b"BLUEBLOB".to_vec();
    bytes.extend([1, 0, 0, 0, 1, 0, 0, 0, 1 + u8::from(s.static_scheme)]);
    bytes.extend((at as u64).to_le_bytes());
    bytes.extend((manifest_len as u32).to_le_bytes());
    for d in [
        s.hidden,
        s.layers,
        s.heads,
        s.kv_heads,
        s.head_dim,
        s.intermediate,
        s.vocab,
        s.accepted,
        s.ctx,
    ] {
        bytes.extend((d as u32).to_le_bytes());
    }
    bytes.extend([u8::from(s.qk_norm), u8::from(s.tied)]);
    bytes.extend(eps.to_le_bytes());
    TABLE_DIGESTS.iter().for_each(|d| bytes.extend(unhex(d)));
    bytes.extend([0; 32]);
    bytes.extend((s.stop_ids.len() as u32).to_le_bytes());
    s.stop_ids
        .iter()
        .for_each(|id| bytes.extend(id.to_le_bytes()));
    bytes.resize(1024, 0);
    bytes.extend(manifest(&tensors));
    for (t, (_, _, _, content)) in tensors.iter().zip(&data) {
        bytes.resize(t.offset, 0);
        bytes.extend(content);
    }
    RandomBlob {
        bytes,
        manifest_len,
        tensors,
    }
}
