//! Functions with constant selectors.

use precompile::Refusal::*;
use precompile::word::{Word, ZERO, of_address, of_u64};

use super::states::{Blob, STRANGE, UNKNOWN, blob};
use super::{ALICE, Ask, BOB, DAVE, Maker, NAME};
use crate::generate::toy::calls;

fn legacy(function: u8, words: &[Word]) -> Vec<u8> {
    let mut data = vec![function, 0, 0, 0];
    words.iter().for_each(|word| data.extend(word));
    data
}

pub(super) fn registry(m: &mut Maker<'_>, blobs: &[Blob]) {
    writes(m, blob(blobs, "dense"));
    let approved = |state| Ask::new(state, legacy(2, &[NAME]));
    m.exact(
        "legacy getApproved, at the published slots",
        &approved("older"),
    );
    m.answer("legacy getApproved, static", &approved("active").fixed());
    m.answer("legacy getApproved, none", &approved("empty"));
    let admin = |state, word| Ask::new(state, legacy(3, &[word]));
    m.exact(
        "legacy isAdmin, at the published slot",
        &admin("older", of_address(&ALICE)),
    );
    m.answer(
        "legacy isAdmin, a word of 2",
        &admin("older", of_address(&STRANGE)),
    );
    m.answer(
        "legacy isAdmin, none",
        &admin("older", of_address(&BOB)).fixed(),
    );
    let mut dirty = [0xFF; 32];
    dirty[12..].copy_from_slice(&ALICE);
    m.answer(
        "legacy isAdmin takes the low 20 bytes",
        &admin("older", dirty),
    );
    for (function, name) in [(2, "getApproved"), (3, "isAdmin")] {
        let with = |data: Vec<u8>| Ask::new("older", data);
        let whole = legacy(function, &[NAME]);
        let of = |what: &str| format!("legacy {name}, {what}");
        m.answer(&of("a byte more"), &with([&whole[..], &[1]].concat()));
        m.answer(&of("a word more"), &with(legacy(function, &[NAME, NAME])));
        m.refuse(
            &of("a byte less"),
            InputTooShort,
            &with(whole[..35].to_vec()),
        );
        m.refuse(
            &of("no argument"),
            InputTooShort,
            &with(whole[..4].to_vec()),
        );
        m.refuse(&of("value"), ValueSent, &with(whole.clone()).paying(1));
        m.refuse(&of("delegated"), NotDirect, &with(whole).delegated());
    }
    for (name, selector) in [
        ("selector 00000000", [0, 0, 0, 0]),
        ("selector 05000000", [5, 0, 0, 0]),
        ("selector 01000001", [1, 0, 0, 1]),
    ] {
        let data = [&selector[..], &NAME].concat();
        m.refuse(
            &format!("legacy, {name}"),
            UnknownSelector,
            &Ask::new("older", data),
        );
    }
}

