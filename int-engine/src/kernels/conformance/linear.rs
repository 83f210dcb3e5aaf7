//! Products with their requantisation, and products of more tokens than one block of a backend has.

use super::{GUARD, Kernels, UNTOUCHED, letter};
use crate::kernels::operands::{Inputs, Out};
use crate::ops::fixed::I31;
use crate::ops::ratio::TokenScale;
use crate::ops::requantize::Channels;
use crate::seeded::Rng;
use crate::tiles::Tiles;

struct Case<'a> {
    weights: &'a [i8],
    cols: usize,
    x: &'a [i8],
    scales: Option<&'a [TokenScale]>,
    channels: Channels<'a>,
}

/// Elements around those of the product are not touched.
fn check(k: &Kernels, case: &Case<'_>) {
    let Case {
        weights, cols, x, ..
    } = *case;
    let (rows, tokens) = (weights.len() / cols, x.len() / cols);
    let tiles = Tiles::pack(weights, cols);
    let form = (k.form)(tokens);
    let mut packed = vec![0x33; form.len(tokens, cols)];
    let inputs = Inputs::pack(x, cols, form, &mut packed);
    let stride = rows + 2 * GUARD;
    let mut sums = vec![UNTOUCHED; stride * tokens];
    let mut outputs = sums.clone();
    let (view, inner) = (tiles.view(), GUARD..GUARD + rows);
    (k.gemm)(
        view,
        inputs,
        Out::new(&mut sums, stride).part(inner.clone()),
    );
    let mut out = Out::new(&mut outputs, stride);
    (k.linear)(
        k,
        view,
        inputs,
        case.scales,
        case.channels,
        out.part(inner.clone()),
    );
    let Channels {
        mult,
        shift,
        left,
        limit,
    } = case.channels;
    for t in 0..tokens {
        let scale = case.scales.map(|s| (s[t].mantissa, s[t].exponent));
        for i in 0..stride {
            let (mut sum, mut output) = (UNTOUCHED.into(), UNTOUCHED.into());
            if inner.contains(&i) {
                let r = i - GUARD;
                sum = letter::dot(&weights[r * cols..][..cols], &x[t * cols..][..cols]);
                output = letter::requantize(sum as i32, left, scale, mult[r], shift[r], limit);
            }
            let at = t * stride + i;
            let context = format!("{}: {rows}x{cols}, {tokens} tokens, ({t}, {i})", k.name);
            assert_eq!(i128::from(sums[at]), sum, "{context}: sum");
            assert_eq!(i128::from(outputs[at]), output, "{context}: output");
        }
    }
}

pub(super) fn linear(k: &Kernels) {
    let mut rng = Rng(11);
    // Fewer steps of 64 columns than tokens wait, one more than a step, and more steps than tokens.
    for cols in [1, 3, 68, 200, 2240] {
        // Around two tiles of 16 rows and a panel; around four tiles of 16 tokens.
        for rows in [1, 16, 17, 32, 33, 47, 97] {
            for tokens in [1, 2, 16, 17, 31, 32, 33, 48, 49, 64, 65] {
                if cols > 2000 && (rows * tokens) % 11 != 0 {
                    continue;
                }
                let (weights, x) = (rng.bytes(rows * cols), rng.bytes(tokens * cols));
                let scales: Vec<TokenScale> = (0..tokens)
                    .map(|_| TokenScale {
                        mantissa: ((1 << 30) + rng.next() % (1 << 30)) as i32,
                        exponent: rng.within(6) as i32,
                    })
                    .collect();
                let mult: Vec<i32> = (0..rows)
                    .map(|_| ((1 << 30) + rng.next() % (1 << 30)) as i32)
                    .collect();
                let shift: Vec<i8> = (0..rows).map(|_| rng.within(8) as i8).collect();
                for scales in [Some(&scales[..]), None] {
                    let channels = Channels {
                        mult: &mult,
                        shift: &shift,
                        left: (rng.next() % 3) as u32,
                        limit: [1 << 22, I31][rng.next() as usize % 2],
                    };
                    let case = Case {
                        weights: &weights,
                        cols,
                        x: &x,
                        scales,
                        channels,
                    };
                    check(k, &case);
                }
            }
        }
    }
}
