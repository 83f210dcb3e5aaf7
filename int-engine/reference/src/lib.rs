//! The reference of the integer decoder: the pages of `spec/`, in their order, as plain slow Rust.
//!
//! Written from the specification alone, without dependencies. Every item cites its section. Values are
//! `i64` unless a narrower type is the point; the bounds that the pages prove make every operation fit,
//! and builds with overflow checks verify it. A function called outside its stated domain may panic;
//! nothing that comes from a blob accepted by [`Model::from_blob`] or from a prompt can leave a domain.
#![forbid(unsafe_code)]
#![deny(clippy::float_arithmetic)]

use std::fmt;

// ---------------------------------------------------------------- 0. Conventions

/// spec 0.6: the largest stored int32 magnitude.
pub const I31: i64 = (1 << 31) - 1;
/// spec 0.6: the largest stored int16 magnitude.
pub const I16: i64 = (1 << 15) - 1;

/// spec 0.3: clamps `x` to `[-limit, limit]`, `limit >= 0`.
pub fn sat(x: i64, limit: i64) -> i64 {
    x.clamp(-limit, limit)
}

/// spec 0.6: bit length of `x >= 0`; 0 for 0.
pub fn bl(x: i64) -> i64 {
    assert!(x >= 0, "bit length is defined for x >= 0");
    i64::from(64 - x.leading_zeros())
}

fn max_abs(row: &[i64]) -> i64 {
    row.iter().map(|v| v.abs()).max().unwrap_or(0)
}

fn with_sign_of(sign: i64, magnitude: i64) -> i64 {
    if sign < 0 { -magnitude } else { magnitude }
}

/// spec 0.4, 3.6: asserts, in builds with debug assertions, that the terms of the sum named `quantity` have
/// magnitudes that add up to at most `bound`, so that the sum may be taken in any order.
fn assert_proven(quantity: &str, bound: u64, magnitude: impl FnOnce() -> u128) {
    if cfg!(debug_assertions) {
        let magnitude = magnitude();
        assert!(
            magnitude <= bound.into(),
            "spec 3.6: {quantity}: the terms have magnitude {magnitude}, proven at most {bound}"
        );
    }
}

/// A sum with [`assert_proven`].
fn proven_sum(quantity: &str, bound: u64, terms: impl Iterator<Item = i64> + Clone) -> i64 {
    assert_proven(quantity, bound, || {
        terms.clone().map(|t| u128::from(t.unsigned_abs())).sum()
    });
    terms.sum()
}

// ---------------------------------------------------------------- 1. Operations

/// spec 1.1: floor of the square root, `0 <= n < 2^62`.
pub fn isqrt(n: i64) -> i64 {
    assert!(
        (0..1 << 62).contains(&n),
        "isqrt is defined for 0 <= n < 2^62"
    );
    let mut root = 0;
    for bit in (0..31).rev() {
        let trial = root + (1i64 << bit);
        if trial * trial <= n {
            root = trial;
        }
    }
    root
}

/// spec 1.2: `x / 2^e` to nearest, ties away from zero (gemmlowp's RoundingDivideByPOT). `|x| <= 2^62`;
/// 0 for `e > 62`.
pub fn rdbpot(x: i64, e: u32) -> i64 {
    if e > 62 {
        return 0;
    }
    let mask = (1i64 << e) - 1;
    let remainder = x & mask;
    let threshold = (mask >> 1) + i64::from(x < 0);
    (x >> e) + i64::from(remainder > threshold)
}

/// spec 1.3: `(a*b + 2^30) >> 31`, and `2^31 - 1` for `(-2^31, -2^31)` (gemmlowp's
/// SaturatingRoundingDoublingHighMul). Every pair of int32.
pub fn srdhm(a: i32, b: i32) -> i32 {
    if a == i32::MIN && b == i32::MIN {
        return i32::MAX;
    }
    ((i64::from(a) * i64::from(b) + (1 << 30)) >> 31) as i32
}

fn srdhm_wide(a: i64, b: i64) -> i64 {
    let int32 = |x: i64| i32::try_from(x).expect("spec 1.8: operands of srdhm are below 2^31");
    i64::from(srdhm(int32(a), int32(b)))
}

/// spec 1.4: the token scale `(t, e)` of the integer `m`, `0 <= m < 2^31`: `m = t / 2^31 * 2^-e`.
pub fn norm_scale(m: i64) -> (i64, i64) {
    if m == 0 {
        return (0, 0);
    }
    (m << (31 - bl(m)), -bl(m))
}

/// spec 1.5: quantisation of a row to int8 with `m` as 127; larger values are clamped. `|u_i| <= 2^31 - 1`,
/// `1 <= m < 2^31`; returns the codes (`|q_i| <= 127`), `u_i ~ q_i * m / 127`.
pub fn quantize(u: &[i64], m: i64) -> Vec<i8> {
    let b = bl(m);
    let r = (127i64 << (b + 23)) / m;
    let code = |&x: &i64| {
        let a = x.abs().min(m);
        let a = if b <= 24 {
            a << (24 - b)
        } else {
            a >> (b - 24)
        };
        let y = (a * r + (1 << 46)) >> 47;
        i8::try_from(with_sign_of(x, y)).expect("spec 1.5: |q| <= 127")
    };
    u.iter().map(code).collect()
}

/// spec 1.5: [`quantize`] at the row's largest magnitude, which is returned with the codes. `|u_i| <= 2^31 - 1`.
pub fn dynq(u: &[i64]) -> (Vec<i8>, i64) {
    let m = max_abs(u);
    if m == 0 {
        return (vec![0; u.len()], 0);
    }
    (quantize(u, m), m)
}

fn mantissas(x: &[i64]) -> (Vec<i64>, i64) {
    let sh = (bl(max_abs(x)) - 24).max(0);
    (x.iter().map(|&v| rdbpot(v, sh as u32)).collect(), sh)
}

/// spec 1.6: root of a row's sum of squares plus `eps`, as `(r, e)` for `r * 2^-e`. 1 to 8192 values,
/// `|x_i| <= 2^31 - 1`, `0 <= eps < 2^53`; `2^30 <= r < 2^31`.
pub fn rms(x: &[i64], eps: i64) -> (i64, i64) {
    let (z, sh) = mantissas(x);
    let squares = proven_sum("rms sum", 8192 << 48, z.iter().map(|v| v * v));
    let s = (squares + (eps >> (2 * sh))).max(1);
    let up = (62 - bl(s)) / 2;
    (isqrt(s << (2 * up)), up - sh)
}

/// spec 1.7: token scale of `m / (r * 2^-e)`. `0 <= m < 2^31`, `2^30 <= r < 2^31`.
pub fn ratio(m: i64, r: i64, e: i64) -> (i64, i64) {
    if m == 0 {
        return (0, 0);
    }
    let d = (m << (62 - bl(m))) / r;
    let t = if bl(d) == 31 { d } else { d >> 1 };
    (t, 62 - bl(m) - bl(d) - e)
}

/// spec 1.8: accumulator to output. `|acc << -psh| < 2^31`, `psh` in -5..=0, `mult` in 2^30..2^31,
/// `shift` in -64..=64, optional token scale; the result lies in `[-limit, limit]`.
pub fn requantize(
    acc: i64,
    psh: i64,
    scale: Option<(i64, i64)>,
    mult: i64,
    shift: i64,
    limit: i64,
) -> i64 {
    let mut a = acc << -psh;
    let mut e = shift;
    if let Some((t, te)) = scale {
        a = srdhm_wide(a, t);
        e += te;
    }
    a = srdhm_wide(a, mult);
    a = match e {
        0.. => rdbpot(a, e.min(63) as u32),
        -31..=-1 => sat(a << -e, I31),
        _ => a.signum() * I31,
    };
    sat(a, limit)
}

/// spec 1.9: `(cos, sin)` in Q14 of the angle `phase * position`, `phase` a frequency in turns as a
/// 64-bit fraction, `position < 32768`.
pub fn rope_angle(phase: u64, position: u64) -> (i64, i64) {
    // Modulo one turn = modulo 2^64; rounding up past a full turn is angle 0.
    let turn = phase.wrapping_mul(position);
    let index = (turn.wrapping_add(1 << 45) >> 46) as usize;
    let (ch, sh) = table_pair(index >> 10);
    let (cl, sl) = table_pair(256 + (index & 1023));
    (rdbpot(ch * cl - sh * sl, 46), rdbpot(sh * cl + ch * sl, 46))
}

/// spec 1.9: rotates the pairs `(i, i + hd/2)` of one head row by the angles of its position.
/// `|x_i| <= 2^22`.
pub fn rope(x: &[i64], cos_sin: &[(i64, i64)]) -> Vec<i64> {
    let h = x.len() / 2;
    let mut y = vec![0; x.len()];
    for (i, &(c, s)) in cos_sin.iter().enumerate() {
        let (a, b) = (x[i], x[i + h]);
        y[i] = rdbpot(a * c - b * s, 14);
        y[i + h] = rdbpot(b * c + a * s, 14);
    }
    y
}

/// spec 1.10: each consecutive block of `b` values, as a row vector, times `H_b` (2.4).
pub fn had_forward(x: &[i64], b: usize) -> Vec<i64> {
    hadamard_blocks(x, b, false)
}

