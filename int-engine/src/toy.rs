//! The toy model (spec 8): a two-layer int8 transformer with a published answer, to check against third parties.

/// Number of ids.
pub const VOCAB: usize = 48;
/// Most tokens of prompt and output together.
pub const MAX_TOKENS: usize = 256;
/// The seed of the published weights.
pub const SEED: u64 = 0x70E7_11A0_BEEF_1234;

const DIM: usize = 32;
const HIDDEN: usize = 64;
const LAYERS: usize = 2;
const GEMM_SHIFT: u32 = 9;
const DOWN_SHIFT: u32 = 9;
const LM_SHIFT: u32 = 9;
const RMS_MULT: i32 = 5;
const RMS_EPS: i32 = 16;
const QK_SHIFT: u32 = 9;
const OV_SHIFT: u32 = 7;
const SWIGLU_SHIFT: u32 = 6;

/// Bytes of `toy_exp.bin`.
pub const EXP_BYTES: &[u8; 1024] = include_bytes!("../tables/toy_exp.bin");
/// Bytes of `toy_silu.bin`.
pub const SILU_BYTES: &[u8; 256] = include_bytes!("../tables/toy_silu.bin");

/// round(65536 * 2^(-i/16)).
fn exp(i: usize) -> i32 {
    let b = &EXP_BYTES[4 * i..4 * i + 4];
    i32::from_le_bytes([b[0], b[1], b[2], b[3]])
}

/// round(16 * silu(g / 16)).
fn silu(g: i8) -> i32 {
    i32::from(SILU_BYTES[(i32::from(g) + 128) as usize] as i8)
}

/// Why the toy model refuses a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ToyError {
    /// The prompt is empty.
    #[error("the prompt is empty")]
    EmptyPrompt,
    /// Prompt and output together are too long.
    #[error("prompt and output hold {0} tokens, must be at most 256")]
    TooLong(usize),
    /// A prompt token is no id.
    #[error("prompt[{index}] is {id}, must be below 48")]
    TokenOutOfRange {
        /// Position in the prompt.
        index: usize,
        /// The token found.
        id: u32,
    },
}

/// Row-major weights, all layers of a tensor in one vector.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Toy {
    embed: Vec<i8>,
    rms1: Vec<i8>,
    q: Vec<i8>,
    k: Vec<i8>,
    v: Vec<i8>,
    o: Vec<i8>,
    rms2: Vec<i8>,
    gate: Vec<i8>,
    up: Vec<i8>,
    down: Vec<i8>,
    rmsf: Vec<i8>,
    lm: Vec<i8>,
}

impl Default for Toy {
    fn default() -> Self {
        Self::new(SEED)
    }
}

/// One step of the generator of the weights.
fn lcg(state: &mut u64) -> u32 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*state >> 32) as u32
}

