//! Rotary position embedding, half-split layout: channel `i` turns with channel `i + head_dim / 2`.

use crate::config::ModelConfig;

/// Cosines and sines of `pos * theta^(-2i/head_dim)`, computed in f64 and rounded to f32.
#[derive(Debug, Clone)]
pub struct RopeTable {
    inverse_frequencies: Vec<f64>,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    /// A table for positions `0..len`.
    pub fn new(config: &ModelConfig, len: usize) -> Self {
        let d = config.head_dim;
        let frequency = |i: usize| libm::pow(config.rope_theta, -((2 * i) as f64) / d as f64);
        let mut table = Self {
            inverse_frequencies: (0..d / 2).map(frequency).collect(),
            cos: vec![],
            sin: vec![],
        };
        table.extend(len);
        table
    }

    /// Makes the table cover positions `0..len`.
    pub fn extend(&mut self, len: usize) {
        for pos in self.cos.len() / self.inverse_frequencies.len()..len {
            for &f in &self.inverse_frequencies {
                let (sin, cos) = libm::sincos(pos as f64 * f);
                self.cos.push(cos as f32);
                self.sin.push(sin as f32);
            }
        }
    }

    /// Turns one head, `[head_dim]`, to position `pos`, which the table must cover.
    pub(super) fn rotate(&self, head: &mut [f32], pos: usize) {
        let half = self.inverse_frequencies.len();
        let (cos, sin) = (
            &self.cos[pos * half..][..half],
            &self.sin[pos * half..][..half],
        );
        let (a, b) = head.split_at_mut(half);
        for i in 0..half {
            let (x, y) = (a[i], b[i]);
            a[i] = x * cos[i] - y * sin[i];
            b[i] = y * cos[i] + x * sin[i];
        }
    }
}
