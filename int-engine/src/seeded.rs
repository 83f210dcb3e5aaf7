//! The generator of seeded test inputs.

/// splitmix64: recipes instead of stored inputs.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// In [-limit, limit].
    pub(crate) fn within(&mut self, limit: i64) -> i64 {
        (self.next() % (2 * limit as u64 + 1)) as i64 - limit
    }

    /// Symmetric with a random magnitude class, so that small values and limits are both common.
    pub(crate) fn wide(&mut self, limit: i64) -> i64 {
        let down = self.next() % 40;
        match self.next() % 8 {
            0 => limit,
            1 => -limit,
            _ => self.within(limit) >> down,
        }
        .max(-limit)
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Vec<i8> {
        (0..n).map(|_| self.within(127) as i8).collect()
    }

    /// In [low, high], of a width below 2^64.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low.wrapping_add((self.next() % (high.wrapping_sub(low) as u64 + 1)) as i64)
    }
}
