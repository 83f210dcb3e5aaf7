//! Errors in the form that Ethereum's clients read.

use super::reason::{halted, reverted};
use crate::error::Error;
use jsonrpsee::types::ErrorObjectOwned;
use jsonrpsee::types::error::INVALID_PARAMS_CODE;
use revm::context::result::ExecutionResult;

/// What a method answers.
pub(super) type Answer<T> = Result<T, ErrorObjectOwned>;

/// Code of an error of the request's content.
const REFUSED: i32 = -32_000;
/// Code of a request that is not answered because others are.
const BUSY: i32 = -32_005;
/// Code of a revert.
const REVERTED: i32 = 3;

/// Wrong arguments, with what would be right.
pub(super) fn bad(message: impl Into<String>) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(INVALID_PARAMS_CODE, message, None::<()>)
}

/// A request that cannot be answered.
pub(super) fn refused(message: impl Into<String>) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(REFUSED, message, None::<()>)
}

/// A request too many.
pub(super) fn busy(message: impl Into<String>) -> ErrorObjectOwned {
    ErrorObjectOwned::owned(BUSY, message, None::<()>)
}

impl From<Error> for ErrorObjectOwned {
    fn from(error: Error) -> Self {
        refused(error.to_string())
    }
}

/// An execution that did not succeed.
pub(super) fn failed(result: &ExecutionResult) -> ErrorObjectOwned {
    match result {
        ExecutionResult::Success { .. } => refused("the execution succeeds"),
        ExecutionResult::Revert { output, .. } => {
            ErrorObjectOwned::owned(REVERTED, reverted(output), Some(output))
        }
        ExecutionResult::Halt { reason, .. } => refused(halted(reason)),
    }
}
