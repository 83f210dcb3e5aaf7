//! Makes the files of the current set: inputs chosen by mechanism, answers from the reference.

mod attention;
mod chain;
mod edits;
mod legacy;
mod models;
mod precompiles;
mod products;
mod rare;
mod rotations;
mod rows;
mod scalars;
mod toy;

use std::collections::BTreeMap;
use std::path::Path;

use crate::file::{Case, File, Listed, OpFile};
use crate::op::apply::apply;
use crate::op::{self, Args, Op, Value};
use crate::row::{Row, Stream};
use crate::set::{self, SetError};
use crate::target::ReferenceTarget;
use crate::verify::INDEX;

const I31: i64 = (1 << 31) - 1;

/// Why the files cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum GenerateError {
    /// A blob of the repository cannot be read, or a file cannot be written.
    #[error(transparent)]
    Set(#[from] SetError),
    /// The reference refuses a blob that it should accept.
    #[error("{name}: {why}")]
    Blob {
        /// The model's name.
        name: String,
        /// The reference's words.
        why: String,
    },
}

/// The files of the current set by their paths, the index included; `root` is the repository's root.
///
/// # Errors
/// When a blob of the repository cannot be read.
pub fn files(root: &Path) -> Result<BTreeMap<String, Vec<u8>>, GenerateError> {
    let mut made: Vec<(String, &'static str, usize, Vec<u8>)> = Vec::new();
    let mut add = |name: String, file: &File| {
        made.push((name, file.level(), file.cases(), file.to_bytes()));
    };
    for file in operations() {
        add(format!("ops/{}.json", file.op.name), &File::Op(file));
    }
    let models = models::files(root)?;
    for (name, file) in &models {
        let file = File::Model(Box::new(file.clone()));
        add(format!("models/{name}.json"), &file);
    }
    add("toy.json".into(), &File::Toy(toy::file()));
    for (name, calls) in legacy::files() {
        let bytes = crate::legacy::to_bytes(&calls);
        made.push((format!("legacy/{name}.json"), "legacy", calls.len(), bytes));
    }
    for (path, cases, bytes) in precompiles::files(root, &models)? {
        made.push((path, crate::precompiles::LEVEL, cases, bytes));
    }
    made.sort_by(|a, b| a.0.cmp(&b.0));
    let listed = made.iter().map(|(file, level, cases, bytes)| Listed {
        file: file.clone(),
        level: (*level).into(),
        cases: *cases as u64,
        bytes: bytes.len() as u64,
        keccak256: int_engine::commitment::keccak256(bytes),
    });
    let index = File::Index(listed.collect()).to_bytes();
    let mut files: BTreeMap<_, _> = made
        .into_iter()
        .map(|(name, .., bytes)| (name, bytes))
        .collect();
    files.insert(INDEX.into(), index);
    Ok(files)
}

/// How a folder differs from the files that would be made: `missing`, `differs` or `not made` for each path.
///
/// # Errors
/// When the files cannot be made or the folder cannot be read.
pub fn differences(root: &Path, dir: &Path) -> Result<Vec<(String, &'static str)>, GenerateError> {
    let made = files(root)?;
    let present = set::list(dir)?;
    let mut out = Vec::new();
    for (name, bytes) in &made {
        if !present.contains(name) {
            out.push((name.clone(), "missing"));
        } else if set::read_file(dir, name)? != *bytes {
            out.push((name.clone(), "differs"));
        }
    }
    let extra = present.into_iter().filter(|name| !made.contains_key(name));
    out.extend(extra.map(|name| (name, "not made")));
    Ok(out)
}

/// Writes the files of the current set into `dir`, the index last. Other files there are left alone.
///
/// # Errors
/// [`SetError::Released`] when the folder's name does not end in `-draft`; when a file cannot be made or written.
pub fn write(root: &Path, dir: &Path) -> Result<usize, GenerateError> {
    set::writable(dir)?;
    let made = files(root)?;
    for (name, bytes) in made.iter().filter(|(name, _)| *name != INDEX) {
        set::write(&dir.join(name), bytes)?;
    }
    set::write(&dir.join(INDEX), &made[INDEX])?;
    Ok(made.len())
}

fn operations() -> Vec<OpFile> {
    let mut files = Vec::new();
    for op in op::OPS {
        let mut cases = Cases::new(op);
        match op.name {
            "isqrt" => scalars::isqrt(&mut cases),
            "rdbpot" => scalars::rdbpot(&mut cases),
            "srdhm" => scalars::srdhm(&mut cases),
            "norm_scale" => scalars::norm_scale(&mut cases),
            "ratio" => scalars::ratio(&mut cases),
            "exp2_weight" => scalars::exp2_weight(&mut cases),
            "swiglu" => scalars::swiglu(&mut cases),
            "add_residual" => scalars::add_residual(&mut cases),
            "quantize" => rows::quantize(&mut cases),
            "dynq" => rows::dynq(&mut cases),
            "rms" => rows::rms(&mut cases),
            "norm" => rows::norm(&mut cases),
            "norm_static" => rows::norm_static(&mut cases),
            "head_norm" => {
                rows::head_norm(&mut cases);
                rare::head_norm(&mut cases);
            }
            "requantize" => products::requantize(&mut cases),
            "linear" => products::linear(&mut cases),
            "rope_angle" => {
                rotations::rope_angle(&mut cases);
                rare::rope_angle(&mut cases);
            }
            "rope" => rotations::rope(&mut cases),
            "had_block" | "pow2_block" => rotations::blocks(&mut cases),
            "had_forward" | "had_transpose" => rotations::hadamard(&mut cases),
            "attend" => {
                attention::attend(&mut cases);
                rare::attend(&mut cases);
            }
            "argmax" => chain::argmax(&mut cases),
            "keccak256" => chain::keccak(&mut cases),
            "commitment" => chain::commitment(&mut cases),
            "prove_chunk" => chain::prove_chunk(&mut cases),
            "verify_chunk" => {
                chain::verify_chunk(&mut cases);
                rare::chunks(&mut cases);
                rare::forged_chunks(&mut cases);
            }
            "toy_gemm" => toy::gemm(&mut cases),
            "toy_norm" => toy::norm(&mut cases),
            "toy_attend" => {
                toy::attend(&mut cases);
                rare::toy_attend(&mut cases);
            }
            "toy_swiglu" => toy::swiglu(&mut cases),
            name => unreachable!("{name} has cases"),
        }
        files.push(cases.file);
    }
    files
}

/// The cases of one operation as they are made.
struct Cases {
    file: OpFile,
}

impl Cases {
    fn new(op: &'static Op) -> Self {
        Self {
            file: OpFile {
                op,
                cases: Vec::new(),
            },
        }
    }

    /// Adds a case; its answer is the reference's.
    fn add(&mut self, name: impl Into<String>, input: Vec<Value>) {
        let name = name.into();
        let args = Args::new(self.file.op, &input);
        if let Err(why) = op::check(&args) {
            panic!("{} {name}: {why}", self.file.op.name);
        }
        let out = apply(&args, &ReferenceTarget);
        let out = out.into_iter().map(op::Answer::stored).collect();
        self.file.cases.push(Case { name, input, out });
    }

    /// Adds a case whose first rows are given; their columns are `values` taken apart into pieces of 48.
    fn add_pieces(&mut self, name: &str, columns: &[Vec<i64>], rest: &[Value]) {
        for (i, at) in (0..columns[0].len()).step_by(48).enumerate() {
            let end = (at + 48).min(columns[0].len());
            let rows = columns.iter().map(|c| list(&c[at..end]));
            self.add(
                format!("{name} {i}"),
                rows.chain(rest.iter().cloned()).collect(),
            );
        }
    }
}

fn list(values: &[i64]) -> Value {
    Value::Row(Row::List(values.to_vec()))
}

fn int(v: impl Into<i128>) -> Value {
    Value::Int(v.into())
}

fn drawn(seed: u64, count: usize, low: i64, high: i64) -> Value {
    Value::Row(Row::drawn(seed, count, low, high))
}

fn fill(value: i64, count: usize) -> Value {
    Value::Row(Row::Fill { value, count })
}

/// Every power of two up to 2^`bits`, one less and one more, without repetition.
fn powers(bits: u32) -> Vec<i64> {
    let mut values: Vec<i64> = (0..=bits)
        .flat_map(|k| [(1 << k) - 1, 1 << k, (1 << k) + 1])
        .collect();
    values.sort_unstable();
    values.dedup();
    values
}

/// The values and their negations.
fn signed(values: &[i64]) -> Vec<i64> {
    values.iter().flat_map(|&v| [v, -v]).collect()
}

/// Values of every magnitude up to 2^`bits`: a bit length is drawn, then the value.
fn spread(stream: &mut Stream, count: usize, bits: u32) -> Vec<i64> {
    let one = |_| {
        let top = 1i64 << stream.draw(0, bits.into());
        stream.draw(-top, top)
    };
    (0..count).map(one).collect()
}

/// The smallest x in `low ..= high` with f(x) >= want, f not descending; `None` when there is none.
fn first_at_least(low: i64, high: i64, want: i64, f: impl Fn(i64) -> i64) -> Option<i64> {
    if f(high) < want {
        return None;
    }
    let (mut low, mut high) = (low, high);
    while low < high {
        let middle = low + (high - low) / 2;
        if f(middle) >= want {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Some(low)
}
