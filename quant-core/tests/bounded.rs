//! Reading neither panics nor allocates beyond its bound, whatever the bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;
use quant_core::Format;
use quant_core::gguf::{Array, GgufBuilder, GgufFile, MAX_ALLOCATION_RATIO, Value};

/// The system allocator, counting the bytes that each thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    let held = HELD.get() + change;
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

// SAFETY: every call is passed on to the system allocator unchanged; the counters are thread-local
// cells with constant initial values, which need no allocation and no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller's guarantees are those of `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Constant part of the bound: an error's strings, a first node of the map.
const CONSTANT: usize = 4096;

/// Parses `bytes`, uses everything that was read, and checks the bound. Returns whether it was read
/// and the most bytes held while parsing.
fn parse_bounded(bytes: &[u8]) -> (bool, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = GgufFile::parse(bytes);
    let peak = (PEAK.get() - before) as usize;
    let bound = MAX_ALLOCATION_RATIO * bytes.len() + CONSTANT;
    assert!(
        peak <= bound,
        "{peak} bytes held for a file of {}",
        bytes.len()
    );
    match result {
        Ok(file) => {
            for tensor in file.tensors() {
                assert_eq!(file.data(tensor).len() as u64, tensor.size());
                assert_eq!(file.tensor(&tensor.name), Some(tensor));
                let values = file.dequantize(tensor).unwrap();
                assert_eq!(values.len() as u64, tensor.shape.iter().product::<u64>());
            }
            (true, peak)
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            (false, peak)
        }
    }
}

/// A file with every kind of part.
fn sample() -> Vec<u8> {
    let mut builder = GgufBuilder::new();
    builder
        .metadata("general.alignment", Value::U32(32))
        .metadata("s", Value::String("text".into()))
        .metadata("b", Value::Bool(true))
        .metadata("f", Value::F64(1.5))
        .metadata(
            "as",
            Value::Array(Array::String(vec!["x".into(), "".into(), "yz".into()])),
        )
        .metadata("au", Value::Array(Array::U16(vec![1, 2, 3])))
        .metadata(
            "an",
            Value::Array(Array::Array(vec![
                Array::U8(vec![1]),
                Array::Bool(vec![true]),
            ])),
        );
    for (i, &format) in Format::ALL.iter().enumerate() {
        let data = vec![i as u8; 2 * format.block_bytes()];
        builder.tensor(
            format!("t{i}"),
            format,
            [2, format.block_len() as u64],
            data,
        );
    }
    builder.to_bytes().unwrap()
}

/// Numbers that overflow, wrap, or are just past a limit.
fn hostile_number() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0u32..64).prop_map(|power| 1 << power),
        (0u32..64).prop_map(|power| (1u64 << power).wrapping_sub(1)),
        (0u32..64).prop_map(|power| (1u64 << power).wrapping_add(1)),
        0u64..64,
        Just(u64::MAX),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        parse_bounded(&bytes);
    }

    /// Arbitrary bytes behind a plausible header.
    #[test]
    fn arbitrary_body(
        version in 2u32..4,
        tensors in 0u64..4,
        entries in 0u64..4,
        body in prop::collection::vec(prop_oneof![3 => 0u8..14, 1 => any::<u8>()], 0..400),
    ) {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(version.to_le_bytes());
        bytes.extend(tensors.to_le_bytes());
        bytes.extend(entries.to_le_bytes());
        bytes.extend(body);
        parse_bounded(&bytes);
    }

    /// A good file with some bytes replaced, a hostile number written somewhere, and an end cut off.
    #[test]
    fn mutated_files(
        bytes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        numbers in prop::collection::vec(
            (any::<prop::sample::Index>(), hostile_number(), 1usize..9), 0..3),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut file = sample();
        // Most of the file is data, where a change means little.
        let header = file.len() - Format::ALL.iter()
            .map(|format| (2 * format.block_bytes()).next_multiple_of(32)).sum::<usize>();
        for (at, byte) in bytes {
            let at = at.index(header);
            file[at] = byte;
        }
        for (at, number, width) in numbers {
            let at = at.index(header - 8);
            file[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        if let Some(cut) = cut {
            file.truncate(cut.index(file.len()));
        }
        parse_bounded(&file);
    }
}

/// Each byte of the header set to each of a few values: no panic, and some are still read.
#[test]
fn every_single_byte() {
    let good = sample();
    let mut read = 0;
    for at in 0..good.len().min(1200) {
        for value in [0, 1, 2, 9, 0x7f, 0x80, 0xff] {
            let mut file = good.clone();
            file[at] = value;
            read += usize::from(parse_bounded(&file).0);
        }
    }
    assert!(read > 100);
}

/// The smallest items that cost the most memory, at a size where the constant does not matter.
#[test]
fn the_bound_holds_for_the_costliest_files() {
    const ITEMS: u32 = 20_000;
    let key = |i: u32| -> String {
        (0..3)
            .map(|k| char::from((i >> (7 * k) & 127) as u8))
            .collect()
    };
    let mut entries = GgufBuilder::new();
    for i in 0..ITEMS {
        entries.metadata(key(i), Value::U8(0));
    }
    let mut tensors = GgufBuilder::new();
    tensors.metadata("general.alignment", Value::U32(8));
    for i in 0..ITEMS {
        tensors.tensor(key(i), Format::F32, [1, 1, 1, 1], vec![0; 4]);
    }
    let mut strings = GgufBuilder::new();
    strings.metadata(
        "k",
        Value::Array(Array::String(vec![String::new(); ITEMS as usize])),
    );
    let mut short = GgufBuilder::new();
    short.metadata(
        "k",
        Value::Array(Array::String(vec!["a".into(); ITEMS as usize])),
    );
    let mut arrays = GgufBuilder::new();
    arrays.metadata(
        "k",
        Value::Array(Array::Array(vec![Array::U8(vec![]); ITEMS as usize])),
    );
    for (name, builder) in [
        ("entries", entries),
        ("tensors", tensors),
        ("strings", strings),
        ("short strings", short),
        ("arrays", arrays),
    ] {
        let bytes = builder.to_bytes().unwrap();
        let (read, peak) = parse_bounded(&bytes);
        assert!(read);
        println!(
            "{name}: {:.2} bytes held per byte of file",
            peak as f64 / bytes.len() as f64
        );
    }
}
