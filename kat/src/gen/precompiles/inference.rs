//! Answers, claims, digests and prices of models.

use precompile::Refusal::*;
use precompile::infer::Function::{GasOfGenerate, GasOfLogitsDigest, GasOfVerify};
use precompile::word::{Word, ZERO};
use precompile::{Refusal, calldata};

use super::states::{Blob, UNKNOWN, blob};
use super::{Ask, Maker, number};
use crate::file::{ModelFile, ids};

/// The ids that `generate` answers, by the first vectors of the model's file.
struct Known {
    prompt: Vec<u32>,
    max_new: u32,
    tokens: Vec<u32>,
}

/// The name of a model in the state "models".
fn name_of(blobs: &[Blob], name: &str) -> Word {
    let place = blobs.iter().position(|b| b.name == name);
    number(1 + place.expect("a model of the states") as u8)
}

fn known(models: &[(&'static str, ModelFile)], name: &str, run: &str) -> Known {
    let (_, file) = models.iter().find(|(n, _)| *n == name).expect("a model");
    let run = file.runs.iter().find(|r| r.name == run).expect("a run");
    Known {
        prompt: ids(&run.prompt),
        max_new: run.max_new,
        tokens: run.tokens.clone(),
    }
}

pub(super) fn cases(m: &mut Maker<'_>, blobs: &[Blob], models: &[(&'static str, ModelFile)]) {
    let name = |model: &str| name_of(blobs, model);
    for (model, run) in [
        ("dense", "twelve ids"),
        ("dense", "seven ids"),
        ("dense", "up to the context"),
        ("dense", "a full context"),
        ("dense_qk_norm", "twelve ids"),
        ("stops", "twelve ids"),
        ("ones", "one id"),
    ] {
        let k = known(models, model, run);
        let data = calldata::generate(&name(model), &ZERO, &k.prompt, k.max_new);
        m.answer(
            &format!("generate, {model}, {run}"),
            &Ask::new("models", data),
        );
    }
    tiny(m, name("blue_tiny"), blob(blobs, "blue_tiny"), models);
    claims(m, name("stops"), &known(models, "stops", "twelve ids"));
    claims_at_the_end(
        m,
        name("dense"),
        &known(models, "dense", "up to the context"),
    );
    commitments(m, blobs);
    prompts(m, name("dense"));
    prices(m, blobs);
    let refused = calldata::generate(&name("refused"), &ZERO, &[1], 1);
    let refused = Ask::new("models", refused);
    m.refuse("generate, a blob that spec 4 refuses", BadModel, &refused);
    let empty = calldata::generate(&name("refused"), &ZERO, &[], 1);
    m.refuse(
        "the prompt before the blob",
        EmptyPrompt,
        &Ask::new("models", empty),
    );
    let data = calldata::verify(&name("refused"), &ZERO, &[1], 1, &[1]);
    m.refuse(
        "verify, a blob that spec 4 refuses",
        BadModel,
        &Ask::new("models", data),
    );
    let data = calldata::logits_digest(&name("refused"), &ZERO, &[1]);
    m.refuse(
        "logitsDigest, a blob that spec 4 refuses",
        BadModel,
        &Ask::new("models", data),
    );
    let view = calldata::gas_of(GasOfGenerate, &name("refused"), &ZERO, &[1, 1]);
    m.answer(
        "gasOfGenerate, a blob that spec 4 refuses",
        &Ask::new("models", view),
    );
}

fn tiny(m: &mut Maker<'_>, name: Word, blob: &Blob, models: &[(&'static str, ModelFile)]) {
    let k = known(models, "blue_tiny", "the specification's prompt");
    let data = calldata::logits_digest(&name, &ZERO, &k.prompt);
    m.answer(
        "logitsDigest, blue_tiny, the specification's prompt",
        &Ask::new("models", data),
    );
    let data = calldata::generate(&name, &blob.commitment, &k.prompt[..4], 4);
    m.exact(
        "generate, blue_tiny, four new tokens",
        &Ask::new("models", data),
    );
}

