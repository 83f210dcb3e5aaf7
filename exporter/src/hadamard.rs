//! Hadamard transforms in f64, block by block (spec 2.4), along any axis of a row-major array.

use int_engine::config::had_factors;

/// Multiplication of consecutive blocks, as row vectors, by H_block.
#[derive(Debug, Clone)]
pub(crate) struct Hadamard {
    block: usize,
    /// The Paley factors, slowest index first, row-major.
    paley: Vec<(usize, Vec<f64>)>,
    pow2: usize,
}

impl Hadamard {
    /// # Panics
    /// When spec 2.4 has no matrix of this order.
    pub(crate) fn new(block: usize) -> Self {
        let (primes, pow2) = had_factors(block).expect("the order has a Hadamard matrix");
        let paley = primes.iter().map(|&p| (p + 1, paley(p))).collect();
        Self { block, paley, pow2 }
    }

    pub(crate) fn block(&self) -> usize {
        self.block
    }

    /// y_i = sum over j of x_j H[j][i], in every block.
    ///
    /// `data` is `[blocks * block][inner]`: `inner = 1` transforms a row, `inner` = columns of a matrix transforms
    /// along its rows' axis.
    pub(crate) fn forward(&self, data: &mut [f64], inner: usize) {
        let mut scratch = Vec::new();
        let mut stride = self.block * inner;
        assert!(
            stride > 0 && data.len().is_multiple_of(stride),
            "whole blocks"
        );
        for (m, h) in &self.paley {
            stride /= m;
            scratch.resize(m * stride, 0.0);
            for group in data.chunks_exact_mut(m * stride) {
                scratch.fill(0.0);
                for (j, x) in group.chunks_exact(stride).enumerate() {
                    for (i, y) in scratch.chunks_exact_mut(stride).enumerate() {
                        let sign = h[j * m + i];
                        for (y, x) in y.iter_mut().zip(x) {
                            *y += sign * x;
                        }
                    }
                }
                group.copy_from_slice(&scratch);
            }
        }
        let mut half = self.pow2 / 2;
        while half > 0 {
            for pair in data.chunks_exact_mut(2 * half * inner) {
                let (a, b) = pair.split_at_mut(half * inner);
                for (a, b) in a.iter_mut().zip(b) {
                    (*a, *b) = (*a + *b, *a - *b);
                }
            }
            half /= 2;
        }
    }

    /// [`Hadamard::forward`] divided by the square root of the block: an orthogonal matrix.
    pub(crate) fn forward_orthogonal(&self, data: &mut [f64], inner: usize) {
        self.forward(data, inner);
        let scale = 1.0 / libm::sqrt(self.block as f64);
        data.iter_mut().for_each(|v| *v *= scale);
    }
}

/// Paley's first construction for a prime p = 3 mod 4, order p + 1.
fn paley(p: usize) -> Vec<f64> {
    let n = p + 1;
    let squares: Vec<usize> = (1..p).map(|i| i * i % p).collect();
    let mut h = vec![1.0; n * n];
    for i in 1..n {
        h[i * n] = -1.0;
        for j in 1..n {
            if i != j && !squares.contains(&((j + p - i) % p)) {
                h[i * n + j] = -1.0;
            }
        }
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::uniform;

    /// H_n by its definition.
    fn dense(n: usize) -> Vec<f64> {
        let (primes, pow2) = had_factors(n).unwrap();
        let kron = |a: &[f64], m: usize, b: &[f64], k: usize| -> Vec<f64> {
            let s = m * k;
            (0..s * s)
                .map(|t| (t / s, t % s))
                .map(|(i, j)| a[i / k * m + j / k] * b[i % k * k + j % k])
                .collect()
        };
        let (mut h, mut size) = (vec![1.0], 1);
        for &p in primes {
            h = kron(&h, size, &paley(p), p + 1);
            size *= p + 1;
        }
        let mut rest = pow2;
        while rest > 1 {
            h = kron(&h, size, &[1.0, 1.0, 1.0, -1.0], 2);
            size *= 2;
            rest /= 2;
        }
        h
    }

    #[test]
    fn equals_the_matrix_along_both_axes() {
        for n in [1, 2, 8, 12, 20, 24, 144, 240, 400] {
            let h = dense(n);
            for i in 0..n.min(9) {
                let dot: f64 = (0..n).map(|j| h[i * n + j] * h[(n - 1) * n + j]).sum();
                assert_eq!(dot, if i == n - 1 { n as f64 } else { 0.0 });
            }
            let t = Hadamard::new(n);
            let x: Vec<f64> = uniform(n as u64, 2 * n)
                .iter()
                .map(|v| (v * 64.0).round())
                .collect();
            let expected: Vec<f64> = (0..2 * n)
                .map(|i| (0..n).map(|j| x[i / n * n + j] * h[j * n + i % n]).sum())
                .collect();
            let mut row = x.clone();
            t.forward(&mut row, 1);
            assert_eq!(row, expected, "order {n}");
            // The same values as column 1 of a 3-column matrix.
            let mut m: Vec<f64> = x.iter().flat_map(|&v| [0.0, v, 2.0 * v]).collect();
            t.forward(&mut m, 3);
            let column: Vec<f64> = m.chunks(3).map(|r| r[1]).collect();
            assert_eq!(column, expected, "order {n}, along rows");
        }
    }
}
