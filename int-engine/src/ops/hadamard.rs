//! Hadamard rotations (spec 1.10, 2.4).
//!
//! A matrix is a Kronecker product of at most two Paley factors (order 12 or 20) and a power of two.
//! Each factor is applied along its own axis; sums are exact, so the order of stages does not matter.

use super::fixed::bit_length;
use super::proven::ROTATION;
use crate::config::{had_block, had_factors, pow2_block};

/// Which product: the row vector times the matrix, or times its transpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `y[i] = sum_j x[j] * H[j][i]`.
    Forward,
    /// `y[i] = sum_j x[j] * H[i][j]`.
    Transpose,
}

/// The largest k such that |x| <= 2^k implies |H x| < 2^31 for a block of B values: B < 2^bl(B).
pub const fn headroom(block: usize) -> u32 {
    31 - bit_length(block as u32)
}

/// One row of Paley's matrix: +1 or -1 at `[i][j]`, p = order - 1.
fn paley(i: usize, j: usize, p: usize) -> i32 {
    if i == 0 || i == j {
        return 1;
    }
    if j == 0 {
        return -1;
    }
    // For i, j in 1..=p and i != j, (j - i) mod p is non-zero.
    let d = (j + p - i) % p;
    if (1..p).any(|s| s * s % p == d) {
        1
    } else {
        -1
    }
}

/// A Paley matrix as the signs that a transform needs.
#[derive(Clone, Debug)]
struct Factor {
    order: usize,
    /// `[order][order]`, row-major.
    forward: Vec<i32>,
}

/// The transform of consecutive blocks of one size, with the signs of its Paley factors.
#[derive(Clone, Debug)]
pub struct Hadamard {
    block: usize,
    pow2: usize,
    factors: Vec<Factor>,
}

impl Hadamard {
    /// The transform for blocks of `had_block(n)` values.
    pub fn largest(n: usize) -> Self {
        Self::of_block(had_block(n))
    }

    /// The power-of-two transform for blocks of `pow2_block(n)` values.
    pub fn power_of_two(n: usize) -> Self {
        Self::of_block(pow2_block(n))
    }

    fn of_block(block: usize) -> Self {
        // `had_block` and `pow2_block` return only orders that have a matrix.
        let (primes, pow2) = had_factors(block).unwrap_or((&[], 1));
        let factors = primes
            .iter()
            .map(|&p| Factor {
                order: p + 1,
                forward: (0..(p + 1) * (p + 1))
                    .map(|at| paley(at / (p + 1), at % (p + 1), p))
                    .collect(),
            })
            .collect();
        Self {
            block,
            pow2,
            factors,
        }
    }

    /// Values a block.
    pub fn block(&self) -> usize {
        self.block
    }

    /// Whether the transform is butterflies over all of a row of `len` values.
    pub fn is_butterflies_of(&self, len: usize) -> bool {
        self.block == len && self.pow2 == len
    }

    /// The largest k such that inputs up to 2^k keep every output below 2^31.
    pub fn headroom(&self) -> u32 {
        headroom(self.block)
    }

    /// Transforms every consecutive block of `x` in place, with `butterflies` for the power of two.
    ///
    /// Domain: `x.len()` a multiple of the block; the sum of magnitudes of each block below 2^31.
    pub fn apply(&self, x: &mut [i32], direction: Direction, butterflies: fn(&mut [i32], usize)) {
        assert_eq!(x.len() % self.block, 0, "whole blocks");
        ROTATION.within_runs(x, self.block);
        butterflies(x, self.pow2);
        if self.factors.is_empty() {
            return;
        }
        for block in x.chunks_exact_mut(self.block) {
            // Axis strides from the fastest: the power of two, then the last factor, then the first.
            let mut stride = self.pow2;
            for factor in self.factors.iter().rev() {
                factor.apply(block, stride, direction);
                stride *= factor.order;
            }
        }
    }
}

impl Factor {
    fn apply(&self, block: &mut [i32], stride: usize, direction: Direction) {
        let mut column = [0i32; 20];
        let column = &mut column[..self.order];
        for group in block.chunks_exact_mut(self.order * stride) {
            for lane in 0..stride {
                for (i, c) in column.iter_mut().enumerate() {
                    *c = group[i * stride + lane];
                }
                for i in 0..self.order {
                    group[i * stride + lane] = match direction {
                        Direction::Forward => (0..self.order)
                            .map(|j| column[j] * self.forward[j * self.order + i])
                            .sum(),
                        Direction::Transpose => (0..self.order)
                            .map(|j| column[j] * self.forward[i * self.order + j])
                            .sum(),
                    };
                }
            }
        }
    }
}

