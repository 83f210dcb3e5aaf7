//! Writing a trace, line by line.

use std::io::{self, Write};

use super::line::{EntryLine, HeaderLine, Integer};
use super::{Entry, Header, SCHEMA};
use crate::hex;

/// Writes a trace; nothing is kept but the sink.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Writes the header.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let mut writer = Self { out };
        writer.line(&HeaderLine {
            schema: SCHEMA.to_owned(),
            commitment: hex::encode(&header.commitment),
            prompt: header.prompt.iter().map(|&id| Integer(id)).collect(),
            target: header.target.clone(),
            machine: header.machine.clone(),
        })?;
        Ok(writer)
    }

    /// Writes one operation; a trace is made in the order of [`super::Place`].
    ///
    /// # Errors
    /// When the sink fails.
    pub fn entry(&mut self, entry: &Entry) -> io::Result<()> {
        let values = entry.values.as_ref();
        self.line(&EntryLine {
            position: Integer(entry.place.position as u64),
            layer: entry.place.layer.map(|layer| Integer(layer as u64)),
            op: entry.place.op.name().to_owned(),
            count: Integer(entry.count as u64),
            digest: hex::encode(&entry.digest),
            values: values.map(|values| values.iter().map(|&v| Integer(v)).collect()),
        })
    }

    fn line(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, line)?;
        self.out.write_all(b"\n")
    }
}
