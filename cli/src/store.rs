//! Stores of blobs and their sources.

use std::path::Path;
use std::sync::Arc;

use blue_node::fetch::{FolderSource, HttpSource, Source};
use blue_node::store::StoreError;

use crate::failure::{Code, Context, Failure, Outcome};

/// What the caller can do about a store's error decides its code.
pub(crate) fn failure(error: StoreError) -> Failure {
    let (code, hint) = match &error {
        StoreError::NotABlob { .. } => (
            Code::Input,
            Some("name a whole file that `blue export` wrote"),
        ),
        StoreError::OtherBytes { .. } => (Code::Mismatch, None),
        StoreError::Locked { .. } => (
            Code::Runtime,
            Some(
                "a running node repairs its own store; stage a blob by importing it into a folder that is one of its --from",
            ),
        ),
        StoreError::NoSpace { .. } => (
            Code::Runtime,
            Some("make room and run the command again: what has arrived is kept"),
        ),
        StoreError::Damaged { .. } => (
            Code::Runtime,
            Some(
                "the disk gives back other bytes than were written; run the command again for these chunks alone",
            ),
        ),
        _ => (Code::Runtime, None),
    };
    let failure = Failure::new(code, error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

/// Addresses and folders after `--from`.
pub(crate) fn sources(from: &[String]) -> Outcome<Vec<Arc<dyn Source>>> {
    from.iter().map(|text| source(text)).collect()
}

fn source(text: &str) -> Outcome<Arc<dyn Source>> {
    if text.contains("://") {
        let source = HttpSource::new(text).or_input("a bad source")?;
        return Ok(Arc::new(source));
    }
    let folder = Path::new(text);
    if !folder.is_dir() {
        return Err(Failure::input(format!("{text} is no folder"))
            .hint("a source is a folder, or an address that begins with http:// or https://"));
    }
    Ok(Arc::new(FolderSource::new(folder)))
}
