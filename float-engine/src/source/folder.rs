//! A Hugging Face folder: one safetensors file, or shards with an index. Files are memory-mapped.

use super::header::{self, Dtype};
use super::{Role, SourceError, Store};
use crate::config::ModelConfig;
use memmap2::Mmap;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

const SINGLE: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

pub(super) struct HfFolder {
    files: Vec<Mmap>,
    tensors: HashMap<String, (usize, header::Entry)>,
}

impl HfFolder {
    /// Maps the files of `folder` and checks their headers; tensor data are not read.
    pub(super) fn open(folder: &Path) -> Result<Self, SourceError> {
        let index = folder.join(INDEX);
        match (folder.join(SINGLE).exists(), index.exists()) {
            (true, true) => Err(SourceError::AmbiguousWeights {
                path: folder.to_owned(),
            }),
            (false, false) => Err(SourceError::NoWeights {
                path: folder.to_owned(),
            }),
            (true, false) => Self::load(folder, &[SINGLE.to_owned()]),
            (false, true) => {
                let text = crate::files::read_capped(&index, crate::files::MAX_CONFIG)
                    .map_err(SourceError::io(&index))?;
                let map = parse_index(&text)?;
                let mut names: Vec<String> = map.values().cloned().collect();
                names.sort();
                names.dedup();
                let loaded = Self::load(folder, &names)?;
                for (tensor, indexed) in &map {
                    let found = loaded
                        .tensors
                        .get(tensor)
                        .map(|(file, _)| names[*file].as_str());
                    if found != Some(indexed) {
                        let found = found.map_or("nowhere".to_owned(), |f| format!("in `{f}`"));
                        return Err(SourceError::Misplaced {
                            tensor: tensor.clone(),
                            indexed: indexed.clone(),
                            found,
                        });
                    }
                }
                for (tensor, (file, _)) in &loaded.tensors {
                    if !map.contains_key(tensor) {
                        let found = format!("in `{}`", names[*file]);
                        return Err(SourceError::Misplaced {
                            tensor: tensor.clone(),
                            indexed: "nowhere".into(),
                            found,
                        });
                    }
                }
                Ok(loaded)
            }
        }
    }

    fn load(folder: &Path, names: &[String]) -> Result<Self, SourceError> {
        let mut files = Vec::new();
        let mut tensors: HashMap<String, (usize, header::Entry)> = HashMap::new();
        for (i, name) in names.iter().enumerate() {
            let path = folder.join(name);
            let map = super::gguf::map_file(&path).map_err(|e| match e.kind() {
                std::io::ErrorKind::NotFound => SourceError::MissingShard { name: name.clone() },
                _ => SourceError::Io {
                    path: path.clone(),
                    source: e,
                },
            })?;
            for entry in header::parse(name, &map)? {
                if let Some((other, _)) = tensors.get(&entry.name) {
                    let first = names[*other].clone();
                    return Err(SourceError::DuplicateTensor {
                        tensor: entry.name,
                        first,
                        second: name.clone(),
                    });
                }
                tensors.insert(entry.name.clone(), (i, entry));
            }
            files.push(map);
        }
        Ok(Self { files, tensors })
    }

    fn bytes(&self, file: usize, entry: &header::Entry) -> &[u8] {
        &self.files[file][entry.range.clone()]
    }
}

impl Store for HfFolder {
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.tensors.keys().cloned().collect();
        names.sort();
        names
    }

    fn name_of(&self, role: Role) -> String {
        role.hf_name()
    }

    fn is_ignored(&self, name: &str) -> bool {
        name.ends_with(".rotary_emb.inv_freq")
    }

    fn check(&self, name: &str) -> Option<Result<Vec<usize>, SourceError>> {
        let (_, entry) = self.tensors.get(name)?;
        Some(match entry.dtype {
            Dtype::Other(found, _) => Err(super::unsupported_dtype(name, found)),
            _ => Ok(entry.shape.clone()),
        })
    }

    fn read(&self, role: Role, _config: &ModelConfig) -> Result<Vec<f32>, SourceError> {
        let name = role.hf_name();
        let (file, entry) = self
            .tensors
            .get(&name)
            .ok_or_else(|| SourceError::MissingTensor {
                tensor: name.clone(),
                expected: vec![],
            })?;
        decode(entry.dtype, self.bytes(*file, entry))
            .ok_or_else(|| super::unsupported_dtype(&name, "?"))
    }
}

/// Widens little-endian elements to f32, exactly; `None` for an unsupported type.
fn decode(dtype: Dtype, bytes: &[u8]) -> Option<Vec<f32>> {
    let pairs = || {
        bytes
            .chunks_exact(2)
            .map(|b| u16::from_le_bytes([b[0], b[1]]))
    };
    Some(match dtype {
        Dtype::F32 => bytes
            .chunks_exact(4)
            .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]))
            .collect(),
        Dtype::Bf16 => pairs()
            .map(|b| f32::from_bits(u32::from(b) << 16))
            .collect(),
        Dtype::F16 => pairs().map(|b| half::f16::from_bits(b).to_f32()).collect(),
        Dtype::Other(..) => return None,
    })
}

/// Tensor name → file name.
fn parse_index(text: &[u8]) -> Result<BTreeMap<String, String>, SourceError> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let Index { weight_map } = serde_json::from_slice(text).map_err(|e| SourceError::Index {
        detail: e.to_string(),
    })?;
    if weight_map.is_empty() {
        return Err(SourceError::Index {
            detail: "weight_map is empty".into(),
        });
    }
    for name in weight_map.values() {
        let plain = !name.is_empty()
            && name != "."
            && name != ".."
            && !name.contains(['/', '\\', ':', '\0']);
        if !plain {
            return Err(SourceError::ShardName { name: name.clone() });
        }
    }
    Ok(weight_map)
}
