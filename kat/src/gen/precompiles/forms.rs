//! What every function refuses alike: gas, value, kind of call, static context; and the order of these checks.

use precompile::Refusal::*;
use precompile::calldata;
use precompile::infer::Function as Infer;
use precompile::registry::{Action, Function as Registry};
use precompile::word::{ZERO, of_address, of_u64};

use super::states::{Blob, blob};
use super::{ALICE, Ask, BOB, DAVE, Maker, NAME, number};

/// A call of every function that returns.
pub(super) fn registry_calls(blobs: &[Blob]) -> Vec<(Registry, Ask)> {
    let dense = blob(blobs, "dense");
    let adopt = Action::Adopt {
        name: NAME,
        version: 1,
        commitment: dense.commitment,
    };
    let one = |&function: &Registry| {
        let view = |state, word| Ask::new(state, calldata::view(function, Some(word)));
        let of_version = |state| Ask::new(state, calldata::of_version(function, &NAME, 3));
        let ask = match function {
            Registry::Propose => Ask::new("three admins", dense.propose(&NAME, 1)).by(ALICE),
            Registry::Approve => {
                let data = calldata::approve(&NAME, 1, &dense.commitment);
                Ask::new("open votes", data).by(BOB)
            }
            Registry::Activate => of_version("waiting").at(15),
            Registry::Revoke => of_version("active").by(ALICE),
            Registry::SetAdmin => Ask::new("open votes", calldata::set_admin(&DAVE, true)).by(BOB),
            Registry::SetQuorum => Ask::new("open votes", calldata::set_quorum(3)).by(BOB),
            Registry::Record => view("models", &dense.commitment),
            Registry::Activation => view("models", &of_u64(1)),
            Registry::Pending => view("waiting", &NAME),
            Registry::HighestVersion | Registry::GetApproved => view("active", &NAME),
            Registry::IsAdmin => view("three admins", &of_address(&ALICE)),
            Registry::Governance | Registry::ActivationCount => {
                Ask::new("models", calldata::view(function, None))
            }
            Registry::IsRevoked => of_version("revoked"),
            Registry::Tally => view("open votes", &adopt.id(0)),
        };
        (function, ask)
    };
    Registry::ALL.iter().map(one).collect()
}

/// The call of a function.
fn of(calls: &[(Registry, Ask)], function: Registry) -> &Ask {
    let found = calls.iter().find(|(f, _)| *f == function);
    &found.expect("a call of every function").1
}

/// A call of every function that returns; the name of "dense".
pub(super) fn inference_calls() -> Vec<(Infer, Ask)> {
    let one = |&function: &Infer| {
        let data = match function {
            Infer::Generate => calldata::generate(&NAME, &ZERO, &[3, 5, 7], 2),
            Infer::Verify => calldata::verify(&NAME, &ZERO, &[3, 5, 7], 2, &[1, 2]),
            Infer::LogitsDigest => calldata::logits_digest(&NAME, &ZERO, &[3, 5, 7]),
            Infer::GasOfGenerate | Infer::GasOfVerify => {
                calldata::gas_of(function, &NAME, &ZERO, &[3, 2])
            }
            Infer::GasOfLogitsDigest => calldata::gas_of(function, &NAME, &ZERO, &[3]),
        };
        (function, Ask::new("models", data))
    };
    Infer::ALL.iter().map(one).collect()
}

/// The forms of one function's call; its price is `price`.
fn common(m: &mut Maker<'_>, function: &str, ask: &Ask, price: u64) {
    let of = |what: &str| format!("{function}: {what}");
    m.refuse(&of("no gas"), OutOfGas, &ask.clone().given(0));
    m.refuse(&of("one gas less"), OutOfGas, &ask.clone().given(price - 1));
    m.refuse(&of("value"), ValueSent, &ask.clone().paying(1));
    m.refuse(&of("delegated"), NotDirect, &ask.clone().delegated());
}

