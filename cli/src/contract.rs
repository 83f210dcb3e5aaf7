//! The ABI of what is called over a node's RPC: the registry's views, contracts that answer, and what calls revert with.

use alloy_primitives::{Address, B256, hex};
use alloy_sol_types::{SolCall, SolEvent, SolInterface, sol};
use precompile::Refusal;

use crate::rpc::Log;

sol! {
    /// Views of the registry, by their results.
    interface Registry {
        function getApproved(bytes32 name) external view returns (uint256 version, bytes32 commitment);
        function record(bytes32 commitment) external view returns (
            uint32[9] memory sizes, uint8 scheme, bool qkNorm, bool tied, uint64 eps, uint64 totalLen,
            uint32 manifestLen, bytes32 tokenizerDigest, uint32[] memory stopIds);
    }

    /// A contract that answers in the transaction that asks, as `precompile/solidity/examples/Oracle.sol`.
    interface Oracle {
        event Answered(uint256 indexed id, address indexed asker, uint32[] prompt, uint32[] tokens, bool complete);
        function name() external view returns (bytes32);
        function commitment() external view returns (bytes32);
        function ask(uint32[] calldata prompt, uint32 maxNewTokens) external returns (uint256 id);
    }

    /// A contract whose `ask` is a view and returns the answer, as the one in `precompile/solidity/README.md`.
    interface View {
        function ask(uint32[] calldata prompt, uint32 maxNewTokens) external view returns (uint32[] memory);
    }

    /// What the contract in `precompile/solidity/README.md` reverts with, beside `TooLittleGas`.
    interface ViewReverts {
        error ModelChanged();
        error Refusal(uint16 number);
    }

    /// What the precompiles and the example contracts revert with, and Solidity itself.
    interface Reverts {
        error Refused(uint16 number);
        error QuestionRefused(uint16 number);
        error ModelChanged(uint16 number);
        error TooLittleGas(uint256 needed, uint256 left);
        error NoInference();
        error Error(string message);
        error Panic(uint256 code);
    }
}

/// An answer that a contract gave.
pub(crate) struct Answered {
    pub(crate) id: String,
    pub(crate) tokens: Vec<u32>,
    pub(crate) complete: bool,
}

/// The event `Answered` for `asker`'s `prompt` among the events of a transaction.
pub(crate) fn answered(
    logs: &[Log],
    contract: Address,
    asker: Address,
    prompt: &[u32],
) -> Option<Answered> {
    let ours = logs.iter().filter(|log| log.address == contract);
    let mut events = ours.filter_map(|log| {
        Oracle::Answered::decode_raw_log_validate(log.topics.iter().copied(), &log.data).ok()
    });
    let event = events.find(|e| e.asker == asker && e.prompt == prompt)?;
    Some(Answered {
        id: event.id.to_string(),
        tokens: event.tokens,
        complete: event.complete,
    })
}

/// Calldata of a contract's `ask`.
pub(crate) fn ask(prompt: &[u32], max_new: u32) -> Vec<u8> {
    let prompt = prompt.to_vec();
    Oracle::askCall {
        prompt,
        maxNewTokens: max_new,
    }
    .abi_encode()
}

/// The ids that an `ask` returns which is a view. One word is a number: the decoder takes zero for an empty list.
pub(crate) fn viewed(output: &[u8]) -> Option<Vec<u32>> {
    if output.len() < 64 {
        return None;
    }
    View::askCall::abi_decode_returns_validate(output).ok()
}

/// The one word that a getter returns.
pub(crate) fn word(output: &[u8]) -> Option<B256> {
    (output.len() == 32).then(|| B256::from_slice(output))
}

/// Why a call reverted.
pub(crate) struct Reverted {
    /// The refusal of a precompile, where one is behind it.
    pub(crate) refusal: Option<Refusal>,
    /// One line for people.
    pub(crate) said: String,
}

impl Reverted {
    /// Reads what a call reverted with.
    pub(crate) fn of(data: &[u8]) -> Self {
        let unknown = |said: String| Self {
            refusal: None,
            said,
        };
        if data.is_empty() {
            return unknown("reverted without a reason".into());
        }
        if let Ok(error) = ViewReverts::ViewRevertsErrors::abi_decode_validate(data) {
            return match error {
                ViewReverts::ViewRevertsErrors::Refusal(e) => {
                    Self::refused(e.number, "the contract says Refusal: ")
                }
                ViewReverts::ViewRevertsErrors::ModelChanged(_) => unknown(
                    "the contract says ModelChanged: the model that it asks is not active".into(),
                ),
            };
        }
        let Ok(error) = Reverts::RevertsErrors::abi_decode_validate(data) else {
            let shown = hex::encode_prefixed(&data[..data.len().min(68)]);
            return unknown(format!("reverted with {shown}"));
        };
        use Reverts::RevertsErrors as E;
        let (number, by) = match error {
            E::Refused(e) => (e.number, ""),
            E::QuestionRefused(e) => (e.number, "the contract says QuestionRefused: "),
            E::ModelChanged(e) => (e.number, "the contract says ModelChanged: "),
            E::TooLittleGas(e) => {
                return unknown(format!(
                    "the contract says TooLittleGas: it needs {}, {} are left",
                    e.needed, e.left
                ));
            }
            E::NoInference(_) => {
                return unknown(
                    "the contract says NoInference: the call ended without saying why".into(),
                );
            }
            E::Error(e) => return unknown(format!("reverted: {}", crate::rpc::shown(&e.message))),
            E::Panic(e) => return unknown(format!("reverted with Panic({})", e.code)),
        };
        Self::refused(number, by)
    }