impl Toy {
    /// The model with the weights of `seed`; the published answers belong to [`SEED`].
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = seed | 1;
        let mut fill = |count: usize| {
            (0..count)
                .map(|_| (i32::from(lcg(&mut state) as u8) - 128) as i8)
                .collect::<Vec<_>>()
        };
        // The fields in the order of the generator.
        Self {
            embed: fill(VOCAB * DIM),
            rms1: fill(LAYERS * DIM),
            q: fill(LAYERS * DIM * DIM),
            k: fill(LAYERS * DIM * DIM),
            v: fill(LAYERS * DIM * DIM),
            o: fill(LAYERS * DIM * DIM),
            rms2: fill(LAYERS * DIM),
            gate: fill(LAYERS * HIDDEN * DIM),
            up: fill(LAYERS * HIDDEN * DIM),
            down: fill(LAYERS * DIM * HIDDEN),
            rmsf: fill(DIM),
            lm: fill(VOCAB * DIM),
        }
    }

    /// The logits after the last of `tokens`.
    ///
    /// # Errors
    /// An empty prompt, a prompt of more than 256 tokens, an id of 48 or more; in this order.
    pub fn logits(&self, tokens: &[u32]) -> Result<[i8; VOCAB], ToyError> {
        check(tokens, tokens.len())?;
        let mut cache = Cache::default();
        let rows = tokens.iter().map(|&token| self.step(&mut cache, token));
        let last = rows.last().unwrap_or_default();
        Ok(self.head(&last))
    }

    /// `count` new tokens after `prompt`, each the lowest id of the largest logit.
    ///
    /// # Errors
    /// As [`Toy::logits`], with the length of prompt and output together.
    pub fn generate(&self, prompt: &[u32], count: usize) -> Result<Vec<u32>, ToyError> {
        check(prompt, prompt.len().saturating_add(count))?;
        let mut cache = Cache::default();
        let mut last = Vec::new();
        for &token in prompt {
            last = self.step(&mut cache, token);
        }
        let mut output = Vec::new();
        while output.len() < count {
            let next = argmax(&self.head(&last));
            output.push(next);
            if output.len() < count {
                last = self.step(&mut cache, next);
            }
        }
        Ok(output)
    }

    /// Feeds one token, an id below 48, at the next position; its residual after the layers.
    ///
    /// What a position computes depends on the positions before it alone, so one at a time is all at once (spec 8).
    fn step(&self, cache: &mut Cache, token: u32) -> Vec<i8> {
        let mut x = part(&self.embed, token as usize, DIM).to_vec();
        for (l, (keys, values)) in cache.0.iter_mut().enumerate() {
            let h = rms_norm(&x, part(&self.rms1, l, DIM), RMS_MULT, RMS_EPS);
            let project = |w: &[i8]| gemm(part(w, l, DIM * DIM), &h, GEMM_SHIFT);
            keys.push(project(&self.k));
            values.push(project(&self.v));
            let a = attend(&project(&self.q), keys, values);
            add(&mut x, &gemm(part(&self.o, l, DIM * DIM), &a, GEMM_SHIFT));
            let h = rms_norm(&x, part(&self.rms2, l, DIM), RMS_MULT, RMS_EPS);
            let gate = gemm(part(&self.gate, l, HIDDEN * DIM), &h, GEMM_SHIFT);
            let up = gemm(part(&self.up, l, HIDDEN * DIM), &h, GEMM_SHIFT);
            let act: Vec<i8> = gate.iter().zip(&up).map(|(&g, &u)| swiglu(g, u)).collect();
            let down = gemm(part(&self.down, l, DIM * HIDDEN), &act, DOWN_SHIFT);
            add(&mut x, &down);
        }
        x
    }

    /// The logits of a residual.
    fn head(&self, x: &[i8]) -> [i8; VOCAB] {
        let h = rms_norm(x, &self.rmsf, RMS_MULT, RMS_EPS);
        let mut logits = [0; VOCAB];
        logits.copy_from_slice(&gemm(&self.lm, &h, LM_SHIFT));
        logits
    }
}

/// Rows of a layer, position by position.
type Rows = Vec<Vec<i8>>;

/// Keys and values of each layer.
#[derive(Default)]
struct Cache([(Rows, Rows); LAYERS]);

fn check(prompt: &[u32], total: usize) -> Result<(), ToyError> {
    if prompt.is_empty() {
        return Err(ToyError::EmptyPrompt);
    }
    if total > MAX_TOKENS {
        return Err(ToyError::TooLong(total));
    }
    match prompt.iter().position(|&id| id as usize >= VOCAB) {
        Some(index) => Err(ToyError::TokenOutOfRange {
            index,
            id: prompt[index],
        }),
        None => Ok(()),
    }
}

/// The lowest index of the largest value.
fn argmax(values: &[i8; VOCAB]) -> u32 {
    let mut best = 0;
    for i in 1..VOCAB {
        if values[i] > values[best] {
            best = i;
        }
    }
    best as u32
}

fn part(w: &[i8], index: usize, len: usize) -> &[i8] {
    &w[index * len..(index + 1) * len]
}

fn saturate(x: i32) -> i8 {
    x.clamp(-128, 127) as i8
}

fn dot(a: &[i8], b: &[i8]) -> i32 {
    a.iter()
        .zip(b)
        .map(|(&a, &b)| i32::from(a) * i32::from(b))
        .sum()
}