/// spec 1.10: each consecutive block of `b` values, as a row vector, times the transpose of `H_b` (2.4).
pub fn had_transpose(x: &[i64], b: usize) -> Vec<i64> {
    hadamard_blocks(x, b, true)
}

/// spec 1.10: `|x| <= 2^headroom(b)` implies `|had(x)| < 2^31`.
pub fn headroom(b: usize) -> i64 {
    31 - bl(b as i64)
}

/// spec 1.11: normalisation of one q or k head row with its gains. `|x_i| <= 2^31 - 1`, at most 256
/// values, `|gain_i| <= 32767 * 2^15`; int16 results.
pub fn head_norm(x: &[i64], gain: &[i64]) -> Vec<i64> {
    let (z, _) = mantissas(x);
    let squares = proven_sum("rms sum", 256 << 48, z.iter().map(|v| v * v));
    let s = 1 + squares;
    let up = (62 - bl(s)) / 2;
    let r = isqrt(s << (2 * up));
    let rr = (1i64 << 61) / r;
    let one = |(&v, &g): (&i64, &i64)| {
        let t = rdbpot((v << up) * rr, 31);
        sat(rdbpot(t * g, 45), I16)
    };
    z.iter().zip(gain).map(one).collect()
}

/// spec 1.12: `silu(g) * u`. Inputs Q12 with magnitudes at most 2^26, output Q24.
pub fn swiglu(g: i64, u: i64) -> i64 {
    let a = g.abs();
    let mut sig = if a >= 1 << 16 {
        1 << 24
    } else {
        sigmoid_entry(((a + 32) >> 6) as usize)
    };
    if g < 0 {
        sig = (1 << 24) - sig;
    }
    rdbpot(g * sig, 24) * u
}

/// spec 1.13: `2^(-d/256)` in Q15, `d >= 0`.
pub fn exp2_weight(d: i64) -> i64 {
    let n = d >> 8;
    if n > 30 {
        return 0;
    }
    (exp2_entry((d & 255) as usize) + ((1 << n) >> 1)) >> n
}

/// Cache of one kv head: for each position its quantised key and value rows and their magnitudes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KvHead {
    /// Key codes, one row of `head_dim` a position.
    pub k8: Vec<Vec<i8>>,
    /// Largest magnitude of each key row, 0..=32767.
    pub mk: Vec<i64>,
    /// Value codes, one row of `head_dim` a position.
    pub v8: Vec<Vec<i8>>,
    /// Largest magnitude of each value row, 0..=32767.
    pub mv: Vec<i64>,
}

fn dot(a: &[i8], b: &[i8]) -> i32 {
    let terms = || a.iter().zip(b).map(|(&x, &y)| i32::from(x) * i32::from(y));
    let bound = a.len().min(65536) as u64 * (127 * 127);
    assert_proven("dot product, K inputs", bound, || {
        // Terms below 2^31: no memory holds enough of them to wrap.
        let add = |sum: u64, term: i32| sum.wrapping_add(term.unsigned_abs().into());
        terms().fold(0, add).into()
    });
    terms().sum()
}

/// spec 1.14: attention of one query head (`q8`, `mq` in 0..=32767) over all rows of `kv`, at least one.
/// `score_mult` in 2^30..2^31, `score_shift` in 0..=61. Results below 2^31 in magnitude.
pub fn attend(q8: &[i8], mq: i64, kv: &KvHead, score_mult: i64, score_shift: i64) -> Vec<i64> {
    let rm = (mq * score_mult + (1 << 19)) >> 20;
    let rs = 1 + score_shift;
    let score = |(k, &m): (&Vec<i8>, &i64)| {
        let a = rdbpot(i64::from(dot(q8, k)) * m, 10);
        sat((a * rm + (1i64 << (rs - 1))) >> rs, (1 << 30) - 1)
    };
    let z: Vec<i64> = kv.k8.iter().zip(&kv.mk).map(score).collect();
    let top = *z
        .iter()
        .max()
        .expect("spec 1.14: a query sees at least its own position");
    let p: Vec<i64> = z.iter().map(|v| exp2_weight(top - v)).collect();
    let den = proven_sum("den", 1 << 30, p.iter().copied());
    let mut w: Vec<i64> = p.iter().zip(&kv.mv).map(|(x, m)| x * m).collect();
    let c = (bl(max_abs(&w)) - 15).max(0);
    if c > 0 {
        w.iter_mut().for_each(|x| *x = (*x + (1 << (c - 1))) >> c);
    }
    let mut n = vec![0i64; q8.len()];
    assert_proven("n = sum w * v8", 127 << 30, || {
        let mut channels = vec![0u128; q8.len()];
        for (x, row) in w.iter().zip(&kv.v8) {
            for (sum, &v) in channels.iter_mut().zip(row) {
                *sum += u128::from((x * i64::from(v)).unsigned_abs());
            }
        }
        channels.into_iter().max().unwrap_or(0)
    });
    for (x, row) in w.iter().zip(&kv.v8) {
        n.iter_mut()
            .zip(row)
            .for_each(|(sum, &v)| *sum += x * i64::from(v));
    }
    let bd = bl(den);
    let rd = (1i64 << (bd + 30)) / den;
    let sn = (bl(max_abs(&n)) - 31).max(0);
    let f = bd + 22 - sn - c;
    n.iter()
        .map(|&x| with_sign_of(x, ((x.abs() >> sn) * rd + (1i64 << (f - 1))) >> f))
        .collect()
}

// ---------------------------------------------------------------- 2. Frozen tables

const EXP2: &[u8; 512] = include_bytes!("../../tables/exp2.bin");
const SIGMOID: &[u8; 4100] = include_bytes!("../../tables/sigmoid.bin");
const ROPE: &[u8; 10240] = include_bytes!("../../tables/rope.bin");

fn uint_le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |v, &b| (v << 8) | u64::from(b))
}

/// spec 2.1
fn exp2_entry(i: usize) -> i64 {
    uint_le(&EXP2[2 * i..2 * i + 2]) as i64
}

/// spec 2.2
fn sigmoid_entry(i: usize) -> i64 {
    uint_le(&SIGMOID[4 * i..4 * i + 4]) as i64
}

/// spec 2.3: pair `i` of the file: the 256 coarse ones, then the 1024 fine ones.
fn table_pair(i: usize) -> (i64, i64) {
    let value = |at: usize| i64::from(uint_le(&ROPE[at..at + 4]) as u32 as i32);
    (value(8 * i), value(8 * i + 4))
}

/// spec 2.4: Paley's first construction for `p`, of size `p + 1`.
fn paley(p: usize) -> Vec<Vec<i64>> {
    let square = |d: usize| (1..p).any(|i| i * i % p == d);
    let entry = |i: usize, j: usize| match (i, j) {
        (0, _) => 1,
        (_, 0) => -1,
        _ if i == j || square((j + p - i) % p) => 1,
        _ => -1,
    };
    (0..=p)
        .map(|i| (0..=p).map(|j| entry(i, j)).collect())
        .collect()
}

/// spec 2.4: the Kronecker factors of `H_n`, slowest index first, or `None` where `H_n` is not defined.
fn had_factors(n: usize) -> Option<Vec<Vec<Vec<i64>>>> {
    if n == 0 {
        return None;
    }
    let k = n.trailing_zeros() as usize;
    let primes: &[usize] = match n >> k {
        1 => &[],
        3 => &[11],
        5 => &[19],
        9 => &[11, 11],
        15 => &[11, 19],
        25 => &[19, 19],
        _ => return None,
    };
    let twos = k.checked_sub(2 * primes.len())?;
    let h2 = || vec![vec![1, 1], vec![1, -1]];
    Some(
        primes
            .iter()
            .map(|&p| paley(p))
            .chain((0..twos).map(|_| h2()))
            .collect(),
    )
}

/// spec 2.4: the largest divisor of `n >= 1` that has a Hadamard matrix here.
pub fn had_block(n: usize) -> usize {
    (1..=n)
        .rev()
        .find(|&d| n % d == 0 && had_factors(d).is_some())
        .expect("H_1 exists and n >= 1")
}

/// spec 2.4: the largest power of two that divides `n >= 1`.
pub fn pow2_block(n: usize) -> usize {
    1 << n.trailing_zeros()
}

/// spec 1.10 by factors: multiplying by a Kronecker product is multiplying along each index in turn.
/// A partial result is a sum of a part of the block's values, so the bound of the whole holds.
fn hadamard_blocks(x: &[i64], b: usize, transpose: bool) -> Vec<i64> {
    let factors = had_factors(b).expect("spec 2.4: the block size has a Hadamard matrix");
    assert!(x.len() % b == 0, "the row is a whole number of blocks");
    for block in x.chunks(b) {
        // It bounds the sum of any of the values with any signs.
        let name = "rotation of h, of x and of y in the head";
        assert_proven(name, I31 as u64, || {
            block.iter().map(|v| u128::from(v.unsigned_abs())).sum()
        });
    }
    let mut x = x.to_vec();
    let mut stride = b;
    for h in &factors {
        let size = h.len();
        stride /= size;
        for start in (0..x.len()).filter(|at| at / stride % size == 0) {
            let old: Vec<i64> = (0..size).map(|j| x[start + j * stride]).collect();
            for i in 0..size {
                let entry = |j: usize| if transpose { h[i][j] } else { h[j][i] };
                x[start + i * stride] = (0..size).map(|j| old[j] * entry(j)).sum();
            }
        }
    }
    x
}

