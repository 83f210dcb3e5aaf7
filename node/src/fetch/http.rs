//! HTTP and HTTPS, with range requests.

use super::source::{Request, Source, SourceError};
use crate::store::file_name;
use std::io::{self, Read};
use std::ops::{ControlFlow, Range};
use std::time::{Duration, Instant};
use ureq::http::uri::Authority;
use ureq::http::{HeaderMap, Response, header};
use ureq::{Agent, Body, config::Config};

/// Bytes handed over at a time.
const PIECE: usize = 65536;
/// Time to find and reach a host.
const CONNECT: Duration = Duration::from_secs(10);

/// A server that offers the files of a store below one address, and answers range requests.
#[derive(Clone, Debug)]
pub struct HttpSource {
    base: String,
    agent: Agent,
}

/// Why an address is none.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{address} is no address of a source: {why}")]
pub struct AddressError {
    /// What was given, without what may be a password.
    pub address: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl HttpSource {
    /// A server at `address`, which begins with `http://` or `https://` and has neither user and password, query nor
    /// fragment; the files lie below it. Its redirects are not followed.
    ///
    /// # Errors
    /// When the address has another form.
    pub fn new(address: &str) -> Result<Self, AddressError> {
        let refused = |why| AddressError {
            address: without_user(address),
            why,
        };
        let uri: ureq::http::Uri = address.parse().map_err(|_| refused("it is malformed"))?;
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err(refused("it must begin with http:// or https://"));
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(refused("it names no host"));
        }
        // Addresses are shown in logs, metrics and reports.
        if uri.authority().is_some_and(|a| a.as_str().contains('@')) {
            return Err(refused("it must have no user and no password"));
        }
        let port = |a: &Authority| a.port().map_or(String::new(), |port| format!(":{port}"));
        let plain = |a: &Authority| format!("{}{}", a.host(), port(a)) == a.as_str();
        if !uri.authority().is_some_and(plain) {
            return Err(refused("its port is no number"));
        }
        if address.contains(['?', '#']) {
            return Err(refused("it must have no query and no fragment"));
        }
        let config = Config::builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .timeout_connect(Some(CONNECT))
            .timeout_resolve(Some(CONNECT))
            .max_idle_connections_per_host(16)
            .user_agent(concat!("blue-node/", env!("CARGO_PKG_VERSION")))
            .proxy(None)
            .build();
        Ok(Self {
            base: address.trim_end_matches('/').to_string(),
            agent: config.into(),
        })
    }
}

impl Source for HttpSource {
    fn name(&self) -> &str {
        &self.base
    }

    fn read(
        &self,
        request: &Request,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let Request { range, .. } = request;
        let asked = range.end.saturating_sub(range.start);
        let start = Instant::now();
        let stalled = |got| SourceError::Stalled {
            got,
            asked,
            after: start.elapsed(),
        };
        let name = file_name(request.commitment, request.what);
        let answer = (self.agent.get(format!("{}/{name}", self.base)))
            .header(
                header::RANGE,
                format!("bytes={}-{}", range.start, range.end.saturating_sub(1)),
            )
            .header(header::ACCEPT_ENCODING, "identity")
            .config()
            .timeout_global(Some(request.limit))
            .timeout_per_read(Some(request.stall))
            .timeout_per_write(Some(request.stall))
            .build()
            .call();
        let answer = answer.map_err(|e| match e {
            ureq::Error::Timeout(_) => stalled(0),
            e => SourceError::Io(plain(&e.to_string())),
        })?;
        check(&answer, range)?;
        let mut body = answer.into_body().into_reader();
        let (mut got, mut piece) = (0, vec![0; PIECE]);
        loop {
            // One byte beyond the range shows an answer that goes on, and ends one that does not.
            let len = (asked - got).clamp(1, PIECE as u64) as usize;
            match body.read(&mut piece[..len]) {
                Ok(0) if got < asked => return Err(SourceError::Fewer { got, asked }),
                Ok(0) => return Ok(()),
                Ok(_) if got == asked => return Err(SourceError::More(asked)),
                Ok(n) => {
                    got += n as u64;
                    if take(&piece[..n]).is_break() {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    return Err(match e.kind() {
                        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock => stalled(got),
                        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
                            SourceError::Fewer { got, asked }
                        }
                        _ if timed_out(&e) => stalled(got),
                        _ => SourceError::Io(plain(&e.to_string())),
                    });
                }
            }
        }
    }
}

