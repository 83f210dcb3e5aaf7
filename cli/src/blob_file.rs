//! Blob files: read in pieces, never held twice.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::failure::{Failure, Outcome};
use crate::progress::Progress;

/// Bytes handed on at a time.
const PIECE: usize = 1 << 20;

/// Calls `take` with each piece of the file in order.
pub(crate) fn pieces(
    path: &Path,
    label: &str,
    progress: Progress,
    mut take: impl FnMut(&[u8]) -> Outcome,
) -> Outcome {
    let mut file = File::open(path).map_err(|e| Failure::file(path, e))?;
    let bar = progress.bytes(
        label,
        file.metadata().map_err(|e| Failure::file(path, e))?.len(),
    );
    let mut piece = vec![0; PIECE];
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                take(&piece[..n])?;
                bar.inc(n as u64);
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Failure::file(path, e)),
        }
    }
    bar.finish_and_clear();
    Ok(())
}
