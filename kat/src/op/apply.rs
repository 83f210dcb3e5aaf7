//! One case on one implementation.

use super::{Answer, Args};
use crate::row::MAX_ROW;
use crate::target::{Attend, Channels, Ops};

/// Longest row that a file holds as a list (spec 7.3).
pub(crate) const MAX_LISTED: usize = 96;

fn bytes(row: &[i64]) -> Vec<u8> {
    row.iter().map(|&v| v as u8).collect()
}

fn channels<'a>(args: &'a Args<'_>) -> Channels<'a> {
    Channels {
        psh: args.int("psh"),
        scale: args.scale("scale"),
        mult: args.row("mult"),
        shift: args.row("shift"),
        limit: args.int("limit"),
    }
}

fn pair<T, U>((a, b): (T, U), f: impl Fn(T) -> Answer, g: impl Fn(U) -> Answer) -> Vec<Answer> {
    vec![f(a), g(b)]
}

/// The results of an operation on inputs of its domain, in the order of [`super::Op::outputs`].
pub(crate) fn apply(args: &Args<'_>, target: &(impl Ops + ?Sized)) -> Vec<Answer> {
    use Answer::{Digest, Digests, Int, Row};
    let row = |name| args.row(name);
    let int = |name| args.int(name);
    let rows = |both| pair(both, Row, Row);
    let scaled = |(q, (t, e))| vec![Row(q), Int(t), Int(e)];
    let blocks = |block: &dyn Fn(usize) -> usize| {
        vec![Row(row("n")
            .iter()
            .map(|&n| block(n as usize) as i64)
            .collect())]
    };
    match args.op.name {
        "isqrt" => vec![Row(target.isqrt(row("n")))],
        "rdbpot" => vec![Row(target.rdbpot(row("x"), int("e") as u32))],
        "srdhm" => vec![Row(target.srdhm(row("a"), row("b")))],
        "norm_scale" => rows(target.norm_scale(row("m"))),
        "quantize" => vec![Row(target.quantize(row("u"), int("m")))],
        "dynq" => pair(target.dynq(row("u")), Row, Int),
        "rms" => pair(target.rms(row("x"), int("eps")), Int, Int),
        "ratio" => rows(target.ratio(row("m"), row("r"), row("e"))),
        "requantize" => vec![Row(target.requantize(row("acc"), channels(args)))],
        "rope_angle" => rows(target.rope_angle(args.wide("phase") as u64, row("position"))),
        "rope" => {
            let angles: Vec<_> = row("cos_sin").chunks(2).map(|p| (p[0], p[1])).collect();
            vec![Row(target.rope(row("x"), &angles))]
        }
        "had_block" => blocks(&|n| target.had_block(n)),
        "pow2_block" => blocks(&|n| target.pow2_block(n)),
        "had_forward" => vec![Row(target.had_forward(row("x"), int("B") as usize))],
        "had_transpose" => vec![Row(target.had_transpose(row("x"), int("B") as usize))],
        "head_norm" => vec![Row(target.head_norm(row("x"), row("gain")))],
        "swiglu" => vec![Row(target.swiglu(row("g"), row("u")))],
        "exp2_weight" => vec![Row(target.exp2_weight(row("d")))],
        "attend" => vec![Row(target.attend(Attend {
            q8: row("q8"),
            mq: int("mq"),
            k8: row("k8"),
            mk: row("mk"),
            v8: row("v8"),
            mv: row("mv"),
            score_mult: int("score_mult"),
            score_shift: int("score_shift"),
        }))],
        "linear" => vec![Row(target.linear(row("weight"), row("q"), channels(args)))],
        "add_residual" => vec![Row(target.add_residual(row("x"), row("y")))],
        "norm" => scaled(target.norm(row("x"), int("eps"))),
        "norm_static" => scaled(target.norm_static(row("x"), int("eps"), int("c"))),
        "argmax" => vec![Int(
            target.argmax(row("values"), int("accepted_ids") as usize)
        )],
        "keccak256" => vec![Digest(target.keccak256(&bytes(row("data"))))],
        "commitment" => vec![Digest(target.commitment(&bytes(row("blob"))))],
        "prove_chunk" => {
            let proof = target.prove_chunk(&bytes(row("blob")), int("index") as u64);
            vec![Digests(proof)]
        }
        "verify_chunk" => {
            let (total_len, index) = (args.wide("total_len"), args.wide("index"));
            // spec 5.3: what is no uint64 has no valid proof.
            let holds = match (total_len.try_into(), index.try_into()) {
                (Ok(total_len), Ok(index)) => target.verify_chunk(
                    args.digest("commitment"),
                    total_len,
                    index,
                    &bytes(row("chunk")),
                    args.digests("proof"),
                ),
                _ => false,
            };
            vec![Int(holds.into())]
        }
        "toy_gemm" => vec![Row(target.toy_gemm(
            row("weight"),
            row("x"),
            int("shift") as u32,
        ))],
        "toy_norm" => vec![Row(target.toy_norm(
            row("x"),
            row("w"),
            int("mult"),
            int("eps"),
        ))],
        "toy_attend" => vec![Row(target.toy_attend(row("q"), row("k"), row("v")))],
        "toy_swiglu" => vec![Row(target.toy_swiglu(row("gate"), row("up")))],
        name => unreachable!("{name} is in the table of operations"),
    }
}

impl Answer {
    /// The form in which a file holds the answer: long rows by their digest.
    pub(crate) fn stored(self) -> Self {
        match self {
            Self::Row(values) if values.len() > MAX_LISTED => Self::RowDigest {
                count: values.len(),
                keccak256: row_digest(&values),
            },
            other => other,
        }
    }
}

/// spec 7.3: the digest of a row.
#[must_use]
pub(crate) fn row_digest(values: &[i64]) -> [u8; 32] {
    debug_assert!(values.len() <= MAX_ROW, "rows of files are bounded");
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    int_engine::commitment::keccak256(&bytes)
}
