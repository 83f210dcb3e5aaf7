//! How a call can end without a result: refused input, or trouble of this machine.

/// Bad input: the same on every machine, and part of the function (spec 3.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Halt {
    /// The prompt holds no token.
    #[error("the prompt is empty, must hold at least one token")]
    EmptyPrompt,
    /// More tokens than the model's context.
    #[error("{len} tokens exceed the context of {max}")]
    ContextExceeded {
        /// Tokens that the session would hold.
        len: usize,
        /// The model's `max_context`.
        max: usize,
    },
    /// An id that a prompt may not hold.
    #[error("token {id} at position {position} is out of range, must be below {accepted}")]
    TokenOutOfRange {
        /// Position of the token in the session.
        position: usize,
        /// The refused id.
        id: u32,
        /// The model's `accepted_ids`.
        accepted: usize,
    },
}

/// Trouble of this machine, which says nothing about the input.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    /// The allocator refused.
    #[error("out of memory: {bytes} bytes for {what}")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: usize,
        /// What they were for.
        what: &'static str,
    },
    /// A device of an engine failed.
    #[error("device: {0}")]
    Device(String),
}

/// A call that ended without a result.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The input is refused, on every machine.
    #[error(transparent)]
    Halt(#[from] Halt),
    /// This machine failed.
    #[error(transparent)]
    Fault(#[from] Fault),
}

/// A step of several sessions that was not taken.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StepError {
    /// The tokens of one feed are refused, on every machine.
    #[error("feed {index}: {halt}")]
    Refused {
        /// The feed's index.
        index: usize,
        /// Why.
        halt: Halt,
    },
    /// A session that another engine made.
    #[error("feed {index}: a session of another engine, must be one of this engine")]
    Foreign {
        /// The feed's index.
        index: usize,
    },
    /// This machine failed.
    #[error("{}{fault}", index.map_or_else(String::new, |index| format!("feed {index}: ")))]
    Fault {
        /// Index of the feed without which the step may succeed; `None` when the trouble is that of all.
        index: Option<usize>,
        /// What failed.
        fault: Fault,
    },
}

impl StepError {
    /// The failure of one feed.
    #[must_use]
    pub fn of(index: usize, error: Error) -> Self {
        match error {
            Error::Halt(halt) => Self::Refused { index, halt },
            Error::Fault(fault) => Self::Fault {
                index: Some(index),
                fault,
            },
        }
    }
}

impl From<Fault> for StepError {
    /// The trouble of all feeds.
    fn from(fault: Fault) -> Self {
        Self::Fault { index: None, fault }
    }
}

/// Grows `v` to `len` elements with copies of `value`, or reports that the allocator refused.
pub(crate) fn try_resize<T: Clone>(
    v: &mut Vec<T>,
    len: usize,
    value: T,
    what: &'static str,
) -> Result<(), Fault> {
    try_reserve(v, len, what)?;
    v.resize(len, value);
    Ok(())
}

/// Makes room for `len` elements in all.
pub(crate) fn try_reserve<T>(v: &mut Vec<T>, len: usize, what: &'static str) -> Result<(), Fault> {
    if len > v.capacity() {
        let bytes = len.saturating_mul(size_of::<T>());
        #[cfg(test)]
        if lack::strikes() {
            return Err(Fault::OutOfMemory { bytes, what });
        }
        v.try_reserve_exact(len - v.len())
            .map_err(|_| Fault::OutOfMemory { bytes, what })?;
    }
    Ok(())
}

/// A lack of memory that tests ask for.
#[cfg(test)]
pub(crate) mod lack {
    use std::cell::Cell;

    thread_local! {
        /// Reservations that this thread still gets before one that it does not get.
        static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    }

    /// Runs `f`, in which this thread gets the first `n` reservations of memory, not the next one, and all later ones;
    /// also tells whether there was a next one.
    pub(crate) fn after<R>(n: usize, f: impl FnOnce() -> R) -> (R, bool) {
        LEFT.set(Some(n));
        let result = f();
        (result, LEFT.take().is_none())
    }

    /// Whether this reservation is the one.
    pub(crate) fn strikes() -> bool {
        let left = LEFT.get();
        LEFT.set(left.and_then(|n| n.checked_sub(1)));
        left == Some(0)
    }
}