fn writes(m: &mut Maker<'_>, dense: &Blob) {
    let adopt = |words: &[Word]| Ask::new("open votes", legacy(1, words)).by(BOB);
    let right = [NAME, of_u64(1), dense.commitment];
    m.exact("legacy adopt, the second vote", &adopt(&right));
    m.answer(
        "legacy adopt, a word more",
        &adopt(&[&right[..], &[UNKNOWN]].concat()),
    );
    let set = |words: &[Word]| Ask::new("open votes", legacy(4, words)).by(BOB);
    let enable = [of_address(&DAVE), of_u64(1)];
    m.exact("legacy setAdmin, the second vote", &set(&enable));
    m.answer(
        "legacy setAdmin, a word more",
        &set(&[&enable[..], &[UNKNOWN]].concat()),
    );
    m.answer("legacy setAdmin, a first vote against", &{
        let words = [of_address(&BOB), ZERO];
        Ask {
            state: "three admins",
            ..set(&words)
        }
    });
    for (name, ask) in [("adopt", adopt(&right)), ("setAdmin", set(&enable))] {
        let of = |what: &str| format!("legacy {name}, {what}");
        m.refuse(&of("value"), ValueSent, &ask.clone().paying(1));
        m.refuse(&of("delegated"), NotDirect, &ask.clone().delegated());
        m.refuse(&of("static"), WriteInStaticCall, &ask.clone().fixed());
        m.refuse(&of("no admin"), NotAdmin, &ask.clone().by(DAVE));
        let data = ask.data[..ask.data.len() - 1].to_vec();
        let short = Ask {
            data,
            ..ask.clone()
        };
        m.refuse(&of("a byte less"), InputTooShort, &short);
        let outside = short.clone().by(DAVE);
        m.refuse(&of("the caller before the length"), NotAdmin, &outside);
        m.refuse(
            &of("static before the caller"),
            WriteInStaticCall,
            &outside.fixed(),
        );
        m.refuse(
            &of("no governance"),
            NoGovernance,
            &Ask {
                state: "older",
                ..short
            },
        );
        m.refuse(&of("a second vote"), AlreadyVoted, &ask.by(ALICE));
    }
    let mut large = ZERO;
    large[23] = 1;
    m.refuse(
        "legacy adopt, version 2^64",
        VersionTooLarge,
        &adopt(&[NAME, large, dense.commitment]),
    );
    m.refuse(
        "legacy adopt, version 2^64 of name zero",
        VersionTooLarge,
        &adopt(&[ZERO, large, ZERO]),
    );
    m.refuse(
        "legacy adopt, version zero",
        VersionTooLow,
        &adopt(&[NAME, ZERO, dense.commitment]),
    );
    m.refuse(
        "legacy adopt, name zero",
        ZeroArgument,
        &adopt(&[ZERO, of_u64(1), dense.commitment]),
    );
    m.refuse(
        "legacy adopt, no record",
        NoRecord,
        &adopt(&[NAME, of_u64(1), UNKNOWN]),
    );
    let mut dirty = of_address(&DAVE);
    dirty[11] = 1;
    m.refuse(
        "legacy setAdmin, bit 160",
        NotCanonical,
        &set(&[dirty, of_u64(1)]),
    );
    m.refuse(
        "legacy setAdmin, a boolean of 2",
        NotCanonical,
        &set(&[of_address(&DAVE), of_u64(2)]),
    );
    m.refuse(
        "legacy setAdmin, the zero address",
        ZeroArgument,
        &set(&[ZERO, of_u64(1)]),
    );
    m.refuse(
        "legacy setAdmin, is one",
        NoChange,
        &set(&[of_address(&ALICE), of_u64(1)]),
    );
    let out = Ask {
        state: "two admins",
        ..set(&[of_address(&ALICE), ZERO])
    };
    m.refuse("legacy setAdmin, fewer than the quorum", LockOut, &out);
}

pub(super) fn inference(m: &mut Maker<'_>) {
    for (name, data) in calls() {
        let ask = Ask::new("empty", data);
        let call = m.run(name, &ask);
        let name = format!("packed: {name}");
        match &call.expected {
            crate::precompiles::Expected::Return { .. } => drop(m.answer(&name, &ask)),
            crate::precompiles::Expected::Refused { refusal, .. } => {
                let why = *refusal;
                m.refuse(&name, why, &ask);
            }
        }
    }
    let published = calls().into_iter().find(|(name, _)| *name == "published");
    let (_, data) = published.expect("a call of the list");
    let ask = Ask::new("empty", data);
    m.exact("the published packed call", &ask);
    m.answer(
        "packed: delegated and static",
        &ask.clone().delegated().fixed(),
    );
    m.refuse("packed: value", ValueSent, &ask.clone().paying(1));
    m.refuse(
        "packed: gas before value",
        OutOfGas,
        &ask.paying(1).given(0),
    );
}
