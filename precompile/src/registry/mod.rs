//! The model registry (spec 6.5).

mod legacy;
mod views;
mod votes;
mod writes;

pub use votes::{Action, Governance};

use crate::abi::Args;
use crate::gas;
use crate::host::{Call, Host, Outcome};
use crate::refusal::{Refusal, Stop, require};

/// Declares the functions once: selector, signature, reads, writes, gas of events.
macro_rules! functions {
    ($($name:ident $selector:literal $signature:literal $reads:literal $writes:literal $events:expr;)*) => {
        /// A function of the registry with a selector of the ABI.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[allow(missing_docs, reason = "the names are the functions' own")]
        pub enum Function { $($name,)* }

        impl Function {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The function of a selector.
            #[must_use]
            pub const fn of(selector: [u8; 4]) -> Option<Self> {
                match u32::from_be_bytes(selector) {
                    $($selector => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// The selector.
            #[must_use]
            pub const fn selector(self) -> [u8; 4] {
                let selector: u32 = match self { $(Self::$name => $selector,)* };
                selector.to_be_bytes()
            }

            /// The signature, as the selector is made of it.
            #[must_use]
            pub const fn signature(self) -> &'static str {
                match self { $(Self::$name => $signature,)* }
            }

            /// Whether it writes.
            #[must_use]
            pub const fn writes(self) -> bool {
                let writes: u64 = match self { $(Self::$name => $writes,)* };
                writes > 0
            }

            /// The price without calldata.
            #[must_use]
            pub const fn base_price(self) -> u64 {
                match self {
                    $(Self::$name => gas::CALL + $reads * gas::READ + $writes * gas::WRITE + $events,)*
                }
            }
        }
    };
}

/// An event with three topics and six words: Voted.
const VOTED: u64 = gas::event(3, 192);

functions! {
    Propose 0xaede_1209 "propose(bytes32,uint64,bytes32,bytes,bytes32[])" 6 10 VOTED + gas::event(4, 32);
    Approve 0xea2b_31ed "approve(bytes32,uint64,bytes32)" 8 5 VOTED + gas::event(4, 32);
    Activate 0x88c8_8aec "activate(bytes32,uint64)" 3 9 gas::event(4, 32);
    Revoke 0xaeeb_ee82 "revoke(bytes32,uint64)" 8 5 VOTED + gas::event(4, 0);
    SetAdmin 0x4b0b_ddd2 "setAdmin(address,bool)" 5 4 VOTED + gas::event(2, 64);
    SetQuorum 0xe329_fed7 "setQuorum(uint32)" 4 3 VOTED + gas::event(1, 64);
    Record 0xb5c6_45bd "record(bytes32)" 5 0 0;
    Activation 0x2eee_81a1 "activation(uint64)" 4 0 0;
    Pending 0x1808_eeb8 "pending(bytes32)" 2 0 0;
    HighestVersion 0xa375_5931 "highestVersion(bytes32)" 2 0 0;
    GetApproved 0xef27_0ee2 "getApproved(bytes32)" 2 0 0;
    IsAdmin 0x24d7_806c "isAdmin(address)" 1 0 0;
    Governance 0x5aa6_e675 "governance()" 1 0 0;
    IsRevoked 0x214d_eedd "isRevoked(bytes32,uint64)" 1 0 0;
    Tally 0xf6e2_2eb5 "tally(bytes32)" 1 0 0;
    ActivationCount 0x6af4_11cd "activationCount()" 1 0 0;
}

impl Function {
    /// The price of a call with so many bytes after the selector.
    #[must_use]
    pub fn price(self, bytes: usize) -> u64 {
        self.base_price().saturating_add(gas::input(bytes))
    }
}

/// Executes a call.
pub(crate) fn run(call: &Call<'_>, host: &mut dyn Host) -> Result<Outcome, crate::Fault> {
    let function = call.selector().and_then(Function::of);
    let price = match function {
        Some(function) => function.price(call.args().len()),
        None => legacy::price(call),
    };
    let done = match function {
        Some(function) => begin(call, price).and_then(|()| execute(function, call, host)),
        None => begin(call, price).and_then(|()| legacy::execute(call, host)),
    };
    match done {
        Ok(output) => Ok(Outcome::Return {
            gas_used: price,
            output,
        }),
        Err(Stop::Refused(refusal)) if function.is_none() || refusal.halts() => {
            Ok(Outcome::Halt { refusal })
        }
        Err(Stop::Refused(refusal)) => Ok(Outcome::Revert {
            gas_used: price,
            refusal,
        }),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// The checks that all functions begin with.
fn begin(call: &Call<'_>, price: u64) -> Result<(), Stop> {
    require(call.gas >= price, Refusal::OutOfGas)?;
    require(!call.value_sent, Refusal::ValueSent)?;
    require(call.direct, Refusal::NotDirect)?;
    Ok(())
}

fn execute(function: Function, call: &Call<'_>, host: &mut dyn Host) -> Result<Vec<u8>, Stop> {
    let allowed = !(function.writes() && call.is_static);
    require(allowed, Refusal::WriteInStaticCall)?;
    let caller = &call.caller;
    let args = |words| Args::new(call.args(), words);
    match function {
        Function::Propose => {
            let mut a = args(5);
            let (name, version, commitment) = (a.word()?, a.u64()?, a.word()?);
            let (record, proof) = (a.bytes()?, a.words()?);
            a.end()?;
            writes::propose(host, caller, &name, version, &commitment, record, &proof)
        }
        Function::Approve => {
            let mut a = args(3);
            let (name, version, commitment) = (a.word()?, a.u64()?, a.word()?);
            a.end()?;
            let governance = votes::as_admin(host, caller)?;
            writes::approve(host, &governance, caller, &name, version, &commitment)
        }
        Function::Activate => {
            let mut a = args(2);
            let (name, version) = (a.word()?, a.u64()?);
            a.end()?;
            writes::activate(host, &name, version)
        }
        Function::Revoke => {
            let mut a = args(2);
            let (name, version) = (a.word()?, a.u64()?);
            a.end()?;
            writes::revoke(host, caller, &name, version)
        }
        Function::SetAdmin => {
            let mut a = args(2);
            let (admin, enabled) = (a.address()?, a.bool()?);
            a.end()?;
            let governance = votes::as_admin(host, caller)?;
            writes::set_admin(host, &governance, caller, &admin, enabled)
        }
        Function::SetQuorum => {
            let mut a = args(1);
            let quorum = a.u32()?;
            a.end()?;
            writes::set_quorum(host, caller, quorum)
        }
        view => views::execute(view, call.args(), host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::selector;

    #[test]
    fn selectors_are_those_of_the_signatures() {
        for &function in Function::ALL {
            assert_eq!(
                function.selector(),
                selector(function.signature()),
                "{function:?}"
            );
            assert_eq!(Function::of(function.selector()), Some(function));
        }
    }
}