pub(super) fn registry(m: &mut Maker<'_>, blobs: &[Blob]) {
    let calls = registry_calls(blobs);
    for (function, ask) in &calls {
        let name = function.signature().split('(').next().unwrap_or_default();
        let price = m.price(ask);
        common(m, name, ask, price);
        if function.writes() {
            let fixed = ask.clone().fixed();
            m.refuse(&format!("{name}: static"), WriteInStaticCall, &fixed);
        }
    }
    let ask = of(&calls, Registry::SetAdmin);
    let all = || ask.clone().paying(u64::MAX).delegated().fixed();
    m.refuse("gas before value", OutOfGas, &all().given(100));
    m.refuse("value before the kind of call", ValueSent, &all());
    m.refuse(
        "the kind of call before static",
        NotDirect,
        &all().paying(0),
    );
    let broken = Ask {
        data: ask.data[..60].to_vec(),
        ..ask.clone().fixed()
    };
    m.refuse("static before the arguments", WriteInStaticCall, &broken);
    let unknown = Ask::new("three admins", vec![0xAE, 0xDE, 0x12, 0x08]);
    m.refuse("an unknown selector", UnknownSelector, &unknown);
    m.refuse(
        "an unknown selector, one gas less",
        OutOfGas,
        &unknown.clone().given(4999),
    );
    m.refuse(
        "an unknown selector, all of its price",
        UnknownSelector,
        &unknown.clone().given(5000),
    );
    m.refuse(
        "an unknown selector, value",
        ValueSent,
        &unknown.clone().paying(1),
    );
    m.refuse(
        "an unknown selector, delegated",
        NotDirect,
        &unknown.delegated(),
    );
    for len in 0..4 {
        let data = ask.data[..len].to_vec();
        let short = Ask {
            data,
            ..ask.clone()
        };
        m.refuse(&format!("{len} bytes"), InputTooShort, &short);
    }
    let inference = inference_calls().remove(0).1.data;
    m.refuse(
        "a function of inference",
        UnknownSelector,
        &Ask::new("models", inference),
    );
}

pub(super) fn inference(m: &mut Maker<'_>) {
    let calls = inference_calls();
    for (function, ask) in &calls {
        let name = function.signature().split('(').next().unwrap_or_default();
        let price = m.price(ask);
        common(m, name, ask, price);
        m.answer(&format!("{name}: static"), &ask.clone().fixed());
    }
    let (_, ask) = &calls[0];
    let words = (ask.data.len() as u64 - 4).div_ceil(32);
    let entry =
        precompile::gas::CALL + 3 * precompile::gas::READ + precompile::gas::INPUT_WORD * words;
    let all = || ask.clone().paying(1).delegated();
    m.refuse("gas before value", OutOfGas, &all().given(entry - 1));
    m.refuse(
        "value before the kind of call",
        ValueSent,
        &all().given(entry),
    );
    let broken = |ask: Ask| Ask {
        data: ask.data[..100].to_vec(),
        ..ask
    };
    m.refuse(
        "the kind of call before the arguments",
        NotDirect,
        &broken(ask.clone().delegated()),
    );
    m.refuse(
        "the arguments before the name",
        NotCanonical,
        &broken(Ask {
            state: "empty",
            ..ask.clone()
        }),
    );
    let at = |state| Ask {
        state,
        ..ask.clone()
    };
    m.refuse(
        "the name with the entry price alone",
        NoActiveModel,
        &at("empty").given(entry),
    );
    m.refuse("the price before the prompt", OutOfGas, &{
        let data = calldata::generate(&NAME, &ZERO, &[], 2);
        Ask::new("models", data).given(entry)
    });
    m.refuse(
        "a name of the older registry with the entry price alone",
        NoActiveModel,
        &at("older").given(entry),
    );
    let revoked = calldata::generate(&NAME, &number(9), &[1], 2);
    m.refuse(
        "nothing active before another commitment",
        NoActiveModel,
        &Ask::new("revoked", revoked),
    );
    let view = Ask::new("models", registry_view());
    m.refuse("a function of the registry", UnknownSelector, &view);
}

fn registry_view() -> Vec<u8> {
    calldata::view(Registry::ActivationCount, None)
}
