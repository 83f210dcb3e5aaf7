//! Values on the command line, told in words where they are not what is meant.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;

use alloy_primitives::Address;

use crate::names::Hex;

/// Largest [`count`].
const MAX_COUNT: u64 = 1 << 20;

/// A whole number of a range, in decimal digits.
pub(crate) fn whole<T>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync
where
    T: TryFrom<u64>,
{
    move |text| {
        let refused = || {
            let (first, last) = (range.start(), range.end());
            format!("must be a whole number from {first} to {last}")
        };
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        let number = text
            .parse::<u64>()
            .ok()
            .filter(|n| digits && range.contains(n));
        let number = number.and_then(|n| T::try_from(n).ok());
        number.ok_or_else(refused)
    }
}

/// A count that is not zero, such as of connections.
pub(crate) fn count<T: TryFrom<NonZeroUsize>>(text: &str) -> Result<T, String> {
    let number = NonZeroUsize::new(whole(1..=MAX_COUNT)(text)?);
    let number = number.and_then(|n| T::try_from(n).ok());
    number.ok_or_else(|| format!("must be a whole number from 1 to {MAX_COUNT}"))
}

/// The number of a block.
pub(crate) fn block(text: &str) -> Result<u64, String> {
    let number = whole(0..=u64::MAX)(text);
    number.map_err(|_| "must be a block's number; without it the newest is asked".into())
}

/// An account's address.
pub(crate) fn address(text: &str) -> Result<Address, String> {
    text.parse::<Hex<20>>().map(|hex| Address::new(hex.0))
}

/// An address of this machine.
pub(crate) fn host(text: &str) -> Result<IpAddr, String> {
    or_said(
        text,
        "must be an IP address, such as 127.0.0.1 for this machine or 0.0.0.0 for all",
    )
}

/// An address of this machine with a port.
pub(crate) fn listen(text: &str) -> Result<SocketAddr, String> {
    or_said(
        text,
        "must be an IP address with a port, such as 127.0.0.1:9000",
    )
}

fn or_said<T: std::str::FromStr>(text: &str, said: impl Display) -> Result<T, String> {
    text.parse().map_err(|_| said.to_string())
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    #[test]
    fn values_outside_are_told_in_words() {
        assert_eq!(whole::<u16>(1..=65_535)("65535"), Ok(65_535));
        for bad in ["0", "65536", "1.5", "-1", "+1", "", "1e3", "x"] {
            let said = whole::<u16>(1..=65_535)(bad).unwrap_err();
            assert_eq!(said, "must be a whole number from 1 to 65535", "{bad}");
        }
        assert_eq!(count("256"), Ok(NonZeroUsize::new(256).unwrap()));
        assert!(count::<NonZeroU32>("0").unwrap_err().contains("from 1"));
        assert_eq!(block("0"), Ok(0));
        assert!(block("latest").unwrap_err().contains("newest"));
        assert!(host("localhost").unwrap_err().contains("127.0.0.1"));
        assert!(listen("8545").unwrap_err().contains("port"));
        assert_eq!(
            address(&format!("0x{}", "11".repeat(20))),
            Ok(Address::repeat_byte(0x11))
        );
        for bad in [
            "0x1234",
            "",
            "0x",
            &"zz".repeat(20),
            &format!("0x0x{}", "11".repeat(19)),
        ] {
            assert!(address(bad).unwrap_err().contains("40"), "{bad}");
        }
    }
}
