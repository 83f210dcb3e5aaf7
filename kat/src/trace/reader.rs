//! Reading a trace, line by line: memory for one line, whatever the lines declare.

use std::io::{BufRead, Read as _};

use int_engine::probe::Op;

use super::line::{EntryLine, HeaderLine, Integer};
use super::{Entry, Header, MAX_LINE, Place, SCHEMA, TraceError, row_digest};
use crate::hex;

/// Longest context of any model.
const MAX_PROMPT: usize = 32768;

/// A trace that is being read: its header, then an iterator over its operations. Ends after the first error.
#[derive(Debug)]
pub struct Reader<R> {
    input: R,
    line: u64,
    text: Vec<u8>,
    header: Header,
    last: Option<Place>,
    done: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`TraceError`] for anything that is not a header.
    pub fn new(input: R) -> Result<Self, TraceError> {
        let header = Header {
            commitment: [0; 32],
            prompt: Vec::new(),
            target: String::new(),
            machine: String::new(),
        };
        let mut reader = Self {
            input,
            line: 0,
            text: Vec::new(),
            header,
            last: None,
            done: false,
        };
        if !reader.next_line()? {
            return Err(TraceError::Empty);
        }
        let line: HeaderLine = reader.parse()?;
        if line.schema != SCHEMA {
            return Err(TraceError::Schema { found: line.schema });
        }
        let len = line.prompt.len();
        if !(1..=MAX_PROMPT).contains(&len) {
            return Err(TraceError::Prompt { len });
        }
        reader.header = Header {
            commitment: reader.digest("commitment", &line.commitment)?,
            prompt: line.prompt.into_iter().map(|id| id.0).collect(),
            target: line.target,
            machine: line.machine,
        };
        Ok(reader)
    }

    /// The header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The number of the line that was read last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Whether there was another line.
    fn next_line(&mut self) -> Result<bool, TraceError> {
        self.line += 1;
        let line = self.line;
        self.text.clear();
        // One byte more than allowed shows a line that is too long.
        let mut limited = (&mut self.input).take(MAX_LINE as u64 + 1);
        let read = limited
            .read_until(b'\n', &mut self.text)
            .map_err(|source| TraceError::Read { line, source })?;
        if self.text.last() == Some(&b'\n') {
            self.text.pop();
        }
        if self.text.len() > MAX_LINE {
            return Err(TraceError::LineTooLong { line });
        }
        Ok(read > 0)
    }

    fn parse<T: serde::de::DeserializeOwned>(&self) -> Result<T, TraceError> {
        // Serde takes a list for the members in order.
        if self.text.trim_ascii_start().first() == Some(&b'[') {
            return Err(TraceError::Json {
                line: self.line,
                message: "a list, must be an object".into(),
            });
        }
        serde_json::from_slice(&self.text).map_err(|e| TraceError::Json {
            line: self.line,
            message: message(&e),
        })
    }

    fn digest(&self, member: &'static str, text: &str) -> Result<[u8; 32], TraceError> {
        let line = self.line;
        hex::digest(text).ok_or(TraceError::Hex { line, member })
    }

    fn entry(&mut self) -> Result<Option<Entry>, TraceError> {
        if !self.next_line()? {
            return Ok(None);
        }
        let line = self.line;
        let EntryLine {
            position: Integer(position),
            layer,
            op,
            count: Integer(count),
            digest,
            values,
        } = self.parse()?;
        let Some(op) = Op::from_name(&op) else {
            return Err(TraceError::Op { line, op });
        };
        if layer.is_some() != op.in_layer() {
            return Err(TraceError::Layer { line, op });
        }
        let prompt = self.header.prompt.len();
        if position >= prompt as u64 {
            return Err(TraceError::Position {
                line,
                position,
                prompt,
            });
        }
        let place = Place {
            position: position as usize,
            // Beyond any model, and still in order.
            layer: layer.map(|layer| usize::try_from(layer.0).unwrap_or(usize::MAX)),
            op,
        };
        if let Some(before) = self.last.filter(|&before| before >= place) {
            return Err(TraceError::Order {
                line,
                found: place,
                before,
            });
        }
        self.last = Some(place);
        let digest = self.digest("digest", &digest)?;
        let values: Option<Vec<i64>> = values.map(|v| v.into_iter().map(|v| v.0).collect());
        if let Some(values) = &values {
            if values.len() as u64 != count {
                return Err(TraceError::Count {
                    line,
                    count,
                    values: values.len(),
                });
            }
            if row_digest(values) != digest {
                return Err(TraceError::Digest { line });
            }
        }
        Ok(Some(Entry {
            place,
            count: usize::try_from(count).unwrap_or(usize::MAX),
            digest,
            values,
        }))
    }
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Entry, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let next = self.entry().transpose();
        self.done = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The message without the place inside the line, which the JSON reader calls a line of its own.
fn message(e: &serde_json::Error) -> String {
    let text = e.to_string();
    let place = format!(" at line {} column {}", e.line(), e.column());
    match text.strip_suffix(&place) {
        Some(what) => format!("{what} (column {})", e.column()),
        None => text,
    }
}
