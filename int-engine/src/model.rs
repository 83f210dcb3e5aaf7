//! A model's weights in memory, as the loader leaves them: every range of spec 4.5 holds and nothing changes after.

use crate::commitment::Commitment;
use crate::config::Config;
use crate::tiles::Tiles;

/// One linear layer: int8 weights with an integer requantisation per output channel (spec 3.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Linear {
    /// `[rows][cols]`, each in -127 ..= 127.
    pub weight: Tiles,
    /// Per row, 2^30 ..= 2^31 - 1.
    pub mult: Vec<i32>,
    /// Per row, -64 ..= 64.
    pub shift: Vec<i8>,
    /// Shift of the accumulator before requantisation, -5 ..= 0: [`pre_shift`] of `weight`.
    pub pre_shift: i32,
}

/// The constants of one layer in the static scheme (spec 3.2): what the inputs of its matrix products are quantised
/// by instead of their largest magnitudes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StaticScales {
    /// Largest value before the attention as a fraction of the row's root, in units of 2^-16, 1 ..= 2^16.
    pub attn_norm: u32,
    /// As `attn_norm`, before the MLP.
    pub mlp_norm: u32,
    /// Largest value of the o projection's input, 1 ..= 2^31 - 1.
    pub o: u32,
    /// Right shift of the gated activation before its rotation, 0 ..= 39.
    pub down_shift: u32,
    /// Largest value of the down projection's input, 1 ..= 2^31 - 1.
    pub down: u32,
}

/// One decoder layer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    /// Present exactly in models of the static scheme.
    pub static_scales: Option<StaticScales>,
    /// `[q_width][hidden]`.
    pub q: Linear,
    /// `[kv_width][hidden]`.
    pub k: Linear,
    /// `[kv_width][hidden]`.
    pub v: Linear,
    /// `[hidden][q_width]`.
    pub o: Linear,
    /// `[intermediate][hidden]`.
    pub gate: Linear,
    /// `[intermediate][hidden]`.
    pub up: Linear,
    /// `[hidden][intermediate]`.
    pub down: Linear,
    /// `[head_dim]`, magnitude at most 32767 * 2^15; present exactly in models with q/k norm.
    pub q_gain: Option<Vec<i32>>,
    /// As `q_gain`, for keys.
    pub k_gain: Option<Vec<i32>>,
    /// 2^30 ..= 2^31 - 1.
    pub score_mult: i32,
    /// 0 ..= 61.
    pub score_shift: i32,
}

/// The embedding table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Embedding {
    /// `[vocab][hidden]`, each in -127 ..= 127.
    pub weight: Tiles,
    /// Per row, 2^30 ..= 2^31 - 1.
    pub mult: Vec<i32>,
    /// Per row, -64 ..= 64.
    pub shift: Vec<i8>,
}

/// The output head, `[vocab][hidden]`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// Its own weights, or `None` when the head is tied to the embedding table; [`Model::head_weight`] resolves it.
    pub weight: Option<Tiles>,
    /// Per row, 2^30 ..= 2^31 - 1.
    pub mult: Vec<i32>,
    /// Per row, -64 ..= 64.
    pub shift: Vec<i8>,
    /// [`pre_shift`] of the head's weights.
    pub pre_shift: i32,
}

/// A loaded model. Made only by [`Loader`](crate::blob::Loader) and [`Model::from_bytes`].
#[derive(Clone, PartialEq, Eq)]
pub struct Model {
    pub(crate) config: Config,
    pub(crate) embed: Embedding,
    pub(crate) rope_phase: Vec<u64>,
    pub(crate) layers: Vec<Layer>,
    pub(crate) final_gain: Vec<i16>,
    pub(crate) head: Head,
    pub(crate) commitment: Commitment,
    pub(crate) tokenizer_digest: [u8; 32],
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) blob_len: u64,
}

impl Model {
    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The embedding table.
    #[must_use]
    pub fn embed(&self) -> &Embedding {
        &self.embed
    }

    /// `[head_dim / 2]` rotary frequencies as fractions of a turn in units of 2^-64 (spec 1.9).
    #[must_use]
    pub fn rope_phase(&self) -> &[u64] {
        &self.rope_phase
    }

