//! How a command fails: an exit code, a chain of causes, a hint.

use std::fmt::Display;
use std::io::{self, Write};
use std::process::ExitCode;

/// The process's exit code; success is 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Code {
    /// The reader of standard output went away: nothing is left to say.
    Closed = 0,
    /// Output, network, memory, a backend that this machine lacks.
    Runtime = 1,
    /// Usage error or bad input; a missing or unreadable input file too.
    Input = 2,
    /// Something that was to be equal is not.
    Mismatch = 3,
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    code: Code,
    error: anyhow::Error,
    hint: Option<String>,
    /// The result on standard output says everything.
    told: bool,
}

/// What a command returns.
pub(crate) type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    pub(crate) fn new(code: Code, error: impl Into<anyhow::Error>) -> Self {
        Self {
            code,
            error: error.into(),
            hint: None,
            told: false,
        }
    }

    /// An exit code whose reason is the result that was printed: no message follows.
    pub(crate) fn told(code: Code) -> Self {
        Self {
            told: true,
            ..Self::new(code, anyhow::anyhow!("see the result"))
        }
    }

    /// A failure of the machine or the network, from a message.
    pub(crate) fn runtime(message: impl Display) -> Self {
        Self::new(Code::Runtime, anyhow::anyhow!("{message}"))
    }

    /// Bad input, from a message.
    pub(crate) fn input(message: impl Display) -> Self {
        Self::new(Code::Input, anyhow::anyhow!("{message}"))
    }

    /// Two things that were to be equal, from a message.
    pub(crate) fn mismatch(message: impl Display) -> Self {
        Self::new(Code::Mismatch, anyhow::anyhow!("{message}"))
    }

    /// A failed write to standard output.
    pub(crate) fn stdout(error: io::Error) -> Self {
        let code = if error.kind() == io::ErrorKind::BrokenPipe {
            Code::Closed
        } else {
            Code::Runtime
        };
        Self::new(
            code,
            anyhow::Error::new(error).context("cannot write to standard output"),
        )
    }

    /// A failure to open or read a named file: bad input.
    pub(crate) fn file(path: &std::path::Path, error: io::Error) -> Self {
        Self::new(
            Code::Input,
            anyhow::Error::new(error).context(format!("cannot read {}", path.display())),
        )
    }

    /// The same failure with what would have been right.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Display) -> Self {
        self.hint = Some(hint.to_string());
        self
    }

    /// The same failure, of something larger that was being done.
    #[must_use]
    pub(crate) fn context(mut self, doing: String) -> Self {
        self.error = self.error.context(doing);
        self
    }

    /// The exit code.
    pub(crate) fn code(&self) -> Code {
        self.code
    }

    /// Whether the result on standard output says everything.
    pub(crate) fn is_told(&self) -> bool {
        self.told
    }

    /// Whether the input is to blame, so that an interactive command may go on.
    pub(crate) fn is_input(&self) -> bool {
        self.code == Code::Input
    }

    /// Whether two things that were to be equal are not.
    pub(crate) fn is_mismatch(&self) -> bool {
        self.code == Code::Mismatch
    }

    /// The chain of causes on one line.
    pub(crate) fn reason(&self) -> String {
        format!("{:#}", self.error)
    }

    /// Prints `error: …`, a line `caused by: …` for each further cause, and the hint.
    pub(crate) fn print(&self) {
        if self.code != Code::Closed && !self.told {
            // Nobody may read standard error either; then there is nobody to tell.
            let _ = io::stderr().write_all(self.text().as_bytes());
        }
    }

    /// Prints the failure and returns the exit code.
    pub(crate) fn report(self) -> ExitCode {
        self.print();
        ExitCode::from(self.code as u8)
    }

    fn text(&self) -> String {
        let mut text = format!("error: {}\n", self.error);
        let mut last = self.error.to_string();
        for cause in self.error.chain().skip(1) {
            let line = cause.to_string();
            if !last.contains(&line) {
                text.push_str(&format!("  caused by: {line}\n"));
            }
            last = line;
        }
        if let Some(hint) = &self.hint {
            text.push_str(&format!("hint: {hint}\n"));
        }
        text
    }
}

/// Turns a library's error into a [`Failure`] that says what was being done.
pub(crate) trait Context<T> {
    /// Bad input (exit code 2).
    fn or_input(self, doing: impl Display) -> Outcome<T>;
    /// A runtime failure (exit code 1).
    fn or_runtime(self, doing: impl Display) -> Outcome<T>;
}

impl<T, E: Into<anyhow::Error>> Context<T> for Result<T, E> {
    fn or_input(self, doing: impl Display) -> Outcome<T> {
        self.map_err(|e| Failure::new(Code::Input, e.into().context(doing.to_string())))
    }

    fn or_runtime(self, doing: impl Display) -> Outcome<T> {
        self.map_err(|e| Failure::new(Code::Runtime, e.into().context(doing.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_printed_once_each() {
        let inner = io::Error::new(io::ErrorKind::NotFound, "no such thing");
        let failure = Failure::file(std::path::Path::new("x.blob"), inner).hint("name a blob");
        assert_eq!(failure.code, Code::Input);
        assert_eq!(
            failure.text(),
            "error: cannot read x.blob\n  caused by: no such thing\nhint: name a blob\n"
        );
    }

    #[test]
    fn a_closed_pipe_is_quiet() {
        assert_eq!(
            Failure::stdout(io::ErrorKind::BrokenPipe.into()).code,
            Code::Closed
        );
        assert_eq!(
            Failure::stdout(io::ErrorKind::StorageFull.into()).code,
            Code::Runtime
        );
    }
}
