//! Checkpoints: the tensors of a model by role, read one layer at a time.
//!
//! Values are widened to f32 exactly, −0 becomes 0, and NaN or an infinity is refused, so that the same
//! values stored as bf16, f16 or f32, in one file or many, give the same [`Checkpoint::fingerprint`].

mod error;
mod folder;
pub(crate) mod gguf;
mod header;
mod role;
mod save;

pub use error::SourceError;
pub use role::{LayerRole, Role};
pub use save::{SaveDtype, SaveOptions};

use crate::config::{Family, ModelConfig};
use sha2::{Digest, Sha256};
use std::path::Path;

/// A matrix in row-major order; a linear layer's is `[out, in]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    /// Number of rows (outputs).
    pub rows: usize,
    /// Number of columns (inputs).
    pub cols: usize,
    /// `rows * cols` values.
    pub data: Vec<f32>,
}

impl Matrix {
    /// A matrix from its values.
    ///
    /// # Panics
    /// When `data` does not hold `rows * cols` values.
    pub fn new(rows: usize, cols: usize, data: Vec<f32>) -> Self {
        assert_eq!(
            Some(data.len()),
            rows.checked_mul(cols),
            "a {rows} x {cols} matrix needs rows * cols values"
        );
        Self { rows, cols, data }
    }

    /// Row `i`, the weights of output `i`.
    ///
    /// # Panics
    /// When `i >= rows`.
    pub fn row(&self, i: usize) -> &[f32] {
        &self.data[i * self.cols..(i + 1) * self.cols]
    }
}

/// The weights of one decoder layer.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerWeights {
    /// Gain of the norm before attention, `[hidden]`.
    pub attn_norm: Vec<f32>,
    /// Query projection, `[heads * head_dim, hidden]`, in the half-split rope layout.
    pub q: Matrix,
    /// Key projection, `[kv_heads * head_dim, hidden]`, in the half-split rope layout.
    pub k: Matrix,
    /// Value projection, `[kv_heads * head_dim, hidden]`.
    pub v: Matrix,
    /// Output projection of attention, `[hidden, heads * head_dim]`.
    pub o: Matrix,
    /// Gain of the norm of each query head, `[head_dim]`; present exactly when `qk_norm`.
    pub q_norm: Option<Vec<f32>>,
    /// Gain of the norm of each key head, `[head_dim]`; present exactly when `qk_norm`.
    pub k_norm: Option<Vec<f32>>,
    /// Gain of the norm before the MLP, `[hidden]`.
    pub ffn_norm: Vec<f32>,
    /// Gate projection, `[intermediate, hidden]`.
    pub gate: Matrix,
    /// Up projection, `[intermediate, hidden]`.
    pub up: Matrix,
    /// Down projection, `[hidden, intermediate]`.
    pub down: Matrix,
}

impl LayerWeights {
    /// The values of one tensor; `None` for a q or k gain that the layer does not have.
    fn tensor(&self, role: LayerRole) -> Option<(Vec<usize>, &[f32])> {
        let vector = |v: &'_ Vec<f32>| vec![v.len()];
        Some(match role {
            LayerRole::AttnNorm => (vector(&self.attn_norm), &self.attn_norm[..]),
            LayerRole::FfnNorm => (vector(&self.ffn_norm), &self.ffn_norm[..]),
            LayerRole::QNorm => self.q_norm.as_ref().map(|v| (vector(v), &v[..]))?,
            LayerRole::KNorm => self.k_norm.as_ref().map(|v| (vector(v), &v[..]))?,
            LayerRole::Q => matrix_parts(&self.q),
            LayerRole::K => matrix_parts(&self.k),
            LayerRole::V => matrix_parts(&self.v),
            LayerRole::O => matrix_parts(&self.o),
            LayerRole::Gate => matrix_parts(&self.gate),
            LayerRole::Up => matrix_parts(&self.up),
            LayerRole::Down => matrix_parts(&self.down),
        })
    }
}

fn matrix_parts(m: &Matrix) -> (Vec<usize>, &[f32]) {
    (vec![m.rows, m.cols], &m.data)
}

/// Where a checkpoint's tensors come from.
trait Store: Send + Sync {
    /// Every tensor name in the files, sorted.
    fn names(&self) -> Vec<String>;
    /// The name of a role's tensor here.
    fn name_of(&self, role: Role) -> String;
    /// Whether a tensor without a role is harmless.
    fn is_ignored(&self, name: &str) -> bool;
    /// The shape of a tensor, outermost first, or why its type cannot be read; `None` when absent.
    fn check(&self, name: &str) -> Option<Result<Vec<usize>, SourceError>>;
    /// The values of a tensor that [`Store::check`] accepted, row-major, in the half-split rope layout.
    fn read(&self, role: Role, config: &ModelConfig) -> Result<Vec<f32>, SourceError>;
}

/// An open checkpoint.
pub struct Checkpoint {
    config: ModelConfig,
    store: Box<dyn Store>,
}