// ---------------------------------------------------------------- 3. The forward pass

/// spec 3.3: how the inputs of matrix products are quantised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// By their own largest magnitudes.
    Dynamic,
    /// At three kinds of rows by constants of the blob.
    Static,
}

/// spec 3.1 and 4.1: a valid configuration with the other facts of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(
    missing_docs,
    reason = "the fields are those of spec 3.1 and 4.1, by their names"
)]
pub struct Config {
    pub scheme: Scheme,
    pub total_len: u64,
    pub manifest_len: u32,
    pub hidden: usize,
    pub layers: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub intermediate: usize,
    pub vocab: usize,
    pub accepted_ids: usize,
    pub max_context: usize,
    pub qk_norm: bool,
    pub tied: bool,
    pub eps: i64,
    pub tokenizer_digest: [u8; 32],
    pub stop_ids: Vec<u32>,
}

/// spec 3.2: everything of a linear layer but its weights.
#[derive(Clone, Debug)]
pub struct Channels {
    /// Shift of the accumulators, -5..=0.
    pub psh: i64,
    /// Per output, 2^30..2^31.
    pub mult: Vec<i64>,
    /// Per output, -64..=64.
    pub shift: Vec<i8>,
}

/// spec 3.2: a linear layer, weights `[out][in]`.
#[derive(Clone, Debug)]
struct Linear {
    weight: Vec<i8>,
    channels: Channels,
}

/// spec 3.2: the constants of one layer; the gains are empty without q/k norm.
#[derive(Clone, Debug)]
struct Layer {
    q: Linear,
    k: Linear,
    v: Linear,
    o: Linear,
    gate: Linear,
    up: Linear,
    down: Linear,
    q_gain: Vec<i64>,
    k_gain: Vec<i64>,
    score_mult: i64,
    score_shift: i64,
    statics: Option<Statics>,
}

/// spec 3.2: what a layer of the static scheme has besides.
#[derive(Clone, Copy, Debug)]
struct Statics {
    c_attn_norm: i64,
    c_mlp_norm: i64,
    m_o: i64,
    c_down: i64,
    m_down: i64,
}

/// A model read from a blob (spec 4), ready for the forward pass (spec 3).
#[derive(Clone, Debug)]
pub struct Model {
    config: Config,
    metadata: Vec<(String, String)>,
    embed: Linear,
    rope_phase: Vec<u64>,
    layers: Vec<Layer>,
    final_gain: Vec<i64>,
    head: Channels,
    head_weight: Option<Vec<i8>>,
}

/// spec 3.4: the KV cache of one sequence: `[layer][kv head]`, one row a position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    length: usize,
    layers: Vec<Vec<KvHead>>,
}

impl Cache {
    /// Number of positions held.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether no position is held.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The rows of one kv head of one layer.
    pub fn head(&self, layer: usize, kv_head: usize) -> &KvHead {
        &self.layers[layer][kv_head]
    }
}

/// spec 3.5: a refused prompt. The checks run in the order of the variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The prompt has no token.
    EmptyPrompt,
    /// The prompt is longer than `max_context`.
    ContextExceeded,
    /// The first id of the prompt that is not below `accepted_ids`.
    TokenOutOfRange {
        /// Index in the prompt.
        position: usize,
        /// The id found there.
        id: u32,
    },
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::EmptyPrompt => write!(f, "the prompt is empty"),
            Halt::ContextExceeded => write!(f, "the prompt is longer than the context"),
            Halt::TokenOutOfRange { position, id } => {
                write!(f, "token {id} at position {position} is not an accepted id")
            }
        }
    }
}

impl std::error::Error for Halt {}

/// spec 3.5: why generation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finish {
    /// The requested number of tokens was produced.
    Length,
    /// A stop id was produced; it is the last token of the output.
    Stop,
    /// The context is full.
    Context,
}

/// spec 3.2: an exact dot product and a requantize per output row; `weight` is `[out][q.len()]`.
pub fn linear(
    weight: &[i8],
    c: &Channels,
    q: &[i8],
    scale: Option<(i64, i64)>,
    limit: i64,
) -> Vec<i64> {
    let constants = c.mult.iter().zip(&c.shift);
    let one = |(row, (&m, &s)): (&[i8], (&i64, &i8))| {
        requantize(i64::from(dot(row, q)), c.psh, scale, m, i64::from(s), limit)
    };
    weight.chunks(q.len()).zip(constants).map(one).collect()
}

impl Linear {
    fn apply(&self, q: &[i8], scale: Option<(i64, i64)>, limit: i64) -> Vec<i64> {
        linear(&self.weight, &self.channels, q, scale, limit)
    }
}

/// spec 3.3: the saturating sum of two rows of magnitudes at most 2^31 - 1.
pub fn add_residual(x: &[i64], y: &[i64]) -> Vec<i64> {
    x.iter().zip(y).map(|(a, b)| sat(a + b, I31)).collect()
}

/// spec 3.3: the codes of a residual row and their token scale. Domain: that of [`rms`].
pub fn norm(x: &[i64], eps: i64) -> (Vec<i8>, (i64, i64)) {
    let (q, m) = dynq(x);
    let (r, e) = rms(x, eps);
    (q, ratio(m, r, e))
}

/// spec 3.3: as [`norm`] with the largest magnitude a fraction of the row's root, `c` in 1..=2^16.
pub fn norm_static(x: &[i64], eps: i64, c: i64) -> (Vec<i8>, (i64, i64)) {
    let (r, e) = rms(x, eps);
    let m = ((r * c) >> (16 + e)).clamp(1, I31);
    (quantize(x, m), ratio(m, r, e))
}

/// spec 3.3: `c` is `None` in the dynamic scheme.
fn layer_norm(x: &[i64], eps: i64, c: Option<i64>) -> (Vec<i8>, (i64, i64)) {
    match c {
        Some(c) => norm_static(x, eps, c),
        None => norm(x, eps),
    }
}

/// spec 3.3: `m` is `None` in the dynamic scheme.
fn quantize_input(u: &[i64], m: Option<i64>) -> (Vec<i8>, i64) {
    match m {
        Some(m) => (quantize(u, m), m),
        None => dynq(u),
    }
}

