//! The files beside a blob: `NAME.tokenizer.json` and `NAME.chat_template.jinja` for `NAME.blob`.

use std::path::{Path, PathBuf};

use int_engine::commitment::keccak256;

use crate::failure::{Failure, Outcome};
use crate::output;

const TOKENIZER: &str = ".tokenizer.json";
const CHAT_TEMPLATE: &str = ".chat_template.jinja";

/// Largest file that is read as a tokenizer or a template.
const MAX_BYTES: u64 = 1 << 28;

/// Where the tokenizer file of `blob` stands.
pub(crate) fn tokenizer_path(blob: &Path) -> PathBuf {
    beside(blob, TOKENIZER)
}

/// Where the chat template of `blob` stands.
pub(crate) fn chat_template_path(blob: &Path) -> PathBuf {
    beside(blob, CHAT_TEMPLATE)
}

fn beside(blob: &Path, suffix: &str) -> PathBuf {
    let stem = if blob.extension().is_some_and(|e| e == "blob") {
        blob.with_extension("")
    } else {
        blob.to_path_buf()
    };
    let mut name = stem.into_os_string();
    name.push(suffix);
    PathBuf::from(name)
}

/// The tokenizer file whose digest the blob holds; `None` when the blob has none or no file stands beside it.
///
/// A file of another digest is a mismatch.
pub(crate) fn tokenizer(blob: &Path, digest: [u8; 32]) -> Outcome<Option<Vec<u8>>> {
    if digest == [0; 32] {
        return Ok(None);
    }
    let path = tokenizer_path(blob);
    let Some(bytes) = read(&path)? else {
        return Ok(None);
    };
    let found = keccak256(&bytes);
    if found != digest {
        return Err(Failure::mismatch(format!(
            "{} has digest {}, the blob asks for {}",
            path.display(),
            output::hex(&found),
            output::hex(&digest)
        ))
        .hint("put the tokenizer file of the same export beside the blob"));
    }
    Ok(Some(bytes))
}

/// The chat template beside the blob.
pub(crate) fn chat_template(blob: &Path) -> Outcome<Option<String>> {
    let path = chat_template_path(blob);
    let Some(bytes) = read(&path)? else {
        return Ok(None);
    };
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|e| Failure::input(format!("{} is not UTF-8: {e}", path.display())))
}

fn read(path: &Path) -> Outcome<Option<Vec<u8>>> {
    match std::fs::metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(Failure::file(path, e)),
        Ok(facts) if facts.len() > MAX_BYTES => {
            return Err(Failure::input(format!(
                "{} has {} bytes, at most {MAX_BYTES} are read",
                path.display(),
                facts.len()
            )));
        }
        Ok(_) => {}
    }
    std::fs::read(path)
        .map(Some)
        .map_err(|e| Failure::file(path, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_blob() {
        assert_eq!(
            tokenizer_path(Path::new("a/m.v2.blob")),
            Path::new("a/m.v2.tokenizer.json")
        );
        assert_eq!(
            chat_template_path(Path::new("m")),
            Path::new("m.chat_template.jinja")
        );
    }
}
