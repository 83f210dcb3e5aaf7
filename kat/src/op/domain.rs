//! The domains of the operations (spec 1 and 7.4): a case outside its operation's domain has no answer.

use int_engine::config::had_block;

use super::Args;

const I31: i64 = (1 << 31) - 1;
const MULT: (i64, i64) = (1 << 30, I31);
const CODE: (i64, i64) = (-127, 127);
const HEAD_GAIN: i64 = 32767 << 15;
/// Most inputs of a matrix product and of `quantize`.
const MAX_COLS: usize = 65536;
/// Most values of a normalised row.
const MAX_HIDDEN: usize = 8192;
const MAX_HEAD_DIM: usize = 256;
const MAX_KEYS: usize = 32768;

type Checked = Result<(), String>;

fn values(args: &Args<'_>, name: &str, low: i64, high: i64) -> Checked {
    match args.row(name).iter().position(|v| *v < low || *v > high) {
        None => Ok(()),
        Some(i) => Err(format!(
            "{name}[{i}] is {}, must be in {low} ..= {high}",
            args.row(name)[i]
        )),
    }
}

fn int(args: &Args<'_>, name: &str, low: i128, high: i128) -> Checked {
    let v = args.wide(name);
    if (low..=high).contains(&v) {
        Ok(())
    } else {
        Err(format!("{name} is {v}, must be in {low} ..= {high}"))
    }
}

fn length(args: &Args<'_>, name: &str, low: usize, high: usize) -> Checked {
    let n = args.row(name).len();
    if (low..=high).contains(&n) {
        Ok(())
    } else if low == high {
        Err(format!("{name} has {n} values, must have {low}"))
    } else {
        Err(format!("{name} has {n} values, must have {low} to {high}"))
    }
}

/// Elementwise rows: as long as the first.
fn together(args: &Args<'_>, names: &[&str]) -> Checked {
    let n = args.row(names[0]).len();
    length(args, names[0], 1, usize::MAX)?;
    names[1..]
        .iter()
        .try_for_each(|name| length(args, name, n, n))
}

fn scale(args: &Args<'_>) -> Checked {
    match args.scale("scale") {
        Some((t, e)) if !(0..=I31).contains(&t) || !(-128..=128).contains(&e) => Err(format!(
            "scale is [{t}, {e}], must be in [0 ..= 2^31 - 1, -128 ..= 128]"
        )),
        _ => Ok(()),
    }
}

fn channels(args: &Args<'_>) -> Checked {
    int(args, "psh", -5, 0)?;
    scale(args)?;
    values(args, "mult", MULT.0, MULT.1)?;
    values(args, "shift", -64, 64)?;
    match args.wide("limit") {
        0x7fff | 0x40_0000 | 0x400_0000 | 0x7fff_ffff => Ok(()),
        v => Err(format!(
            "limit is {v}, must be 32767, 2^22, 2^26 or 2^31 - 1"
        )),
    }
}

/// A row before a norm.
fn residual(args: &Args<'_>) -> Checked {
    length(args, "x", 1, MAX_HIDDEN)?;
    values(args, "x", -I31, I31)?;
    int(args, "eps", 0, (1 << 53) - 1)
}

fn rotation(args: &Args<'_>) -> Checked {
    int(args, "B", 1, MAX_COLS as i128)?;
    let b = args.int("B") as usize;
    if had_block(b) != b {
        return Err(format!("B is {b}: there is no matrix H_B"));
    }
    if args.row("x").is_empty() || args.row("x").len() % b != 0 {
        return Err(format!(
            "x has {} values, must be blocks of {b}",
            args.row("x").len()
        ));
    }
    let limit = 1 << (31 - (64 - (b as u64).leading_zeros()));
    values(args, "x", -limit, limit)
}

fn attend(args: &Args<'_>) -> Checked {
    length(args, "q8", 1, MAX_HEAD_DIM)?;
    length(args, "mk", 1, MAX_KEYS)?;
    let (hd, keys) = (args.row("q8").len(), args.row("mk").len());
    length(args, "mv", keys, keys)?;
    for codes in ["k8", "v8"] {
        length(args, codes, hd * keys, hd * keys)?;
        values(args, codes, CODE.0, CODE.1)?;
    }
    values(args, "q8", CODE.0, CODE.1)?;
    values(args, "mk", 0, 32767)?;
    values(args, "mv", 0, 32767)?;
    int(args, "mq", 0, 32767)?;
    int(args, "score_mult", MULT.0.into(), MULT.1.into())?;
    int(args, "score_shift", 0, 61)
}

fn linear(args: &Args<'_>) -> Checked {
    length(args, "q", 1, MAX_COLS)?;
    together(args, &["mult", "shift"])?;
    let (cols, rows) = (args.row("q").len(), args.row("mult").len());
    length(args, "weight", rows * cols, rows * cols)?;
    values(args, "weight", CODE.0, CODE.1)?;
    values(args, "q", CODE.0, CODE.1)?;
    channels(args)?;
    let sums = args
        .row("weight")
        .chunks(cols)
        .map(|r| r.iter().map(|w| w.abs()).sum::<i64>());
    let largest = 127 * sums.max().unwrap_or(0);
    let psh = (i64::from(64 - largest.leading_zeros()) - 31).max(-5);
    int(args, "psh", psh.into(), 0)
}

