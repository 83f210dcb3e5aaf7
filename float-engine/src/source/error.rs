//! Why a checkpoint was refused.

use crate::config::ConfigError;
use std::path::PathBuf;

/// A defect of a checkpoint, or trouble in reading or writing one.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// The architecture was refused.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// Neither a folder with weights nor a GGUF file.
    #[error(
        "{path} holds no weights: expected a .gguf file, or a folder with model.safetensors or model.safetensors.index.json"
    )]
    NoWeights {
        /// The path opened.
        path: PathBuf,
    },
    /// A folder with a single file and an index, so that it is unclear which counts.
    #[error("{path} holds both model.safetensors and model.safetensors.index.json; remove one")]
    AmbiguousWeights {
        /// The folder.
        path: PathBuf,
    },
    /// The header of a safetensors file is malformed.
    #[error("{file}: {detail}")]
    Header {
        /// The file's name.
        file: String,
        /// The defect.
        detail: String,
    },
    /// The byte range of a tensor does not fit its file, its neighbours or its shape.
    #[error("{file}: tensor `{tensor}`: {detail}")]
    Extent {
        /// The file's name.
        file: String,
        /// The tensor.
        tensor: String,
        /// The defect.
        detail: String,
    },
    /// The index of a sharded checkpoint is malformed.
    #[error("model.safetensors.index.json: {detail}")]
    Index {
        /// The defect.
        detail: String,
    },
    /// A shard's name in the index is not a plain file name.
    #[error(
        "model.safetensors.index.json names the file `{name}`; only plain file names are allowed"
    )]
    ShardName {
        /// The name found.
        name: String,
    },
    /// A shard that the index names is absent.
    #[error("shard `{name}` is missing")]
    MissingShard {
        /// The shard's file name.
        name: String,
    },
    /// A tensor is in two shards, or twice in one file.
    #[error("tensor `{tensor}` is in `{first}` and in `{second}`")]
    DuplicateTensor {
        /// The tensor.
        tensor: String,
        /// One file.
        first: String,
        /// The other file, or the same one.
        second: String,
    },
    /// The index and a shard disagree on where a tensor is.
    #[error("tensor `{tensor}`: the index says `{indexed}`, but it is {found}")]
    Misplaced {
        /// The tensor.
        tensor: String,
        /// The file that the index names, or "nowhere".
        indexed: String,
        /// Where it was found.
        found: String,
    },
    /// A tensor that the architecture needs is absent.
    #[error("tensor `{tensor}` is missing; expected shape {expected:?}")]
    MissingTensor {
        /// The tensor.
        tensor: String,
        /// The shape it must have.
        expected: Vec<usize>,
    },
    /// A tensor's shape does not follow from the configuration.
    #[error("tensor `{tensor}` has shape {found:?}; expected {expected:?}")]
    Shape {
        /// The tensor.
        tensor: String,
        /// The shape found, outermost dimension first.
        found: Vec<usize>,
        /// The shape it must have.
        expected: Vec<usize>,
    },
    /// A tensor of a type other than F32, F16, BF16 (or a GGUF block format).
    #[error("tensor `{tensor}` has type {found}; supported: {supported}")]
    Dtype {
        /// The tensor.
        tensor: String,
        /// The type found.
        found: String,
        /// The supported types.
        supported: &'static str,
    },
    /// A bias, which the forward pass does not add.
    #[error("tensor `{tensor}` is a bias; models with biases are not supported")]
    Bias {
        /// The tensor.
        tensor: String,
    },
    /// A tensor that the architecture does not have.
    #[error("tensor `{tensor}` is not part of a {family} model with this configuration")]
    UnknownTensor {
        /// The tensor.
        tensor: String,
        /// The family's name.
        family: &'static str,
    },
    /// A value that is NaN or infinite.
    #[error("tensor `{tensor}` holds {value} at index {index}; every weight must be finite")]
    NonFinite {
        /// The tensor.
        tensor: String,
        /// Row-major index in the tensor as stored.
        index: usize,
        /// The value.
        value: f32,
    },
    /// The configuration ties the head to the embedding, but the file holds a different head.
    #[error(
        "tie_word_embeddings is true, but `{tensor}` differs from the embedding at index {index}"
    )]
    TiedHeadDiffers {
        /// The head's name.
        tensor: String,
        /// Row-major index of the first difference.
        index: usize,
    },
    /// A number of layers other than the configuration's.
    #[error("{found} layers; the configuration says {expected}")]
    LayerCount {
        /// Layers given, or one more than the index asked for.
        found: usize,
        /// Layers of the configuration.
        expected: usize,
    },
    /// A value that does not fit in the type to be written.
    #[error("tensor `{tensor}`: {value} at index {index} is too large for {dtype}")]
    TooLarge {
        /// The tensor.
        tensor: String,
        /// Row-major index.
        index: usize,
        /// The value.
        value: f32,
        /// The type to be written.
        dtype: &'static str,
    },
    /// A GGUF file was refused.
    #[error("GGUF: {detail}")]
    Gguf {
        /// The defect.
        detail: String,
    },
}

impl SourceError {
    pub(crate) fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| SourceError::Io { path, source }
    }
}