impl std::fmt::Debug for Checkpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Checkpoint")
            .field("config", &self.config)
            .finish_non_exhaustive()
    }
}

impl Checkpoint {
    /// Opens a Hugging Face folder, or a `.gguf` file.
    ///
    /// Files are memory-mapped: they must not be changed while the checkpoint is open. Names, types and
    /// shapes of all tensors are checked here; values are checked when a tensor is read.
    ///
    /// # Errors
    /// A defect of the configuration or of the files; see [`SourceError`].
    pub fn open(path: &Path) -> Result<Self, SourceError> {
        if path.is_dir() {
            let config = ModelConfig::from_hf_folder(path)?;
            let store = folder::HfFolder::open(path)?;
            return Self::checked(config, Box::new(store));
        }
        if path
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("gguf"))
        {
            let (config, store) = gguf::GgufStore::open(path)?;
            return Self::checked(config, Box::new(store));
        }
        Err(SourceError::NoWeights {
            path: path.to_owned(),
        })
    }

    /// A checkpoint from weights in memory.
    ///
    /// # Errors
    /// A configuration, shape or value that would also be refused in a file.
    pub fn from_parts(
        config: ModelConfig,
        embed: Matrix,
        layers: Vec<LayerWeights>,
        final_norm: Vec<f32>,
        lm_head: Option<Matrix>,
    ) -> Result<Self, SourceError> {
        config.validate()?;
        if layers.len() != config.layers {
            return Err(SourceError::LayerCount {
                found: layers.len(),
                expected: config.layers,
            });
        }
        let parts = Parts {
            embed,
            layers,
            final_norm,
            lm_head,
        };
        let checkpoint = Self::checked(config, Box::new(parts))?;
        for role in Role::all(&checkpoint.config) {
            checkpoint.tensor(role)?;
        }
        Ok(checkpoint)
    }

    fn checked(config: ModelConfig, store: Box<dyn Store>) -> Result<Self, SourceError> {
        let mut wanted = std::collections::HashSet::new();
        for role in Role::all(&config) {
            let tensor = store.name_of(role);
            let expected = role.shape(&config);
            let found = match store.check(&tensor) {
                None => return Err(SourceError::MissingTensor { tensor, expected }),
                Some(shape) => shape?,
            };
            if found != expected {
                return Err(SourceError::Shape {
                    tensor,
                    found,
                    expected,
                });
            }
            wanted.insert(tensor);
        }
        let head = store.name_of(Role::LmHead);
        for tensor in store.names() {
            if wanted.contains(&tensor)
                || store.is_ignored(&tensor)
                || (config.tied && tensor == head)
            {
                continue;
            }
            if tensor.ends_with(".bias") {
                return Err(SourceError::Bias { tensor });
            }
            return Err(SourceError::UnknownTensor {
                tensor,
                family: config.family.name(),
            });
        }
        let checkpoint = Self { config, store };
        if checkpoint.config.tied {
            checkpoint.check_tied_head(head)?;
        }
        Ok(checkpoint)
    }

    /// A tied model may store its head as well, if it equals the embedding.
    fn check_tied_head(&self, head: String) -> Result<(), SourceError> {
        let Some(found) = self.store.check(&head) else {
            return Ok(());
        };
        let (found, expected) = (found?, Role::LmHead.shape(&self.config));
        if found != expected {
            return Err(SourceError::Shape {
                tensor: head,
                found,
                expected,
            });
        }
        let (embed, lm_head) = (self.tensor(Role::Embed)?, self.tensor(Role::LmHead)?);
        match embed.iter().zip(&lm_head).position(|(a, b)| a != b) {
            None => Ok(()),
            Some(index) => Err(SourceError::TiedHeadDiffers {
                tensor: head,
                index,
            }),
        }
    }

    /// The architecture.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The token embedding, `[vocab, hidden]`.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn embed(&self) -> Result<Matrix, SourceError> {
        self.matrix(Role::Embed)
    }

    /// The weights of layer `i`.
    ///
    /// # Errors
    /// A layer that does not exist; a value that is not finite.
    pub fn layer(&self, i: usize) -> Result<LayerWeights, SourceError> {
        if i >= self.config.layers {
            return Err(SourceError::LayerCount {
                found: i.saturating_add(1),
                expected: self.config.layers,
            });
        }
        let vector = |r| self.tensor(Role::Layer(i, r));
        let matrix = |r| self.matrix(Role::Layer(i, r));
        let gain = |r| {
            if self.config.qk_norm {
                vector(r).map(Some)
            } else {
                Ok(None)
            }
        };
        Ok(LayerWeights {
            attn_norm: vector(LayerRole::AttnNorm)?,
            q: matrix(LayerRole::Q)?,
            k: matrix(LayerRole::K)?,
            v: matrix(LayerRole::V)?,
            o: matrix(LayerRole::O)?,
            q_norm: gain(LayerRole::QNorm)?,
            k_norm: gain(LayerRole::KNorm)?,
            ffn_norm: vector(LayerRole::FfnNorm)?,
            gate: matrix(LayerRole::Gate)?,
            up: matrix(LayerRole::Up)?,
            down: matrix(LayerRole::Down)?,
        })
    }

    /// The gain of the last norm, `[hidden]`.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn final_norm(&self) -> Result<Vec<f32>, SourceError> {
        self.tensor(Role::FinalNorm)
    }

    /// The output head, `[vocab, hidden]`; `None` when it is the embedding.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn lm_head(&self) -> Result<Option<Matrix>, SourceError> {
        if self.config.tied {
            Ok(None)
        } else {
            self.matrix(Role::LmHead).map(Some)
        }
    }

    /// SHA-256 of the architecture and of every weight as f32 in canonical order.
    ///
    /// The stored type, the sharding and the file format do not matter; reads the whole checkpoint.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn fingerprint(&self) -> Result<[u8; 32], SourceError> {
        let c = &self.config;
        let mut hash = Sha256::new();
        hash.update(b"float-engine checkpoint 1\0");
        let dims = [
            c.hidden,
            c.layers,
            c.heads,
            c.kv_heads,
            c.head_dim,
            c.intermediate,
            c.vocab,
            c.max_context,
            c.eos_ids.len(),
        ];
        for d in dims {
            hash.update((d as u64).to_le_bytes());
        }
        for id in &c.eos_ids {
            hash.update(id.to_le_bytes());
        }
        hash.update(c.rope_theta.to_le_bytes());
        hash.update(c.rms_eps.to_le_bytes());
        let family = match c.family {
            Family::Qwen3 => 0,
            Family::Llama => 1,
        };
        hash.update([u8::from(c.qk_norm), u8::from(c.tied), family]);
        let mut bytes = Vec::new();
        for role in Role::all(c) {
            for chunk in self.tensor(role)?.chunks(1 << 16) {
                bytes.clear();
                bytes.extend(chunk.iter().flat_map(|x| x.to_le_bytes()));
                hash.update(&bytes);
            }
        }
        Ok(hash.finalize().into())
    }

    fn matrix(&self, role: Role) -> Result<Matrix, SourceError> {
        let data = self.tensor(role)?;
        let shape = role.shape(&self.config);
        Ok(Matrix::new(shape[0], shape[1], data))
    }

    /// The values of one tensor, row-major: finite, with no −0.
    ///
    /// # Errors
    /// A value that is not finite.
    pub fn tensor(&self, role: Role) -> Result<Vec<f32>, SourceError> {
        let mut data = self.store.read(role, &self.config)?;
        for (index, x) in data.iter_mut().enumerate() {
            if !x.is_finite() {
                return Err(SourceError::NonFinite {
                    tensor: self.store.name_of(role),
                    index,
                    value: *x,
                });
            }
            // −0 + 0 is +0; every other value is unchanged.
            *x += 0.0;
        }
        Ok(data)
    }
}

