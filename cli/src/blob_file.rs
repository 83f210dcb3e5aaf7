//! Blob files: read in pieces, never held twice.

use std::io::Read;
use std::path::Path;

use int_engine::blob::{Header, LoadError, Loader, MAX_MANIFEST_LEN, RECORD_LEN};
use int_engine::model::Model;

use crate::failure::{Code, Context, Failure, Outcome};
use crate::files;
use crate::progress::Progress;
use crate::sniff;

/// Bytes handed on at a time.
const PIECE: usize = 1 << 20;

/// Calls `take` with each piece of the file in order.
pub(crate) fn pieces(
    path: &Path,
    label: &str,
    progress: Progress,
    mut take: impl FnMut(&[u8]) -> Outcome,
) -> Outcome {
    let (mut file, len) = files::open(path)?;
    let mut bar = progress.bytes(label, len);
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

/// A blob is read and checked whole; peak memory is the model and one piece.
///
/// `loader` may expect a commitment; which exit code a defect has is the caller's to say.
pub(crate) fn load(
    path: &Path,
    mut loader: Loader,
    code: Code,
    progress: Progress,
) -> Outcome<Model> {
    let refused = |e: LoadError| {
        let e = match e {
            LoadError::Blob(e) => e,
            LoadError::Fault(e) => {
                let said = format!("cannot load {}", path.display());
                return Failure::new(Code::Runtime, anyhow::Error::new(e).context(said));
            }
        };
        let said = if code == Code::Mismatch {
            "is not the blob of this commitment"
        } else {
            "does not load"
        };
        Failure::new(
            code,
            anyhow::Error::new(e).context(format!("{} {said}", path.display())),
        )
        .hint("a blob is a file that `blue export` writes; copy it again or export again")
    };
    sniff::expect_blob(path)?;
    pieces(path, "loading", progress, |piece| {
        loader.push(piece).map_err(refused)
    })?;
    loader.finish().map_err(refused)
}

/// Record and manifest of a blob; the tensors are not read.
pub(crate) fn header(path: &Path) -> Outcome<(Header, u64)> {
    sniff::expect_blob(path)?;
    let (file, len) = files::open(path)?;
    let mut prefix = Vec::new();
    file.take(RECORD_LEN as u64 + u64::from(MAX_MANIFEST_LEN))
        .read_to_end(&mut prefix)
        .map_err(|e| Failure::file(path, e))?;
    let header = Header::parse(&prefix)
        .or_input(format!("{} is not a blob", path.display()))
        .map_err(|e| e.hint("name a file that `blue export` wrote"))?;
    Ok((header, len))
}
