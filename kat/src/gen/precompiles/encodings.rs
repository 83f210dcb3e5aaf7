//! Calldata that an ABI decoder may tolerate and spec 6.3 refuses, each form of it alone.

use precompile::Refusal::NotCanonical;
use precompile::registry::Function as Registry;
use precompile::word::{of_address, of_u64};
use precompile::{calldata, infer};

use super::forms::{inference_calls, registry_calls};
use super::states::{Blob, blob};
use super::{ALICE, Ask, Maker, NAME};

/// The kinds of a signature's arguments.
fn kinds(signature: &str) -> Vec<&str> {
    let inner = signature.split_once('(').map_or("", |(_, rest)| rest);
    let inner = inner.trim_end_matches(')');
    inner.split(',').filter(|kind| !kind.is_empty()).collect()
}

/// Bits of a static kind, `None` for a dynamic one.
fn bits(kind: &str) -> Option<usize> {
    match kind {
        "bool" => Some(1),
        "uint32" => Some(32),
        "uint64" => Some(64),
        "address" => Some(160),
        "bytes32" | "uint256" => Some(256),
        _ => None,
    }
}

/// The word at `at`, with one added at a bit; the other bits carry.
fn plus(data: &[u8], at: usize, bit: usize) -> Vec<u8> {
    let mut out = data.to_vec();
    let mut byte = at + 31 - bit / 8;
    let mut add = 1u8 << (bit % 8);
    loop {
        let (sum, carry) = out[byte].overflowing_add(add);
        out[byte] = sum;
        if !carry || byte == at {
            return out;
        }
        (byte, add) = (byte - 1, 1);
    }
}

fn minus_32(data: &[u8], at: usize) -> Vec<u8> {
    let mut out = data.to_vec();
    let mut number = [0; 8];
    number.copy_from_slice(&out[at + 24..at + 32]);
    let less = u64::from_be_bytes(number).wrapping_sub(32);
    out[at + 24..at + 32].copy_from_slice(&less.to_be_bytes());
    out
}

fn with_bit(data: &[u8], at: usize, bit: usize) -> Vec<u8> {
    let mut out = data.to_vec();
    out[at + 31 - bit / 8] |= 1 << (bit % 8);
    out
}

/// Every spoiled form of a call's data, with its name.
fn spoiled(signature: &str, data: &[u8]) -> Vec<(String, Vec<u8>)> {
    let kinds = kinds(signature);
    let function = signature.split('(').next().unwrap_or_default();
    let mut out: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |what: String, data: Vec<u8>| out.push((format!("{function}: {what}"), data));
    let mut tail = 4 + 32 * kinds.len();
    for (i, kind) in kinds.iter().enumerate() {
        let at = 4 + 32 * i;
        match bits(kind) {
            Some(256) => {}
            Some(width) => {
                add(
                    format!("argument {i} ({kind}), bit {width}"),
                    with_bit(data, at, width),
                );
                add(
                    format!("argument {i} ({kind}), bit 255"),
                    with_bit(data, at, 255),
                );
            }
            None => {
                let part = |what: &str| format!("argument {i} ({kind}), {what}");
                add(part("offset 32 more"), plus(data, at, 5));
                add(part("offset 32 less"), minus_32(data, at));
                add(part("offset one more"), plus(data, at, 0));
                add(part("offset 2^64 more"), plus(data, at, 64));
                add(
                    part("length one word more"),
                    plus(data, tail, if *kind == "bytes" { 5 } else { 0 }),
                );
                add(part("length 2^59 more"), plus(data, tail, 59));
                add(part("length 2^64 more"), plus(data, tail, 64));
                add(part("length 2^255 more"), plus(data, tail, 255));
                let count = usize::from(data[tail + 30]) << 8 | usize::from(data[tail + 31]);
                let words = if *kind == "bytes" {
                    count.div_ceil(32)
                } else {
                    count
                };
                if words > 0 {
                    add(part("length one word less"), {
                        let mut less = data.to_vec();
                        let by = if *kind == "bytes" { 32 } else { 1 };
                        let shorter = (count - by) as u16;
                        less[tail + 30..tail + 32].copy_from_slice(&shorter.to_be_bytes());
                        less
                    });
                    if let Some(width) = kind.strip_suffix("[]").and_then(bits).filter(|w| *w < 256)
                    {
                        let last = tail + 32 * words;
                        add(
                            part(&format!("the last item, bit {width}")),
                            with_bit(data, last, width),
                        );
                    }
                }
                tail += 32 + 32 * words;
            }
        }
    }
    add("one byte less".into(), data[..data.len() - 1].to_vec());
    add("one byte more".into(), [data, &[0]].concat());
    add("one word more".into(), [data, &[0; 32]].concat());
    if data.len() > 4 {
        add("the selector alone".into(), data[..4].to_vec());
    }
    // A function without arguments has nothing to lose.
    out.retain(|(_, data)| data.len() >= 4);
    out
}

