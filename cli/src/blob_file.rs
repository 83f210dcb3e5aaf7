//! Blob files: read once, in pieces, by several threads, never held twice.

use std::io::{Error, Read};
use std::num::NonZeroUsize;
use std::path::Path;

use int_engine::blob::{Header, LoadError, Loader, MAX_MANIFEST_LEN, RECORD_LEN};
use int_engine::commitment::Tree;
use int_engine::model::Model;
use int_engine::read::ReadError;

use crate::failure::{Code, Context, Failure, Outcome};
use crate::files;
use crate::progress::Progress;
use crate::sniff;

/// The tree over a file's chunks.
pub(crate) fn hash(path: &Path, threads: NonZeroUsize, progress: Progress) -> Outcome<Tree> {
    let (file, len) = files::open(path)?;
    let mut bar = progress.bytes("hashing", len);
    let tree = Tree::read(&file, len, threads, |n| bar.inc(n)).map_err(|e| unread(path, e))?;
    bar.finish_and_clear();
    Ok(tree)
}

fn unread(path: &Path, e: ReadError) -> Failure {
    Failure::file(path, Error::new(e.kind, e))
}

/// A blob is read and checked whole; peak memory is the model and a piece for each thread.
///
/// `loader` may expect a commitment; which exit code a defect has is the caller's to say.
pub(crate) fn load(
    path: &Path,
    loader: Loader,
    threads: NonZeroUsize,
    code: Code,
    progress: Progress,
) -> Outcome<Model> {
    let refused = |e: LoadError| {
        let e = match e {
            LoadError::Blob(e) => e,
            LoadError::Read(e) => return unread(path, e),
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
    let (file, len) = files::open(path)?;
    let mut bar = progress.bytes("loading", len);
    let model = loader
        .load(&file, len, threads, |n| bar.inc(n))
        .map_err(refused)?;
    bar.finish_and_clear();
    Ok(model)
}

/// The first bytes of a file, as many as a record has; fewer of a shorter file.
pub(crate) fn head(path: &Path) -> Outcome<Vec<u8>> {
    sniff::expect_blob(path)?;
    let (file, _) = files::open(path)?;
    let mut head = Vec::new();
    let read = file.take(RECORD_LEN as u64).read_to_end(&mut head);
    read.map_err(|e| Failure::file(path, e))?;
    Ok(head)
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
