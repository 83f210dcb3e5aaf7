//! Those of inference.

use super::{Flow, Gas, SENDER, active, blobs, call, due, passed};
use crate::chain::{Chain, NAME};
use int_engine::kernels::Kernels;
use precompile::infer::Function as Infer;
use precompile::word::{Word, ZERO};
use precompile::{Refusal, Target, calldata};
use std::ops::ControlFlow;

const PROMPT: [u32; 3] = [1, 2, 4];

/// What model A answers to the prompt.
fn answer() -> Vec<u32> {
    use int_engine::engine::{Engine as _, generate};
    let engine = blobs()[0].engine(Kernels::scalar());
    let mut session = engine.session().unwrap();
    let go_on = &mut |_| ControlFlow::Continue(());
    generate(&mut *session, &PROMPT, 12, go_on).unwrap().ids
}

pub(super) fn inference() -> Vec<Flow> {
    use Refusal as R;
    let [a, b] = blobs();
    let i = |name, about, chain, data, refusal: Option<Refusal>| {
        call(name, about, chain, Target::Inference, data, refusal)
    };
    let generate = |c: &Word, prompt: &[u32]| calldata::generate(&NAME, c, prompt, 12);
    let verify = |output: &[u32]| calldata::verify(&NAME, &ZERO, &PROMPT, 12, output);
    let right = answer();
    let mut upgraded = due();
    upgraded.activate(&NAME, 2);
    let packed = [0x0100_0000u32, 10, 1, 7, 13, 2]
        .map(u32::to_be_bytes)
        .concat();
    vec![
        i(
            "generate",
            "whatever is active",
            active(),
            generate(&ZERO, &PROMPT),
            None,
        ),
        i(
            "generateNamed",
            "the active commitment by name",
            active(),
            generate(&a.commitment.0, &PROMPT),
            None,
        ),
        i(
            "generateAfterUpgrade",
            "the same calldata, another model",
            upgraded.clone(),
            generate(&ZERO, &PROMPT),
            None,
        ),
        i(
            "generateNotActive",
            "a commitment that was replaced",
            upgraded,
            generate(&a.commitment.0, &PROMPT),
            Some(R::NotActive),
        ),
        i(
            "generatePendingOnly",
            "a commitment that waits",
            passed(),
            generate(&b.commitment.0, &PROMPT),
            Some(R::NotActive),
        ),
        i(
            "generateNoModel",
            "a name without a model",
            Chain::new(&[SENDER], 1),
            generate(&ZERO, &PROMPT),
            Some(R::NoActiveModel),
        ),
        i(
            "generateEmptyPrompt",
            "no token",
            active(),
            generate(&ZERO, &[]),
            Some(R::EmptyPrompt),
        ),
        i(
            "generateLongPrompt",
            "one token more than the context",
            active(),
            generate(&ZERO, &[1; 25]),
            Some(R::ContextExceeded),
        ),
        i(
            "generateFullContext",
            "no room for a token",
            active(),
            generate(&ZERO, &[1; 24]),
            None,
        ),
        i(
            "generateUnknownToken",
            "an id that no prompt may hold",
            active(),
            generate(&ZERO, &[37]),
            Some(R::TokenOutOfRange),
        ),
        i(
            "verifyRight",
            "the answer of generate",
            active(),
            verify(&right),
            None,
        ),
        i(
            "verifyShortened",
            "all but its last token",
            active(),
            verify(&right[..right.len() - 1]),
            None,
        ),
        i(
            "logitsDigest",
            "after the last token",
            active(),
            calldata::logits_digest(&NAME, &ZERO, &PROMPT),
            None,
        ),
        i(
            "gasOfGenerate",
            "the whole price",
            active(),
            calldata::gas_of(Infer::GasOfGenerate, &NAME, &ZERO, &[3, 12]),
            None,
        ),
        i(
            "gasOfVerify",
            "the whole price",
            active(),
            calldata::gas_of(Infer::GasOfVerify, &NAME, &ZERO, &[3, 12]),
            None,
        ),
        i(
            "gasOfLogitsDigest",
            "the whole price",
            active(),
            calldata::gas_of(Infer::GasOfLogitsDigest, &NAME, &ZERO, &[3]),
            None,
        ),
        i(
            "packed",
            "the toy model's published answer",
            active(),
            packed.clone(),
            None,
        ),
        Flow {
            gas: Gas::OneLess,
            ..i(
                "packedOneGasLess",
                "one less than the price",
                active(),
                packed,
                Some(R::OutOfGas),
            )
        },
        Flow {
            gas: Gas::OneLess,
            ..i(
                "generateOneGasLess",
                "one less than the price",
                active(),
                generate(&ZERO, &PROMPT),
                Some(R::OutOfGas),
            )
        },
        Flow {
            gas: Gas::More,
            ..i(
                "generateMoreGas",
                "what is over comes back",
                active(),
                generate(&ZERO, &PROMPT),
                None,
            )
        },
        Flow {
            value: 1,
            ..i(
                "generateWithValue",
                "no value is taken",
                active(),
                generate(&ZERO, &PROMPT),
                Some(R::ValueSent),
            )
        },
    ]
}
