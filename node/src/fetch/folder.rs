//! A folder with the layout of a store: another store, a mounted disk.

use super::source::{Request, Source, SourceError};
use crate::store::file_name;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Bytes handed over at a time.
const PIECE: usize = 65536;

/// Files in a folder, named as in a store.
#[derive(Clone, Debug)]
pub struct FolderSource {
    dir: PathBuf,
    name: String,
}

impl FolderSource {
    /// The folder `dir`; whether it is there is found out when it is read.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        let dir = dir.into();
        let name = dir.display().to_string();
        Self { dir, name }
    }
}

impl Source for FolderSource {
    fn name(&self) -> &str {
        &self.name
    }

    fn read(
        &self,
        request: &Request,
        take: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
    ) -> Result<(), SourceError> {
        let path = self.dir.join(file_name(request.commitment, request.what));
        // Before it is opened: opening a pipe waits for its other end.
        if !fs::metadata(&path)?.is_file() {
            return Err(SourceError::Io("is not a regular file".into()));
        }
        let mut file = File::open(&path)?;
        file.seek(SeekFrom::Start(request.range.start))?;
        let asked = request.range.end.saturating_sub(request.range.start);
        let (mut got, mut piece) = (0, vec![0; PIECE]);
        while got < asked {
            let len = (asked - got).min(PIECE as u64) as usize;
            match file.read(&mut piece[..len]) {
                Ok(0) => return Err(SourceError::Fewer { got, asked }),
                Ok(n) => {
                    got += n as u64;
                    if take(&piece[..n]).is_break() {
                        return Ok(());
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }
}
