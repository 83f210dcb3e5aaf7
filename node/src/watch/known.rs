//! The names of the registry that a node has seen, kept in a file.

use precompile::word::Word;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The longest file that is read: a million names.
const MOST_BYTES: u64 = 65_000_000;

/// Names, and the file they are kept in, if any: a line of 64 hexadecimal digits for each.
#[derive(Debug, Default)]
pub(super) struct Known {
    names: BTreeSet<Word>,
    path: Option<PathBuf>,
    /// Whether the file lacks a name.
    behind: bool,
}

fn parse(line: &str) -> Option<Word> {
    let digits = line.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    let mut name = [0; 32];
    for (byte, pair) in name.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(name)
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
                    let name = parse(line).ok_or_else(|| {
                        said(format!("line {} is not 64 hexadecimal digits", i + 1))
                    })?;
                    names.insert(name);
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
            write(path, &self.names)?;
        }
        self.behind = false;
        Ok(())
    }
}

fn write(path: &Path, names: &BTreeSet<Word>) -> io::Result<()> {
    let mut text = String::new();
    for name in names {
        name.iter()
            .for_each(|byte| text.push_str(&format!("{byte:02x}")));
        text.push('\n');
    }
    let beside = path.with_extension("part");
    let mut file = File::create(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&beside, path)?;
    if let Some(folder) = path.parent().filter(|_| cfg!(unix)) {
        let folder = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        File::open(folder)?.sync_all()?;
    }
    Ok(())
}