/// Row-major `w` times `x`, shifted right (rounding `floor`), saturated. A row of at most 2^16 values.
#[must_use]
pub fn gemm(w: &[i8], x: &[i8], shift: u32) -> Vec<i8> {
    w.chunks_exact(x.len())
        .map(|row| saturate(dot(row, x) >> shift))
        .collect()
}

fn add(x: &mut [i8], y: &[i8]) {
    x.iter_mut()
        .zip(y)
        .for_each(|(x, y)| *x = x.saturating_add(*y));
}

/// `x * w * mult` over the root of the sum of squares plus `eps`, truncated towards zero, saturated.
///
/// At most 2^16 values; 1 <= mult <= 2^16, 0 <= eps < 2^30.
#[must_use]
pub fn rms_norm(x: &[i8], w: &[i8], mult: i32, eps: i32) -> Vec<i8> {
    let root = (dot(x, x) + eps).isqrt().max(1);
    x.iter()
        .zip(w)
        .map(|(&x, &w)| saturate(i32::from(x) * i32::from(w) * mult / root))
        .collect()
}

/// `silu(gate) * up`, shifted right by 6 (rounding `floor`), saturated.
#[must_use]
pub fn swiglu(gate: i8, up: i8) -> i8 {
    saturate((silu(gate) * i32::from(up)) >> SWIGLU_SHIFT)
}

