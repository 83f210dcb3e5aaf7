//! Failures of measurements.

use blue_bench::Error;

use crate::failure::{Code, Failure};

/// Whether an answer is wrong, the input is, or this machine fails.
pub(crate) fn failed(error: Error) -> Failure {
    let code = match error {
        Error::Wrong { .. } => Code::Mismatch,
        Error::Load { .. }
        | Error::Halt(_)
        | Error::Peer { .. }
        | Error::Record { .. }
        | Error::Page { .. } => Code::Input,
        Error::File { .. }
        | Error::Memory { .. }
        | Error::Write(_)
        | Error::Fault(_)
        | Error::Precompile(_)
        | Error::Step(_)
        | Error::Probe { .. }
        | Error::NoCounter => Code::Runtime,
    };
    Failure::new(code, error)
}
