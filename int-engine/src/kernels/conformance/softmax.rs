//! Scores and weights of attention against the formulas of the specification.

use super::{Kernels, LENGTHS, letter, same};
use crate::ops::attention::{Normalizer, QueryScale};
use crate::seeded::Rng;

/// The largest magnitude of a dot product.
const DOT: i32 = 256 * 127 * 127;
/// The largest magnitude of a score.
const SCORE: i32 = (1 << 30) - 1;

/// Scores of dot products by a kernel, equal to those by the letter.
fn scores(k: &Kernels, scale: QueryScale, dots: &[i32], mk: &[u16], context: &str) -> Vec<i32> {
    let mut z = dots.to_vec();
    let top = (k.log_scores)(scale, &mut z, mk);
    let wide_scale = (scale.rm.into(), scale.rs.into());
    let values = dots.iter().zip(mk);
    let want: Vec<i128> = values
        .map(|(&dot, &mk)| letter::log_score(dot, mk, wide_scale))
        .collect();
    same(&z, &want, &format!("{context}: scores"));
    assert_eq!(Some(&top), z.iter().max(), "{context}: largest score");
    z
}

/// Weights of scores by a kernel, equal to those by the letter.
fn weights(k: &Kernels, z: &[i32], mv: &[u16], context: &str) {
    let top = *z.iter().max().expect("a visible key");
    let (mut used, mut w) = (z.to_vec(), vec![1u16; z.len()]);
    let Normalizer { den, c } = (k.softmax_weights)(&mut used, top, mv, &mut w);
    let wide: Vec<i128> = z.iter().map(|&z| z.into()).collect();
    let (want_den, want_c, want) = letter::softmax(&wide, mv);
    assert_eq!((den.into(), c.into()), (want_den, want_c), "{context}");
    same(&w, &want, &format!("{context}: weights"));
}

pub(super) fn softmax(k: &Kernels) {
    let mut rng = Rng(6);
    for keys in LENGTHS {
        for round in 0..24 {
            let mq = [rng.next() % 32768, 32767, 0][round % 3] as u16;
            let score_mult = ((1 << 30) + rng.next() % (1 << 30)) as i32;
            let score_shift = [0, 1, 10, 20, 25, 30, 61][round % 7];
            let scale = QueryScale::new(mq, score_mult, score_shift);
            let wide_scale = letter::query_scale(mq, score_mult, score_shift);
            assert_eq!((scale.rm.into(), scale.rs.into()), wide_scale);
            let dots: Vec<i32> = (0..keys).map(|_| rng.wide(DOT.into()) as i32).collect();
            let [mk, mv] = [0, 1].map(|_| scales(keys, 32767, &mut rng));
            let context = format!("{}: {keys} keys, round {round}", k.name);
            let z = scores(k, scale, &dots, &mk, &context);
            weights(k, &z, &mv, &context);
        }
        // Halves of a weight: 2^14 times an odd scale, narrowed by 15.
        let z: Vec<i32> = (0..keys as i32).map(|i| 1000 - 256 * (i % 3)).collect();
        let mv: Vec<u16> = (0..keys as u16).map(|i| 32767 - 2 * i).collect();
        weights(k, &z, &mv, &format!("{}: {keys} keys, halves", k.name));
        score_edges(k, keys, &mut rng);
        distances(k, keys, &mut rng);
        narrowings(k, keys, &mut rng);
    }
    the_longest_context(k, &mut rng);
}

/// Scales up to a limit.
fn scales(keys: usize, limit: i64, rng: &mut Rng) -> Vec<u16> {
    let scale = |_| rng.wide(limit).unsigned_abs() as u16;
    (0..keys).map(scale).collect()
}

