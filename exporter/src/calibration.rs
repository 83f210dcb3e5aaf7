//! The tokens that activations are measured on.

use crate::error::CalibrationError;
use crate::random::SplitMix;
use float_engine::config::ModelConfig;
use float_engine::tokenizer::{Tokenizer, TokenizerError};
use sha2::{Digest, Sha256};

/// The bundled text; `data/README.md` says where it is from.
pub const TEXT: &str = include_str!("../data/calibration.txt");
/// Tokens of a bundled window.
pub const WINDOW: usize = 512;
/// Most windows taken from the bundled text.
pub const MAX_WINDOWS: usize = 12;

/// Cuts `ids` into windows of [`WINDOW`] tokens, the last one possibly shorter, and keeps at most
/// [`MAX_WINDOWS`] of them, evenly spaced.
///
/// A window is at most `max_context` tokens long.
pub fn windows(ids: &[u32], max_context: usize) -> Vec<Vec<u32>> {
    let all: Vec<&[u32]> = ids.chunks(WINDOW.min(max_context.max(1))).collect();
    let kept = all.len().min(MAX_WINDOWS);
    (0..kept)
        .map(|i| all[i * all.len() / kept].to_vec())
        .collect()
}

/// Windows of the bundled text in the model's own tokens.
///
/// # Errors
/// A tokenizer that cannot encode the text.
pub fn bundled(tokenizer: &Tokenizer, max_context: usize) -> Result<Vec<Vec<u32>>, TokenizerError> {
    Ok(windows(&tokenizer.encode(TEXT)?, max_context))
}

/// Windows of seeded random ids, for a model without a tokenizer.
///
/// # Panics
/// When `vocab` is 0.
pub fn random_windows(seed: u64, vocab: usize, count: usize, len: usize) -> Vec<Vec<u32>> {
    assert!(vocab > 0, "a vocabulary has at least one id");
    let mut random = SplitMix::new(seed);
    (0..count)
        .map(|_| (0..len).map(|_| random.below(vocab) as u32).collect())
        .collect()
}

/// SHA-256 over the windows and their lengths.
pub(crate) fn digest(windows: &[Vec<u32>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    hash.update((windows.len() as u64).to_le_bytes());
    for w in windows {
        hash.update((w.len() as u64).to_le_bytes());
        for id in w {
            hash.update(id.to_le_bytes());
        }
    }
    hash.finalize().into()
}

pub(crate) fn check(windows: &[Vec<u32>], c: &ModelConfig) -> Result<(), CalibrationError> {
    if windows.is_empty() {
        return Err(CalibrationError::NoWindows);
    }
    for (window, w) in windows.iter().enumerate() {
        if w.is_empty() {
            return Err(CalibrationError::EmptyWindow(window));
        }
        if w.len() > c.max_context {
            return Err(CalibrationError::TooLong {
                window,
                len: w.len(),
                max: c.max_context,
            });
        }
        if let Some(&id) = w.iter().find(|&&id| id as usize >= c.vocab) {
            return Err(CalibrationError::TokenOutOfRange {
                window,
                id,
                vocab: c.vocab,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_cut_and_spread() {
        let ids: Vec<u32> = (0..20 * 512 + 7).collect();
        let w = windows(&ids, 4096);
        assert_eq!(w.len(), MAX_WINDOWS);
        assert!(w.iter().all(|w| w.len() == WINDOW));
        // Window 11 of 21: 11 * 21 / 12 = 19.
        assert_eq!(w[11][0], 19 * 512);
        assert_eq!(
            windows(&ids[..600], 4096)
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>(),
            [512, 88]
        );
        assert_eq!(windows(&ids[..600], 100).len(), 6);
        assert!(windows(&[], 100).is_empty());
    }
}
