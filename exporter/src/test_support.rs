//! Seeded inputs for tests.

/// `n` values, uniform in (-1, 1), of a 64-bit mix of the seed and the index.
pub(crate) fn uniform(seed: u64, n: usize) -> Vec<f64> {
    let mut rng = crate::random::SplitMix::new(seed);
    (0..n).map(|_| 2.0 * rng.unit() - 1.0).collect()
}
