//! The example contracts for authors, deployed from their artifacts and run against a small model.

#![allow(clippy::too_many_arguments, reason = "made by a macro of interfaces")]

mod chain;
mod contracts;
mod oracle;
mod verified;

use chain::{Blob, Chain, small};
use contracts::Names;
use precompile::REGISTRY;
use revm::primitives::{Address, B256};

#[test]
fn names_are_those_of_the_crate() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::new(&[&blob]);
    let names = chain.deploy("Names", vec![]);
    for (model, version, quantisation) in [
        ("zenlm/zen-omni", 3, "int8"),
        ("", 0, ""),
        ("Qwen/Qwen3-0.6B", u64::MAX, "w8a8"),
    ] {
        let expected = precompile::model_spec_hash(model, version, blob.commitment, quantisation);
        let (model, quantisation) = (model.to_owned(), quantisation.to_owned());
        let commitment = B256::from(blob.commitment.0);
        let call = Names::nameOfCall {
            model: model.clone(),
            version,
            commitment,
            quantisation: quantisation.clone(),
        };
        assert_eq!(chain.view(names, &call), B256::from(expected));
        let active = Names::isActiveCall {
            model,
            version,
            commitment,
            quantisation,
        };
        assert!(!chain.view(names, &active));
        if version == 3 {
            chain.adopt(&expected, version, &blob);
            assert!(chain.view(names, &active));
            assert!(
                chain
                    .seen
                    .iter()
                    .all(|call| call.to == Address::from(REGISTRY))
            );
        }
    }
}
