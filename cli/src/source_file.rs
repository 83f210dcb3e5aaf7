//! Checkpoints: a Hugging Face folder or a `.gguf` file.

use std::path::Path;

use float_engine::forward::FloatModel;
use float_engine::source::Checkpoint;

use crate::failure::{Context, Outcome};
use crate::progress::Progress;
use crate::sniff;

/// Opens a checkpoint; names, types and shapes are checked.
pub(crate) fn open(path: &Path) -> Outcome<Checkpoint> {
    sniff::expect_checkpoint(path)?;
    Checkpoint::open(path)
        .or_input(format!("cannot use the checkpoint {}", path.display()))
        .map_err(|e| e.hint("a checkpoint is a folder with config.json and *.safetensors, or a .gguf file, of a dense Qwen3 or Llama"))
}

/// Loads every weight of a checkpoint for the float forward pass.
pub(crate) fn load(
    path: &Path,
    checkpoint: &Checkpoint,
    progress: Progress,
) -> Outcome<FloatModel> {
    let spinner = progress.spinner("loading the checkpoint");
    let model = FloatModel::load(checkpoint)
        .or_input(format!("cannot use the checkpoint {}", path.display()))?;
    spinner.finish_and_clear();
    Ok(model)
}
