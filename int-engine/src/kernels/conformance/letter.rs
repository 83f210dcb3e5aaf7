//! The formulas of the specification word for word, in integers that never overflow. Nothing here calls the crate's
//! operations: only the bytes of the frozen tables are shared.

use crate::tables;

const I31: i128 = (1 << 31) - 1;

fn bl(x: i128) -> i128 {
    i128::from(128 - x.leading_zeros())
}

fn sat(x: i128, limit: i128) -> i128 {
    x.clamp(-limit, limit)
}

/// Spec 1.2.
fn rdbpot(x: i128, e: i128) -> i128 {
    if e > 62 {
        return 0;
    }
    let mask = (1 << e) - 1;
    let threshold = (mask >> 1) + i128::from(x < 0);
    (x >> e) + i128::from(x & mask > threshold)
}

/// Spec 1.3 on stored values.
fn srdhm(a: i128, b: i128) -> i128 {
    (a * b + (1 << 30)) >> 31
}

/// `sat(rdbpot(x, r), limit)`.
pub(super) fn round_shift(x: i32, r: u32, limit: i32) -> i128 {
    sat(rdbpot(x.into(), r.into()), limit.into())
}

/// Spec 1.9.
pub(super) fn rope(x: &[i32], cos_sin: &[(i32, i32)], limit: i32) -> Vec<i128> {
    let (low, high) = x.split_at(cos_sin.len());
    let turned = |sign: i128, x: &[i32], y: &[i32]| -> Vec<i128> {
        let values = x.iter().zip(y).zip(cos_sin);
        values
            .map(|((&x, &y), &(c, s))| {
                let v = i128::from(x) * i128::from(c) + sign * i128::from(y) * i128::from(s);
                sat(rdbpot(v, 14), limit.into())
            })
            .collect()
    };
    [turned(-1, low, high), turned(1, high, low)].concat()
}

/// `W[o] . q` of spec 3.2.
pub(super) fn dot(a: &[i8], b: &[i8]) -> i128 {
    a.iter()
        .zip(b)
        .map(|(&a, &b)| i128::from(a) * i128::from(b))
        .sum()
}

/// m of spec 1.5.
pub(super) fn max_abs(u: &[i32]) -> i128 {
    u.iter().map(|&v| i128::from(v).abs()).max().unwrap_or(0)
}

/// Spec 1.5.
pub(super) fn dynq(u: &[i32]) -> Vec<i128> {
    let m = max_abs(u);
    if m == 0 {
        return vec![0; u.len()];
    }
    let b = bl(m);
    let r = (127 << (b + 23)) / m;
    u.iter()
        .map(|&x| {
            let a = i128::from(x).abs();
            let a = if b <= 24 {
                a << (24 - b)
            } else {
                a >> (b - 24)
            };
            let y = (a * r + (1 << 46)) >> 47;
            if x < 0 { -y } else { y }
        })
        .collect()
}

/// sh and the sum without eps of spec 1.6.
pub(super) fn sum_squares(x: &[i32]) -> (i128, i128) {
    let sh = (bl(max_abs(x)) - 24).max(0);
    let sum = x.iter().map(|&v| rdbpot(v.into(), sh).pow(2)).sum();
    (sh, sum)
}

/// Spec 1.8.
pub(super) fn requantize(
    acc: i32,
    left: u32,
    scale: Option<(i32, i32)>,
    mult: i32,
    shift: i8,
    limit: i32,
) -> i128 {
    let mut a = i128::from(acc) << left;
    let mut e = i128::from(shift);
    if let Some((t, te)) = scale {
        a = srdhm(a, t.into());
        e += i128::from(te);
    }
    a = srdhm(a, mult.into());
    a = match e {
        0.. => rdbpot(a, e),
        -31.. => sat(a << -e, I31),
        _ => a.signum() * I31,
    };
    sat(a, limit.into())
}

/// `add_residual` of spec 3.3.
pub(super) fn add_residual(x: i32, y: i32) -> i128 {
    sat(i128::from(x) + i128::from(y), I31)
}

