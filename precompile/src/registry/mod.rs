//! The model registry (spec 6.5).

mod event;
mod legacy;
pub mod state;
mod views;
mod votes;
mod writes;

pub use event::Event;
pub use votes::{Action, Governance};

use crate::abi::Args;
use crate::function::functions;
use crate::gas;
use crate::host::{Call, Host, Outcome};
use crate::refusal::{Refusal, Stop, require};

functions! {
    /// A function of the registry with a selector of the ABI.
    Propose 0xaede_1209 "propose(bytes32,uint64,bytes32,bytes,bytes32[])";
    Approve 0xea2b_31ed "approve(bytes32,uint64,bytes32)";
    Activate 0x88c8_8aec "activate(bytes32,uint64)";
    Revoke 0xaeeb_ee82 "revoke(bytes32,uint64)";
    SetAdmin 0x4b0b_ddd2 "setAdmin(address,bool)";
    SetQuorum 0xe329_fed7 "setQuorum(uint32)";
    Record 0xb5c6_45bd "record(bytes32)";
    Activation 0x2eee_81a1 "activation(uint64)";
    Pending 0x1808_eeb8 "pending(bytes32)";
    HighestVersion 0xa375_5931 "highestVersion(bytes32)";
    GetApproved 0xef27_0ee2 "getApproved(bytes32)";
    IsAdmin 0x24d7_806c "isAdmin(address)";
    Governance 0x5aa6_e675 "governance()";
    IsRevoked 0x214d_eedd "isRevoked(bytes32,uint64)";
    Tally 0xf6e2_2eb5 "tally(bytes32)";
    ActivationCount 0x6af4_11cd "activationCount()";
}

/// An event with three topics and six words: Voted.
const VOTED: u64 = gas::event(3, 192);

impl Function {
    /// Reads, writes and gas of events of the path that has most (spec 6.7).
    const fn counts(self) -> (u64, u64, u64) {
        match self {
            Self::Propose => (6, 10, VOTED + gas::event(4, 32)),
            Self::Approve => (8, 5, VOTED + gas::event(4, 32)),
            Self::Activate => (3, 9, gas::event(4, 32)),
            Self::Revoke => (8, 5, VOTED + gas::event(4, 0)),
            Self::SetAdmin => (5, 4, VOTED + gas::event(2, 64)),
            Self::SetQuorum => (4, 3, VOTED + gas::event(1, 64)),
            Self::Record => (5, 0, 0),
            Self::Activation => (4, 0, 0),
            Self::Pending => (2, 0, 0),
            Self::HighestVersion => (2, 0, 0),
            Self::GetApproved => (2, 0, 0),
            Self::IsAdmin => (1, 0, 0),
            Self::Governance => (1, 0, 0),
            Self::IsRevoked => (1, 0, 0),
            Self::Tally => (1, 0, 0),
            Self::ActivationCount => (1, 0, 0),
        }
    }

    /// Whether it writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        self.counts().1 > 0
    }

    /// The price without calldata.
    #[must_use]
    pub const fn base_price(self) -> u64 {
        let (reads, writes, events) = self.counts();
        gas::CALL + reads * gas::READ + writes * gas::WRITE + events
    }

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