/// The Walsh-Hadamard transform of every consecutive run of `size` values (a power of two), in place.
///
/// Domain: the sum of magnitudes of each run below 2^31; it bounds every intermediate sum.
#[inline(always)]
pub fn butterflies(x: &mut [i32], size: usize) {
    assert!(
        size.is_power_of_two() && x.len() % size == 0,
        "whole runs of a power of two"
    );
    ROTATION.within_runs(x, size);
    let mut half = 1;
    // The two shortest strides together, as a run of four in registers.
    if size >= 4 {
        for v in x.chunks_exact_mut(4) {
            let (a, b, c, d) = (v[0] + v[1], v[0] - v[1], v[2] + v[3], v[2] - v[3]);
            (v[0], v[1], v[2], v[3]) = (a + c, b + d, a - c, b - d);
        }
        half = 4;
    }
    while half < size {
        for pair in x.chunks_exact_mut(2 * half) {
            let (low, high) = pair.split_at_mut(half);
            for (a, b) in low.iter_mut().zip(high) {
                (*a, *b) = (*a + *b, *a - *b);
            }
        }
        half *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dense matrix by the doubling and Kronecker definitions of spec 2.4.
    fn dense(n: usize) -> Vec<Vec<i64>> {
        let (primes, mut rest) = had_factors(n).expect("a size with a matrix");
        let kron = |a: Vec<Vec<i64>>, b: Vec<Vec<i64>>| {
            a.iter()
                .flat_map(|ra| {
                    b.iter().map(move |rb| {
                        ra.iter()
                            .flat_map(|x| rb.iter().map(move |y| x * y))
                            .collect()
                    })
                })
                .collect::<Vec<Vec<i64>>>()
        };
        let mut h = vec![vec![1]];
        for &p in primes {
            let order = p + 1;
            let squares: Vec<usize> = (1..order - 1).map(|i| i * i % (order - 1)).collect();
            let entry = |i: usize, j: usize| match (i, j) {
                (0, _) => 1,
                (_, 0) => -1,
                _ if i == j || squares.contains(&((j + order - 1 - i) % (order - 1))) => 1,
                _ => -1,
            };
            h = kron(
                h,
                (0..order)
                    .map(|i| (0..order).map(|j| entry(i, j)).collect())
                    .collect(),
            );
        }
        while rest > 1 {
            h = kron(h, vec![vec![1, 1], vec![1, -1]]);
            rest /= 2;
        }
        h
    }

    #[test]
    fn equals_the_dense_matrix_in_both_directions() {
        // Every kind of factorisation, with and without a power of two beside it.
        for n in [
            1, 2, 4, 8, 12, 20, 24, 40, 64, 144, 240, 288, 400, 480, 576, 800,
        ] {
            let h = dense(n);
            let had = Hadamard::largest(n);
            assert_eq!(had.block(), n);
            for (i, row) in h.iter().enumerate() {
                for other in &h[i..] {
                    let dot: i64 = row.iter().zip(other).map(|(a, b)| a * b).sum();
                    assert_eq!(
                        dot,
                        if std::ptr::eq(row, other) {
                            n as i64
                        } else {
                            0
                        },
                        "H H^T = n I at {n}"
                    );
                }
            }
            let x: Vec<i32> = (0..2 * n as i32)
                .map(|i| (i * 7919 + 13) % 2003 - 1001)
                .collect();
            for direction in [Direction::Forward, Direction::Transpose] {
                let mut got = x.clone();
                had.apply(&mut got, direction, butterflies);
                for (block, got) in x.chunks(n).zip(got.chunks(n)) {
                    for i in 0..n {
                        let want: i64 = (0..n)
                            .map(|j| {
                                i64::from(block[j])
                                    * if direction == Direction::Forward {
                                        h[j][i]
                                    } else {
                                        h[i][j]
                                    }
                            })
                            .sum();
                        assert_eq!(i64::from(got[i]), want, "n = {n}, {direction:?}, {i}");
                    }
                }
            }
        }
    }

    #[test]
    fn headrooms() {
        assert_eq!(
            (headroom(512), headroom(1024), headroom(3072), headroom(1)),
            (21, 20, 19, 30)
        );
    }

    #[test]
    fn the_headroom_holds_with_equality() {
        for n in [1, 12, 512, 576, 1024] {
            let had = Hadamard::largest(n);
            let mut x = vec![1 << had.headroom(); n];
            had.apply(&mut x, Direction::Transpose, butterflies);
            assert_eq!(x[0], (n << had.headroom()) as i32);
        }
    }
}