    /// The decoder layers in order.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// `[hidden]` gains of the final norm, -32767 ..= 32767.
    #[must_use]
    pub fn final_gain(&self) -> &[i16] {
        &self.final_gain
    }

    /// The output head.
    #[must_use]
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// The head's weights, `[vocab][hidden]`: its own, or the embedding table's when tied.
    #[must_use]
    pub fn head_weight(&self) -> &Tiles {
        self.head.weight.as_ref().unwrap_or(&self.embed.weight)
    }

    /// The commitment of the blob that the model was loaded from (spec 5).
    #[must_use]
    pub fn commitment(&self) -> Commitment {
        self.commitment
    }

    /// Lineage for people, keys strictly ascending; no rule reads it.
    #[must_use]
    pub fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    /// Keccak-256 of the tokenizer file that belongs to the model; zeros if none.
    #[must_use]
    pub fn tokenizer_digest(&self) -> [u8; 32] {
        self.tokenizer_digest
    }

    /// Length in bytes of the blob that the model was loaded from.
    #[must_use]
    pub fn blob_len(&self) -> u64 {
        self.blob_len
    }
}

impl std::fmt::Debug for Model {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Model")
            .field("config", &self.config)
            .field("commitment", &self.commitment)
            .field("blob_len", &self.blob_len)
            .finish_non_exhaustive()
    }
}

/// The accumulator shift of a weight matrix (spec 4.5): max(-5, bl(127 * R) - 31), R the largest row sum of absolute
/// weights. It is the largest left shift, up to 5, that keeps every accumulator below 2^31.
///
/// `weights` is row-major with `cols` columns.
///
/// # Panics
/// When `cols` is 0.
#[must_use]
pub fn pre_shift(weights: &[i8], cols: usize) -> i32 {
    pre_shift_of(
        weights
            .chunks(cols)
            .map(|row| abs_sum(row, |w| w))
            .max()
            .unwrap_or(0),
    )
}

/// Sum of absolute weights. 256 of them are at most 256 * 128 = 2^15, so uint16 sums of blocks are exact.
pub(crate) fn abs_sum<T: Copy>(row: &[T], weight: impl Fn(T) -> i8) -> u64 {
    let block = |b: &[T]| {
        b.iter()
            .map(|&w| u16::from(weight(w).unsigned_abs()))
            .sum::<u16>()
    };
    row.chunks(256).map(|b| u64::from(block(b))).sum()
}

/// [`pre_shift`] from the largest row sum of absolute weights, at most 65536 * 128.
pub(crate) fn pre_shift_of(largest_row_sum: u64) -> i32 {
    let bits = (64 - (127 * largest_row_sum).leading_zeros()) as i32;
    (bits - 31).max(-5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pre_shift_at_its_steps() {
        // |acc| <= 127 * R < 2^(31 + psh), and one shift more would break it unless the cap of 5 is reached.
        for r in [
            0u64,
            1,
            528_416,
            528_417,
            1_056_832,
            1_056_833,
            4_227_330,
            4_227_331,
            65536 * 127,
        ] {
            let psh = pre_shift_of(r);
            assert!((-5..=0).contains(&psh), "{r}");
            assert!(127 * r < 1 << (31 + psh), "{r}");
            assert!(psh == -5 || 127 * r >= 1 << (30 + psh), "{r}");
        }
        assert_eq!(pre_shift_of(528_416), -5);
        assert_eq!(pre_shift_of(528_417), -4);
        assert_eq!(pre_shift_of(65536 * 127), -1);
    }

    #[test]
    fn pre_shift_takes_the_largest_row() {
        let cols = 4200;
        let mut weights = vec![0i8; 3 * cols];
        assert_eq!(pre_shift(&weights, cols), -5);
        weights[cols..2 * cols].fill(-127);
        assert_eq!(pre_shift(&weights, cols), -4);
        // The same weights in rows of half the length stay under the first step.
        assert_eq!(pre_shift(&weights, cols / 2), -5);
    }
}