    /// One line of JSON: the refusal (its number and name, or null), the reason, and the data.
    pub(crate) fn json(&self, data: &[u8]) -> serde_json::Value {
        let refusal = |r: Refusal| serde_json::json!({"number": r.number(), "name": r.name()});
        serde_json::json!({
            "refused": self.refusal.map(refusal),
            "reason": self.said,
            "data": hex::encode_prefixed(data),
        })
    }

    fn refused(number: u16, by: &str) -> Self {
        let refusal = Refusal::of_number(number);
        let said = match refusal {
            Some(refusal) => format!(
                "{by}refused with number {number}, {}: {refusal}",
                refusal.name()
            ),
            None => format!("{by}refused with number {number}, which this version does not know"),
        };
        Self { refusal, said }
    }
}

#[cfg(test)]
mod tests {
    use alloy_primitives::{Bytes, U256};
    use alloy_sol_types::SolError;

    use super::*;

    const CONTRACT: Address = Address::repeat_byte(1);
    const ASKER: Address = Address::repeat_byte(2);

    fn event(asker: Address, prompt: &[u32]) -> Log {
        let event = Oracle::Answered {
            id: U256::from(7),
            asker,
            prompt: prompt.to_vec(),
            tokens: vec![5, u32::MAX],
            complete: true,
        }
        .encode_log_data();
        Log {
            address: CONTRACT,
            topics: event.topics().to_vec(),
            data: event.data,
        }
    }

    fn found(logs: &[Log]) -> Option<Answered> {
        answered(logs, CONTRACT, ASKER, &[1, 2])
    }

    #[test]
    fn the_event_of_the_question_is_found() {
        let mut foreign = event(ASKER, &[1, 2]);
        foreign.address = ASKER;
        let others = [foreign, event(CONTRACT, &[1, 2]), event(ASKER, &[1])];
        assert!(found(&others).is_none());
        let [a, b, c] = others;
        let answer = found(&[a, b, c, event(ASKER, &[1, 2])]).unwrap();
        assert_eq!(
            (&answer.id[..], &answer.tokens[..]),
            ("7", &[5, u32::MAX][..])
        );
        assert!(answer.complete);
    }

    /// Where a word is not the one that `abi.encode` writes, the event is none.
    #[test]
    fn hostile_events_are_none() {
        let good = event(ASKER, &[1, 2]);
        let with = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut data = good.data.to_vec();
            change(&mut data);
            found(&[Log {
                address: CONTRACT,
                topics: good.topics.clone(),
                data: data.into(),
            }])
        };
        assert!(with(&|_| {}).is_some());
        for cut in 0..good.data.len() {
            assert!(with(&|data| data.truncate(cut)).is_none(), "{cut}");
        }
        // Every byte but the low ones of the tokens is checked by the form.
        let tokens = good.data.len() - 64;
        for at in 0..good.data.len() {
            let free = at >= tokens && at % 32 >= 28;
            assert_eq!(with(&|data| data[at] ^= 0xFF).is_some(), free, "{at}");
        }
        for at in (0..good.data.len()).step_by(32) {
            let huge = with(&|data| data[at..at + 32].fill(0xFF));
            assert!(huge.is_none(), "{at}");
        }
        for topics in [vec![], good.topics[..2].to_vec(), vec![B256::ZERO; 3]] {
            let log = Log {
                address: CONTRACT,
                topics,
                data: Bytes::from(good.data.to_vec()),
            };
            assert!(found(&[log]).is_none());
        }
    }

    #[test]
    fn reverts_are_told_in_words() {
        let refused = precompile::revert_data(Refusal::NotActive);
        let reverted = Reverted::of(&refused);
        assert_eq!(reverted.refusal, Some(Refusal::NotActive));
        assert!(reverted.said.contains("number 15, NotActive"));
        let changed = Reverts::ModelChanged { number: 14 }.abi_encode();
        let reverted = Reverted::of(&changed);
        assert_eq!(reverted.refusal, Some(Refusal::NoActiveModel));
        assert!(reverted.said.contains("ModelChanged"));
        let view = ViewReverts::Refusal { number: 11 }.abi_encode();
        let reverted = Reverted::of(&view);
        assert_eq!(reverted.refusal, Some(Refusal::TokenOutOfRange));
        assert!(reverted.said.contains("Refusal: refused with number 11"));
        for (data, named) in [
            (vec![], "without a reason"),
            (vec![1, 2, 3], "0x010203"),
            (vec![9; 5000], "0x0909"),
            (refused[..35].to_vec(), "reverted with"),
            (Reverts::Refused { number: 999 }.abi_encode(), "999"),
            (Reverts::NoInference {}.abi_encode(), "NoInference"),
            (ViewReverts::ModelChanged {}.abi_encode(), "not active"),
            (
                Reverts::Error {
                    message: "no\u{1b}[2J".into(),
                }
                .abi_encode(),
                "no [2J",
            ),
            (
                Reverts::TooLittleGas {
                    needed: U256::from(9),
                    left: U256::from(8),
                }
                .abi_encode(),
                "needs 9, 8 are left",
            ),
        ] {
            let reverted = Reverted::of(&data);
            assert!(reverted.refusal.is_none());
            assert!(reverted.said.contains(named), "{}", reverted.said);
            assert!(reverted.said.len() < 300);
        }
    }
}
