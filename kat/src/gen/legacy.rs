//! The packed calls as arrays that Ethereum clients read (spec 7.9).

use super::toy::calls;
use crate::legacy::{LegacyCall, call};
use crate::target::ReferenceTarget;
use precompile::packed::gas;

/// The answers and the failures, by the names of their files.
pub(super) fn files() -> [(&'static str, Vec<LegacyCall>); 2] {
    let (mut answers, mut failures) = (Vec::new(), Vec::new());
    for (name, input) in calls() {
        let price = gas(&input);
        match call(&input, price, &ReferenceTarget) {
            Ok(output) => answers.push(LegacyCall {
                name: name.into(),
                input,
                gas: Some(price),
                expected: Ok(output),
            }),
            Err(error) => failures.push(LegacyCall {
                name: name.into(),
                input,
                gas: None,
                expected: Err(error.name().into()),
            }),
        }
    }
    // Gas is checked before anything else.
    for (name, of) in [
        ("one gas less", "published"),
        ("no gas for nothing", "nothing"),
        ("no gas for another selector", "another selector"),
    ] {
        let (_, input) = calls()
            .into_iter()
            .find(|(n, _)| *n == of)
            .expect("a call of the list");
        failures.push(LegacyCall {
            name: name.into(),
            gas: Some(if of == "published" {
                gas(&input) - 1
            } else {
                0
            }),
            input,
            expected: Err("OutOfGas".into()),
        });
    }
    [("toy_packed", answers), ("toy_packed_fail", failures)]
}
