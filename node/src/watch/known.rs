//! The names of the registry that a node has seen, kept in a file.

use crate::store::write_whole;
use int_engine::commitment::Commitment;
use precompile::word::Word;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The longest file that is read: a million names.
const MOST_BYTES: u64 = 67_000_000;

/// Names, and the file they are kept in, if any: a line in the text form of 32 bytes ([`Commitment`]'s) for each.
#[derive(Debug, Default)]
pub(super) struct Known {
    names: BTreeSet<Word>,
    path: Option<PathBuf>,
    /// Whether the file lacks a name.
    behind: bool,
}

impl Known {
    /// The names of a file; none when it is not there.
    pub(super) fn open(path: Option<PathBuf>) -> io::Result<Self> {
        let Some(path) = path else {
            return Ok(Self::default());
        };
        let said = |why: String| {
            let text = format!("{}: {why}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        let mut names = BTreeSet::new();
        match fs::metadata(&path) {
            Ok(facts) if facts.len() > MOST_BYTES => {
                return Err(said(format!("longer than {MOST_BYTES} bytes")));
            }
            Ok(_) => {
                for (i, line) in fs::read_to_string(&path)?.lines().enumerate() {
                    let name = line.parse::<Commitment>();
                    let name = name.map_err(|why| said(format!("line {}: {why}", i + 1)))?;
                    names.insert(name.0);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self {
            names,
            path: Some(path),
            behind: false,
        })
    }

    pub(super) fn insert(&mut self, name: Word) {
        self.behind |= self.names.insert(name);
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Word> {
        self.names.iter()
    }

    /// Writes the file, if it lacks a name.
    pub(super) fn save(&mut self) -> io::Result<()> {
        if let Some(path) = self.path.as_ref().filter(|_| self.behind) {
            let lines = self
                .names
                .iter()
                .map(|name| format!("{}\n", Commitment(*name)));
            let text = lines.collect::<String>();
            write_whole(path, text.as_bytes()).map_err(io::Error::other)?;
        }
        self.behind = false;
        Ok(())
    }
}
