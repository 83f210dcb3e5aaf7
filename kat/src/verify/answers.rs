//! Cases of one operation.

use super::Checked;
use crate::file::{Case, OpFile};
use crate::hex;
use crate::op::apply::{apply, row_digest};
use crate::op::{self, Answer, Args};
use crate::target::Ops;

/// The first case whose answer differs.
pub(super) fn check(file: &OpFile, target: &(impl Ops + ?Sized)) -> Checked {
    for case in &file.cases {
        let args = Args::new(file.op, &case.input);
        op::check(&args).map_err(|e| format!("case {}: {e}", case.name))?;
        let found = apply(&args, target);
        compare(file.op.outputs, case, &found)?;
    }
    Ok(())
}

fn compare(outputs: &[(&str, op::Kind)], case: &Case, found: &[Answer]) -> Checked {
    if found.len() != outputs.len() {
        let (name, n) = (&case.name, found.len());
        return Err(format!("case {name}: found {n} results"));
    }
    for (((member, _), expected), found) in outputs.iter().zip(&case.out).zip(found) {
        let place = if member.is_empty() {
            format!("case {}", case.name)
        } else {
            format!("case {}, {member}", case.name)
        };
        difference(expected, found).map_or(Ok(()), |d| Err(format!("{place}{d}")))?;
    }
    Ok(())
}

/// Where two answers differ, if they do.
fn difference(expected: &Answer, found: &Answer) -> Option<String> {
    match (expected, found) {
        _ if expected == found => None,
        (Answer::Int(e), Answer::Int(f)) => Some(format!(": expected {e}, found {f}")),
        (Answer::Row(e), Answer::Row(f)) => {
            let i = e.iter().zip(f).position(|(e, f)| e != f);
            match i {
                Some(i) => Some(format!(", index {i}: expected {}, found {}", e[i], f[i])),
                None if e.len() != f.len() => {
                    Some(format!(": expected {} values, found {}", e.len(), f.len()))
                }
                None => None,
            }
        }
        (Answer::RowDigest { count, keccak256 }, Answer::Row(f)) => {
            let digest = row_digest(f);
            if f.len() != *count {
                Some(format!(": expected {count} values, found {}", f.len()))
            } else if digest != *keccak256 {
                Some(format!(
                    ": expected a row of {count} values with keccak256 {}, found {}",
                    hex::encode(keccak256),
                    hex::encode(&digest)
                ))
            } else {
                None
            }
        }
        (Answer::Digest(e), Answer::Digest(f)) => Some(format!(
            ": expected {}, found {}",
            hex::encode(e),
            hex::encode(f)
        )),
        (Answer::Digests(e), Answer::Digests(f)) => {
            let i = e.iter().zip(f).position(|(e, f)| e != f);
            match i {
                Some(i) => Some(format!(
                    ", index {i}: expected {}, found {}",
                    hex::encode(&e[i]),
                    hex::encode(&f[i])
                )),
                None if e.len() != f.len() => {
                    Some(format!(": expected {} digests, found {}", e.len(), f.len()))
                }
                None => None,
            }
        }
        _ => Some(": found a result of another kind".into()),
    }
}