/// spec 7.10: receives the layer (`None` for the embedding and the head), the name and the values of every
/// operation, in the order of the page.
pub type Probe<'a> = &'a mut dyn FnMut(Option<usize>, &'static str, &[i64]);

/// spec 7.10: codes and what scales them.
fn coded(q: &[i8], scale: &[i64]) -> Vec<i64> {
    let codes = q.iter().map(|&v| i64::from(v));
    codes.chain(scale.iter().copied()).collect()
}

/// spec 7.10: the stages of rotated heads, one head after the other.
#[derive(Default)]
struct Rotated {
    rope: Vec<i64>,
    rotate: Vec<i64>,
    quant: Vec<i64>,
}

/// spec 3.3
fn rotate_head(
    x: &[i64],
    cos_sin: &[(i64, i64)],
    qk_norm: bool,
    r3: u32,
    b: usize,
    seen: &mut Rotated,
) -> (Vec<i8>, i64) {
    let mut y = rope(x, cos_sin);
    if qk_norm {
        y.iter_mut().for_each(|v| *v = sat(*v, I16));
    }
    let rotated = had_forward(&y, b);
    let z: Vec<i64> = rotated.iter().map(|&v| sat(rdbpot(v, r3), I16)).collect();
    let (q, m) = dynq(&z);
    seen.rope.extend(y);
    seen.rotate.extend(z);
    seen.quant.extend(coded(&q, &[m]));
    (q, m)
}

impl Model {
    /// spec 3.3
    fn attention_layer(
        &self,
        l: &Layer,
        cache: &mut [KvHead],
        x: &[i64],
        cos_sin: &[(i64, i64)],
        probe: &mut dyn FnMut(&'static str, &[i64]),
    ) -> Vec<i64> {
        let c = &self.config;
        let b = had_block(c.head_dim);
        let r3 = ((bl(b as i64 - 1) + 1) / 2) as u32; // smallest r with 4^r >= b
        let (q, scale) = layer_norm(x, c.eps, l.statics.map(|s| s.c_attn_norm));
        probe("attn_norm", &coded(&q, &[scale.0, scale.1]));
        let project = |w: &Linear| {
            if c.qk_norm {
                w.apply(&q, None, I31)
            } else {
                w.apply(&q, Some(scale), 1 << 22)
            }
        };
        let (mut qs, mut ks) = (project(&l.q), project(&l.k));
        let vs = l.v.apply(&q, Some(scale), I16);
        probe("q", &qs);
        probe("k", &ks);
        probe("v", &vs);
        if c.qk_norm {
            let each = |row: &[i64], gain: &[i64]| -> Vec<i64> {
                let heads = row.chunks(c.head_dim);
                heads.flat_map(|h| head_norm(h, gain)).collect()
            };
            (qs, ks) = (each(&qs, &l.q_gain), each(&ks, &l.k_gain));
            probe("q_norm", &qs);
            probe("k_norm", &ks);
        }
        let (mut q_seen, mut k_seen) = (Rotated::default(), Rotated::default());
        let mut v_quant = Vec::new();
        let rows = ks.chunks(c.head_dim).zip(vs.chunks(c.head_dim));
        for (kv, (k, v)) in cache.iter_mut().zip(rows) {
            let (k8, mk) = rotate_head(k, cos_sin, c.qk_norm, r3, b, &mut k_seen);
            let (v8, mv) = dynq(v);
            v_quant.extend(coded(&v8, &[mv]));
            kv.k8.push(k8);
            kv.mk.push(mk);
            kv.v8.push(v8);
            kv.mv.push(mv);
        }
        let mut out = Vec::new();
        for (h, query) in qs.chunks(c.head_dim).enumerate() {
            let (q8, mq) = rotate_head(query, cos_sin, c.qk_norm, r3, b, &mut q_seen);
            let kv = &cache[h / (c.heads / c.kv_heads)];
            out.extend(attend(&q8, mq, kv, l.score_mult, l.score_shift));
        }
        probe("q_rope", &q_seen.rope);
        probe("k_rope", &k_seen.rope);
        probe("q_rotate", &q_seen.rotate);
        probe("k_rotate", &k_seen.rotate);
        probe("q_quant", &q_seen.quant);
        probe("k_quant", &k_seen.quant);
        probe("v_quant", &v_quant);
        probe("attend", &out);
        let (oq, m) = quantize_input(&out, l.statics.map(|s| s.m_o));
        let (t, e) = norm_scale(m);
        probe("o_quant", &coded(&oq, &[t, e]));
        let o = l.o.apply(&oq, Some((t, e)), I31);
        probe("o", &o);
        let x = add_residual(x, &o);
        probe("attn_residual", &x);
        x
    }

    /// spec 3.3
    fn mlp_layer(
        &self,
        l: &Layer,
        x: &[i64],
        probe: &mut dyn FnMut(&'static str, &[i64]),
    ) -> Vec<i64> {
        let (q, scale) = layer_norm(x, self.config.eps, l.statics.map(|s| s.c_mlp_norm));
        probe("mlp_norm", &coded(&q, &[scale.0, scale.1]));
        let g = l.gate.apply(&q, Some(scale), 1 << 26);
        let u = l.up.apply(&q, Some(scale), 1 << 26);
        let h: Vec<i64> = g.iter().zip(&u).map(|(&a, &b)| swiglu(a, b)).collect();
        probe("gate", &g);
        probe("up", &u);
        probe("swiglu", &h);
        let b = self.config.mlp_block();
        let c = match l.statics {
            Some(s) => s.c_down,
            None => (bl(max_abs(&h)) - headroom(b)).max(0),
        };
        let narrow = |&v: &i64| sat(rdbpot(v, c as u32), 1 << headroom(b));
        let h: Vec<i64> = h.iter().map(narrow).collect();
        let h = had_forward(&h, b);
        probe("mlp_rotate", &h);
        let (hq, m) = quantize_input(&h, l.statics.map(|s| s.m_down));
        let (t, e) = norm_scale(m);
        probe("mlp_quant", &coded(&hq, &[t, e - c]));
        let down = l.down.apply(&hq, Some((t, e - c)), I31);
        probe("down", &down);
        let x = add_residual(x, &down);
        probe("mlp_residual", &x);
        x
    }

    /// spec 3.4: an empty cache for this model.
    pub fn new_cache(&self) -> Cache {
        Cache {
            length: 0,
            layers: vec![vec![KvHead::default(); self.config.kv_heads]; self.config.layers],
        }
    }

    /// spec 3.4: feeds one accepted id at the cache's next position and returns the residual, `hidden`
    /// values.
    ///
    /// # Panics
    /// When `token` is not an accepted id or the cache holds `max_context` positions.
    pub fn step(&self, cache: &mut Cache, token: u32) -> Vec<i64> {
        self.step_probed(cache, token, &mut |_, _, _| {})
    }

    /// [`Model::step`] with every operation shown to `probe` (spec 7.10).
    ///
    /// # Panics
    /// As [`Model::step`].
    pub fn step_probed(&self, cache: &mut Cache, token: u32, probe: Probe<'_>) -> Vec<i64> {
        let token = token as usize;
        assert!(
            token < self.config.accepted_ids,
            "step takes an accepted id"
        );
        assert!(
            cache.length < self.config.max_context,
            "step needs a free position"
        );
        let position = cache.length as u64;
        let cos_sin: Vec<_> = self
            .rope_phase
            .iter()
            .map(|&p| rope_angle(p, position))
            .collect();
        let n = self.config.hidden;
        let (mult, shift) = (
            self.embed.channels.mult[token],
            i64::from(self.embed.channels.shift[token]),
        );
        let codes = &self.embed.weight[token * n..(token + 1) * n];
        let mut x: Vec<i64> = codes
            .iter()
            .map(|&w| requantize(i64::from(w) << 24, 0, None, mult, shift, I31))
            .collect();
        probe(None, "embed", &x);
        for (i, (l, kv)) in self.layers.iter().zip(&mut cache.layers).enumerate() {
            let mut probe = |op: &'static str, values: &[i64]| probe(Some(i), op, values);
            x = self.attention_layer(l, kv, &x, &cos_sin, &mut probe);
            x = self.mlp_layer(l, &x, &mut probe);
        }
        cache.length += 1;
        x
    }

    /// spec 3.4: the `vocab` Q16 logits of a residual.
    pub fn logits(&self, x: &[i64]) -> Vec<i32> {
        self.logits_probed(x, &mut |_, _, _| {})
    }

    /// [`Model::logits`] with every operation shown to `probe` (spec 7.10).
    pub fn logits_probed(&self, x: &[i64], probe: Probe<'_>) -> Vec<i32> {
        let b = had_block(self.config.hidden);
        let (r, e) = rms(x, self.config.eps);
        let s1 = (bl(max_abs(x)) - headroom(b)).max(0);
        let x: Vec<i64> = x.iter().map(|&v| rdbpot(v, s1 as u32)).collect();
        let y = had_transpose(&x, b);
        probe(None, "head_unrotate", &y);
        let gained = y.iter().zip(&self.final_gain);
        let y: Vec<i64> = gained.map(|(v, g)| v * g).collect();
        probe(None, "head_gain", &y);
        let s2 = (bl(max_abs(&y)) - headroom(b)).max(0);
        let y: Vec<i64> = y.iter().map(|&v| rdbpot(v, s2 as u32)).collect();
        let y = had_forward(&y, b);
        probe(None, "head_rotate", &y);
        let (q, m) = dynq(&y);
        let (t, te) = ratio(m, r, e);
        let te = te - s1 - s2;
        probe(None, "head_quant", &coded(&q, &[t, te]));
        let weight = self.head_weight.as_ref().unwrap_or(&self.embed.weight);
        let wide = linear(weight, &self.head, &q, Some((t, te)), I31);
        probe(None, "logits", &wide);
        wide.iter().map(|&v| v as i32).collect()
    }

    /// spec 3.5: [`argmax`] of the accepted ids.
    pub fn argmax(&self, logits: &[i32]) -> u32 {
        argmax(logits, self.config.accepted_ids)
    }

    /// spec 3.5: the checks of a prompt, in order.
    pub fn check_prompt(&self, prompt: &[u32]) -> Result<(), Halt> {
        if prompt.is_empty() {
            return Err(Halt::EmptyPrompt);
        }
        if prompt.len() > self.config.max_context {
            return Err(Halt::ContextExceeded);
        }
        match prompt
            .iter()
            .position(|&t| t as usize >= self.config.accepted_ids)
        {
            Some(position) => Err(Halt::TokenOutOfRange {
                position,
                id: prompt[position],
            }),
            None => Ok(()),
        }
    }

    /// The logits at every position of `tokens`, after the checks of a prompt.
    pub fn all_logits(&self, tokens: &[u32]) -> Result<Vec<Vec<i32>>, Halt> {
        self.check_prompt(tokens)?;
        let mut cache = self.new_cache();
        Ok(tokens
            .iter()
            .map(|&t| self.logits(&self.step(&mut cache, t)))
            .collect())
    }

    /// spec 3.5: greedy generation of at most `max_new` tokens.
    pub fn generate(&self, prompt: &[u32], max_new: usize) -> Result<(Vec<u32>, Finish), Halt> {
        self.check_prompt(prompt)?;
        let c = &self.config;
        let mut cache = self.new_cache();
        let mut x = Vec::new();
        for &t in prompt {
            x = self.step(&mut cache, t);
        }
        let mut output = Vec::new();
        while output.len() < max_new {
            if prompt.len() + output.len() == c.max_context {
                return Ok((output, Finish::Context));
            }
            let token = self.argmax(&self.logits(&x));
            output.push(token);
            if c.stop_ids.contains(&token) {
                return Ok((output, Finish::Stop));
            }
            if output.len() < max_new && prompt.len() + output.len() < c.max_context {
                x = self.step(&mut cache, token);
            }
        }
        Ok((output, Finish::Length))
    }
}

/// spec 3.5: the lowest of the first `accepted_ids` ids, at least one, with the largest logit.
pub fn argmax(logits: &[i32], accepted_ids: usize) -> u32 {
    let accepted = &logits[..accepted_ids];
    let top = accepted.iter().max().expect("at least one accepted id");
    accepted
        .iter()
        .position(|v| v == top)
        .expect("the maximum is present") as u32
}

/// spec 3.5: Keccak-256 of the logits as little-endian int32.
pub fn logits_digest(logits: &[i32]) -> [u8; 32] {
    keccak256(
        &logits
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect::<Vec<u8>>(),
    )
}

// ---------------------------------------------------------------- 4. The blob

/// spec 4.4: why bytes are not a blob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadBlob {
    /// Fewer bytes than a record.
    ShorterThanRecord {
        /// Bytes given.
        len: usize,
    },
    /// A field of the record has a value that its rule excludes.
    Field {
        /// Name in spec 4.1.
        field: &'static str,
        /// What would be right.
        rule: &'static str,
    },
    /// The record ends inside its list of stop ids, or bytes after it are not zero.
    RecordPadding,
    /// `total_len` is not the number of bytes given.
    TotalLen {
        /// The record's value, or the end of the last tensor.
        declared: u64,
        /// Bytes given.
        actual: u64,
    },
    /// The file or the manifest ends inside this item.
    Truncated {
        /// What was being read.
        what: &'static str,
    },
    /// A string is longer than its limit.
    TextLength {
        /// What was being read.
        what: &'static str,
        /// Declared bytes.
        len: u32,
    },
    /// A string is not UTF-8.
    NotUtf8 {
        /// What was being read.
        what: &'static str,
    },
    /// More than 64 metadata pairs.
    MetadataCount {
        /// Declared pairs.
        count: u32,
    },
    /// A metadata key is empty or not above its predecessor.
    MetadataOrder {
        /// Index of the pair.
        index: usize,
    },
    /// The manifest lists another number of tensors than the configuration has.
    DirectoryLength {
        /// Declared entries.
        got: u32,
        /// Entries of the configuration.
        want: usize,
    },
    /// A directory entry differs from the one that the configuration implies.
    Entry {
        /// Name of the implied tensor.
        tensor: String,
        /// The part that differs.
        part: &'static str,
    },
    /// Bytes of the manifest follow its last entry.
    ManifestTail,
    /// The padding before a tensor is not zero.
    Gap {
        /// The tensor after the gap.
        before: String,
    },
    /// A tensor element is outside its range (spec 4.5).
    Value {
        /// Name of the tensor.
        tensor: String,
        /// Flat index.
        index: usize,
        /// The element.
        value: i64,
        /// Smallest allowed.
        low: i64,
        /// Largest allowed.
        high: i64,
    },
    /// The psh of a matrix is not the one that its weights require (spec 4.5).
    Psh {
        /// Name of the matrix.
        matrix: String,
        /// Value in the blob.
        got: i64,
        /// Required value.
        want: i64,
    },
}

impl fmt::Display for BadBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadBlob::ShorterThanRecord { len } => {
                write!(f, "{len} bytes are fewer than the 1024 of a record")
            }
            BadBlob::Field { field, rule } => write!(f, "record field {field}: must be {rule}"),
            BadBlob::RecordPadding => write!(f, "record: bytes after stop_ids must be zero"),
            BadBlob::TotalLen { declared, actual } => {
                write!(f, "total_len: {declared} bytes expected, {actual} given")
            }
            BadBlob::Truncated { what } => write!(f, "the bytes end inside {what}"),
            BadBlob::TextLength { what, len } => write!(f, "{what}: {len} bytes are too many"),
            BadBlob::NotUtf8 { what } => write!(f, "{what}: not UTF-8"),
            BadBlob::MetadataCount { count } => {
                write!(f, "metadata: {count} pairs, at most 64 allowed")
            }
            BadBlob::MetadataOrder { index } => {
                write!(
                    f,
                    "metadata key {index}: must be non-empty and above the key before it"
                )
            }
            BadBlob::DirectoryLength { got, want } => {
                write!(f, "directory: {got} entries, the configuration has {want}")
            }
            BadBlob::Entry { tensor, part } => write!(f, "directory entry {tensor}: wrong {part}"),
            BadBlob::ManifestTail => write!(f, "manifest: bytes after the last entry"),
            BadBlob::Gap { before } => write!(f, "padding before {before} must be zero"),
            BadBlob::Value {
                tensor,
                index,
                value,
                low,
                high,
            } => {
                write!(f, "{tensor}[{index}] = {value}: must be in {low}..={high}")
            }
            BadBlob::Psh { matrix, got, want } => {
                write!(f, "{matrix} psh = {got}: its weights require {want}")
            }
        }
    }
}

