//! Names of models as the existing SDK forms them.

use crate::word::Word;
use int_engine::commitment::{Commitment, keccak256};

/// The registry name of a model's specification: Keccak-256 of a domain and the parts, each text after its length.
///
/// The registry takes any name but zero; this one binds the model's published name, its version, the commitment of its
/// weights and how they are quantised.
///
/// # Panics
/// Never for texts shorter than 4 GiB.
#[must_use]
pub fn model_spec_hash(name: &str, version: u64, weights: Commitment, quantisation: &str) -> Word {
    let length = |text: &str| {
        u32::try_from(text.len())
            .expect("a text shorter than 4 GiB")
            .to_be_bytes()
    };
    keccak256(
        &[
            &b"lux/aivmbridge/modelspec/v1"[..],
            &length(name),
            name.as_bytes(),
            &version.to_be_bytes(),
            &weights.0,
            &length(quantisation),
            quantisation.as_bytes(),
        ]
        .concat(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_name() {
        let mut weights = [0; 32];
        for part in weights.chunks_exact_mut(8) {
            part.copy_from_slice(&0xabcd_ef12_3456_7890u64.to_be_bytes());
        }
        let hash = model_spec_hash("zenlm/zen-omni", 3, Commitment(weights), "int8");
        assert_eq!(
            Commitment(hash).to_string(),
            "0xd8ab4fca51f36de6db2efd1a7a022fef6943de8d9986ae8ca3f4db70f318b4a7"
        );
    }
}
