//! Operations on one row: exponential, softmax, SiLU, RMS norm.

use super::lanes::{LANES, Lanes};

/// Smallest and largest argument of [`exp`]; others are clamped.
const EXP_MIN: f32 = -87.0;
const EXP_MAX: f32 = 88.0;

/// `e^x` with a relative error below 2 units in the last place, for `-87 <= x <= 88`; clamped outside.
///
/// Cephes `expf`: `x = n ln 2 + r`, `|r| <= ln 2 / 2`, a polynomial of degree 6 in r, times `2^n`.
///
/// # Safety
/// The CPU has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn exp<L: Lanes>(x: L) -> L {
    const BIAS: f32 = 12_582_912.0; // 1.5 * 2^23: adding it rounds to a whole number
    const LN2_HI: f32 = 0.693_359_4; // 9 bits, so that n * LN2_HI is exact
    const LN2_LO: f32 = -2.121_944_4e-4;
    const POLY: [f32; 6] = [
        1.987_569_1e-4,
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_5e-1,
        5e-1,
    ];
    // SAFETY: the caller's.
    unsafe {
        let x = x.min(L::splat(EXP_MAX)).max(L::splat(EXP_MIN));
        let biased = x
            .mul(L::splat(std::f32::consts::LOG2_E))
            .add(L::splat(BIAS));
        let n = biased.sub(L::splat(BIAS));
        let r = x.sub(n.mul(L::splat(LN2_HI))).sub(n.mul(L::splat(LN2_LO)));
        let mut y = L::splat(POLY[0]);
        for c in &POLY[1..] {
            y = y.mul(r).add(L::splat(*c));
        }
        let y = y.mul(r.mul(r)).add(r).add(L::splat(1.0));
        y.mul(biased.exp2_of_biased())
    }
}

/// The 16 values from `i` on, `fill` past the end of `row`.
#[inline(always)]
unsafe fn load_padded<L: Lanes>(row: &[f32], i: usize, fill: f32) -> L {
    // SAFETY: a full load only where 16 values remain; otherwise from the local array.
    unsafe {
        if i + LANES <= row.len() {
            return L::load(row.as_ptr().add(i));
        }
        let mut lanes = [fill; LANES];
        lanes[..row.len() - i].copy_from_slice(&row[i..]);
        L::load(lanes.as_ptr())
    }
}

/// Stores the lanes that lie inside `row`.
#[inline(always)]
unsafe fn store_padded<L: Lanes>(v: L, row: &mut [f32], i: usize) {
    // SAFETY: a full store only where 16 values remain; otherwise through the local array.
    unsafe {
        if i + LANES <= row.len() {
            return v.store(row.as_mut_ptr().add(i));
        }
        let mut lanes = [0.0; LANES];
        v.store(lanes.as_mut_ptr());
        let rest = row.len() - i;
        row[i..].copy_from_slice(&lanes[..rest]);
    }
}

/// Folds 16 lanes pairwise: 8 and 8, 4 and 4, 2 and 2, 1 and 1.
#[inline(always)]
unsafe fn reduce<L: Lanes>(v: L, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut a = [0.0; LANES];
    // SAFETY: the array holds 16 values.
    unsafe { v.store(a.as_mut_ptr()) }
    for w in [8, 4, 2, 1] {
        for i in 0..w {
            a[i] = f(a[i], a[i + w]);
        }
    }
    a[0]
}

/// Replaces the scores `row[..valid]` by `e^(scale * (score - largest))` and the rest by 0; gives the sum.
///
/// # Safety
/// The CPU has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn softmax_unscaled<L: Lanes>(row: &mut [f32], valid: usize, scale: f32) -> f32 {
    // SAFETY: the caller's.
    unsafe {
        let scores = &mut row[..valid];
        let mut largest = L::splat(f32::MIN);
        for i in (0..valid).step_by(LANES) {
            let s = load_padded::<L>(scores, i, f32::MIN).mul(L::splat(scale));
            store_padded(s, scores, i);
            largest = largest.max(load_padded::<L>(scores, i, f32::MIN));
        }
        let largest = L::splat(reduce(largest, |a, b| if a > b { a } else { b }));
        let mut sum = L::splat(0.0);
        for i in (0..valid).step_by(LANES) {
            let e = exp(load_padded::<L>(scores, i, 0.0).sub(largest));
            store_padded(e, scores, i);
            sum = sum.add(load_padded::<L>(scores, i, 0.0));
        }
        row[valid..].fill(0.0);
        reduce(sum, |a, b| a + b)
    }
}

/// `gate[i] = gate[i] / (1 + e^-gate[i]) * up[i]`.
///
/// # Safety
/// The CPU has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn silu_mul<L: Lanes>(gate: &mut [f32], up: &[f32]) {
    assert_eq!(gate.len(), up.len(), "gate and up");
    // SAFETY: the caller's.
    unsafe {
        for i in (0..gate.len()).step_by(LANES) {
            let g = load_padded::<L>(gate, i, 0.0);
            let u = load_padded::<L>(up, i, 0.0);
            let denominator = L::splat(1.0).add(exp(L::splat(0.0).sub(g)));
            store_padded(g.div(denominator).mul(u), gate, i);
        }
    }
}

/// `out[i] = x[i] / sqrt(mean(x^2) + eps) * gain[i]`, for one row; `out` may be given the values of `x`.
///
/// # Safety
/// The CPU has the instructions of `L`.
#[inline(always)]
pub(super) unsafe fn rms_norm<L: Lanes>(x: &[f32], gain: &[f32], eps: f32, out: &mut [f32]) {
    assert!(
        x.len() == gain.len() && x.len() == out.len() && !x.is_empty(),
        "rms_norm lengths"
    );
    // SAFETY: the caller's.
    unsafe {
        let mut sum = L::splat(0.0);
        for i in (0..x.len()).step_by(LANES) {
            let v = load_padded::<L>(x, i, 0.0);
            sum = sum.add(v.mul(v));
        }
        let mean = reduce(sum, |a, b| a + b) / x.len() as f32;
        let inverse = L::splat(1.0 / (mean + eps).sqrt());
        for i in (0..x.len()).step_by(LANES) {
            let v = load_padded::<L>(x, i, 0.0).mul(inverse);
            store_padded(v.mul(load_padded::<L>(gain, i, 0.0)), out, i);
        }
    }
}