impl std::error::Error for BadBlob {}

/// spec 4.3: one tensor of the directory.
struct Entry {
    name: String,
    dtype: u8,
    shape: Vec<usize>,
    offset: u64,
    length: u64,
}

/// spec 4.3: the directory of a configuration and the end of its last tensor. The ranges of 3.1 bound
/// the number of entries by 7,000 and every length by 2^33.
fn lay_out(c: &Config) -> (Vec<Entry>, u64) {
    let (n, ff, v, hd) = (c.hidden, c.intermediate, c.vocab, c.head_dim);
    let (qd, kd) = (c.heads * hd, c.kv_heads * hd);
    let mut d: Vec<(String, u8, Vec<usize>)> = Vec::new();
    let channel = |d: &mut Vec<(String, u8, Vec<usize>)>, name: &str, rows: usize| {
        d.push((format!("{name}.mult"), 2, vec![rows]));
        d.push((format!("{name}.shift"), 0, vec![rows]));
    };
    let matrix = |d: &mut Vec<(String, u8, Vec<usize>)>, name: &str, rows: usize, cols: usize| {
        d.push((format!("{name}.weight"), 0, vec![rows, cols]));
        channel(d, name, rows);
    };
    matrix(&mut d, "embed", v, n);
    d.push(("rope.phase".into(), 3, vec![hd / 2]));
    for i in 0..c.layers {
        let p = format!("layers.{i}.");
        d.push((format!("{p}consts"), 2, vec![9]));
        if c.scheme == Scheme::Static {
            d.push((format!("{p}static"), 2, vec![5]));
        }
        matrix(&mut d, &format!("{p}q"), qd, n);
        matrix(&mut d, &format!("{p}k"), kd, n);
        matrix(&mut d, &format!("{p}v"), kd, n);
        if c.qk_norm {
            d.push((format!("{p}q_norm.gain"), 2, vec![hd]));
            d.push((format!("{p}k_norm.gain"), 2, vec![hd]));
        }
        matrix(&mut d, &format!("{p}o"), n, qd);
        matrix(&mut d, &format!("{p}gate"), ff, n);
        matrix(&mut d, &format!("{p}up"), ff, n);
        matrix(&mut d, &format!("{p}down"), n, ff);
    }
    d.push(("final_norm.gain".into(), 1, vec![n]));
    d.push(("head.consts".into(), 2, vec![1]));
    if c.tied {
        channel(&mut d, "head", v);
    } else {
        matrix(&mut d, "head", v, n);
    }
    let mut at = 1024 + u64::from(c.manifest_len);
    let place = |(name, dtype, shape): (String, u8, Vec<usize>)| {
        let length = shape.iter().map(|&s| s as u64).product::<u64>() << dtype; // widths 1, 2, 4, 8
        let offset = at.next_multiple_of(64);
        at = offset + length;
        Entry {
            name,
            dtype,
            shape,
            offset,
            length,
        }
    };
    let entries = d.into_iter().map(place).collect();
    (entries, at)
}