fn requantize(args: &Args<'_>) -> Checked {
    together(args, &["acc", "mult", "shift"])?;
    channels(args)?;
    let limit = ((1i64 << 31) - 1) >> -args.int("psh");
    values(args, "acc", -limit, limit)
}

fn blob(args: &Args<'_>) -> Checked {
    length(args, "blob", 1025, usize::MAX)?;
    values(args, "blob", 0, 255)
}

/// Checks the inputs of a case; the message names the input and what would be right.
pub(crate) fn check(args: &Args<'_>) -> Checked {
    match args.op.name {
        "isqrt" => together(args, &["n"]).and_then(|()| values(args, "n", 0, (1 << 62) - 1)),
        "rdbpot" => {
            together(args, &["x"])?;
            values(args, "x", -(1 << 62), 1 << 62)?;
            int(args, "e", 0, u32::MAX.into())
        }
        "srdhm" => {
            together(args, &["a", "b"])?;
            values(args, "a", i32::MIN.into(), I31)?;
            values(args, "b", i32::MIN.into(), I31)
        }
        "norm_scale" => together(args, &["m"]).and_then(|()| values(args, "m", 0, I31)),
        "quantize" => {
            length(args, "u", 1, MAX_COLS)?;
            values(args, "u", -I31, I31)?;
            int(args, "m", 1, I31.into())
        }
        "dynq" => length(args, "u", 1, MAX_COLS).and_then(|()| values(args, "u", -I31, I31)),
        "rms" | "norm" => residual(args),
        "norm_static" => residual(args).and_then(|()| int(args, "c", 1, 1 << 16)),
        "ratio" => {
            together(args, &["m", "r", "e"])?;
            values(args, "m", 0, I31)?;
            values(args, "r", 1 << 30, I31)?;
            values(args, "e", -128, 128)
        }
        "requantize" => requantize(args),
        "rope_angle" => {
            together(args, &["position"])?;
            values(args, "position", 0, 32767)?;
            int(args, "phase", 0, u64::MAX.into())
        }
        "rope" => {
            length(args, "x", 2, MAX_HEAD_DIM)?;
            let n = args.row("x").len();
            if n % 2 != 0 {
                return Err(format!("x has {n} values, must have an even number"));
            }
            length(args, "cos_sin", n, n)?;
            values(args, "x", -(1 << 22), 1 << 22)?;
            values(args, "cos_sin", -(1 << 14), 1 << 14)
        }
        "had_block" | "pow2_block" => {
            together(args, &["n"])?;
            values(args, "n", 1, MAX_COLS as i64)
        }
        "had_forward" | "had_transpose" => rotation(args),
        "head_norm" => {
            together(args, &["x", "gain"])?;
            length(args, "x", 1, MAX_HEAD_DIM)?;
            values(args, "x", -I31, I31)?;
            values(args, "gain", -HEAD_GAIN, HEAD_GAIN)
        }
        "swiglu" => {
            together(args, &["g", "u"])?;
            values(args, "g", -(1 << 26), 1 << 26)?;
            values(args, "u", -(1 << 26), 1 << 26)
        }
        "exp2_weight" => together(args, &["d"]).and_then(|()| values(args, "d", 0, I31)),
        "attend" => attend(args),
        "linear" => linear(args),
        "add_residual" => {
            together(args, &["x", "y"])?;
            values(args, "x", -I31, I31)?;
            values(args, "y", -I31, I31)
        }
        "argmax" => {
            length(args, "values", 1, usize::MAX)?;
            values(args, "values", -I31, I31)?;
            int(args, "accepted_ids", 1, args.row("values").len() as i128)
        }
        "keccak256" => values(args, "data", 0, 255),
        "commitment" => blob(args),
        "prove_chunk" => {
            blob(args)?;
            let chunks = int_engine::commitment::chunk_count(args.row("blob").len() as u64);
            int(args, "index", 0, i128::from(chunks) - 1)
        }
        "verify_chunk" => values(args, "chunk", 0, 255),
        "toy_gemm" => {
            length(args, "x", 1, MAX_COLS)?;
            let cols = args.row("x").len();
            let n = args.row("weight").len();
            if n == 0 || n % cols != 0 {
                return Err(format!("weight has {n} values, must be rows of {cols}"));
            }
            values(args, "weight", -128, 127)?;
            values(args, "x", -128, 127)?;
            int(args, "shift", 0, 31)
        }
        "toy_norm" => {
            together(args, &["x", "w"])?;
            length(args, "x", 1, MAX_COLS)?;
            values(args, "x", -128, 127)?;
            values(args, "w", -128, 127)?;
            int(args, "mult", 1, 1 << 16)?;
            int(args, "eps", 0, (1 << 30) - 1)
        }
        "toy_attend" => {
            length(args, "q", 1, MAX_HEAD_DIM)?;
            let (dim, n) = (args.row("q").len(), args.row("k").len());
            if n == 0 || n % dim != 0 || n / dim > 256 {
                return Err(format!("k has {n} values, must be 1 to 256 rows of {dim}"));
            }
            length(args, "v", n, n)?;
            ["q", "k", "v"]
                .iter()
                .try_for_each(|name| values(args, name, -128, 127))
        }
        "toy_swiglu" => {
            together(args, &["gate", "up"])?;
            values(args, "gate", -128, 127)?;
            values(args, "up", -128, 127)
        }
        _ => Ok(()),
    }
}
