//! How near integer logits are to float ones.

use int_engine::config::Scheme;
use int_engine::engine::argmax;

/// What an export of a trained model promises, on text that calibration did not see.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Largest mean KL(float || integer), in nats.
    pub kl_mean: f64,
    /// Smallest share of positions with the same most likely token, 0 to 1.
    pub top1_agreement: f64,
    /// Largest perplexity of the integer model divided by the float model's, where one is promised.
    pub perplexity_ratio: Option<f64>,
}

impl Limits {
    /// Of dynamic scales, on every kind of text.
    pub const DYNAMIC: Self = Self {
        kl_mean: 0.006,
        top1_agreement: 0.95,
        perplexity_ratio: Some(1.01),
    };
    /// Of static scales, on texts of several kinds together. The input of down is what keeps them from [`Limits::DYNAMIC`].
    pub const STATIC: Self = Self {
        kl_mean: 0.015,
        top1_agreement: 0.93,
        perplexity_ratio: None,
    };

    /// Those of a scheme.
    #[must_use]
    pub const fn of(scheme: Scheme) -> Self {
        match scheme {
            Scheme::Dynamic => Self::DYNAMIC,
            Scheme::Static => Self::STATIC,
        }
    }
}

/// Sums over positions at which a float model and an integer model saw the same tokens.
///
/// Every figure is over the whole vocabulary and in nats. Logarithms and exponentials are those of `libm`: the same
/// logits give the same figures on every machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Comparison {
    positions: u64,
    agreeing: u64,
    divergence: f64,
    predictions: u64,
    nll_float: f64,
    nll_int: f64,
}

impl Comparison {
    /// Adds a position: float logits, integer logits in units of 2^-16, both `[vocab]`, and the token that follows, if any.
    ///
    /// # Panics
    /// When the two differ in length or are empty, or `next` is outside the vocabulary.
    pub fn add(&mut self, float: &[f32], int_q16: &[i32], next: Option<u32>) {
        assert_eq!(float.len(), int_q16.len(), "logits of one vocabulary");
        let float_log = log_softmax(float.iter().map(|&v| f64::from(v)));
        let int_log = log_softmax(int_q16.iter().map(|&v| f64::from(v) / 65536.0));
        self.positions += 1;
        self.agreeing += u64::from(float_engine::forward::argmax(float) == argmax(int_q16));
        self.divergence += float_log
            .iter()
            .zip(&int_log)
            .map(|(p, q)| libm::exp(*p) * (p - q))
            .sum::<f64>();
        if let Some(next) = next {
            self.predictions += 1;
            self.nll_float -= float_log[next as usize];
            self.nll_int -= int_log[next as usize];
        }
    }

    /// Positions added.
    #[must_use]
    pub fn positions(&self) -> u64 {
        self.positions
    }

    /// Positions added with the token that follows.
    #[must_use]
    pub fn predictions(&self) -> u64 {
        self.predictions
    }

    /// Mean KL(float || integer) of a position; NaN without positions.
    #[must_use]
    pub fn kl_mean(&self) -> f64 {
        self.divergence / self.positions as f64
    }

    /// Share of the positions, 0 to 1, where both have the same most likely token; NaN without positions.
    #[must_use]
    pub fn top1_agreement(&self) -> f64 {
        self.agreeing as f64 / self.positions as f64
    }

    /// The float model's perplexity over the predictions; NaN without predictions.
    #[must_use]
    pub fn perplexity_float(&self) -> f64 {
        libm::exp(self.nll_float / self.predictions as f64)
    }

    /// The integer model's perplexity over the predictions; NaN without predictions.
    #[must_use]
    pub fn perplexity_int(&self) -> f64 {
        libm::exp(self.nll_int / self.predictions as f64)
    }
}

fn log_softmax(row: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let top = row.clone().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = row.clone().map(|v| libm::exp(v - top)).sum();
    let log_z = top + libm::log(sum);
    row.map(|v| v - log_z).collect()
}

#[cfg(test)]
mod tests {
    use super::Comparison;

    #[test]
    fn equal_logits_have_no_divergence() {
        let mut c = Comparison::default();
        c.add(&[1.0, 2.0, -3.0], &[65536, 131_072, -196_608], Some(1));
        c.add(&[700.0, 0.0, -700.0], &[700 << 16, 0, -700 << 16], None);
        assert_eq!((c.positions(), c.predictions()), (2, 1));
        assert_eq!((c.kl_mean(), c.top1_agreement()), (0.0, 1.0));
        assert_eq!(c.perplexity_float(), c.perplexity_int());
    }

    #[test]
    fn a_known_divergence() {
        // Float: even odds. Integer: logits 0 and ln 3 give 1/4 and 3/4, and KL = ln(2 / sqrt 3).
        let mut c = Comparison::default();
        let log_3 = (libm::log(3.0) * 65536.0).round() as i32;
        c.add(&[0.0, 0.0], &[0, log_3], Some(0));
        assert!((c.kl_mean() - libm::log(2.0 / libm::sqrt(3.0))).abs() < 1e-5);
        assert!((c.perplexity_float() - 2.0).abs() < 1e-12);
        assert!((c.perplexity_int() - 4.0).abs() < 1e-4);
        // Among equals the lowest id counts.
        assert_eq!(c.top1_agreement(), 0.0);
    }
}
