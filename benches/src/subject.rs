//! A model that is measured, and how much work its tokens are.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;

use int_engine::blob::Loader;
use int_engine::model::{Layer, Linear, Model};
use int_engine::read::ReadAt;

use crate::Error;

/// A loaded model with a name.
pub struct Subject {
    /// What tables call it.
    pub name: String,
    /// The model.
    pub model: Arc<Model>,
}

/// The matrices of a layer that read the same inputs, in the order of use.
#[must_use]
pub fn products(layer: &Layer) -> [Vec<&Linear>; 4] {
    [
        vec![&layer.q, &layer.k, &layer.v],
        vec![&layer.o],
        vec![&layer.gate, &layer.up],
        vec![&layer.down],
    ]
}

/// Loads a blob: bytes in memory, or a file, which `threads` threads read.
///
/// # Errors
/// The loader's.
pub fn load<S: ReadAt + ?Sized>(
    name: &str,
    loader: Loader,
    source: &S,
    len: u64,
    threads: NonZeroUsize,
) -> Result<Model, Error> {
    let loaded = loader.load(source, len, threads, |_| ());
    loaded.map_err(|error| Error::Load {
        name: name.to_owned(),
        error,
    })
}

/// A file and its length.
///
/// # Errors
/// [`Error::File`].
pub fn open(path: &Path) -> Result<(File, u64), Error> {
    let opened = File::open(path).and_then(|file| {
        let len = file.metadata()?.len();
        Ok((file, len))
    });
    opened.map_err(|error| Error::File {
        path: path.to_owned(),
        error,
    })
}

/// Loads a blob file as a node does.
///
/// # Errors
/// The loader's, and [`Error::File`].
pub fn load_file(path: &Path, loader: Loader, threads: NonZeroUsize) -> Result<Model, Error> {
    let (file, len) = open(path)?;
    load(&path.display().to_string(), loader, &file, len, threads)
}

fn weights_of(matrix: &Linear) -> usize {
    matrix.weight.rows() * matrix.weight.cols()
}

impl Subject {
    /// A blob in memory, loaded.
    ///
    /// # Errors
    /// As [`load`].
    pub fn new(name: &str, blob: &[u8]) -> Result<Self, Error> {
        let threads = NonZeroUsize::MIN;
        let model = load(name, Loader::new(), blob, blob.len() as u64, threads)?;
        Ok(Self::of(name, model))
    }

    /// A model with a name.
    #[must_use]
    pub fn of(name: &str, model: Model) -> Self {
        Self {
            name: name.to_owned(),
            model: Arc::new(model),
        }
    }

    /// Weights of all layers: each is used once for every token. One byte each.
    #[must_use]
    pub fn layer_weights(&self) -> f64 {
        let layers = self.model.layers().iter();
        let sum: usize = layers
            .flat_map(|layer| products(layer).into_iter().flatten())
            .map(weights_of)
            .sum();
        sum as f64
    }

    /// Weights of the head: each is used once for every token whose successor is asked for.
    #[must_use]
    pub fn head_weights(&self) -> f64 {
        let head = self.model.head_weight();
        (head.rows() * head.cols()) as f64
    }

    /// Bytes of keys and values of one token.
    #[must_use]
    pub fn kv_bytes(&self) -> f64 {
        let config = self.model.config();
        (2 * config.layers() * config.kv_heads() * config.head_dim()) as f64
    }

    /// Bytes that `tokens` decode steps after `context` tokens read: all weights, and keys and values of every position
    /// so far.
    #[must_use]
    pub fn decode_bytes(&self, context: usize, tokens: usize) -> f64 {
        let n = tokens as f64;
        let positions = n * context as f64 + n * (n + 1.0) / 2.0;
        n * (self.layer_weights() + self.head_weights()) + positions * self.kv_bytes()
    }

    /// Multiplications and additions of the products with weights for a prompt of `tokens` tokens, of which the last
    /// goes through the head.
    #[must_use]
    pub fn prefill_operations(&self, tokens: usize) -> f64 {
        2.0 * (tokens as f64 * self.layer_weights() + self.head_weights())
    }

    /// The token of a position: SplitMix64 (Steele, Lea, Flood 2014) of the position, reduced to the accepted ids.
    #[must_use]
    pub fn token_at(&self, position: usize) -> u32 {
        let mut z = (position as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % self.model.config().accepted_ids() as u64) as u32
    }

    /// The first `tokens` tokens.
    #[must_use]
    pub fn prompt(&self, tokens: usize) -> Vec<u32> {
        (0..tokens).map(|i| self.token_at(i)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{blob, tests::small};

    #[test]
    fn work_is_counted() {
        let config = small(true, true);
        let toy = Subject::new("small", &blob(&config).unwrap()).unwrap();
        let (n, q, kv) = (config.hidden(), config.q_width(), config.kv_width());
        let layer = n * (2 * q + 2 * kv + 3 * config.intermediate());
        assert_eq!(toy.layer_weights(), (config.layers() * layer) as f64);
        let all = toy.layer_weights() + toy.head_weights();
        let kv = toy.kv_bytes();
        assert_eq!(toy.decode_bytes(5, 2), 2.0 * all + (6.0 + 7.0) * kv);
        assert_eq!(toy.prefill_operations(1), 2.0 * all);
        let limit = config.accepted_ids() as u32;
        assert!(toy.prompt(100).into_iter().all(|id| id < limit));
    }
}
