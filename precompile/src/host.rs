//! The seam to an EVM: what a call is, what it sees of the chain, how it ends.

use crate::abi::Encoder;
use crate::refusal::{Fault, Refusal};
use crate::word::{Address, Word};
use int_engine::commitment::Commitment;
use int_engine::engine::Engine;
use std::sync::Arc;

/// The registry's address, 0x0300000000000000000000000000000000000002.
pub const REGISTRY: Address = at(2);
/// The address of inference, 0x0300000000000000000000000000000000000003.
pub const INFERENCE: Address = at(3);

const fn at(last: u8) -> Address {
    let mut address = [0; 20];
    address[0] = 3;
    address[19] = last;
    address
}

/// Which precompile is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// The model registry, at [`REGISTRY`].
    Registry,
    /// Inference by token ids, at [`INFERENCE`].
    Inference,
}

impl Target {
    /// The precompile at an address, `None` for other addresses.
    #[must_use]
    pub fn of(address: &Address) -> Option<Self> {
        match *address {
            REGISTRY => Some(Self::Registry),
            INFERENCE => Some(Self::Inference),
            _ => None,
        }
    }

    /// The address.
    #[must_use]
    pub const fn address(self) -> Address {
        match self {
            Self::Registry => REGISTRY,
            Self::Inference => INFERENCE,
        }
    }
}

/// One call, as the EVM makes it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Call<'a> {
    /// Which precompile's code runs.
    pub to: Target,
    /// Selector and arguments.
    pub data: &'a [u8],
    /// Gas that the call may use.
    pub gas: u64,
    /// Who calls: the caller of this call, not the transaction's sender.
    pub caller: Address,
    /// Whether it carries value, transferred or apparent.
    pub value_sent: bool,
    /// Whether the context is static: the call or one around it is a STATICCALL.
    pub is_static: bool,
    /// Whether code and account are the same: not for DELEGATECALL and CALLCODE.
    pub direct: bool,
}

impl<'a> Call<'a> {
    /// A direct call without value, in a context that may write.
    #[must_use]
    pub const fn new(to: Target, data: &'a [u8], gas: u64, caller: Address) -> Self {
        Self {
            to,
            data,
            gas,
            caller,
            value_sent: false,
            is_static: false,
            direct: true,
        }
    }

    /// The selector, when there are four bytes.
    pub(crate) fn selector(&self) -> Option<[u8; 4]> {
        self.data.first_chunk().copied()
    }

    /// The bytes after the selector.
    pub(crate) fn args(&self) -> &'a [u8] {
        self.data.get(4..).unwrap_or_default()
    }
}

/// How a call ends (spec 6.2). A fault is an error beside it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// With a result.
    Return {
        /// The price.
        gas_used: u64,
        /// The result.
        output: Vec<u8>,
    },
    /// Refused; the rest of the gas goes back, changes do not stay.
    Revert {
        /// The entry price.
        gas_used: u64,
        /// Why.
        refusal: Refusal,
    },
    /// Refused; all gas is gone, changes do not stay.
    Halt {
        /// Why.
        refusal: Refusal,
    },
}

impl Outcome {
    /// The gas that a call which was given `gas` has used.
    #[must_use]
    pub const fn gas_used(&self, gas: u64) -> u64 {
        match self {
            Self::Return { gas_used, .. } | Self::Revert { gas_used, .. } => *gas_used,
            Self::Halt { .. } => gas,
        }
    }

    /// The bytes that the caller gets.
    #[must_use]
    pub fn data(&self) -> Vec<u8> {
        match self {
            Self::Return { output, .. } => output.clone(),
            Self::Revert { refusal, .. } => revert_data(*refusal),
            Self::Halt { .. } => Vec::new(),
        }
    }

    /// Why the call is refused.
    #[must_use]
    pub const fn refusal(&self) -> Option<Refusal> {
        match self {
            Self::Return { .. } => None,
            Self::Revert { refusal, .. } | Self::Halt { refusal } => Some(*refusal),
        }
    }
}

/// The data of a revert: the error `Refused(uint16)`.
#[must_use]
pub fn revert_data(refusal: Refusal) -> Vec<u8> {
    let number = Encoder::default().u64(refusal.number().into()).finish();
    [&crate::abi::selector("Refused(uint16)")[..], &number].concat()
}

/// The chain's state as a call sees it: the storage of [`REGISTRY`], reached through the EVM's journal so that accesses are
/// recorded and changes are undone with the call. Unless the outcome is [`Outcome::Return`] the host drops what the call
/// wrote and logged.
pub trait Host {
    /// The number of the block that is executed.
    fn block_number(&self) -> u64;

    /// A word of the registry's storage.
    ///
    /// # Errors
    /// When the state cannot be read.
    fn read(&mut self, key: &Word) -> Result<Word, Fault>;

    /// Sets a word of the registry's storage.
    ///
    /// # Errors
    /// When the state cannot be written.
    fn write(&mut self, key: &Word, value: &Word) -> Result<(), Fault>;

    /// An event of the registry.
    fn log(&mut self, topics: Vec<Word>, data: Vec<u8>);
}

/// What is known of a commitment's blob.
#[derive(Clone)]
pub enum Lookup {
    /// The model, ready to run.
    Ready(Arc<dyn Engine>),
    /// All bytes of the blob are at hand and hash to the commitment, and spec 4 refuses them: so finds every node that has
    /// them. Bytes whose hash nobody has looked at are none of this; [`crate::lookup`] tells the two apart.
    Refused,
}

/// The models at hand, by commitment. [`crate::lookup`] makes the answers from bytes.
pub trait Models {
    /// The model of a commitment.
    ///
    /// # Errors
    /// When this node cannot say: the blob is missing, incomplete, damaged or cannot be loaded for lack of something.
    fn model(&self, commitment: Commitment) -> Result<Lookup, Fault>;
}

impl<M: Models + ?Sized> Models for Arc<M> {
    fn model(&self, commitment: Commitment) -> Result<Lookup, Fault> {
        (**self).model(commitment)
    }
}
