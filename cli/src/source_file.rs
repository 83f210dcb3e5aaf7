//! Checkpoints: a Hugging Face folder or a `.gguf` file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use float_engine::forward::FloatModel;
use float_engine::source::Checkpoint;

use crate::failure::{Context, Failure, Outcome};
use crate::progress::Progress;

/// Whether `path` is a checkpoint rather than a blob, by what it is: a folder, or a file with GGUF's magic number.
pub(crate) fn is_checkpoint(path: &Path) -> Outcome<bool> {
    if path.is_dir() {
        return Ok(true);
    }
    let mut magic = Vec::new();
    let file = File::open(path).map_err(|e| Failure::file(path, e))?;
    file.take(4)
        .read_to_end(&mut magic)
        .map_err(|e| Failure::file(path, e))?;
    Ok(magic == b"GGUF")
}

/// Opens a checkpoint; names, types and shapes are checked.
pub(crate) fn open(path: &Path) -> Outcome<Checkpoint> {
    std::fs::metadata(path).map_err(|e| Failure::file(path, e))?;
    Checkpoint::open(path)
        .or_input(format!("cannot use the checkpoint {}", path.display()))
        .map_err(|e| e.hint("a checkpoint is a folder with config.json and *.safetensors, or a .gguf file, of a dense Qwen3 or Llama"))
}

/// Loads every weight of a checkpoint for the float forward pass.
pub(crate) fn load(path: &Path, progress: Progress) -> Outcome<FloatModel> {
    let checkpoint = open(path)?;
    let spinner = progress.spinner("loading the checkpoint");
    let model = FloatModel::load(&checkpoint)
        .or_input(format!("cannot use the checkpoint {}", path.display()))?;
    spinner.finish_and_clear();
    Ok(model)
}
