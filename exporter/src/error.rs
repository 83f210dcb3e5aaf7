//! Why an export is refused or fails.

use std::path::PathBuf;

/// Why an export failed.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// The checkpoint cannot be read.
    #[error(transparent)]
    Source(#[from] float_engine::source::SourceError),
    /// The float forward pass refused its input.
    #[error(transparent)]
    Forward(#[from] float_engine::forward::ForwardError),
    /// The model, or an option, lies outside what an integer blob can hold.
    #[error("the model does not fit the integer format: {0}")]
    Config(#[from] int_engine::config::ConfigError),
    /// The blob's writer refused a value or could not write.
    #[error(transparent)]
    Write(#[from] int_engine::blob::WriteError),
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// Another export holds the work folder of this output.
    #[error(
        "{folder} is in use: another export writes to this output; wait for its end or name another output"
    )]
    Busy {
        /// The work folder.
        folder: PathBuf,
    },
    /// The calibration data are unusable.
    #[error("calibration: {0}")]
    Calibration(#[from] CalibrationError),
    /// An activation of the float model is not finite, so no scale can be made from it.
    #[error("{site} of layer {layer} is not finite in calibration window {window}")]
    Activation {
        /// The layer; the number of layers for the head's input.
        layer: usize,
        /// The window.
        window: usize,
        /// The site.
        site: &'static str,
    },
    /// A row's real scale is 2^64 output units or more, beyond what a blob can hold.
    #[error("{tensor}: row {row} needs the multiplier {value:e}, must be below 2^64")]
    Scale {
        /// The tensor.
        tensor: String,
        /// The row.
        row: usize,
        /// The multiplier.
        value: f64,
    },
    /// A layer's attention scores have a unit of 1 or more, beyond what a blob can hold.
    #[error("layer {layer}: q and k reach {q:e} and {k:e}, too large for scores in Q8")]
    Scores {
        /// The layer.
        layer: usize,
        /// Largest calibrated query value.
        q: f64,
        /// Largest calibrated key value.
        k: f64,
    },
    /// The Hessian of a site could not be factored.
    #[error("the Hessian of {site} is not positive definite at row {row}")]
    Hessian {
        /// The site.
        site: String,
        /// Where the factorisation stopped.
        row: usize,
    },
    /// The rotary base is outside the range for which frequencies are computed.
    #[error("rope theta is {0}, must be in 1 ..= 1e30")]
    Theta(f64),
}

/// What is wrong with calibration data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    /// There is no window.
    #[error("there is no window; at least one is needed")]
    NoWindows,
    /// A window holds no token.
    #[error("window {0} is empty")]
    EmptyWindow(usize),
    /// A window is longer than the model's context.
    #[error("window {window} has {len} tokens; the model has {max} positions")]
    TooLong {
        /// The window.
        window: usize,
        /// Its tokens.
        len: usize,
        /// The model's positions.
        max: usize,
    },
    /// A token outside the vocabulary.
    #[error("token {id} of window {window} is outside the vocabulary of {vocab}")]
    TokenOutOfRange {
        /// The window.
        window: usize,
        /// The token.
        id: u32,
        /// Size of the vocabulary.
        vocab: usize,
    },
}

impl ExportError {
    pub(crate) fn io(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}
