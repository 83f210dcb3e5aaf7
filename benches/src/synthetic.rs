//! A random blob of the Qwen3-0.6B shape: what is fast on it is fast on any model of this shape.

use int_engine::blob::{Entry, Header, Writer};
use int_engine::config::{Config, ConfigError, Dims, Scheme};
use int_engine::model::pre_shift;

use crate::Error;

/// What tables call the random model.
pub const NAME: &str = "qwen3-0.6b";

/// The dimensions of Qwen3-0.6B.
///
/// # Errors
/// Never: they are valid.
pub fn qwen3() -> Result<Config, ConfigError> {
    Config::new(Dims {
        scheme: Scheme::Dynamic,
        hidden: 1024,
        layers: 28,
        heads: 16,
        kv_heads: 8,
        head_dim: 128,
        intermediate: 3072,
        vocab: 151_936,
        accepted_ids: 151_669,
        max_context: 32_768,
        qk_norm: true,
        tied: true,
        // 1e-6 in squared units of 2^-16 of 1024 values.
        eps: 4_398_047,
        stop_ids: vec![],
    })
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random(u64);

impl Random {
    /// One stream for each tensor.
    fn new(tensor: usize) -> Self {
        Self((tensor as u64 + 1).wrapping_mul(0x9e6c_63d0_676a_9a99))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `min ..= max`, up to a bias of (max - min) / 2^32.
    fn range(&mut self, min: i64, max: i64) -> i64 {
        min + (((self.next() >> 32) * (max - min + 1) as u64) >> 32) as i64
    }

    /// Bytes in -127 ..= 127, a multiple of 8 of them.
    fn weights(&mut self, count: usize) -> Vec<i8> {
        let mut weights = vec![0i8; count];
        for group in weights.chunks_mut(8) {
            for (w, byte) in group.iter_mut().zip(self.next().to_le_bytes()) {
                *w = (byte as i8).max(-127);
            }
        }
        weights
    }
}

fn log2(n: usize) -> i64 {
    i64::from(n.ilog2())
}

/// The shift around which the outputs of a matrix have their usual magnitude with uniform weights and codes: the
/// residual 2^21, values, gate and up 2^12, logits 2^18.
fn shift(config: &Config, matrix: &str) -> i64 {
    // An accumulator shifted left by 5 is about 2^(17 + log2(inputs) / 2).
    let acc = |inputs: usize| 17 + log2(inputs) / 2;
    match matrix.rsplit('.').next().unwrap_or(matrix) {
        "embed" => 9,
        "q" | "k" if config.qk_norm() => acc(config.hidden()) - 15,
        "o" => acc(config.q_width()) + 5,
        "down" => acc(config.intermediate()) + 5 + log2(config.mlp_block()) / 2,
        "head" => acc(config.hidden()) + log2(config.hidden_block()) - 5,
        _ => acc(config.hidden()) - 10,
    }
}

/// The blob of a configuration: random weights, scales at which a forward pass neither vanishes nor
/// saturates everywhere. Takes the memory of the file and of one matrix.
///
/// # Errors
/// [`Error::Write`] when the blob breaks a rule of the format: never for a valid configuration.
pub fn blob(config: &Config) -> Result<Vec<u8>, Error> {
    let metadata = vec![("source".to_owned(), "random weights".to_owned())];
    let header = Header::new(config, [0; 32], metadata.clone())
        .map_err(int_engine::blob::WriteError::from)?;
    let mut file = Vec::new();
    let size = usize::try_from(header.total_len).unwrap_or(usize::MAX);
    file.try_reserve_exact(size)
        .map_err(|_| Error::Memory { bytes: size })?;
    let mut writer = Writer::new(file, config, [0; 32], metadata)?;
    let entries = &header.entries;
    let matrix = |name: &str| -> Vec<i8> {
        let found = entries.iter().enumerate().find(|(_, e)| e.name == name);
        found.map_or(Vec::new(), |(i, e)| {
            Random::new(i).weights(e.elements() as usize)
        })
    };
    let shift_of = |name: &str| {
        let cols = entries
            .iter()
            .find(|e| e.name == name)
            .map_or(1, |e| e.shape[1] as usize);
        pre_shift(&matrix(name), cols).to_le_bytes()
    };
    for (i, entry) in entries.iter().enumerate() {
        let bytes = tensor(config, i, entry, &shift_of);
        writer.tensor(&entry.name, &bytes)?;
    }
    Ok(writer.finish()?.0)
}

fn tensor(
    config: &Config,
    index: usize,
    entry: &Entry,
    shift_of: &dyn Fn(&str) -> [u8; 4],
) -> Vec<u8> {
    let mut random = Random::new(index);
    let count = entry.elements() as usize;
    let (of, what) = entry.name.rsplit_once('.').unwrap_or(("", &entry.name));
    let int32 = |random: &mut Random, min: i64, max: i64| -> Vec<u8> {
        (0..count)
            .flat_map(|_| (random.range(min, max) as i32).to_le_bytes())
            .collect()
    };
    let mult = (1 << 30, (1 << 31) - 1);
    match (of, what) {
        (_, "weight") => random.weights(count).into_iter().map(|w| w as u8).collect(),
        ("head", "consts") => shift_of(if config.tied() {
            "embed.weight"
        } else {
            "head.weight"
        })
        .to_vec(),
        (layer, "consts") => {
            let mut bytes = Vec::new();
            for matrix in ["q", "k", "v", "o", "gate", "up", "down"] {
                bytes.extend(shift_of(&format!("{layer}.{matrix}.weight")));
            }
            // Scores spread over a few units of log2.
            let score_shift = if config.qk_norm() { 28 } else { 20 } + log2(config.head_dim()) / 2;
            bytes.extend((random.range(mult.0, mult.1) as i32).to_le_bytes());
            bytes.extend((score_shift as i32).to_le_bytes());
            bytes
        }
        // c_attn_norm, c_mlp_norm, m_o, c_down, m_down: codes of the usual magnitude.
        (_, "static") => [1 << 14, 1 << 14, 1 << 20, 6, 1 << 20]
            .iter()
            .flat_map(|v: &i32| v.to_le_bytes())
            .collect(),
        (_, "mult") => int32(&mut random, mult.0, mult.1),
        (matrix, "shift") => {
            let usual = shift(config, matrix);
            (0..count)
                .map(|_| (usual + random.range(-1, 1)) as u8)
                .collect()
        }
        ("final_norm", _) => (0..count)
            .flat_map(|_| (random.range(-4096, 4096) as i16).to_le_bytes())
            .collect(),
        (_, "gain") => int32(&mut random, -32767 << 15, 32767 << 15),
        _ => (0..count)
            .flat_map(|_| random.next().to_le_bytes())
            .collect(),
    }
}

/// The blob of [`qwen3`].
///
/// # Errors
/// As [`blob`].
pub fn qwen3_blob() -> Result<Vec<u8>, Error> {
    let config = qwen3().map_err(|e| Error::Wrong {
        what: "dimensions of Qwen3-0.6B".into(),
        expected: "valid".into(),
        found: e.to_string(),
    })?;
    blob(&config)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use int_engine::model::Model;

    /// A model that every machine runs at once.
    pub(crate) fn small(qk_norm: bool, tied: bool) -> Config {
        Config::new(Dims {
            hidden: 64,
            layers: 2,
            heads: 4,
            kv_heads: 2,
            head_dim: 16,
            intermediate: 96,
            vocab: 100,
            accepted_ids: 90,
            max_context: 512,
            qk_norm,
            tied,
            ..qwen3().unwrap().dims().clone()
        })
        .unwrap()
    }

    #[test]
    fn small_shapes_load_and_differ_by_position() {
        for (qk_norm, tied) in [(true, true), (false, false)] {
            let config = small(qk_norm, tied);
            let model = Model::from_bytes(&blob(&config).unwrap()).unwrap();
            assert_eq!(model.config(), &config);
            let q = model.layers()[0].q.weight.to_rows();
            assert_ne!(q, model.layers()[1].q.weight.to_rows());
            assert!(q.iter().any(|&w| w < -100) && q.iter().any(|&w| w > 100));
        }
    }

    #[test]
    fn qwen3_has_its_size() {
        let config = qwen3().unwrap();
        let header = Header::new(&config, [0; 32], vec![]).unwrap();
        assert!(
            (596_000_000..605_000_000).contains(&header.total_len),
            "{}",
            header.total_len
        );
    }
}