/// Attention of one query over the visible keys and values: at least one and at most 256, rows of `q`'s length.
#[must_use]
pub fn attend(q: &[i8], ks: &[Vec<i8>], vs: &[Vec<i8>]) -> Vec<i8> {
    let scores: Vec<i32> = ks
        .iter()
        .map(|k| i32::from(saturate(dot(q, k) >> QK_SHIFT)))
        .collect();
    let top = scores.iter().copied().fold(-128, i32::max);
    let e: Vec<i32> = scores
        .iter()
        .map(|s| exp((top - s).min(255) as usize))
        .collect();
    // At most 256 * 2^16; the largest score contributes 2^16, so the sum is not zero.
    let total: i32 = e.iter().sum();
    let p: Vec<i32> = e.iter().map(|v| (v * 127 + total / 2) / total).collect();
    let mix = |i: usize| {
        p.iter()
            .zip(vs)
            .map(|(&p, v)| p * i32::from(v[i]))
            .sum::<i32>()
    };
    (0..q.len()).map(|i| saturate(mix(i) >> OV_SHIFT)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::enclosure::Real;

    #[test]
    fn exp_entry_by_entry() {
        let step = (0..4).fold(Real::ratio(1, 2), |x, _| x.sqrt());
        for (i, power) in step.powers(256).into_iter().enumerate() {
            assert_eq!(i64::from(exp(i)), power.round(16), "{i}");
        }
    }

    #[test]
    fn silu_entry_by_entry() {
        // With e = exp(-|k|/16): k / (1 + e), or k e / (1 + e) for negative k.
        let powers = Real::exp_minus_reciprocal(16).powers(129);
        for k in i8::MIN..=i8::MAX {
            let e = powers[usize::from(k.unsigned_abs())];
            let sigmoid = Real::int(1)
                .add(e)
                .recip()
                .mul(if k < 0 { e } else { Real::int(1) });
            assert_eq!(
                i64::from(silu(k)),
                Real::int(k.into()).mul(sigmoid).round(0),
                "{k}"
            );
        }
    }

    #[test]
    fn generator() {
        let mut state = SEED | 1;
        let words = [0; 4].map(|_| lcg(&mut state));
        assert_eq!(words, [0xf1c6_2557, 0x8c8f_2e8e, 0xe413_2dff, 0xd4ab_1a22]);
        assert_eq!(Toy::default().embed[..4], [-41, 14, 127, -94]);
    }

    #[test]
    fn norm_cases() {
        assert_eq!(rms_norm(&[80; 4], &[1; 4], 8, 0), [4; 4]);
        assert_eq!(rms_norm(&[80; 4], &[2; 4], 8, 0), [8; 4]);
        assert_eq!(rms_norm(&[0; 4], &[127; 4], 8, 0), [0; 4]);
        // -9 * 5 / 9 with a root of 18: -2.5 truncates to -2, 2.5 to 2.
        assert_eq!(rms_norm(&[-9, 9, 9, 9], &[1; 4], 5, 0), [-2, 2, 2, 2]);
        // All at the lower end: sum 32 * 2^14, root 724, -128 * -128 * 5 / 724 = 113.
        assert_eq!(rms_norm(&[-128; 32], &[-128; 32], 5, 0), [113; 32]);
    }

    #[test]
    fn attention_rounds_halves_of_weights_up_and_floors_values() {
        // Two equal scores: 127/2 rounds to 64 each; 64 * (1 + 1) >> 7 = 1, and -1 stays -1 by the floor.
        let k = vec![vec![0i8; 2]; 2];
        assert_eq!(attend(&[0, 0], &k, &[vec![1, -1], vec![1, -1]]), [1, -1]);
        assert_eq!(attend(&[0, 0], &k, &[vec![1, -1], vec![0, 0]]), [0, -1]);
        // Scores of -128 and 127 after saturation: 255 steps apart, weight EXP[255] = 1 rounds to 0.
        let k = [
            vec![-128, -128, -128, -128, -128],
            vec![127, 127, 127, 127, 127],
        ];
        assert_eq!(attend(&[127; 5], &k, &[vec![127; 5], vec![2; 5]]), [1; 5]);
    }

    #[test]
    fn first_logits_of_the_published_prompt() {
        let expected = [
            63, 6, -65, 6, 102, -43, 46, -22, -33, -15, 65, 7, 13, 22, -19, -50, -41, -35, -20, 48,
            -7, -59, 5, -7, 7, -10, -39, -51, 53, -60, -15, -20, -8, 3, -59, 3, -11, 5, -19, 6,
            -14, -53, -72, -18, 53, 0, -82, 0,
        ];
        assert_eq!(Toy::default().logits(&[1, 7, 13, 2]), Ok(expected));
    }

    #[test]
    fn answers() {
        let toy = Toy::default();
        let published = [4, 28, 21, 17, 2, 19, 43, 35, 36, 15];
        assert_eq!(toy.generate(&[1, 7, 13, 2], 10).unwrap(), published);
        assert_eq!(toy.generate(&[0], 8).unwrap(), [32, 12].repeat(4));
        assert_eq!(
            toy.generate(&[5, 9, 2], 16).unwrap(),
            [4, 1, 12, 0, 36, 13, 18, 1, 45, 7, 25, 39, 5, 10, 26, 17]
        );
        assert_eq!(toy.generate(&[8, 1, 0, 46, 41, 6], 1).unwrap(), [13]);
    }

    #[test]
    fn limits() {
        let toy = Toy::default();
        assert_eq!(toy.generate(&[], 1), Err(ToyError::EmptyPrompt));
        assert_eq!(toy.logits(&[]), Err(ToyError::EmptyPrompt));
        assert_eq!(toy.generate(&[47], 0), Ok(vec![]));
        assert_eq!(
            toy.generate(&[0, 48], 1),
            Err(ToyError::TokenOutOfRange { index: 1, id: 48 })
        );
        assert_eq!(
            toy.logits(&[u32::MAX]),
            Err(ToyError::TokenOutOfRange {
                index: 0,
                id: u32::MAX
            })
        );
        assert_eq!(toy.generate(&[3; 255], 1).unwrap().len(), 1);
        assert_eq!(toy.generate(&[3; 255], 2), Err(ToyError::TooLong(257)));
        assert_eq!(
            toy.generate(&[3], usize::MAX),
            Err(ToyError::TooLong(usize::MAX))
        );
        assert_eq!(toy.logits(&[3; 257]), Err(ToyError::TooLong(257)));
    }

    #[test]
    fn ties_go_to_the_lowest_id() {
        let mut values = [-3i8; VOCAB];
        assert_eq!(argmax(&values), 0);
        (values[31], values[32], values[47]) = (9, 9, 9);
        assert_eq!(argmax(&values), 31);
        values[47] = 10;
        assert_eq!(argmax(&values), 47);
    }
}