/// An address for people, without what stands before its last `@`.
fn without_user(address: &str) -> String {
    let Some((before, rest)) = address.rsplit_once('@') else {
        return address.to_string();
    };
    let scheme = ["http://", "https://"]
        .into_iter()
        .find(|s| before.starts_with(s));
    format!("{}…@{rest}", scheme.unwrap_or_default())
}

/// Whether an error of the body is one of ureq's timeouts.
fn timed_out(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|e| e.downcast_ref());
    matches!(inner, Some(ureq::Error::Timeout(_)))
}

/// What a remote host may have put into an error, without what a terminal would obey.
fn plain(text: &str) -> String {
    text.chars()
        .take(200)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

/// Status and headers must be those of exactly this range.
fn check(answer: &Response<Body>, range: &Range<u64>) -> Result<(), SourceError> {
    match answer.status().as_u16() {
        206 => {}
        200 => return Err(SourceError::NoRanges),
        404 | 410 => return Err(SourceError::Absent),
        301 | 302 | 303 | 307 | 308 => return Err(SourceError::Elsewhere),
        status => return Err(SourceError::Status(status)),
    }
    let headers = answer.headers();
    if text(headers, header::CONTENT_ENCODING).is_some_and(|e| e != "identity") {
        return Err(SourceError::Encoded);
    }
    let wanted = format!("bytes {}-{}/", range.start, range.end.saturating_sub(1));
    match text(headers, header::CONTENT_RANGE) {
        Some(told) if told.starts_with(&wanted) => {}
        _ => return Err(SourceError::OtherRange),
    }
    let asked = range.end.saturating_sub(range.start);
    match text(headers, header::CONTENT_LENGTH).and_then(|n| n.parse::<u64>().ok()) {
        Some(n) if n > asked => Err(SourceError::More(asked)),
        Some(n) if n < asked => Err(SourceError::OtherRange),
        _ => Ok(()),
    }
}

fn text(headers: &HeaderMap, name: header::HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses() {
        for right in [
            "http://127.0.0.1:9000",
            "https://example.org/blobs/",
            "http://[::1]:80",
        ] {
            let source = HttpSource::new(right).unwrap();
            assert_eq!(source.name(), right.trim_end_matches('/'));
        }
        for wrong in [
            "",
            "127.0.0.1:9000",
            "ftp://example.org",
            "http://",
            "http://a/?b",
            "http://a/#b",
            "folder",
            "http://a b",
        ] {
            assert!(HttpSource::new(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn passwords_are_refused_and_never_shown() {
        for secret in [
            "http://user:hunter2@example.org/",
            "https://hunter2@example.org",
            "ftp://user:hunter2@example.org",
            "http://user:hunter2/x@example.org",
            "http://user:hunter2 @example.org",
            "http://user:hunter2@",
            "http://user:p@hunter2@example.org",
            "user:hunter2@example.org",
            "user:hunter2@http://@example.org",
        ] {
            let error = HttpSource::new(secret).unwrap_err();
            for text in [error.to_string(), format!("{error:?}")] {
                assert!(!text.contains("hunter2"), "{text}");
            }
        }
        let error = HttpSource::new("http://user:hunter2@example.org/").unwrap_err();
        assert!(error.to_string().contains("http://…@example.org/ is no"));
        assert!(error.why.contains("password"));
        // In a path it is a letter like others.
        let path = HttpSource::new("http://example.org/@blobs").unwrap();
        assert_eq!(path.name(), "http://example.org/@blobs");
    }

    #[test]
    fn what_a_host_says_cannot_move_the_cursor() {
        assert_eq!(plain("a\u{1b}[2Jb\n"), "a [2Jb ");
        assert_eq!(plain(&"x".repeat(1000)).len(), 200);
    }
}