/// Halves of both quotients of a score, and the limit of scores.
fn score_edges(k: &Kernels, keys: usize, rng: &mut Rng) {
    // An odd multiple of 512, over 1024, of either sign, and its neighbours; a score of halves and quarters.
    let dots: Vec<i32> = (0..keys as i32)
        .map(|i| (8 * i - 3) * if i % 2 == 0 { 1 } else { -1 })
        .collect();
    for (scale, rm) in [(512, 1), (1536, 3), (513, 1), (511, 5), (32767, 32767)] {
        for rs in [1, 2, 3, 31, 32, 33, 62] {
            let context = format!("{}: {keys} keys, halves by {rs}", k.name);
            let mk: Vec<u16> = (0..keys)
                .map(|i| if i % 7 == 6 { 0 } else { scale })
                .collect();
            scores(k, QueryScale { rm, rs }, &dots, &mk, &context);
        }
    }
    // Factors around the one whose largest score is the limit.
    let largest = (i64::from(DOT) * 32767 + 512) >> 10;
    for rs in 1..=24 {
        let limit = ((i64::from(SCORE) << rs) / largest) as i32;
        for rm in limit - 1..=limit + 2 {
            if rm > 1 << 26 {
                continue;
            }
            let dots: Vec<i32> = (0..keys)
                .map(|_| [DOT, -DOT, DOT - 1, 1 - DOT, 0][rng.next() as usize % 5])
                .collect();
            let context = format!("{}: {keys} keys, factor {rm} by {rs}", k.name);
            scores(
                k,
                QueryScale { rm, rs },
                &dots,
                &vec![32767; keys],
                &context,
            );
        }
    }
}

/// Distances from the largest score around every step of the exponential: each shift, and entries of every part of the
/// table.
fn distances(k: &Kernels, keys: usize, rng: &mut Rng) {
    let shifts = [0, 1, 2, 7, 8, 14, 15, 16, 17, 18, 30, 31, 32, 255, 256, 257];
    let entries = [0, 1, 31, 32, 63, 64, 127, 128, 191, 192, 254, 255];
    let near = shifts.iter().flat_map(|n| entries.map(|i| 256 * n + i));
    let far = [1 << 16, (1 << 24) + 3, 1 << 30, 2 * SCORE - 1, 2 * SCORE];
    let all: Vec<i32> = near.chain(0..256).chain(far).collect();
    for (round, d) in all.chunks(keys.min(64)).enumerate() {
        let top = if d.contains(&(2 * SCORE)) || round % 2 == 0 {
            SCORE
        } else {
            1000
        };
        let mut z: Vec<i32> = (0..keys).map(|i| top - d[i % d.len()]).collect();
        // The largest anywhere, the last key and the first among them.
        let at = [0, keys - 1, rng.next() as usize % keys][round % 3];
        z[at] = top;
        for limit in [32767, 3] {
            let context = format!("{}: {keys} keys, distances {d:?}", k.name);
            weights(k, &z, &vec![limit; keys], &context);
            weights(k, &z, &scales(keys, limit.into(), rng), &context);
        }
    }
}

/// Every shift of the narrowing, with halves.
fn narrowings(k: &Kernels, keys: usize, rng: &mut Rng) {
    for bits in 0..=15 {
        let limit = (1 << bits) - 1;
        let z: Vec<i32> = (0..keys).map(|_| -256 * (rng.next() % 20) as i32).collect();
        let mut mv = scales(keys, limit, rng);
        let context = format!("{}: {keys} keys, scales of {bits} bits", k.name);
        weights(k, &z, &mv, &context);
        // The largest product is that of one key, the largest score none's.
        mv[rng.next() as usize % keys] = limit as u16;
        weights(k, &z, &mv, &context);
        // The largest score has no value, and the shift can be none.
        let top = z.iter().max().copied();
        for (mv, z) in mv.iter_mut().zip(&z) {
            if Some(*z) == top {
                *mv = 0;
            }
        }
        weights(k, &z, &mv, &context);
    }
}

/// Sums of 32768 weights: 2^30 at most.
fn the_longest_context(k: &Kernels, rng: &mut Rng) {
    const KEYS: usize = 32768;
    for keys in [KEYS, KEYS - 1, KEYS - 31] {
        let context = format!("{}: {keys} keys", k.name);
        weights(k, &vec![-5; keys], &vec![32767; keys], &context);
        let z: Vec<i32> = (0..keys).map(|_| rng.within(300) as i32).collect();
        weights(k, &z, &scales(keys, 32767, rng), &context);
    }
}
