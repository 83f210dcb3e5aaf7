//! The files beside a blob: `NAME.tokenizer.json` and `NAME.tokenizer_config.json` for `NAME.blob`.

use std::path::{Path, PathBuf};

use float_engine::chat::ChatTemplate;
use int_engine::commitment::keccak256;
use serde::{Deserialize, Serialize};

use crate::failure::{Context, Failure, Outcome};
use crate::{files, output};

const TOKENIZER: &str = ".tokenizer.json";
const CONFIG: &str = ".tokenizer_config.json";

/// Where the tokenizer file of `blob` stands.
pub(crate) fn tokenizer_path(blob: &Path) -> PathBuf {
    beside(blob, TOKENIZER)
}

/// Where the chat template of `blob` stands, with the texts that it refers to.
pub(crate) fn config_path(blob: &Path) -> PathBuf {
    beside(blob, CONFIG)
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
            output::hex(found),
            output::hex(digest)
        ))
        .hint("put the tokenizer file of the same export beside the blob"));
    }
    Ok(Some(bytes))
}

/// The second file beside a blob, a subset of the file of this name in a checkpoint folder.
#[derive(Serialize, Deserialize)]
struct Config {
    chat_template: String,
    #[serde(default)]
    bos_token: String,
    #[serde(default)]
    eos_token: String,
}

/// The chat template beside the blob.
pub(crate) fn chat_template(blob: &Path) -> Outcome<Option<ChatTemplate>> {
    let path = config_path(blob);
    let Some(bytes) = read(&path)? else {
        return Ok(None);
    };
    let config: Config =
        serde_json::from_slice(&bytes).or_input(format!("{} is malformed", path.display()))?;
    let template = ChatTemplate::new(&config.chat_template, &config.bos_token, &config.eos_token);
    template
        .map(Some)
        .or_input(format!("cannot use {}", path.display()))
}

/// Writes the chat template where [`chat_template`] finds it.
pub(crate) fn write_chat_template(blob: &Path, template: &ChatTemplate) -> Outcome {
    let config = Config {
        chat_template: template.source().to_string(),
        bos_token: template.bos_token().to_string(),
        eos_token: template.eos_token().to_string(),
    };
    let text =
        serde_json::to_vec_pretty(&config).or_runtime("cannot encode the chat template as JSON")?;
    files::write(&config_path(blob), |out| out.write_all(&text))
}

fn read(path: &Path) -> Outcome<Option<Vec<u8>>> {
    match std::fs::symlink_metadata(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => files::read(path).map(Some),
    }
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
            config_path(Path::new("m")),
            Path::new("m.tokenizer_config.json")
        );
    }
}