/// spec 4.4
struct Reader<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, n: usize, what: &'static str) -> Result<&'a [u8], BadBlob> {
        let rest = &self.data[self.at..];
        let taken = rest.get(..n).ok_or(BadBlob::Truncated { what })?;
        self.at += n;
        Ok(taken)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, BadBlob> {
        Ok(self.take(1, what)?[0])
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, BadBlob> {
        Ok(uint_le(self.take(4, what)?) as u32)
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, BadBlob> {
        Ok(uint_le(self.take(8, what)?))
    }

    fn text(&mut self, limit: u32, what: &'static str) -> Result<&'a str, BadBlob> {
        let len = self.u32(what)?;
        need(len <= limit, || BadBlob::TextLength { what, len })?;
        std::str::from_utf8(self.take(len as usize, what)?).map_err(|_| BadBlob::NotUtf8 { what })
    }
}

fn need(ok: bool, otherwise: impl FnOnce() -> BadBlob) -> Result<(), BadBlob> {
    if ok { Ok(()) } else { Err(otherwise()) }
}

fn need_field(ok: bool, field: &'static str, rule: &'static str) -> Result<(), BadBlob> {
    need(ok, || BadBlob::Field { field, rule })
}

impl Config {
    /// spec 3.3: block of the rotation before the down projection.
    pub fn mlp_block(&self) -> usize {
        match self.scheme {
            Scheme::Dynamic => pow2_block(self.intermediate),
            Scheme::Static => had_block(self.intermediate),
        }
    }

    /// spec 4.4: reads and checks the record, the first 1024 bytes of `data`.
    pub fn from_record(data: &[u8]) -> Result<Config, BadBlob> {
        let record = data
            .get(..1024)
            .ok_or(BadBlob::ShorterThanRecord { len: data.len() })?;
        let r = &mut Reader {
            data: record,
            at: 0,
        };
        need_field(r.take(8, "magic")? == b"BLUEBLOB", "magic", "BLUEBLOB")?;
        need_field(r.u32("format_version")? == 1, "format_version", "1")?;
        need_field(r.u32("spec_version")? == 1, "spec_version", "1")?;
        let scheme = match r.u8("scheme")? {
            1 => Scheme::Dynamic,
            2 => Scheme::Static,
            _ => {
                let (field, rule) = ("scheme", "1 or 2");
                return Err(BadBlob::Field { field, rule });
            }
        };
        let total_len = r.u64("total_len")?;
        let manifest_len = r.u32("manifest_len")?;
        need_field(manifest_len <= 1 << 22, "manifest_len", "at most 2^22")?;
        let mut dim = |field: &'static str, high: usize, rule: &'static str| {
            let value = r.u32(field)? as usize;
            need_field((1..=high).contains(&value), field, rule)?;
            Ok(value)
        };
        let hidden = dim("hidden", 8192, "1..=8192")?;
        let layers = dim("layers", 256, "1..=256")?;
        let heads = dim("heads", 256, "1..=256")?;
        let kv_heads = dim("kv_heads", 256, "1..=256")?;
        let head_dim = dim("head_dim", 256, "2..=256")?;
        let intermediate = dim("intermediate", 65536, "1..=65536")?;
        let vocab = dim("vocab", 1 << 20, "1..=2^20")?;
        let accepted_ids = dim("accepted_ids", vocab, "1..=vocab")?;
        let max_context = dim("max_context", 32768, "1..=32768")?;
        need_field(heads % kv_heads == 0, "kv_heads", "a divisor of heads")?;
        need_field(head_dim % 2 == 0, "head_dim", "even")?;
        need_field(
            heads * head_dim <= 16384,
            "head_dim",
            "at most 16384 / heads",
        )?;
        let (qk_norm, tied) = (r.u8("qk_norm")?, r.u8("tied")?);
        need_field(qk_norm <= 1, "qk_norm", "0 or 1")?;
        need_field(tied <= 1, "tied", "0 or 1")?;
        let eps = r.u64("eps")?;
        need_field(eps < 1 << 53, "eps", "below 2^53")?;
        for (field, table) in [
            ("exp2_digest", &EXP2[..]),
            ("sigmoid_digest", SIGMOID),
            ("rope_digest", ROPE),
        ] {
            need_field(
                r.take(32, field)? == keccak256(table),
                field,
                "the digest of the frozen table",
            )?;
        }
        let tokenizer_digest = r
            .take(32, "tokenizer_digest")?
            .try_into()
            .expect("32 bytes were taken");
        let count = r.u32("stop_ids")?;
        need_field(count <= 16, "stop_ids", "at most 16 ids")?;
        let stop_ids = (0..count)
            .map(|_| r.u32("stop_ids"))
            .collect::<Result<Vec<u32>, BadBlob>>()?;
        need_field(
            stop_ids.is_sorted_by(|a, b| a < b),
            "stop_ids",
            "strictly ascending",
        )?;
        need_field(
            stop_ids.iter().all(|&s| (s as usize) < accepted_ids),
            "stop_ids",
            "below accepted_ids",
        )?;
        need(record[r.at..].iter().all(|&b| b == 0), || {
            BadBlob::RecordPadding
        })?;
        Ok(Config {
            scheme,
            total_len,
            manifest_len,
            hidden,
            layers,
            heads,
            kv_heads,
            head_dim,
            intermediate,
            vocab,
            accepted_ids,
            max_context,
            qk_norm: qk_norm == 1,
            tied: tied == 1,
            eps: eps as i64,
            tokenizer_digest,
            stop_ids,
        })
    }
}

/// The metadata pairs of a manifest.
type Metadata = Vec<(String, String)>;

/// spec 4.4: reads the manifest and compares its directory with the implied one.
fn read_manifest(manifest: &[u8], entries: &[Entry]) -> Result<Metadata, BadBlob> {
    let r = &mut Reader {
        data: manifest,
        at: 0,
    };
    let count = r.u32("metadata count")?;
    need(count <= 64, || BadBlob::MetadataCount { count })?;
    let mut metadata: Metadata = Vec::new();
    for index in 0..count as usize {
        let (key, value) = (r.text(64, "metadata key")?, r.text(4096, "metadata value")?);
        let above = metadata
            .last()
            .is_none_or(|(last, _)| last.as_bytes() < key.as_bytes());
        need(!key.is_empty() && above, || BadBlob::MetadataOrder {
            index,
        })?;
        metadata.push((key.to_owned(), value.to_owned()));
    }
    let got = r.u32("directory length")?;
    need(got as usize == entries.len(), || BadBlob::DirectoryLength {
        got,
        want: entries.len(),
    })?;
    for e in entries {
        let part = |ok: bool, part: &'static str| {
            need(ok, || BadBlob::Entry {
                tensor: e.name.clone(),
                part,
            })
        };
        part(r.text(64, "tensor name")? == e.name, "name")?;
        part(r.u8("tensor dtype")? == e.dtype, "dtype")?;
        part(r.u32("tensor rank")? as usize == e.shape.len(), "rank")?;
        for &s in &e.shape {
            part(r.u32("tensor shape")? as usize == s, "shape")?;
        }
        part(r.u64("tensor offset")? == e.offset, "offset")?;
        part(r.u64("tensor length")? == e.length, "length")?;
    }
    need(r.at == manifest.len(), || BadBlob::ManifestTail)?;
    Ok(metadata)
}

/// The tensors of a blob, taken in directory order.
struct Tensors<'a> {
    data: &'a [u8],
    at: usize,
    entries: std::vec::IntoIter<Entry>,
}

impl<'a> Tensors<'a> {
    /// spec 4.4: the next tensor's name, width and bytes, after its zero gap.
    fn next(&mut self) -> Result<(String, usize, &'a [u8]), BadBlob> {
        let e = self
            .entries
            .next()
            .expect("the tensors are those of the directory");
        let start = e.offset as usize; // inside the data: the end of the last tensor was compared
        need(self.data[self.at..start].iter().all(|&b| b == 0), || {
            BadBlob::Gap {
                before: e.name.clone(),
            }
        })?;
        self.at = start + e.length as usize;
        Ok((e.name, 1 << e.dtype, &self.data[start..self.at]))
    }

    /// spec 4.5: the next tensor, signed, each element within a range.
    fn within(&mut self, low: i64, high: i64) -> Result<Vec<i64>, BadBlob> {
        let (name, width, bytes) = self.next()?;
        let unused = 64 - 8 * width as u32;
        let value = |(index, item): (usize, &[u8])| {
            let value = ((uint_le(item) << unused) as i64) >> unused; // sign extension
            let tensor = || name.clone();
            need((low..=high).contains(&value), || BadBlob::Value {
                tensor: tensor(),
                index,
                value,
                low,
                high,
            })?;
            Ok(value)
        };
        bytes.chunks(width).enumerate().map(value).collect()
    }

    fn int8_within(&mut self, low: i64, high: i64) -> Result<Vec<i8>, BadBlob> {
        let (tensor, _, bytes) = self.next()?;
        let values: Vec<i8> = bytes.iter().map(|&b| b as i8).collect();
        if let Some(index) = values
            .iter()
            .position(|&v| !(low..=high).contains(&i64::from(v)))
        {
            return Err(BadBlob::Value {
                tensor,
                index,
                value: i64::from(values[index]),
                low,
                high,
            });
        }
        Ok(values)
    }

    fn weight(&mut self) -> Result<Vec<i8>, BadBlob> {
        self.int8_within(-127, 127)
    }

    fn channels(&mut self, psh: i64) -> Result<Channels, BadBlob> {
        Ok(Channels {
            psh,
            mult: self.within(1 << 30, I31)?,
            shift: self.int8_within(-64, 64)?,
        })
    }

