//! How a call ends without a result: refused, the same on every node, or not finished by this one.

use int_engine::commitment::Commitment;
use int_engine::halt::Halt;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Declares the refusals once: number, name, what is said to people.
macro_rules! refusals {
    ($($number:literal $name:ident $text:literal;)*) => {
        /// Why a call is refused (spec 6.2). The discriminant is the number: part of consensus, never given another meaning.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, thiserror::Error)]
        #[repr(u16)]
        pub enum Refusal {
            $(#[doc = $text] #[error($text)] $name = $number,)*
        }

        impl Refusal {
            /// All of them, by number.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name that spec 6.2 and the known answers use.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }
        }
    };
}

refusals! {
    1 OutOfGas "less gas than the price of the call";
    2 InputTooShort "no selector of 4 bytes, or a legacy input without its arguments";
    3 UnknownSelector "no function of this address has the selector";
    4 NotCanonical "the arguments are not the one encoding that the ABI writes for them";
    5 ValueSent "the call carries value, must carry none";
    6 NotDirect "a DELEGATECALL or CALLCODE, must be a CALL or STATICCALL";
    7 WriteInStaticCall "the function writes, which a static context forbids";
    8 InputNotWords "the packed tokens are no whole number of 4-byte words";
    9 TooManyNewTokens "more than 64 new tokens of the toy model";
    10 SequenceTooLong "more than 256 tokens of prompt and output of the toy model";
    11 TokenOutOfRange "the prompt holds an id that the model does not accept";
    12 EmptyPrompt "the prompt is empty, must hold at least one token";
    13 ContextExceeded "the prompt is longer than the model's context";
    14 NoActiveModel "nothing is active under the name";
    15 NotActive "another commitment is active under the name";
    16 NoRecord "the registry does not hold the commitment's record";
    17 BadModel "the blob of the commitment is refused by its format's rules";
    18 NoGovernance "the registry has no governance word";
    19 NotAdmin "the caller is no admin";
    20 ZeroArgument "name, commitment or admin is zero";
    21 BadRecord "the bytes are not the record of a blob";
    22 BadProof "the record is not leaf 0 of the commitment";
    23 VersionTooLow "the version is not above every version of the name that ever passed";
    24 VersionTooLarge "the version is 2^64 or more";
    25 AlreadyVoted "this admin has voted for the action in this round";
    26 NothingPending "that version of the name does not wait for activation";
    27 TooEarly "the activation block is not reached";
    28 NothingToRevoke "that version of the name is neither active nor pending";
    29 NoChange "it is so already";
    30 LockOut "fewer admins than the quorum would be left";
    31 QuorumOutOfRange "the quorum is below 2 or above the number of admins";
    32 NoSuchActivation "the list of activations is shorter";
}

impl Refusal {
    /// The number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The refusal of a number.
    #[must_use]
    pub fn of_number(number: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.number() == number)
    }

    /// The refusal of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|r| r.name() == name)
    }

    /// Whether it takes all gas in every function, as what no state can make right; the others do in legacy functions only.
    #[must_use]
    pub const fn halts(self) -> bool {
        self.number() <= Self::SequenceTooLong.number()
    }
}

impl From<Halt> for Refusal {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::EmptyPrompt => Self::EmptyPrompt,
            Halt::ContextExceeded { .. } => Self::ContextExceeded,
            Halt::TokenOutOfRange { .. } => Self::TokenOutOfRange,
        }
    }
}

/// Why this machine could not finish a call (spec 6.9): it says nothing about the block.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The chain's state could not be read or written.
    #[error("the state: {0}")]
    State(String),
    /// The blob of a commitment is not at hand.
    #[error("the blob of {commitment} is not at hand: {reason}")]
    Missing {
        /// The commitment.
        commitment: Commitment,
        /// What the store says.
        reason: String,
    },
    /// The model that was handed over is another one.
    #[error(
        "asked for the model of {expected}, was given one of {found} or with another configuration"
    )]
    WrongModel {
        /// The commitment of the call.
        expected: Commitment,
        /// The engine's.
        found: Commitment,
    },
    /// The engine failed.
    #[error(transparent)]
    Engine(#[from] int_engine::halt::Fault),
    /// The engine panicked.
    #[error("the engine panicked: {0}")]
    Panic(String),
    /// The provider was built for another time than the block's.
    #[error("rules for timestamp {expected} run in a block of timestamp {found}")]
    Timestamp {
        /// What the host was built for.
        expected: u64,
        /// The block's.
        found: u64,
    },
}

impl Fault {
    /// Runs code of the node; its panic is this machine's trouble.
    ///
    /// # Errors
    /// [`Fault::Panic`] with the panic's text.
    pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T, Self> {
        catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
            let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Self::Panic(text.unwrap_or_else(|| "without a text".into()))
        })
    }
}

/// What ends a call early: inside the crate, until it becomes an outcome.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    Refused(Refusal),
    Fault(Fault),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Refuses unless `ok`.
pub(crate) fn require(ok: bool, refusal: Refusal) -> Result<(), Refusal> {
    if ok { Ok(()) } else { Err(refusal) }
}

/// Remembers the first fault of an execution until the operator clears it.
///
/// EVM libraries report a precompile's fault as an error of the execution, which block importers are apt to take for the
/// block's fault. The adapters trip this latch as well; a node asks it before it gives a verdict on a block, votes, or goes
/// on to the next one. Clones share the latch.
#[derive(Clone, Default)]
pub struct FaultLatch(Arc<Mutex<Option<Fault>>>);

impl FaultLatch {
    /// A latch that nothing has tripped.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records a fault; an earlier one stays.
    pub fn trip(&self, fault: &Fault) {
        self.slot().get_or_insert_with(|| fault.clone());
    }

    /// The first fault since the latch was made or cleared.
    #[must_use]
    pub fn tripped(&self) -> Option<Fault> {
        self.slot().clone()
    }

    /// `Ok` while nothing has tripped the latch: the condition of any verdict.
    ///
    /// # Errors
    /// The first fault.
    pub fn check(&self) -> Result<(), Fault> {
        self.tripped().map_or(Ok(()), Err)
    }

    /// Forgets the fault, once its cause is put right; returns it.
    pub fn clear(&self) -> Option<Fault> {
        self.slot().take()
    }

    fn slot(&self) -> std::sync::MutexGuard<'_, Option<Fault>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for FaultLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FaultLatch").field(&self.tripped()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_one_to_the_last_without_holes() {
        for (i, &refusal) in Refusal::ALL.iter().enumerate() {
            assert_eq!(usize::from(refusal.number()), i + 1);
            assert_eq!(Refusal::of_number(refusal.number()), Some(refusal));
            assert_eq!(Refusal::of_name(refusal.name()), Some(refusal));
        }
        assert_eq!(Refusal::of_number(0), None);
        assert_eq!(Refusal::of_number(33), None);
        assert_eq!(Refusal::NoSuchActivation.number(), 32);
    }

    #[test]
    fn the_latch_keeps_the_first_fault_of_all_clones() {
        let latch = FaultLatch::new();
        let clone = latch.clone();
        assert_eq!(latch.check(), Ok(()));
        let first = Fault::State("gone".into());
        clone.trip(&first);
        latch.trip(&Fault::Panic("later".into()));
        assert_eq!(latch.check(), Err(first.clone()));
        assert_eq!(clone.clear(), Some(first));
        assert_eq!(latch.tripped(), None);
    }
}