/// A model whose answer ends with a stop id.
fn claims(m: &mut Maker<'_>, name: Word, k: &Known) {
    let verify = |max_new, output: &[u32]| {
        Ask::new(
            "models",
            calldata::verify(&name, &ZERO, &k.prompt, max_new, output),
        )
    };
    let (all, n) = (&k.tokens[..], k.tokens.len());
    let wanted = k.max_new;
    m.exact("verify, honest", &verify(wanted, all));
    m.answer("verify, truncated", &verify(wanted, &all[..n - 2]));
    m.answer(
        "verify, the stop id missing",
        &verify(wanted, &all[..n - 1]),
    );
    m.answer("verify, empty", &verify(wanted, &[]));
    let longer = |id| [all, &[id]].concat();
    m.answer(
        "verify, extended after the stop id",
        &verify(wanted, &longer(0)),
    );
    m.answer(
        "verify, the stop id twice",
        &verify(wanted, &longer(all[n - 1])),
    );
    for (place, i) in [("first", 0), ("middle", n / 2), ("last", n - 1)] {
        let mut other = all.to_vec();
        other[i] = (other[i] + 1) % 61;
        m.answer(
            &format!("verify, the {place} id altered"),
            &verify(wanted, &other),
        );
    }
    for (what, id) in [
        ("no prompt may hold", 61),
        ("is no row of the table", 67),
        ("is the largest", u32::MAX),
    ] {
        let mut other = all.to_vec();
        other[0] = id;
        m.answer(
            &format!("verify, an id that {what}"),
            &verify(wanted, &other),
        );
    }
    m.answer("verify, exactly as many as wanted", &verify(n as u32, all));
    m.answer("verify, more than wanted", &verify(n as u32 - 1, all));
    m.answer(
        "verify, fewer wanted, honest",
        &verify(n as u32 - 1, &all[..n - 1]),
    );
    m.answer("verify, nothing wanted, empty", &verify(0, &[]));
    m.answer("verify, nothing wanted, one id", &verify(0, &all[..1]));
    m.answer("verify, 2^32 - 1 wanted", &verify(u32::MAX, all));
    for (max_new, what) in [
        (0, "nothing wanted"),
        (1, "one wanted"),
        (n as u32, "as many as there are"),
    ] {
        let data = calldata::generate(&name, &ZERO, &k.prompt, max_new);
        m.answer(
            &format!("generate, stops, {what}"),
            &Ask::new("models", data),
        );
    }
    let refuse = |m: &mut Maker<'_>, what: &str, why: Refusal, prompt: &[u32]| {
        let data = calldata::verify(&name, &ZERO, prompt, wanted, all);
        m.refuse(&format!("verify, {what}"), why, &Ask::new("models", data));
    };
    refuse(m, "an empty prompt", EmptyPrompt, &[]);
    refuse(m, "a prompt beyond the context", ContextExceeded, &[0; 49]);
    refuse(
        m,
        "a prompt with an id out of range",
        TokenOutOfRange,
        &[0, 61],
    );
}

/// A model whose answer fills the context.
fn claims_at_the_end(m: &mut Maker<'_>, name: Word, k: &Known) {
    let verify = |max_new, output: &[u32]| {
        Ask::new(
            "models",
            calldata::verify(&name, &ZERO, &k.prompt, max_new, output),
        )
    };
    let all = &k.tokens[..];
    m.answer("verify, up to the context", &verify(k.max_new, all));
    m.answer(
        "verify, beyond the context",
        &verify(k.max_new, &[all, &[0]].concat()),
    );
    m.answer(
        "verify, one before the context",
        &verify(k.max_new, &all[..all.len() - 1]),
    );
}

fn commitments(m: &mut Maker<'_>, blobs: &[Blob]) {
    let (dense, qk_norm) = (blob(blobs, "dense"), blob(blobs, "dense_qk_norm"));
    let one = number(1);
    let generate = |state, commitment: &Word| {
        Ask::new(state, calldata::generate(&one, commitment, &[3, 5, 7], 3))
    };
    m.answer("the active commitment, zero", &generate("active", &ZERO));
    m.answer(
        "the active commitment, named",
        &generate("active", &dense.commitment),
    );
    m.answer(
        "the active one while another waits",
        &generate("active and pending", &dense.commitment),
    );
    m.answer("after an upgrade, zero", &generate("upgraded", &ZERO));
    m.refuse(
        "the pending one is not active",
        NotActive,
        &generate("active and pending", &qk_norm.commitment),
    );
    m.refuse(
        "after an upgrade, the one before",
        NotActive,
        &generate("upgraded", &dense.commitment),
    );
    m.refuse(
        "an unknown commitment",
        NotActive,
        &generate("active", &UNKNOWN),
    );
    m.refuse(
        "waiting is not active",
        NoActiveModel,
        &generate("waiting", &ZERO),
    );
    m.refuse(
        "waiting is not active, named",
        NoActiveModel,
        &generate("waiting", &dense.commitment),
    );
    m.refuse(
        "revoked",
        NoActiveModel,
        &generate("revoked", &dense.commitment),
    );
    m.answer("adopted anew", &generate("adopted anew", &dense.commitment));
    m.refuse(
        "of the older registry",
        NoActiveModel,
        &generate("older", &ZERO),
    );
    m.refuse(
        "of the older registry, with a record",
        NoActiveModel,
        &generate("older, with a record", &ZERO),
    );
    m.refuse(
        "of the older registry, named",
        NoActiveModel,
        &generate("older, governed", &UNKNOWN),
    );
    let zero = calldata::generate(&ZERO, &ZERO, &[1], 1);
    m.refuse("name zero", NoActiveModel, &Ask::new("models", zero));
    for (what, word) in [("logitsDigest", &UNKNOWN), ("logitsDigest, zero", &ZERO)] {
        let data = calldata::logits_digest(&one, word, &[3]);
        let why = if *word == ZERO {
            NoActiveModel
        } else {
            NotActive
        };
        let state = if *word == ZERO { "empty" } else { "active" };
        m.refuse(
            &format!("{what}, what is not active"),
            why,
            &Ask::new(state, data),
        );
    }
    let digest = calldata::logits_digest(&one, &dense.commitment, &[3, 5, 7]);
    m.answer(
        "logitsDigest, the active commitment, named",
        &Ask::new("active", digest),
    );
}