    fn matrix(&mut self, name: &str, cols: usize, psh: i64) -> Result<Linear, BadBlob> {
        let weight = self.weight()?;
        check_psh(name, &weight, cols, psh)?;
        Ok(Linear {
            weight,
            channels: self.channels(psh)?,
        })
    }
}

/// spec 4.5
fn check_psh(name: &str, weight: &[i8], cols: usize, got: i64) -> Result<(), BadBlob> {
    let row_sum = |row: &[i8]| row.iter().map(|w| i64::from(w.unsigned_abs())).sum::<i64>();
    let largest = weight.chunks(cols).map(row_sum).max().unwrap_or(0);
    let want = (bl(127 * largest) - 31).max(-5);
    need(got == want, || BadBlob::Psh {
        matrix: name.to_owned(),
        got,
        want,
    })
}

impl Model {
    /// spec 4.4 and 4.5: reads a whole blob. Nothing is allocated from a declared number before the
    /// lengths are known to agree with `bytes`.
    pub fn from_blob(bytes: &[u8]) -> Result<Model, BadBlob> {
        let c = Config::from_record(bytes)?;
        let actual = bytes.len() as u64;
        need(c.total_len == actual, || BadBlob::TotalLen {
            declared: c.total_len,
            actual,
        })?;
        let manifest_end = 1024 + c.manifest_len as usize;
        let manifest = bytes
            .get(1024..manifest_end)
            .ok_or(BadBlob::Truncated { what: "manifest" })?;
        let (entries, end) = lay_out(&c);
        let metadata = read_manifest(manifest, &entries)?;
        need(end == actual, || BadBlob::TotalLen {
            declared: end,
            actual,
        })?;

        let t = &mut Tensors {
            data: bytes,
            at: manifest_end,
            entries: entries.into_iter(),
        };
        let embed = Linear {
            weight: t.weight()?,
            channels: t.channels(0)?,
        };
        let (_, _, phase) = t.next()?;
        let rope_phase = phase.chunks(8).map(uint_le).collect();
        let (n, qd) = (c.hidden, c.heads * c.head_dim);
        let gain = 32767 << 15;
        let mut layers = Vec::new();
        for i in 0..c.layers {
            let consts = t.within(i64::from(i32::MIN), I31)?;
            let name = |part: &str| format!("layers.{i}.{part}");
            let of = |part: &'static str, values: &[i64], index: usize, low: i64, high: i64| {
                let (tensor, value) = (name(part), values[index]);
                need((low..=high).contains(&value), || BadBlob::Value {
                    tensor,
                    index,
                    value,
                    low,
                    high,
                })?;
                Ok(value)
            };
            let score_mult = of("consts", &consts, 7, 1 << 30, I31)?;
            let score_shift = of("consts", &consts, 8, 0, 61)?;
            let statics = if c.scheme == Scheme::Static {
                let s = t.within(i64::from(i32::MIN), I31)?;
                Some(Statics {
                    c_attn_norm: of("static", &s, 0, 1, 1 << 16)?,
                    c_mlp_norm: of("static", &s, 1, 1, 1 << 16)?,
                    m_o: of("static", &s, 2, 1, I31)?,
                    c_down: of("static", &s, 3, 0, 39)?,
                    m_down: of("static", &s, 4, 1, I31)?,
                })
            } else {
                None
            };
            let q = t.matrix(&name("q"), n, consts[0])?;
            let k = t.matrix(&name("k"), n, consts[1])?;
            let v = t.matrix(&name("v"), n, consts[2])?;
            let (mut q_gain, mut k_gain) = (Vec::new(), Vec::new());
            if c.qk_norm {
                q_gain = t.within(-gain, gain)?;
                k_gain = t.within(-gain, gain)?;
            }
            let o = t.matrix(&name("o"), qd, consts[3])?;
            let gate = t.matrix(&name("gate"), n, consts[4])?;
            let up = t.matrix(&name("up"), n, consts[5])?;
            let down = t.matrix(&name("down"), c.intermediate, consts[6])?;
            layers.push(Layer {
                q,
                k,
                v,
                o,
                gate,
                up,
                down,
                q_gain,
                k_gain,
                score_mult,
                score_shift,
                statics,
            });
        }
        let final_gain = t.within(-I16, I16)?;
        let psh = t.within(i64::from(i32::MIN), I31)?[0];
        let head_weight = if c.tied { None } else { Some(t.weight()?) };
        check_psh(
            "head",
            head_weight.as_ref().unwrap_or(&embed.weight),
            n,
            psh,
        )?;
        let head = t.channels(psh)?;
        Ok(Model {
            config: c,
            metadata,
            embed,
            rope_phase,
            layers,
            final_gain,
            head,
            head_weight,
        })
    }

    /// The record.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Number of logits a position has.
    pub fn vocab(&self) -> usize {
        self.config.vocab
    }

    /// spec 4.2: the metadata pairs.
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }
}

// ---------------------------------------------------------------- 5. The commitment

/// A Keccak-256 digest.
pub type Hash = [u8; 32];

const ROUND_CONSTANTS: [u64; 24] = [
    0x0000000000000001,
    0x0000000000008082,
    0x800000000000808a,
    0x8000000080008000,
    0x000000000000808b,
    0x0000000080000001,
    0x8000000080008081,
    0x8000000000008009,
    0x000000000000008a,
    0x0000000000000088,
    0x0000000080008009,
    0x000000008000000a,
    0x000000008000808b,
    0x800000000000008b,
    0x8000000000008089,
    0x8000000000008003,
    0x8000000000008002,
    0x8000000000000080,
    0x000000000000800a,
    0x800000008000000a,
    0x8000000080008081,
    0x8000000000008080,
    0x0000000080000001,
    0x8000000080008008,
];

/// spec 5.3: the permutation of 25 lanes, lane `(x, y)` at `x + 5 * y`.
fn keccak_f(a: &mut [u64; 25]) {
    for constant in ROUND_CONSTANTS {
        let c: [u64; 5] =
            std::array::from_fn(|x| a[x] ^ a[x + 5] ^ a[x + 10] ^ a[x + 15] ^ a[x + 20]);
        for (i, lane) in a.iter_mut().enumerate() {
            *lane ^= c[(i + 4) % 5] ^ c[(i + 1) % 5].rotate_left(1);
        }
        let (mut x, mut y) = (1, 0);
        let mut current = a[1];
        for t in 0..24u32 {
            (x, y) = (y, (2 * x + 3 * y) % 5);
            let moved = current.rotate_left((t + 1) * (t + 2) / 2 % 64);
            current = std::mem::replace(&mut a[x + 5 * y], moved);
        }
        for row in a.chunks_mut(5) {
            let old: [u64; 5] = std::array::from_fn(|x| row[x]);
            for x in 0..5 {
                row[x] = old[x] ^ (!old[(x + 1) % 5] & old[(x + 2) % 5]);
            }
        }
        a[0] ^= constant;
    }
}

/// spec 5: Keccak-256 with the original padding, as in the EVM.
pub fn keccak256(data: &[u8]) -> Hash {
    const RATE: usize = 136;
    let mut a = [0u64; 25];
    let mut absorb = |block: &[u8]| {
        for (lane, bytes) in a.iter_mut().zip(block.chunks(8)) {
            *lane ^= uint_le(bytes);
        }
        keccak_f(&mut a);
    };
    let whole = data.len() - data.len() % RATE;
    data[..whole].chunks(RATE).for_each(&mut absorb);
    let mut last = [0u8; RATE];
    last[..data.len() - whole].copy_from_slice(&data[whole..]);
    last[data.len() - whole] ^= 0x01;
    last[RATE - 1] ^= 0x80;
    absorb(&last);
    let mut out = [0u8; 32];
    for (bytes, lane) in out.chunks_mut(8).zip(a) {
        bytes.copy_from_slice(&lane.to_le_bytes());
    }
    out
}

/// spec 5.2
fn leaf(chunk: &[u8]) -> Hash {
    keccak256(&[&[0x00], chunk].concat())
}

/// spec 5.2
fn node(left: &Hash, right: &Hash) -> Hash {
    keccak256(&[&[0x01], &left[..], right].concat())
}

/// spec 5.2
fn seal(total_len: u64, root: &Hash) -> Hash {
    keccak256(
        &[
            &[0x02],
            &b"blue.commitment.v1"[..],
            &total_len.to_be_bytes(),
            root,
        ]
        .concat(),
    )
}

/// spec 5.2: the largest power of two below `m`, `m > 1`.
fn split(m: u64) -> u64 {
    1 << (63 - (m - 1).leading_zeros())
}

/// spec 5.1
fn leaves(blob: &[u8]) -> Vec<Hash> {
    let (record, rest) = blob.split_at(blob.len().min(1024));
    std::iter::once(record)
        .chain(rest.chunks(65536))
        .map(leaf)
        .collect()
}

fn tree_root(leaves: &[Hash]) -> Hash {
    match leaves {
        [one] => *one,
        _ => {
            let (left, right) = leaves.split_at(split(leaves.len() as u64) as usize);
            node(&tree_root(left), &tree_root(right))
        }
    }
}

/// spec 5.2: the commitment of a file.
pub fn commitment(blob: &[u8]) -> Hash {
    seal(blob.len() as u64, &tree_root(&leaves(blob)))
}

/// spec 5.1: the number of chunks of a file of more than 1024 bytes.
pub fn chunk_count(total_len: u64) -> u64 {
    1 + total_len.saturating_sub(1024).div_ceil(65536)
}

/// spec 5.3: the proof of chunk `index`, sibling hashes from the leaf upwards; `None` for an index that
/// is not a chunk.
pub fn prove_chunk(blob: &[u8], index: u64) -> Option<Vec<Hash>> {
    fn prove(leaves: &[Hash], i: usize) -> Vec<Hash> {
        if leaves.len() == 1 {
            return Vec::new();
        }
        let k = split(leaves.len() as u64) as usize;
        let (left, right) = leaves.split_at(k);
        let (mut proof, sibling) = if i < k {
            (prove(left, i), right)
        } else {
            (prove(right, i - k), left)
        };
        proof.push(tree_root(sibling));
        proof
    }
    let leaves = leaves(blob);
    let i = usize::try_from(index).ok().filter(|&i| i < leaves.len())?;
    Some(prove(&leaves, i))
}

/// spec 5.3: the root implied by leaf hash `h` at index `i` of `m`; `None` for a proof of another length.
fn root_from_proof(h: Hash, i: u64, m: u64, proof: &[Hash]) -> Option<Hash> {
    if m == 1 {
        return proof.is_empty().then_some(h);
    }
    let (sibling, below) = proof.split_last()?;
    let k = split(m);
    if i < k {
        Some(node(&root_from_proof(h, i, k, below)?, sibling))
    } else {
        Some(node(sibling, &root_from_proof(h, i - k, m - k, below)?))
    }
}

