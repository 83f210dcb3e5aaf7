//! Writing a checkpoint as a Hugging Face folder.

use super::{Checkpoint, Role, SourceError};
use crate::config::ConfigLayout;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// The element type of written tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SaveDtype {
    /// 32 bits, exact.
    F32,
    /// bfloat16, rounded to nearest, ties to even.
    Bf16,
    /// IEEE half precision, rounded to nearest, ties to even.
    F16,
}

impl SaveDtype {
    /// Name in a safetensors header, name in `config.json`, bytes per element.
    fn facts(self) -> (&'static str, &'static str, usize) {
        match self {
            SaveDtype::F32 => ("F32", "float32", 4),
            SaveDtype::Bf16 => ("BF16", "bfloat16", 2),
            SaveDtype::F16 => ("F16", "float16", 2),
        }
    }
}

/// How [`Checkpoint::save_hf`] writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaveOptions {
    /// Element type.
    pub dtype: SaveDtype,
    /// Number of files: 1 gives `model.safetensors`, more give shards and an index; at most one a tensor.
    pub shards: usize,
    /// Layout of `config.json`.
    pub layout: ConfigLayout,
}

impl Default for SaveOptions {
    /// One file of f32, `config.json` in the layout of transformers 4.
    fn default() -> Self {
        Self {
            dtype: SaveDtype::F32,
            shards: 1,
            layout: ConfigLayout::V4,
        }
    }
}

impl Checkpoint {
    /// Writes `config.json` and the weights into `folder`, which is made if need be; one tensor is in memory at a time.
    ///
    /// # Errors
    /// I/O; a value too large for f16 or bf16; a value of this checkpoint that is not finite.
    pub fn save_hf(&self, folder: &Path, options: &SaveOptions) -> Result<(), SourceError> {
        std::fs::create_dir_all(folder).map_err(SourceError::io(folder))?;
        let (_, dtype_name, size) = options.dtype.facts();
        let path = folder.join("config.json");
        std::fs::write(&path, self.config().to_hf_json(options.layout, dtype_name))
            .map_err(SourceError::io(&path))?;

        let mut tensors: Vec<(String, Role)> =
            Role::all(self.config()).map(|r| (r.hf_name(), r)).collect();
        tensors.sort_by(|a, b| a.0.cmp(&b.0));
        let shards = options.shards.clamp(1, tensors.len());
        if shards == 1 {
            return self.write_file(&folder.join("model.safetensors"), &tensors, options.dtype);
        }
        let mut map = serde_json::Map::new();
        for i in 0..shards {
            let group = &tensors[i * tensors.len() / shards..(i + 1) * tensors.len() / shards];
            let name = format!("model-{:05}-of-{shards:05}.safetensors", i + 1);
            self.write_file(&folder.join(&name), group, options.dtype)?;
            map.extend(group.iter().map(|(t, _)| (t.clone(), name.clone().into())));
        }
        let total = self.config().parameters() * size as u64;
        let index = serde_json::json!({"metadata": {"total_size": total}, "weight_map": map});
        let path = folder.join("model.safetensors.index.json");
        std::fs::write(&path, format!("{index:#}\n")).map_err(SourceError::io(&path))
    }

    fn write_file(
        &self,
        path: &Path,
        tensors: &[(String, Role)],
        dtype: SaveDtype,
    ) -> Result<(), SourceError> {
        let (st_name, _, size) = dtype.facts();
        let mut header = serde_json::Map::new();
        header.insert("__metadata__".into(), serde_json::json!({"format": "pt"}));
        let mut begin = 0;
        for (name, role) in tensors {
            let shape = role.shape(self.config());
            let end = begin + shape.iter().product::<usize>() * size;
            header.insert(
                name.clone(),
                serde_json::json!({"dtype": st_name, "shape": shape, "data_offsets": [begin, end]}),
            );
            begin = end;
        }
        let mut header = serde_json::Value::Object(header).to_string().into_bytes();
        header.resize(header.len().next_multiple_of(8), b' ');

        let io = |e| SourceError::Io {
            path: path.to_owned(),
            source: e,
        };
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path).map_err(io)?);
        out.write_all(&(header.len() as u64).to_le_bytes())
            .map_err(io)?;
        out.write_all(&header).map_err(io)?;
        for (name, role) in tensors {
            for (index, x) in self.tensor(*role)?.into_iter().enumerate() {
                let too_large = || SourceError::TooLarge {
                    tensor: name.clone(),
                    index,
                    value: x,
                    dtype: st_name,
                };
                match dtype {
                    SaveDtype::F32 => out.write_all(&x.to_le_bytes()),
                    SaveDtype::Bf16 => {
                        let y = half::bf16::from_f32(x);
                        out.write_all(
                            &y.is_finite()
                                .then_some(y)
                                .ok_or_else(too_large)?
                                .to_le_bytes(),
                        )
                    }
                    SaveDtype::F16 => {
                        let y = half::f16::from_f32(x);
                        out.write_all(
                            &y.is_finite()
                                .then_some(y)
                                .ok_or_else(too_large)?
                                .to_le_bytes(),
                        )
                    }
                }
                .map_err(io)?;
            }
        }
        out.flush().map_err(io)
    }
}
