//! Why an execution failed, in words.

use alloy_primitives::{U256, hex};
use precompile::{Refusal, selector};
use revm::context::result::HaltReason;

/// The error of Solidity's `require` and `revert` with a text.
const ERROR: &str = "Error(string)";
/// The error of Solidity's own checks.
const PANIC: &str = "Panic(uint256)";
/// The error of the precompiles.
const REFUSED: &str = "Refused(uint16)";
/// Most characters of a contract's text that are repeated.
const LONGEST: usize = 1024;

fn refusal(refusal: Refusal) -> String {
    let (number, name) = (refusal.number(), refusal.name());
    format!("Refused({number}) {name}: {refusal}")
}

fn word(data: &[u8], index: usize) -> Option<U256> {
    let at = index.checked_mul(32)?;
    let bytes = data.get(at..at.checked_add(32)?)?;
    Some(U256::from_be_slice(bytes))
}

fn number(word: U256) -> Option<usize> {
    usize::try_from(word).ok()
}

/// The text of an ABI-encoded string that stands alone.
fn text(args: &[u8]) -> Option<String> {
    let at = number(word(args, 0)?)?;
    let body = args.get(at..)?;
    let len = number(word(body, 0)?)?;
    let bytes = body.get(32..)?.get(..len)?;
    let text = String::from_utf8_lossy(bytes);
    Some(text.chars().take(LONGEST).collect())
}

/// What the data of a revert says; `None` for data that only its contract knows.
fn known(data: &[u8]) -> Option<String> {
    let (head, args) = data.split_first_chunk::<4>()?;
    if *head == selector(REFUSED) {
        let number = u16::try_from(number(word(args, 0)?)?).ok()?;
        return Refusal::of_number(number).map(refusal);
    }
    if *head == selector(ERROR) {
        return text(args);
    }
    if *head == selector(PANIC) {
        return word(args, 0).map(|code| format!("panic: code {code:#x}"));
    }
    None
}

/// A revert with this data.
pub(super) fn reverted(data: &[u8]) -> String {
    let mut said = "execution reverted".to_owned();
    match known(data) {
        Some(reason) => said = format!("{said}: {reason}"),
        None if data.len() >= 4 => {
            said = format!("{said}: custom error {}", hex::encode_prefixed(&data[..4]));
        }
        None => {}
    }
    said
}

/// A halt: all gas is gone.
pub(super) fn halted(reason: &HaltReason) -> String {
    match reason {
        HaltReason::OutOfGas(_) => "out of gas".to_owned(),
        HaltReason::PrecompileErrorWithContext(name) => match Refusal::of_name(name) {
            Some(known) => format!("execution halted: {}", refusal(known)),
            None => format!("execution halted: {name}"),
        },
        HaltReason::InvalidFEOpcode => "invalid opcode: INVALID".to_owned(),
        other => format!("execution halted: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known() {
        let refused = precompile::revert_data(Refusal::NotActive);
        let expected = "execution reverted: Refused(15) NotActive: another commitment is active under the name";
        assert_eq!(reverted(&refused), expected);
        assert_eq!(reverted(&[]), "execution reverted");
        assert_eq!(
            reverted(&[1, 2, 3, 4]),
            "execution reverted: custom error 0x01020304"
        );
        let mut error = selector(ERROR).to_vec();
        error.extend(U256::from(32).to_be_bytes::<32>());
        error.extend(U256::from(2).to_be_bytes::<32>());
        error.extend([b'n', b'o']);
        assert_eq!(reverted(&error), "execution reverted: no");
        let halt = HaltReason::PrecompileErrorWithContext("NotCanonical".into());
        assert!(halted(&halt).starts_with("execution halted: Refused(4) NotCanonical: "));
    }

    #[test]
    fn hostile_strings() {
        for len in [u64::MAX, 3, 1 << 40] {
            for at in [32u64, 31, u64::MAX, 1 << 33] {
                let mut error = selector(ERROR).to_vec();
                error.extend(U256::from(at).to_be_bytes::<32>());
                error.extend(U256::from(len).to_be_bytes::<32>());
                assert!(reverted(&error).starts_with("execution reverted"));
            }
        }
    }
}
