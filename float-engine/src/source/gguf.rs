//! A GGUF file. The file is memory-mapped; a tensor is decoded when it is read.

use super::{LayerRole, Role, SourceError, Store};
use crate::config::{Family, ModelConfig};
use memmap2::Mmap;
use quant_core::Format;
use quant_core::gguf::GgufFile;
use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;

pub(super) struct GgufStore {
    map: Mmap,
    tensors: HashMap<String, (Format, Vec<usize>, Range<usize>)>,
}

/// Maps a regular file for reading.
#[allow(unsafe_code)]
pub(crate) fn map_file(path: &Path) -> std::io::Result<Mmap> {
    let file = crate::files::open_regular(path)?;
    // SAFETY: the mapping is read-only and private to this process; that nobody shortens or rewrites a
    // checkpoint file while it is open is a documented condition of `Checkpoint::open`.
    unsafe { Mmap::map(&file) }
}

fn defect(e: impl std::fmt::Display) -> SourceError {
    SourceError::Gguf {
        detail: e.to_string(),
    }
}

impl GgufStore {
    /// Maps `path` and checks its header; tensor data are not read.
    pub(super) fn open(path: &Path) -> Result<(ModelConfig, Self), SourceError> {
        let map = map_file(path).map_err(SourceError::io(path))?;
        let file = GgufFile::parse(&map).map_err(defect)?;
        let config = ModelConfig::from_gguf(&file)?;
        let mut tensors = HashMap::new();
        for t in file.tensors() {
            let shape = t
                .shape
                .iter()
                .map(|&d| usize::try_from(d))
                .collect::<Result<Vec<_>, _>>()
                .map_err(defect)?;
            let data = file.data(t);
            let start = data.as_ptr() as usize - map.as_ptr() as usize;
            tensors.insert(t.name.clone(), (t.format, shape, start..start + data.len()));
        }
        Ok((config, Self { map, tensors }))
    }
}

impl Store for GgufStore {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tensors.keys().cloned().collect();
        names.sort();
        names
    }

    fn name_of(&self, role: Role) -> String {
        role.gguf_name()
    }

    fn is_ignored(&self, _name: &str) -> bool {
        false
    }

    fn check(&self, name: &str) -> Option<Result<Vec<usize>, SourceError>> {
        self.tensors
            .get(name)
            .map(|(_, shape, _)| Ok(shape.clone()))
    }

    fn read(&self, role: Role, config: &ModelConfig) -> Result<Vec<f32>, SourceError> {
        let expected = role.shape(config);
        let name = role.gguf_name();
        let Some((format, shape, range)) = self.tensors.get(&name) else {
            return Err(SourceError::MissingTensor {
                tensor: name,
                expected,
            });
        };
        // the file's reader has checked that the shape's product fits the data
        let mut data = vec![0.0; shape.iter().product()];
        quant_core::dequantize(*format, &self.map[range.clone()], &mut data).map_err(defect)?;
        let heads = match role {
            Role::Layer(_, LayerRole::Q) => config.heads,
            Role::Layer(_, LayerRole::K) => config.kv_heads,
            _ => return Ok(data),
        };
        Ok(match config.family {
            Family::Llama => unpermute(&data, heads, config.head_dim, config.hidden),
            Family::Qwen3 => data,
        })
    }
}

/// Turns the rows of a llama GGUF projection, where pair `i` of a head is rows `2i` and `2i + 1`, into the
/// half-split layout, where it is rows `i` and `i + head_dim / 2`.
fn unpermute(data: &[f32], heads: usize, head_dim: usize, cols: usize) -> Vec<f32> {
    let mut out = Vec::with_capacity(data.len());
    for h in 0..heads {
        for half in 0..2 {
            for i in 0..head_dim / 2 {
                let row = h * head_dim + 2 * i + half;
                out.extend_from_slice(&data[row * cols..(row + 1) * cols]);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpermute_undoes_the_interleaving() {
        // 2 heads of 4 rows, 1 column; the value names head and row in the half-split layout
        let interleaved = [0.0, 2.0, 1.0, 3.0, 10.0, 12.0, 11.0, 13.0];
        assert_eq!(
            unpermute(&interleaved, 2, 4, 1),
            [0.0, 1.0, 2.0, 3.0, 10.0, 11.0, 12.0, 13.0]
        );
    }
}
