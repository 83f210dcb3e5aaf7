//! Files of known answers, packed calls and traces: what is accepted is written and read again the same, and every
//! backend has the same verdict on the answers of operations.
//!
//! The first byte chooses: a file of spec 7; packed calls; a trace; two traces, compared.
#![no_main]

use int_engine::kernels::Kernels;
use kat::file::{self, File};
use kat::target::{Implementation, KernelsTarget, ReferenceTarget, Setting};
use kat::trace::{Entry, Header, Reader, Writer};
use libfuzzer_sys::fuzz_target;
use std::path::Path;

/// Bytes of a file up to which its answers are computed: recipes stand for long rows.
const COMPUTED: usize = 4096;
/// Values of all rows of a file up to which its answers are computed.
const VALUES: usize = 20_000;

/// The reference and every backend of this machine.
fn implementations() -> Vec<Box<dyn Implementation>> {
    let mut all: Vec<Box<dyn Implementation>> = vec![Box::new(ReferenceTarget)];
    for kernels in Kernels::all()
        .into_iter()
        .filter_map(|(_, kernels)| kernels)
    {
        all.push(Box::new(KernelsTarget {
            kernels,
            setting: Setting::default(),
        }));
    }
    all
}

fn answers(bytes: &[u8]) {
    let Ok(parsed) = file::parse(bytes) else {
        return;
    };
    let written = parsed.to_bytes();
    // Recipes are written as the rows that they stand for, which may be more than a file holds.
    match file::parse(&written) {
        Ok(again) => {
            assert_eq!(again, parsed);
            assert_eq!(again.to_bytes(), written);
        }
        Err(e) => assert!(
            written.len() > file::MAX_BYTES,
            "what was written is refused: {e}"
        ),
    }
    let small = bytes.len() <= COMPUTED && written.len() <= 8 * VALUES;
    if !small || !matches!(parsed, File::Op(_) | File::Toy(_)) {
        return;
    }
    let verdicts: Vec<Result<(), String>> = implementations()
        .iter()
        // A panic of an implementation ends the run: the domains are checked before.
        .map(|implementation| kat::verify::check(&parsed, Path::new("."), &**implementation))
        .collect();
    assert!(
        verdicts.windows(2).all(|pair| pair[0] == pair[1]),
        "{verdicts:?}"
    );
}

fn calls(bytes: &[u8]) {
    let Ok(calls) = kat::legacy::parse(bytes) else {
        return;
    };
    if bytes.len() > COMPUTED {
        return;
    }
    let verdicts: Vec<_> = implementations()
        .iter()
        .map(|implementation| kat::legacy::verify(bytes, &**implementation))
        .collect();
    assert!(
        verdicts.windows(2).all(|pair| pair[0] == pair[1]),
        "{verdicts:?}"
    );
    assert!(verdicts[0].as_ref().is_ok_and(|&n| n == calls.len()) == verdicts[0].is_ok());
}

fn trace(bytes: &[u8]) -> Option<(Header, Vec<Entry>)> {
    let reader = Reader::new(bytes).ok()?;
    let header = reader.header().clone();
    let entries: Result<Vec<Entry>, _> = reader.collect();
    Some((header, entries.ok()?))
}

fn traces(bytes: &[u8]) {
    let Some((header, entries)) = trace(bytes) else {
        return;
    };
    assert!(entries.windows(2).all(|pair| pair[0].place < pair[1].place));
    let mut written = Vec::new();
    let mut writer = Writer::new(&mut written, &header).expect("memory");
    for entry in &entries {
        writer.entry(entry).expect("memory");
    }
    drop(writer);
    assert_eq!(trace(&written), Some((header, entries)));
}

fuzz_target!(|input: &[u8]| {
    let Some((&kind, rest)) = input.split_first() else {
        return;
    };
    match kind % 3 {
        0 => answers(rest),
        1 => calls(rest),
        _ => traces(rest),
    }
});
