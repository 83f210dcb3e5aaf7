// Seeded random blobs: recipes for tests, examples and known answers instead of files. The documentation's program
// includes this file as it is, so it has no inner attributes.

use int_engine::blob::{Header, Writer};
use int_engine::commitment::keccak256;
use int_engine::config::Config;
use int_engine::model::pre_shift;

/// The generator SplitMix64, seeded for one tensor.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, tensor: &str) -> Self {
        let h = keccak256(tensor.as_bytes());
        Self(seed ^ u64::from_le_bytes([h[0], h[1], h[2], h[3], h[4], h[5], h[6], h[7]]))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `min ..= max`, up to a bias of (max - min) / 2^32.
    pub(crate) fn range(&mut self, min: i64, max: i64) -> i64 {
        min + (((self.next() >> 32) * (max - min + 1) as u64) >> 32) as i64
    }

    fn weights(mut self, count: u64) -> Vec<i8> {
        (0..count).map(|_| self.range(-127, 127) as i8).collect()
    }
}

/// log2 of n >= 1, rounded down.
fn log2(n: usize) -> i64 {
    i64::from(n.ilog2())
}

/// A valid blob with the given configuration whose weights, scales and constants are a function of `seed`.
///
/// The scales lie around values at which a forward pass neither vanishes nor saturates everywhere. The blob is held
/// in memory and every matrix is made twice, so this is for small models.
///
/// # Panics
/// Never: the values are made within the ranges of spec 4.5.
pub(crate) fn sample(config: &Config, seed: u64) -> Vec<u8> {
    let metadata = vec![("source".to_owned(), format!("sample {seed}"))];
    let header =
        Header::new(config, [0; 32], metadata.clone()).expect("one short pair is valid metadata");
    let mut writer = Writer::new(Vec::new(), config, [0; 32], metadata)
        .expect("memory is a sink that does not fail");
    let weights = |name: &str| {
        let entry = header
            .entries
            .iter()
            .find(|e| e.name == name)
            .expect("a name of the directory");
        (
            Random::new(seed, name).weights(entry.elements()),
            entry.shape[1] as usize,
        )
    };
    let psh = |name: &str| {
        let (weights, cols) = weights(name);
        pre_shift(&weights, cols).to_le_bytes()
    };
    for entry in &header.entries {
        let name = entry.name.as_str();
        let mut random = Random::new(seed, name);
        let mut bytes = Vec::new();
        match name.rsplit_once('.').unwrap_or(("", name)) {
            (_, "weight") => bytes.extend(weights(name).0.iter().map(|&w| w as u8)),
            ("head", "consts") => {
                let head = if config.tied() { "embed" } else { "head" };
                bytes.extend(psh(&format!("{head}.weight")));
            }
            (layer, "consts") => {
                for matrix in ["q", "k", "v", "o", "gate", "up", "down"] {
                    bytes.extend(psh(&format!("{layer}.{matrix}.weight")));
                }
                // Scores spread over a few units of log2.
                let base = if config.qk_norm() { 29 } else { 21 };
                let score_shift = base + log2(config.head_dim()) / 2 + random.range(-2, 1);
                bytes.extend((random.range(1 << 30, (1 << 31) - 1) as i32).to_le_bytes());
                bytes.extend((score_shift as i32).to_le_bytes());
            }
            (_, "static") => {
                let block = log2(config.mlp_block());
                let c = (block - 3).max(0);
                // Around the residual's largest value over its root, and the magnitudes that the shifts below give.
                let fraction = (3 << 16) / (2 * (config.hidden() as i64).isqrt());
                let values = [
                    random.range(fraction, 2 * fraction).min(1 << 16),
                    random.range(fraction, 2 * fraction).min(1 << 16),
                    random.range(1 << 23, 1 << 24),
                    c,
                    random.range(1 << 27, 1 << 28) >> (c - block / 2).max(0),
                ];
                bytes.extend(values.iter().flat_map(|&v| (v as i32).to_le_bytes()));
            }
            (of, what) => {
                for _ in 0..entry.elements() {
                    match (of, what) {
                        (_, "mult") => bytes
                            .extend((random.range(1 << 30, (1 << 31) - 1) as i32).to_le_bytes()),
                        (_, "shift") => {
                            bytes.push((shift(config, name) + random.range(-1, 1)) as u8)
                        }
                        ("final_norm", "gain") => {
                            bytes.extend((random.range(-4096, 4096) as i16).to_le_bytes())
                        }
                        (_, "gain") => bytes
                            .extend((random.range(-32767 << 15, 32767 << 15) as i32).to_le_bytes()),
                        _ => bytes.extend(random.next().to_le_bytes()),
                    }
                }
            }
        }
        writer
            .tensor(name, &bytes)
            .expect("values within their ranges, in directory order");
    }
    writer.finish().expect("every tensor is written").0
}

/// The shift around which a matrix's outputs have their usual magnitude, with uniform random weights and codes: the
/// residual 2^21, values, gate and up 2^12, logits 2^18.
fn shift(config: &Config, name: &str) -> i64 {
    // An accumulator shifted left by 5 is about 2^(16.5 + log2(K) / 2).
    let acc = |inputs: usize| 17 + log2(inputs) / 2;
    let matrix = name.trim_end_matches(".shift");
    match matrix.rsplit('.').next().unwrap_or(matrix) {
        "embed" => 9,
        // Codes of a normalised row stand for about 3 times its root mean square.
        "q" | "k" if config.qk_norm() => acc(config.hidden()) - 15,
        "o" => acc(config.q_width()) + 26 - 21,
        "down" => acc(config.intermediate()) + 26 + log2(config.mlp_block()) / 2 - 21,
        "head" => acc(config.hidden()) + 13 + log2(config.hidden_block()) - 18,
        _ => acc(config.hidden()) + 2 - 12,
    }
}
