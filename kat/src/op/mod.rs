//! The operations of spec 7.4: names, inputs, results.

pub(crate) mod apply;
mod domain;

use crate::row::Row;

pub(crate) use domain::check;

/// What an input or a result is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An integer.
    Int,
    /// A row of integers.
    Row,
    /// A token scale: two integers, or none.
    Scale,
    /// A digest.
    Digest,
    /// A list of digests.
    Digests,
}

/// A value of a file, as the file holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// An integer; the only ones beyond int64 are phases.
    Int(i128),
    /// A row.
    Row(Row),
    /// A token scale.
    Scale(Option<(i64, i64)>),
    /// A digest.
    Digest([u8; 32]),
    /// A list of digests.
    Digests(Vec<[u8; 32]>),
}

/// A value of a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// An integer.
    Int(i64),
    /// A row.
    Row(Vec<i64>),
    /// A long row: its length and digest (spec 7.3).
    RowDigest {
        /// Number of values.
        count: usize,
        /// Their `row_digest`.
        keccak256: [u8; 32],
    },
    /// A digest.
    Digest([u8; 32]),
    /// A list of digests.
    Digests(Vec<[u8; 32]>),
}

/// An operation's name, inputs and results in the order of spec 7.4.
#[derive(Debug, PartialEq, Eq)]
pub struct Op {
    /// The name.
    pub name: &'static str,
    /// Names and kinds of the inputs.
    pub inputs: &'static [(&'static str, Kind)],
    /// Names and kinds of the results; a single result has the empty name.
    pub outputs: &'static [(&'static str, Kind)],
}

macro_rules! ops {
    ($($name:ident($($input:ident: $kind:ident),*) -> $outputs:tt;)*) => {
        /// Every operation, in the order of spec 7.4.
        pub static OPS: &[Op] = &[$(Op {
            name: stringify!($name),
            inputs: &[$((stringify!($input), Kind::$kind)),*],
            outputs: ops!(@out $outputs),
        }),*];
    };
    (@out ($one:ident)) => { &[("", Kind::$one)] };
    (@out {$($name:ident: $kind:ident),*}) => { &[$((stringify!($name), Kind::$kind)),*] };
}

ops! {
    isqrt(n: Row) -> (Row);
    rdbpot(x: Row, e: Int) -> (Row);
    srdhm(a: Row, b: Row) -> (Row);
    norm_scale(m: Row) -> {t: Row, e: Row};
    quantize(u: Row, m: Int) -> (Row);
    dynq(u: Row) -> {q: Row, m: Int};
    rms(x: Row, eps: Int) -> {r: Int, e: Int};
    ratio(m: Row, r: Row, e: Row) -> {t: Row, e: Row};
    requantize(acc: Row, psh: Int, scale: Scale, mult: Row, shift: Row, limit: Int) -> (Row);
    rope_angle(phase: Int, position: Row) -> {cos: Row, sin: Row};
    rope(x: Row, cos_sin: Row) -> (Row);
    had_block(n: Row) -> (Row);
    pow2_block(n: Row) -> (Row);
    had_forward(x: Row, B: Int) -> (Row);
    had_transpose(x: Row, B: Int) -> (Row);
    head_norm(x: Row, gain: Row) -> (Row);
    swiglu(g: Row, u: Row) -> (Row);
    exp2_weight(d: Row) -> (Row);
    attend(q8: Row, mq: Int, k8: Row, mk: Row, v8: Row, mv: Row, score_mult: Int, score_shift: Int) -> (Row);
    linear(weight: Row, psh: Int, mult: Row, shift: Row, q: Row, scale: Scale, limit: Int) -> (Row);
    add_residual(x: Row, y: Row) -> (Row);
    norm(x: Row, eps: Int) -> {q: Row, t: Int, e: Int};
    norm_static(x: Row, eps: Int, c: Int) -> {q: Row, t: Int, e: Int};
    argmax(values: Row, accepted_ids: Int) -> (Int);
    keccak256(data: Row) -> (Digest);
    commitment(blob: Row) -> (Digest);
    prove_chunk(blob: Row, index: Int) -> (Digests);
    verify_chunk(commitment: Digest, total_len: Int, index: Int, chunk: Row, proof: Digests) -> (Int);
    toy_gemm(weight: Row, x: Row, shift: Int) -> (Row);
    toy_norm(x: Row, w: Row, mult: Int, eps: Int) -> (Row);
    toy_attend(q: Row, k: Row, v: Row) -> (Row);
    toy_swiglu(gate: Row, up: Row) -> (Row);
}

impl Op {
    /// An operation by name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        OPS.iter().find(|op| op.name == name)
    }
}

/// The inputs of one case, rows expanded, in the order of the operation.
#[derive(Clone, Debug)]
pub(crate) struct Args<'a> {
    op: &'static Op,
    values: Vec<Arg<'a>>,
}

#[derive(Clone, Debug)]
enum Arg<'a> {
    Row(Vec<i64>),
    Other(&'a Value),
}

impl<'a> Args<'a> {
    /// Expands the inputs of `op`.
    pub(crate) fn new(op: &'static Op, inputs: &'a [Value]) -> Self {
        let values = inputs.iter().map(|value| match value {
            Value::Row(row) => Arg::Row(row.expand()),
            other => Arg::Other(other),
        });
        Self {
            op,
            values: values.collect(),
        }
    }

    fn get(&self, name: &str) -> &Arg<'a> {
        let i = self.op.inputs.iter().position(|(n, _)| *n == name);
        &self.values[i.expect("an input of the operation")]
    }

    /// A row by name.
    pub(crate) fn row(&self, name: &str) -> &[i64] {
        match self.get(name) {
            Arg::Row(values) => values,
            Arg::Other(_) => unreachable!("the reader gives every input its kind"),
        }
    }

    /// An integer of any width by name.
    pub(crate) fn wide(&self, name: &str) -> i128 {
        match self.get(name) {
            Arg::Other(Value::Int(v)) => *v,
            _ => unreachable!("the reader gives every input its kind"),
        }
    }

    /// An integer by name, checked to be an int64.
    pub(crate) fn int(&self, name: &str) -> i64 {
        self.wide(name) as i64
    }

    /// A token scale by name.
    pub(crate) fn scale(&self, name: &str) -> Option<(i64, i64)> {
        match self.get(name) {
            Arg::Other(Value::Scale(scale)) => *scale,
            _ => unreachable!("the reader gives every input its kind"),
        }
    }

    /// A digest by name.
    pub(crate) fn digest(&self, name: &str) -> &[u8; 32] {
        match self.get(name) {
            Arg::Other(Value::Digest(d)) => d,
            _ => unreachable!("the reader gives every input its kind"),
        }
    }

    /// A list of digests by name.
    pub(crate) fn digests(&self, name: &str) -> &[[u8; 32]] {
        match self.get(name) {
            Arg::Other(Value::Digests(d)) => d,
            _ => unreachable!("the reader gives every input its kind"),
        }
    }
}
