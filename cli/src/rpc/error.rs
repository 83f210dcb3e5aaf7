//! How a request to a node fails.

use std::time::Duration;

use crate::failure::{Code, Failure};

/// Longest part of a node's message that is shown, in characters.
const MAX_SHOWN: usize = 400;

/// A failed request. Nodes are not trusted: what they say is shown cut and without control characters.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The address of the node cannot be one.
    #[error("`{0}` is no address of a node: it must be http://HOST:PORT or https://HOST")]
    Url(String),
    /// No connection, or it broke.
    #[error("{method}: the node at {node} does not answer: {cause}")]
    Transport {
        /// What was asked.
        method: &'static str,
        /// Scheme, host and port.
        node: String,
        /// What the connection says.
        cause: ureq::Error,
    },
    /// No answer in time.
    #[error("{method}: the node at {node} gave no answer within {} s", limit.as_secs_f64())]
    Timeout {
        /// What was asked.
        method: &'static str,
        /// Scheme, host and port.
        node: String,
        /// The limit.
        limit: Duration,
    },
    /// An answer of another status that is no JSON-RPC either.
    #[error("{method}: {node} answers with HTTP status {status}, not as a JSON-RPC server")]
    Status {
        /// What was asked.
        method: &'static str,
        /// Scheme, host and port.
        node: String,
        /// The status.
        status: u16,
    },
    /// The answer is larger than any that is expected.
    #[error("{method}: the answer has more than {limit} bytes")]
    TooLarge {
        /// What was asked.
        method: &'static str,
        /// The limit.
        limit: u64,
    },
    /// The answer is no JSON-RPC, or its result not of the method's type.
    #[error("{method}: the answer is not what the method returns: {what}")]
    Form {
        /// What was asked.
        method: &'static str,
        /// What is wrong with it.
        what: String,
    },
    /// The node refuses.
    #[error("{method}: the node says: {} (code {code})", shown(message))]
    Node {
        /// What was asked.
        method: &'static str,
        /// JSON-RPC's code; 3 for a revert.
        code: i64,
        /// Its words.
        message: String,
        /// What the call reverted with.
        data: Option<Vec<u8>>,
    },
}

impl Error {
    /// The bytes that a call reverted with, where that is why it failed.
    pub(crate) fn reverted(&self) -> Option<&[u8]> {
        match self {
            Self::Node { code: 3, data, .. } => Some(data.as_deref().unwrap_or_default()),
            Self::Node {
                data: Some(data), ..
            } => Some(data),
            _ => None,
        }
    }

    /// Whether asking again may help: the node is away, not of another opinion.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            Self::Transport { .. } | Self::Timeout { .. } | Self::Status { .. }
        )
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (code, hint) = match &error {
            Error::Url(_) => (Code::Input, None),
            Error::Transport { .. } => (
                Code::Runtime,
                Some("start a node, for instance with `blue devnet`, or name one with --rpc"),
            ),
            Error::Timeout { .. } => (Code::Runtime, Some("--timeout allows more")),
            Error::Status { .. } => (Code::Runtime, Some("name the node's JSON-RPC with --rpc")),
            _ => (Code::Runtime, None),
        };
        let failure = Self::new(code, error);
        match hint {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    }
}

/// A text of a node for people: one line, not long, nothing that a terminal obeys.
pub(crate) fn shown(text: &str) -> String {
    // Marks of direction, too, make a terminal show another text than the one that is there.
    let marks = |c| matches!(c, '\u{61C}' | '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
    let clean = |c: char| if c.is_control() || marks(c) { ' ' } else { c };
    let mut out: String = text.chars().take(MAX_SHOWN).map(clean).collect();
    if text.chars().nth(MAX_SHOWN).is_some() {
        out.push('…');
    }
    out
}