/// spec 5.3: whether `chunk` is chunk `index` of the file of `total_len` bytes whose commitment is
/// `expected`.
pub fn verify_chunk(
    expected: &Hash,
    total_len: u64,
    index: u64,
    chunk: &[u8],
    proof: &[Hash],
) -> bool {
    let m = chunk_count(total_len);
    if total_len <= 1024 || index >= m {
        return false;
    }
    let size = if index == 0 {
        1024
    } else {
        (total_len - 1024 - (index - 1) * 65536).min(65536)
    };
    if chunk.len() as u64 != size {
        return false;
    }
    root_from_proof(leaf(chunk), index, m, proof)
        .is_some_and(|root| seal(total_len, &root) == *expected)
}

// ---------------------------------------------------------------- 8. The toy model

/// spec 8: the small int8 model with published answers.
pub mod toy {
    use super::{Halt, isqrt, uint_le};

    /// Number of token ids.
    pub const VOCAB: usize = 48;
    /// Most tokens of a prompt and its output together.
    pub const MAX_CONTEXT: usize = 256;
    /// The seed of the published weights.
    pub const SEED: u64 = 0x70E7_11A0_BEEF_1234;
    /// What the norms add to their sum of squares.
    pub const RMS_EPS: i64 = 16;
    const DIM: usize = 32;
    const HIDDEN: usize = 64;
    const LAYERS: usize = 2;
    const RMS_MULT: i64 = 5;
    const EXP: &[u8; 1024] = include_bytes!("../../tables/toy_exp.bin");
    const SILU: &[u8; 256] = include_bytes!("../../tables/toy_silu.bin");

    type Matrix = Vec<Vec<i64>>;

    /// The weights: one matrix a layer for each name.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[allow(missing_docs, reason = "the names of spec 8")]
    pub struct Weights {
        pub embed: Matrix,
        pub rms1: Matrix,
        pub wq: Vec<Matrix>,
        pub wk: Vec<Matrix>,
        pub wv: Vec<Matrix>,
        pub wo: Vec<Matrix>,
        pub rms2: Matrix,
        pub wgate: Vec<Matrix>,
        pub wup: Vec<Matrix>,
        pub wdown: Vec<Matrix>,
        pub rmsf: Vec<i64>,
        pub wlm: Matrix,
        /// [`RMS_EPS`] in the published model.
        pub rms_eps: i64,
    }

    /// The generator of the weights: 32-bit words.
    pub fn lcg(seed: u64) -> impl Iterator<Item = u32> {
        let mut state = seed | 1;
        std::iter::repeat_with(move || {
            state = state
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (state >> 32) as u32
        })
    }

    /// The weights of a seed, in the order of the page.
    pub fn weights(seed: u64) -> Weights {
        let mut words = lcg(seed);
        let mut value = || i64::from(words.next().expect("endless") % 256) - 128;
        let mut matrix = |rows: usize, cols: usize| -> Matrix {
            (0..rows)
                .map(|_| (0..cols).map(|_| value()).collect())
                .collect()
        };
        let embed = matrix(VOCAB, DIM);
        let rms1 = matrix(LAYERS, DIM);
        let mut layers = |rows: usize, cols: usize| -> Vec<Matrix> {
            (0..LAYERS).map(|_| matrix(rows, cols)).collect()
        };
        let (wq, wk, wv, wo) = (
            layers(DIM, DIM),
            layers(DIM, DIM),
            layers(DIM, DIM),
            layers(DIM, DIM),
        );
        let rms2 = layers(1, DIM).concat();
        let (wgate, wup, wdown) = (
            layers(HIDDEN, DIM),
            layers(HIDDEN, DIM),
            layers(DIM, HIDDEN),
        );
        let rmsf = matrix(1, DIM).concat();
        let wlm = matrix(VOCAB, DIM);
        Weights {
            embed,
            rms1,
            wq,
            wk,
            wv,
            wo,
            rms2,
            wgate,
            wup,
            wdown,
            rmsf,
            wlm,
            rms_eps: RMS_EPS,
        }
    }

    fn sat8(x: i64) -> i64 {
        x.clamp(-128, 127)
    }

    fn dot(a: &[i64], b: &[i64]) -> i64 {
        a.iter().zip(b).map(|(x, y)| x * y).sum()
    }

    fn add(a: &[i64], b: &[i64]) -> Vec<i64> {
        a.iter().zip(b).map(|(x, y)| sat8(x + y)).collect()
    }

    /// Entry `i` of the exponential table.
    pub fn exp_entry(i: usize) -> i64 {
        uint_le(&EXP[4 * i..4 * i + 4]) as i64
    }

    /// Entry `i` of the silu table, for the gate value `i - 128`.
    pub fn silu_entry(i: usize) -> i64 {
        i64::from(SILU[i] as i8)
    }

    /// Rows times `x`, shifted right, saturated to int8.
    pub fn gemm(w: &[Vec<i64>], x: &[i64], shift: u32) -> Vec<i64> {
        w.iter().map(|row| sat8(dot(row, x) >> shift)).collect()
    }

    /// `x * w * mult` over the root of the sum of squares plus `eps`, truncated, saturated to int8.
    pub fn rms_norm(x: &[i64], w: &[i64], mult: i64, eps: i64) -> Vec<i64> {
        let denom = isqrt(dot(x, x) + eps).max(1);
        x.iter()
            .zip(w)
            .map(|(v, g)| sat8(v * g * mult / denom))
            .collect()
    }

    /// Attention of one query over the visible keys and values.
    pub fn attend(q: &[i64], ks: &[Vec<i64>], vs: &[Vec<i64>]) -> Vec<i64> {
        let scores: Vec<i64> = ks.iter().map(|k| sat8(dot(q, k) >> 9)).collect();
        let top = scores.iter().copied().max().unwrap_or(-128);
        let e: Vec<i64> = scores
            .iter()
            .map(|s| exp_entry((top - s).min(255) as usize))
            .collect();
        let total = e.iter().sum::<i64>().max(1);
        let p: Vec<i64> = e.iter().map(|v| (v * 127 + total / 2) / total).collect();
        (0..q.len())
            .map(|i| sat8(p.iter().zip(vs).map(|(a, v)| a * v[i]).sum::<i64>() >> 7))
            .collect()
    }

    /// `silu(gate) * up`, shifted right by 6, saturated to int8. Inputs int8.
    pub fn swiglu(gate: i64, up: i64) -> i64 {
        sat8((silu_entry((gate + 128) as usize) * up) >> 6)
    }

    fn check(tokens: &[u32], new: usize) -> Result<(), Halt> {
        if tokens.is_empty() {
            return Err(Halt::EmptyPrompt);
        }
        if tokens.len().saturating_add(new) > MAX_CONTEXT {
            return Err(Halt::ContextExceeded);
        }
        match tokens.iter().position(|&t| t as usize >= VOCAB) {
            Some(position) => Err(Halt::TokenOutOfRange {
                position,
                id: tokens[position],
            }),
            None => Ok(()),
        }
    }

    /// The logits after `tokens`.
    pub fn logits(w: &Weights, tokens: &[u32]) -> Result<Vec<i64>, Halt> {
        check(tokens, 0)?;
        let norm = |x: &[i64], gain: &[i64]| rms_norm(x, gain, RMS_MULT, w.rms_eps);
        let mut xs: Matrix = tokens
            .iter()
            .map(|&t| w.embed[t as usize].clone())
            .collect();
        for l in 0..LAYERS {
            let hs: Matrix = xs.iter().map(|x| norm(x, &w.rms1[l])).collect();
            let project = |m: &Matrix| -> Matrix { hs.iter().map(|h| gemm(m, h, 9)).collect() };
            let (q, k, v) = (project(&w.wq[l]), project(&w.wk[l]), project(&w.wv[l]));
            for t in 0..xs.len() {
                let a = gemm(&w.wo[l], &attend(&q[t], &k[..=t], &v[..=t]), 9);
                let x = add(&xs[t], &a);
                let h = norm(&x, &w.rms2[l]);
                let (gate, up) = (gemm(&w.wgate[l], &h, 9), gemm(&w.wup[l], &h, 9));
                let act: Vec<i64> = gate.iter().zip(&up).map(|(&g, &u)| swiglu(g, u)).collect();
                xs[t] = add(&x, &gemm(&w.wdown[l], &act, 9));
            }
        }
        let last = xs.last().expect("the prompt is not empty");
        Ok(gemm(&w.wlm, &norm(last, &w.rmsf), 9))
    }

    /// The prompt followed by `count` greedy tokens; ties go to the lowest id.
    pub fn generate(w: &Weights, prompt: &[u32], count: usize) -> Result<Vec<u32>, Halt> {
        check(prompt, count)?;
        let mut tokens = prompt.to_vec();
        for _ in 0..count {
            let values = logits(w, &tokens)?;
            let top = values.iter().max().expect("48 logits");
            tokens.push(
                values
                    .iter()
                    .position(|v| v == top)
                    .expect("the maximum is present") as u32,
            );
        }
        Ok(tokens)
    }
}
