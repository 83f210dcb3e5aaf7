//! Recipe blobs: the bytes of spec 7.5.

use std::collections::BTreeMap;

use int_engine::blob::{Entry, Header};
use int_engine::config::{Config, had_block};
use int_engine::model::pre_shift;

use crate::file::{BlobRecipe, Style};
use crate::row::Stream;

const I16: i64 = (1 << 15) - 1;
const I31: i64 = (1 << 31) - 1;
/// Between the seeds of two tensors.
const TENSOR_STEP: u64 = 0xD1B5_4A32_D192_ED03;
/// One radian in turns: 2^64 / (2 pi).
const RADIAN: u64 = 2_935_890_503_282_001_226;

fn bit_length(x: usize) -> i64 {
    i64::from(usize::BITS - x.leading_zeros())
}

fn half_log(x: usize) -> i64 {
    bit_length(x) / 2
}

/// The header of a recipe blob; it fixes the length.
pub(crate) fn header(config: &Config) -> Header {
    Header::new(config, [0; 32], Vec::new()).expect("no metadata breaks no rule")
}

/// The last part of a tensor's name, and the part before it.
fn split(name: &str) -> (&str, &str) {
    name.rsplit_once('.').unwrap_or(("", name))
}

/// The shift at psh 0 that suits a matrix of plausible weights.
fn shift_base(c: &Config, matrix: &str) -> i64 {
    let qk = if c.qk_norm() { -6 } else { 1 };
    match split(matrix).1 {
        "embed" => 15,
        "head" => 11 + bit_length(had_block(c.hidden())),
        "q" | "k" => qk,
        "v" => 1,
        "o" => 23 + half_log(c.q_width()),
        "down" => 19 + half_log(c.intermediate()) + half_log(c.mlp_block()),
        _ => 0,
    }
}

struct Maker<'a> {
    config: &'a Config,
    style: Style,
    psh: BTreeMap<String, i64>,
}