fn unsupported_dtype(tensor: &str, found: &str) -> SourceError {
    SourceError::Dtype {
        tensor: tensor.to_owned(),
        found: found.to_owned(),
        supported: "F32, F16, BF16",
    }
}

/// Weights in memory, under their Hugging Face names.
struct Parts {
    embed: Matrix,
    layers: Vec<LayerWeights>,
    final_norm: Vec<f32>,
    lm_head: Option<Matrix>,
}

impl Parts {
    fn get(&self, role: Role) -> Option<(Vec<usize>, &[f32])> {
        match role {
            Role::Embed => Some(matrix_parts(&self.embed)),
            Role::FinalNorm => Some((vec![self.final_norm.len()], &self.final_norm)),
            Role::LmHead => self.lm_head.as_ref().map(matrix_parts),
            Role::Layer(i, r) => self.layers.get(i)?.tensor(r),
        }
    }

    fn roles(&self) -> impl Iterator<Item = Role> {
        let layers = (0..self.layers.len())
            .flat_map(|i| LayerRole::ALL.into_iter().map(move |r| Role::Layer(i, r)));
        [Role::Embed, Role::FinalNorm, Role::LmHead]
            .into_iter()
            .chain(layers)
    }
}

impl Store for Parts {
    fn names(&self) -> Vec<String> {
        self.roles()
            .filter(|&r| self.get(r).is_some())
            .map(Role::hf_name)
            .collect()
    }

    fn name_of(&self, role: Role) -> String {
        role.hf_name()
    }

    fn is_ignored(&self, _name: &str) -> bool {
        false
    }

    fn check(&self, name: &str) -> Option<Result<Vec<usize>, SourceError>> {
        let role = self.roles().find(|r| r.hf_name() == name)?;
        self.get(role).map(|(shape, _)| Ok(shape))
    }

    fn read(&self, role: Role, config: &ModelConfig) -> Result<Vec<f32>, SourceError> {
        match self.get(role) {
            Some((_, data)) => Ok(data.to_vec()),
            None => Err(SourceError::MissingTensor {
                tensor: role.hf_name(),
                expected: role.shape(config),
            }),
        }
    }
}