pub(super) fn registry(m: &mut Maker<'_>, blobs: &[Blob]) {
    for (function, mut ask) in registry_calls(blobs) {
        if function == Registry::Propose {
            // Short, because the record and the proof are looked at later.
            ask.data = calldata::propose(&NAME, 1, &NAME, &[7; 40], &[NAME; 2]);
        }
        for (name, data) in spoiled(function.signature(), &ask.data) {
            m.refuse(
                &name,
                NotCanonical,
                &Ask {
                    data,
                    ..ask.clone()
                },
            );
        }
    }
    // A record of 1000 bytes ends inside a word.
    let dense = blob(blobs, "dense");
    let record = &dense.record()[..1000];
    let mut data = calldata::propose(&NAME, 1, &dense.commitment, record, &dense.proof);
    let padding = 4 + 32 * 5 + 32 + 1000;
    for (name, at) in [("first", padding), ("last", padding + 23)] {
        data[at] = 1;
        let ask = Ask::new("one admin", data.clone()).by(ALICE);
        m.refuse(
            &format!("propose: the {name} byte after the record"),
            NotCanonical,
            &ask,
        );
        data[at] = 0;
    }
    // Dirty words beside the arguments that are tested above one by one.
    let mut dirty = of_address(&ALICE);
    dirty[0] = 1;
    let data = calldata::view(Registry::IsAdmin, Some(&dirty));
    m.refuse(
        "isAdmin: the highest byte",
        NotCanonical,
        &Ask::new("three admins", data),
    );
    let mut two = calldata::set_admin(&ALICE, true);
    two[67] = 2;
    m.refuse(
        "setAdmin: a boolean of 2",
        NotCanonical,
        &Ask::new("three admins", two).by(ALICE),
    );
    let high = calldata::view(Registry::SetQuorum, Some(&of_u64(1 << 32 | 3)));
    m.refuse(
        "setQuorum: 3 and 2^32",
        NotCanonical,
        &Ask::new("three admins", high).by(ALICE),
    );
    // Before the checks of the caller.
    let data = [&calldata::set_quorum(3)[..], &[0]].concat();
    m.refuse(
        "arguments before the caller",
        NotCanonical,
        &Ask::new("empty", data),
    );
}

pub(super) fn inference(m: &mut Maker<'_>) {
    for (function, ask) in inference_calls() {
        for (name, data) in spoiled(function.signature(), &ask.data) {
            m.refuse(
                &name,
                NotCanonical,
                &Ask {
                    data,
                    ..ask.clone()
                },
            );
        }
    }
    let data = calldata::logits_digest(&NAME, &[0; 32], &[1]);
    let data = [&data[..], &[0]].concat();
    m.refuse(
        "arguments before the name",
        NotCanonical,
        &Ask::new("empty", data),
    );
    assert_eq!(infer::Function::ALL.len(), 6);
}