fn prompts(m: &mut Maker<'_>, name: Word) {
    let generate = |prompt: &[u32], max_new| {
        Ask::new("models", calldata::generate(&name, &ZERO, prompt, max_new))
    };
    m.exact("generate, one id", &generate(&[60], 1));
    m.answer("generate, beyond the context", &generate(&[1; 40], 1000));
    m.refuse("an empty prompt", EmptyPrompt, &generate(&[], 1));
    m.refuse(
        "an empty prompt, nothing wanted",
        EmptyPrompt,
        &generate(&[], 0),
    );
    m.refuse(
        "one id more than the context",
        ContextExceeded,
        &generate(&[0; 49], 0),
    );
    m.refuse(
        "too long before out of range",
        ContextExceeded,
        &generate(&[61; 49], 0),
    );
    m.refuse(
        "the first id that is not accepted",
        TokenOutOfRange,
        &generate(&[61], 0),
    );
    m.refuse(
        "the last of a full context",
        TokenOutOfRange,
        &generate(&[&[0; 47][..], &[66]].concat(), 1),
    );
    m.refuse(
        "the largest id",
        TokenOutOfRange,
        &generate(&[0, u32::MAX], 1),
    );
    let digest = |tokens: &[u32]| Ask::new("models", calldata::logits_digest(&name, &ZERO, tokens));
    m.exact("logitsDigest, one id", &digest(&[0]));
    m.answer("logitsDigest, a full context", &digest(&[7; 48]));
    m.refuse("logitsDigest, no ids", EmptyPrompt, &digest(&[]));
    m.refuse(
        "logitsDigest, one id more than the context",
        ContextExceeded,
        &digest(&[7; 49]),
    );
    m.refuse(
        "logitsDigest, an id out of range",
        TokenOutOfRange,
        &digest(&[7, 61]),
    );
    m.refuse(
        "2^32 - 1 new tokens are paid for",
        OutOfGas,
        &generate(&[1], u32::MAX).given(super::ENOUGH),
    );
}

fn prices(m: &mut Maker<'_>, blobs: &[Blob]) {
    let max = u32::MAX;
    for model in ["dense", "blue_tiny"] {
        let name = name_of(blobs, model);
        let mut view = |what: &str, function, tokens: &[u32]| {
            let data = calldata::gas_of(function, &name, &ZERO, tokens);
            m.answer(
                &format!("{what}, {model}, {tokens:?}"),
                &Ask::new("models", data),
            );
        };
        for tokens in [[0, 0], [1, 1], [1, 2], [100, 1000], [0, max], [max, max]] {
            view("gasOfGenerate", GasOfGenerate, &tokens);
            view("gasOfVerify", GasOfVerify, &tokens);
        }
        for tokens in [0, 1, 1000, max] {
            view("gasOfLogitsDigest", GasOfLogitsDigest, &[tokens]);
        }
    }
    for function in [GasOfGenerate, GasOfVerify] {
        let data = calldata::gas_of(function, &number(1), &UNKNOWN, &[1, 1]);
        m.refuse(
            &format!("{function:?}, another commitment"),
            NotActive,
            &Ask::new("models", data.clone()),
        );
        m.refuse(
            &format!("{function:?}, no model"),
            NoActiveModel,
            &Ask::new("empty", data),
        );
    }
    let data = calldata::gas_of(GasOfLogitsDigest, &number(1), &ZERO, &[1]);
    m.refuse(
        "GasOfLogitsDigest of the older registry",
        NoActiveModel,
        &Ask::new("older", data),
    );
}
