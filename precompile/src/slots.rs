//! Keys of the registry's storage (spec 6.4): SHA-256 of a tag and what the slot is about.

use crate::word::{Address, Word};
use sha2::{Digest, Sha256};

fn key(tag: &str, parts: &[&[u8]]) -> Word {
    let mut hasher = Sha256::new_with_prefix(tag);
    parts.iter().for_each(|part| hasher.update(part));
    hasher.finalize().into()
}

/// 1 for an admin.
#[must_use]
pub fn admin(address: &Address) -> Word {
    key("adm", &[address])
}

/// The active version of a name.
#[must_use]
pub fn version(name: &Word) -> Word {
    key("mv", &[name])
}

/// The active commitment of a name, zero for none.
#[must_use]
pub fn commitment(name: &Word) -> Word {
    key("mw", &[name])
}

/// The commitment of a name that inference serves, zero for none.
#[must_use]
pub fn served(name: &Word) -> Word {
    key("blue.srv", &[name])
}

/// The governance word.
#[must_use]
pub fn governance() -> Word {
    key("blue.gov", &[])
}

/// Word `index` of the record of a commitment, 0 ..= 4.
#[must_use]
pub fn record(commitment: &Word, index: u8) -> Word {
    key("blue.rec", &[commitment, &[index]])
}

/// The largest version of a name that ever passed.
#[must_use]
pub fn highest(name: &Word) -> Word {
    key("blue.top", &[name])
}

/// What waits for activation under a name: 0 version and block, 1 commitment.
#[must_use]
pub fn pending(name: &Word, index: u8) -> Word {
    key("blue.pnd", &[name, &[index]])
}

/// 1 for a revoked version.
#[must_use]
pub fn revoked(name: &Word, version: u64) -> Word {
    key("blue.rev", &[name, &version.to_be_bytes()])
}

/// The votes of an action.
#[must_use]
pub fn tally(action: &Word) -> Word {
    key("blue.tly", &[action])
}

/// 1 for an admin's vote in a round.
#[must_use]
pub fn vote(action: &Word, round: u64, admin: &Address) -> Word {
    key("blue.vot", &[action, &round.to_be_bytes(), admin])
}

/// The number of activations.
#[must_use]
pub fn activation_count() -> Word {
    key("blue.cnt", &[])
}

/// An activation: 0 name, 1 commitment, 2 version and block.
#[must_use]
pub fn activation(index: u64, part: u8) -> Word {
    key("blue.act", &[&index.to_be_bytes(), &[part]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::of_u64;
    use int_engine::commitment::Commitment;

    /// The slots of the registry that exists on other chains.
    #[test]
    fn published_slots() {
        let mut caller = [0; 20];
        caller[19] = 0xA1;
        let name = of_u64(1);
        for (slot, expected) in [
            (
                admin(&caller),
                "0x1b008afa4aa1ed15a87c1c0a6811b61d26d57c311d618395d3892b1ee4ebc119",
            ),
            (
                version(&name),
                "0x3fb2615003335f00c62495689f7b7af01ee17f77bdde8e55ab0bb633625a8c41",
            ),
            (
                commitment(&name),
                "0x560a60af8a5ca6c011ac62def4ae2d8500ee3f54332f537a0ca1ba92145c483f",
            ),
        ] {
            assert_eq!(Commitment(slot).to_string(), expected);
        }
    }
}