/// `had_forward` of spec 1.10 for a power of two, by the doubling of spec 2.4: x H_2k = (a H_k + b H_k, a H_k - b H_k).
pub(super) fn hadamard(x: &[i32]) -> Vec<i128> {
    if let [x] = x {
        return vec![(*x).into()];
    }
    let (a, b) = x.split_at(x.len() / 2);
    let (a, b) = (hadamard(a), hadamard(b));
    let sums = a.iter().zip(&b).map(|(a, b)| a + b);
    sums.chain(a.iter().zip(&b).map(|(a, b)| a - b)).collect()
}

/// Spec 1.12.
pub(super) fn swiglu(g: i32, u: i32) -> i128 {
    let a = i128::from(g).abs();
    let mut sig = match usize::try_from((a + 32) >> 6) {
        Ok(i) if a < 1 << 16 => tables::SIGMOID[i].into(),
        _ => 1 << 24,
    };
    if g < 0 {
        sig = (1 << 24) - sig;
    }
    rdbpot(i128::from(g) * sig, 24) * i128::from(u)
}

/// `rdbpot(v, c)` of spec 3.3.
pub(super) fn narrow(v: i64, c: u32) -> i128 {
    rdbpot(v.into(), c.into())
}

/// rm and rs of spec 1.14.
pub(super) fn query_scale(mq: u16, score_mult: i32, score_shift: u32) -> (i128, i128) {
    let rm = (i128::from(mq) * i128::from(score_mult) + (1 << 19)) >> 20;
    (rm, 1 + i128::from(score_shift))
}

/// One z of spec 1.14.
pub(super) fn log_score(dot: i32, mk: u16, (rm, rs): (i128, i128)) -> i128 {
    let a = rdbpot(i128::from(dot) * i128::from(mk), 10);
    sat((a * rm + (1 << (rs - 1))) >> rs, (1 << 30) - 1)
}

/// Spec 1.13.
fn exp2_weight(d: i128) -> i128 {
    let n = d >> 8;
    if n > 30 {
        return 0;
    }
    let entry = tables::EXP2[usize::try_from(d & 255).expect("a byte")];
    (i128::from(entry) + ((1 << n) >> 1)) >> n
}

/// den, c and w of spec 1.14.
pub(super) fn softmax(z: &[i128], mv: &[u16]) -> (i128, i128, Vec<i128>) {
    let top = *z.iter().max().expect("a visible key");
    let p: Vec<i128> = z.iter().map(|v| exp2_weight(top - v)).collect();
    let w: Vec<i128> = p.iter().zip(mv).map(|(p, &m)| p * i128::from(m)).collect();
    let c = (bl(*w.iter().max().expect("a visible key")) - 15).max(0);
    let half = (1 << c) >> 1;
    let narrowed = w.iter().map(|w| (w + half) >> c).collect();
    (p.iter().sum(), c, narrowed)
}

/// The outputs of spec 1.14 from n, den and c.
pub(super) fn attention_output(n: &[i64], den: u32, c: u32) -> Vec<i128> {
    let (den, c) = (i128::from(den), i128::from(c));
    let largest = n.iter().map(|&x| i128::from(x).abs()).max().unwrap_or(0);
    let bd = bl(den);
    let rd = (1 << (bd + 30)) / den;
    let sn = (bl(largest) - 31).max(0);
    let f = bd + 22 - sn - c;
    n.iter()
        .map(|&x| {
            let y = ((i128::from(x).abs() >> sn) * rd + (1 << (f - 1))) >> f;
            if x < 0 { -y } else { y }
        })
        .collect()
}

/// The t of every value of spec 1.11.
pub(super) fn head_units(x: &[i32]) -> Vec<i128> {
    let (sh, sum) = sum_squares(x);
    let s = 1 + sum;
    let up = (62 - bl(s)) / 2;
    let r = (s << (2 * up)).isqrt();
    let rr = (1 << 61) / r;
    x.iter()
        .map(|&v| rdbpot((rdbpot(v.into(), sh) << up) * rr, 31))
        .collect()
}

/// Spec 1.11.
pub(super) fn head_norm(x: &[i32], gain: &[i32]) -> Vec<i128> {
    let t = head_units(x);
    t.iter()
        .zip(gain)
        .map(|(t, &g)| sat(rdbpot(t * i128::from(g), 45), 32767))
        .collect()
}