impl Maker<'_> {
    fn weights(&self, s: &mut Stream, rows: usize, cols: usize) -> Vec<i64> {
        let count = rows * cols;
        match self.style {
            Style::Zero => vec![0; count],
            Style::Plausible => (0..count).map(|_| s.draw(-127, 127)).collect(),
            Style::Extreme => match s.draw(0, 3) {
                0 => vec![127; count],
                1 => (0..count)
                    .map(|i| if i / cols % 2 == 0 { -127 } else { 127 })
                    .collect(),
                _ => (0..count).map(|_| s.pick(&[-127, 127])).collect(),
            },
        }
    }

    fn gains(&self, s: &mut Stream, count: usize, limit: i64) -> Vec<i64> {
        let one = |_| match self.style {
            Style::Zero => 0,
            Style::Extreme => s.pick(&[-limit, limit, 0, 1]),
            Style::Plausible => s.draw(limit / 4, limit) * s.pick(&[1, 1, 1, -1]),
        };
        (0..count).map(one).collect()
    }

    fn mults(&self, s: &mut Stream, count: usize) -> Vec<i64> {
        let one = |_| match self.style {
            Style::Extreme => s.pick(&[1 << 30, I31]),
            _ => s.draw(1 << 30, I31),
        };
        (0..count).map(one).collect()
    }

    fn shifts(&self, s: &mut Stream, count: usize, base: i64) -> Vec<i64> {
        let one = |_| match self.style {
            Style::Extreme => s.pick(&[-64, 64, -32, -31, -30, base - 3, base, base + 3]),
            _ => s.draw(base, base + 1),
        };
        (0..count).map(one).map(|v| v.clamp(-64, 64)).collect()
    }

    fn phases(&self, s: &mut Stream, count: usize) -> Vec<u64> {
        let one = |i| match self.style {
            Style::Extreme => {
                let (v, word) = (s.pick(&[0, u64::MAX, 1 << 63, 1]), s.word());
                v ^ (word & s.pick(&[0, u64::MAX]))
            }
            _ => (RADIAN >> (13 * i / count)) ^ (s.word() >> 20),
        };
        (0..count).map(one).collect()
    }

    fn static_scales(&self, s: &mut Stream) -> Vec<i64> {
        match self.style {
            Style::Extreme => vec![
                s.pick(&[1, 1 << 16, 1 << 15]),
                s.pick(&[1, 1 << 16, 1 << 15]),
                s.pick(&[1, I31, 1 << 27]),
                s.pick(&[0, 39, 6]),
                s.pick(&[1, I31, 1 << 27]),
            ],
            _ => vec![
                s.draw(1 << 14, 1 << 16),
                s.draw(1 << 14, 1 << 16),
                s.draw(1 << 25, 1 << 28),
                s.draw(2, 8),
                s.draw(1 << 25, 1 << 28),
            ],
        }
    }

    fn score(&self, s: &mut Stream) -> [i64; 2] {
        let half = half_log(self.config.head_dim());
        let base = if self.config.qk_norm() {
            35 - half
        } else {
            29 + half
        };
        match self.style {
            Style::Extreme => [s.pick(&[1 << 30, I31]), s.pick(&[0, 61, 13, base])],
            _ => [s.draw(1 << 30, I31), s.draw(base - 1, base)],
        }
    }

    /// The values of a tensor that is no weight matrix.
    fn values(&self, s: &mut Stream, entry: &Entry) -> Vec<i64> {
        let (matrix, kind) = split(&entry.name);
        let count = entry.elements() as usize;
        match (matrix, kind) {
            (_, "mult") => self.mults(s, count),
            (_, "shift") => {
                let psh = self.psh.get(matrix).filter(|_| matrix != "embed");
                self.shifts(
                    s,
                    count,
                    shift_base(self.config, matrix) - psh.unwrap_or(&0),
                )
            }
            ("final_norm", _) => self.gains(s, count, I16),
            (_, "gain") => self.gains(s, count, I16 << 15),
            (_, "phase") => self.phases(s, count).iter().map(|&v| v as i64).collect(),
            (_, "static") => self.static_scales(s),
            ("head", _) => vec![self.psh["head"]],
            _ => ["q", "k", "v", "o", "gate", "up", "down"]
                .iter()
                .map(|name| self.psh[&format!("{matrix}.{name}")])
                .chain(self.score(s))
                .collect(),
        }
    }
}

/// The bytes of a recipe blob.
#[must_use]
pub fn build(recipe: &BlobRecipe) -> Vec<u8> {
    let header = header(&recipe.config);
    let stream =
        |j: usize| Stream::new(recipe.seed.wrapping_add(TENSOR_STEP.wrapping_mul(j as u64)));
    let mut maker = Maker {
        config: &recipe.config,
        style: recipe.style,
        psh: BTreeMap::new(),
    };
    let mut contents: Vec<Vec<i64>> = vec![Vec::new(); header.entries.len()];
    for (j, entry) in header.entries.iter().enumerate() {
        let (matrix, "weight") = split(&entry.name) else {
            continue;
        };
        let (rows, cols) = (entry.shape[0] as usize, entry.shape[1] as usize);
        contents[j] = maker.weights(&mut stream(j), rows, cols);
        let codes: Vec<i8> = contents[j].iter().map(|&w| w as i8).collect();
        let psh = i64::from(pre_shift(&codes, cols));
        maker.psh.insert(matrix.into(), psh);
        if matrix == "embed" && recipe.config.tied() {
            maker.psh.insert("head".into(), psh);
        }
    }
    let mut bytes = header.to_bytes();
    for (j, entry) in header.entries.iter().enumerate() {
        if contents[j].is_empty() {
            contents[j] = maker.values(&mut stream(j), entry);
        }
        bytes.resize(entry.offset as usize, 0);
        for v in &contents[j] {
            bytes.extend_from_slice(&v.to_le_bytes()[..entry.dtype.size()]);
        }
    }
    bytes
}
