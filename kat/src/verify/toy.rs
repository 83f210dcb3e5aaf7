//! The toy model's logits, tokens, halts and packed calls.

use super::Checked;
use super::models::{token_rows, toy_halt};
use crate::file::ToyFile;
use crate::file::ids;
use crate::hex;
use crate::legacy::call;
use crate::target::Implementation;
use precompile::Refusal;
use precompile::packed::gas;

/// The first difference of the toy's file.
pub(super) fn check(file: &ToyFile, target: &dyn Implementation) -> Checked {
    for case in &file.logits {
        let place = format!("logits {}", case.name);
        let found = target.toy_logits(&ids(&case.prompt));
        let found = found.map_err(|halt| format!("{place}: found the halt {}", halt.name))?;
        if let Some(i) =
            (0..case.logits.len().max(found.len())).find(|&i| case.logits.get(i) != found.get(i))
        {
            let show = |v: Option<&i64>| v.map_or("nothing".into(), i64::to_string);
            let (expected, found) = (show(case.logits.get(i)), show(found.get(i)));
            return Err(format!(
                "{place}, index {i}: expected {expected}, found {found}"
            ));
        }
    }
    for case in &file.tokens {
        let place = format!("tokens {}", case.name);
        let found = target.toy_generate(&ids(&case.prompt), case.max_new);
        let found = found.map_err(|halt| format!("{place}: found the halt {}", halt.name))?;
        token_rows(&place, &case.tokens, &found)?;
    }
    for case in &file.halts {
        let found = target.toy_generate(&ids(&case.prompt), case.max_new);
        toy_halt(case, found.map(|tokens| format!("{} tokens", tokens.len())))?;
    }
    for case in &file.calls {
        let place = format!("call {}", case.name);
        let price = gas(&case.input);
        if price != case.gas {
            return Err(format!(
                "{place}, gas: expected {}, found {price}",
                case.gas
            ));
        }
        outcome(&place, &case.result, call(&case.input, price, target))?;
    }
    Ok(())
}

/// Compares the result of a call.
pub(crate) fn outcome(
    place: &str,
    expected: &Result<Vec<u8>, String>,
    found: Result<Vec<u8>, Refusal>,
) -> Checked {
    let found = found.map_err(|e| e.name().to_owned());
    if *expected == found {
        return Ok(());
    }
    let show = |r: &Result<Vec<u8>, String>| match r {
        Ok(output) => format!("output {}", hex::encode(output)),
        Err(error) => format!("error {error}"),
    };
    Err(format!(
        "{place}: expected {}, found {}",
        show(expected),
        show(&found)
    ))
}
