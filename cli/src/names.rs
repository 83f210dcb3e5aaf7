//! Names in the registry, and other bytes, as hexadecimal digits on the command line.

use std::str::FromStr;

use alloy_primitives::hex;
use int_engine::commitment::keccak256;

/// So many bytes as `0x` and hexadecimal digits.
#[derive(Clone, Copy)]
pub(crate) struct Hex<const N: usize>(pub(crate) [u8; N]);

impl<const N: usize> FromStr for Hex<N> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bytes = hex::decode_to_array(text);
        bytes
            .map(Self)
            .map_err(|_| format!("must be 0x and {} hexadecimal digits", 2 * N))
    }
}

/// A name in the registry: 32 bytes, not all zero.
#[derive(Clone, Copy)]
pub(crate) struct Name(pub(crate) [u8; 32]);

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.parse::<Hex<32>>()?.0;
        if name == [0; 32] {
            return Err("is zero, which the registry refuses".into());
        }
        Ok(Self(name))
    }
}

/// The name of a text, for a model that will have upgrades.
pub(crate) fn text_name(text: &str) -> [u8; 32] {
    keccak256(text.as_bytes())
}

/// The name that is used when none is given.
pub(crate) fn default_name() -> [u8; 32] {
    text_name("blue")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_of_the_right_number() {
        for right in ["0x0aFf", "0aff"] {
            assert_eq!(right.parse::<Hex<2>>().unwrap().0, [0x0a, 0xff]);
        }
        for wrong in [
            "", "0x", "0x0af", "0x0affe", "0x0aff00", "0x0x0a", "+aff", "0x0ag0", " 0aff",
        ] {
            let said = wrong.parse::<Hex<2>>().err();
            assert_eq!(
                said.as_deref(),
                Some("must be 0x and 4 hexadecimal digits"),
                "{wrong}"
            );
        }
        assert!("00".repeat(32).parse::<Name>().is_err());
    }
}
