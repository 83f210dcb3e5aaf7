//! What is no blob is refused, and the error names what is wrong.

mod sample;

use int_engine::blob::{BlobError, Dtype, Entry, Header, LoadError, Loader, Record};
use int_engine::commitment::{Commitment, commitment};
use int_engine::config::{Config, ConfigError, Dims, Scheme};
use int_engine::model::Model;
use sample::sample;

fn dims(qk_norm: bool, tied: bool) -> Dims {
    Dims {
        scheme: Scheme::Dynamic,
        hidden: 3,
        layers: 1,
        heads: 1,
        kv_heads: 1,
        head_dim: 2,
        intermediate: 2,
        vocab: 5,
        accepted_ids: 4,
        max_context: 8,
        qk_norm,
        tied,
        eps: 1,
        stop_ids: vec![2],
    }
}

fn blob(qk_norm: bool, tied: bool) -> Vec<u8> {
    sample(&Config::new(dims(qk_norm, tied)).unwrap(), 11)
}

fn static_blob(layers: u32) -> Vec<u8> {
    let dims = Dims {
        scheme: Scheme::Static,
        layers,
        ..dims(true, false)
    };
    sample(&Config::new(dims).unwrap(), 11)
}

fn entry(blob: &[u8], name: &str) -> Entry {
    Header::parse(blob)
        .unwrap()
        .entries
        .into_iter()
        .find(|e| e.name == name)
        .unwrap()
}

/// The verdict on the blob; a machine without memory fails the test.
fn refused(error: LoadError) -> BlobError {
    match error {
        LoadError::Blob(error) => error,
        LoadError::Fault(fault) => panic!("{fault}"),
        LoadError::Read(error) => panic!("{error}"),
    }
}

/// The blob with one element replaced.
fn with_element(mut blob: Vec<u8>, name: &str, index: usize, value: i64) -> Vec<u8> {
    let e = entry(&blob, name);
    let (at, size) = (e.offset as usize + index * e.dtype.size(), e.dtype.size());
    blob[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    blob
}

fn element(blob: &[u8], name: &str, index: usize) -> i64 {
    let e = entry(blob, name);
    let at = e.offset as usize + index * e.dtype.size();
    match e.dtype {
        Dtype::Int8 => i64::from(blob[at] as i8),
        Dtype::Int16 => i64::from(i16::from_le_bytes(blob[at..at + 2].try_into().unwrap())),
        Dtype::Int32 => i64::from(i32::from_le_bytes(blob[at..at + 4].try_into().unwrap())),
        Dtype::Uint64 => i64::from_le_bytes(blob[at..at + 8].try_into().unwrap()),
    }
}

fn refusal(bytes: &[u8]) -> BlobError {
    let whole = Model::from_bytes(bytes).unwrap_err();
    // Byte by byte the same error comes up, at the same or a later byte.
    let mut loader = Loader::new();
    let pushed = bytes.chunks(1).try_for_each(|b| loader.push(b));
    assert_eq!(pushed.and_then(|()| loader.finish()).unwrap_err(), whole);
    refused(whole)
}

/// Of the cases of a long test one in so many runs on machines that are tested under emulation.
const STEP: usize = if cfg!(target_arch = "x86_64") { 1 } else { 7 };

#[test]
fn every_single_bit_flip_is_noticed() {
    for good in [blob(true, true), blob(false, false), static_blob(1)] {
        let root = Model::from_bytes(&good).unwrap().commitment();
        let (mut refused, mut changed) = (0, 0);
        for bit in (0..8 * good.len()).step_by(STEP) {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match Model::from_bytes(&bad) {
                Err(_) => refused += 1,
                Ok(model) => {
                    assert_ne!(model.commitment(), root, "bit {bit}");
                    assert_eq!(model.commitment(), commitment(&bad));
                    changed += 1;
                    let found = commitment(&bad);
                    assert_eq!(
                        load(Loader::new().expect(root), &bad),
                        Err(BlobError::CommitmentMismatch {
                            expected: root,
                            found
                        })
                    );
                }
            }
        }
        assert!(refused > 0 && changed > 0);
    }
}

fn load(mut loader: Loader, bytes: &[u8]) -> Result<Model, BlobError> {
    loader.push(bytes).map_err(refused)?;
    loader.finish().map_err(refused)
}

#[test]
fn every_truncation_is_refused() {
    let good = blob(true, false);
    for len in 0..good.len() {
        let error = refused(Model::from_bytes(&good[..len]).unwrap_err());
        let expected = if len < 1024 { 1024 } else { good.len() as u64 };
        assert_eq!(
            error,
            BlobError::Truncated {
                expected,
                found: len as u64
            }
        );
    }
}

#[test]
fn an_appended_byte_is_refused() {
    for extra in [0, 1] {
        let mut bad = blob(true, true);
        let expected = bad.len() as u64;
        bad.push(extra);
        assert_eq!(refusal(&bad), BlobError::TrailingBytes { expected });
    }
}

#[test]
fn an_error_stays() {
    let mut loader = Loader::new();
    let error = loader.push(&[0; 1024]).unwrap_err();
    assert_eq!(error, BlobError::Magic { found: [0; 8] }.into());
    assert_eq!(loader.push(&[]), Err(error.clone()));
    assert_eq!(loader.push(&blob(true, true)), Err(error.clone()));
    assert_eq!(loader.finish(), Err(error));
}

#[test]
fn every_range_names_tensor_and_index() {
    const MULT: (i64, i64) = (1 << 30, (1 << 31) - 1);
    const HEAD_GAIN: (i64, i64) = (-32767 << 15, 32767 << 15);
    let int32 = (i64::from(i32::MIN), i64::from(i32::MAX));
    // Tensor, element, accepted range, range of the stored type.
    let mut cases = vec![
        ("embed.mult", 4, MULT, int32),
        ("embed.shift", 0, (-64, 64), (-128, 127)),
        ("layers.0.consts", 7, MULT, int32),
        ("layers.0.consts", 8, (0, 61), int32),
        ("layers.0.q_norm.gain", 1, HEAD_GAIN, int32),
        ("layers.0.k_norm.gain", 0, HEAD_GAIN, int32),
        ("final_norm.gain", 2, (-32767, 32767), (-32768, 32767)),
        ("head.mult", 0, MULT, int32),
        ("head.shift", 4, (-64, 64), (-128, 127)),
        ("layers.0.q.mult", 1, MULT, int32),
        ("layers.0.down.shift", 2, (-64, 64), (-128, 127)),
    ];
    for name in [
        "embed",
        "layers.0.q",
        "layers.0.k",
        "layers.0.v",
        "layers.0.o",
        "layers.0.gate",
        "layers.0.down",
    ] {
        cases.push((
            Box::leak(format!("{name}.weight").into_boxed_str()),
            1,
            (-127, 127),
            (-128, 127),
        ));
    }
    cases.push(("head.weight", 14, (-127, 127), (-128, 127)));
    for layer in ["layers.0.static", "layers.1.static"] {
        cases.push((layer, 0, (1, 1 << 16), int32));
        cases.push((layer, 1, (1, 1 << 16), int32));
        cases.push((layer, 2, (1, (1 << 31) - 1), int32));
        cases.push((layer, 3, (0, 39), int32));
        cases.push((layer, 4, (1, (1 << 31) - 1), int32));
    }
    for (name, index, (min, max), (low, high)) in cases {
        let good = if name.ends_with("static") {
            static_blob(2)
        } else {
            blob(true, false)
        };
        for value in [min, max] {
            assert!(
                Model::from_bytes(&with_element(good.clone(), name, index, value)).is_ok(),
                "{name} {value}"
            );
        }
        for value in [min - 1, max + 1, low, high] {
            if value < low || value > high || (min..=max).contains(&value) {
                continue;
            }
            let (tensor, position) = (name.to_owned(), index as u64);
            let expected = BlobError::OutOfRange {
                tensor,
                index: position,
                value,
                min,
                max,
            };
            assert_eq!(
                refusal(&with_element(good.clone(), name, index, value)),
                expected
            );
        }
    }
}

#[test]
fn every_pre_shift_must_be_exact() {
    let names = ["q", "k", "v", "o", "gate", "up", "down"].map(|n| format!("layers.0.{n}.weight"));
    for tied in [false, true] {
        let good = blob(false, tied);
        let head = if tied { "embed.weight" } else { "head.weight" };
        let slots = names
            .iter()
            .enumerate()
            .map(|(i, tensor)| ("layers.0.consts", i, tensor.as_str()));
        for (consts, index, tensor) in slots.chain([("head.consts", 0, head)]) {
            let right = element(&good, consts, index);
            assert_eq!(right, -5);
            for wrong in [
                right - 1,
                right + 1,
                0,
                1,
                i64::from(i32::MIN),
                i64::from(i32::MAX),
            ] {
                assert_eq!(
                    refusal(&with_element(good.clone(), consts, index, wrong)),
                    BlobError::PreShift {
                        tensor: tensor.into(),
                        consts: consts.into(),
                        index,
                        expected: -5,
                        found: wrong as i32
                    }
                );
            }
        }
    }
}

#[test]
fn a_pre_shift_above_the_cap_follows_the_largest_row() {
    // 65536 inputs of random weights: R is about 2^22, so the shift is -3 or -2, not the cap.
    let config = Config::new(Dims {
        intermediate: 65536,
        ..dims(false, true)
    })
    .unwrap();
    let good = sample(&config, 2);
    let model = Model::from_bytes(&good).unwrap();
    let down = &model.layers()[0].down;
    let largest = (0..down.weight.rows())
        .map(|r| {
            let row = down.weight.row(r);
            row.map(|w| i64::from(w.unsigned_abs())).sum::<i64>()
        })
        .max();
    assert_eq!(
        i64::from(down.pre_shift),
        i64::from((127 * largest.unwrap()).ilog2()) + 1 - 31
    );
    assert!(down.pre_shift > -5);
    let error = refusal(&with_element(good, "layers.0.consts", 6, -5));
    assert!(matches!(
        error,
        BlobError::PreShift {
            index: 6,
            found: -5,
            ..
        }
    ));
}

#[test]
fn gaps_and_padding_are_zero() {
    let good = blob(true, true);
    let header = Header::parse(&good).unwrap();
    let mut at = header.prefix_len();
    let mut gaps = 0;
    for e in &header.entries {
        for offset in at..e.offset {
            let mut bad = good.clone();
            bad[offset as usize] = 0x40;
            assert_eq!(
                refusal(&bad),
                BlobError::Gap {
                    tensor: e.name.clone(),
                    offset,
                    found: 0x40
                }
            );
            gaps += 1;
        }
        at = e.offset + e.length;
    }
    assert!(gaps > 1000);
    let used = 207 + 4;
    for offset in used..1024 {
        let mut bad = good.clone();
        bad[offset] = 1;
        assert_eq!(
            refused(Model::from_bytes(&bad).unwrap_err()),
            BlobError::RecordPadding { offset, found: 1 }
        );
    }
}

#[test]
fn every_field_of_the_record() {
    let good = blob(true, true);
    let set = |at: usize, bytes: &[u8]| {
        let mut bad = good.clone();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        refusal(&bad)
    };
    let u32_at = |at, v: u32| set(at, &v.to_le_bytes());
    assert_eq!(
        set(0, b"BLUEBLOC"),
        BlobError::Magic {
            found: *b"BLUEBLOC"
        }
    );
    for found in [0, 2, u32::MAX] {
        assert_eq!(u32_at(8, found), BlobError::FormatVersion { found });
        assert_eq!(u32_at(12, found), BlobError::SpecVersion { found });
    }
    for found in [0, 3, 255] {
        assert_eq!(set(16, &[found]), BlobError::Scheme { found });
    }
    // The other scheme has other tensors: the dynamic blob's manifest lacks them.
    assert!(matches!(
        set(16, &[2]),
        BlobError::TotalLen { .. } | BlobError::DirectoryLen { .. }
    ));
    let expected = good.len() as u64;
    for declared in [0, 1024, expected - 1, expected + 1, u64::MAX] {
        assert_eq!(
            set(17, &declared.to_le_bytes()),
            BlobError::TotalLen { declared, expected }
        );
    }
    for found in [(1 << 22) + 1, u32::MAX] {
        assert_eq!(u32_at(25, found), BlobError::ManifestLen { found });
    }
    let names = [
        "hidden",
        "layers",
        "heads",
        "kv_heads",
        "head_dim",
        "intermediate",
        "vocab",
        "accepted_ids",
    ];
    for (i, name) in names.into_iter().chain(["max_context"]).enumerate() {
        for value in [0, u32::MAX] {
            let error = u32_at(29 + 4 * i, value);
            assert!(
                matches!(error, BlobError::Config(ConfigError::Range { field, .. }) if field == name),
                "{error}"
            );
        }
        // The first seven fields decide the layout; the other two are values of another valid blob.
        if i < 7 {
            let one_more = u32::from_le_bytes(good[29 + 4 * i..33 + 4 * i].try_into().unwrap()) + 1;
            let error = u32_at(29 + 4 * i, one_more);
            let layout = matches!(
                error,
                BlobError::TotalLen { .. } | BlobError::DirectoryEntry { .. }
            );
            assert!(
                layout || matches!(error, BlobError::Config(_)),
                "{name}: {error}"
            );
        }
    }
    assert_eq!(
        set(65, &[2]),
        BlobError::Flag {
            field: "qk_norm",
            found: 2
        }
    );
    assert_eq!(
        set(66, &[255]),
        BlobError::Flag {
            field: "tied",
            found: 255
        }
    );
    assert!(matches!(
        set(67, &(1u64 << 53).to_le_bytes()),
        BlobError::Config(ConfigError::Range { field: "eps", .. })
    ));
    for (i, name) in ["EXP2", "SIGMOID", "ROPE"].into_iter().enumerate() {
        let error = set(75 + 32 * i, &[0; 32]);
        assert!(
            matches!(error, BlobError::TableDigest { table, found: Commitment([0, ..]), .. } if table == name)
        );
    }
    for found in [17, u32::MAX] {
        assert_eq!(u32_at(203, found), BlobError::StopIdCount { found });
    }
    let error = u32_at(207, 4);
    assert_eq!(
        error,
        BlobError::Config(ConfigError::StopIdRange {
            index: 0,
            id: 4,
            accepted_ids: 4
        })
    );
}

#[test]
fn the_record_reads_back_what_it_writes() {
    let config = Config::new(Dims {
        stop_ids: (0..4).collect(),
        ..dims(true, false)
    })
    .unwrap();
    let record = Record {
        config,
        tokenizer_digest: [7; 32],
        total_len: 1 << 40,
        manifest_len: 1 << 22,
    };
    let bytes = record.to_bytes();
    assert_eq!(Record::parse(&bytes), Ok(record));
    assert_eq!(
        Record::parse(&bytes[..1023]),
        Err(BlobError::Truncated {
            expected: 1024,
            found: 1023
        })
    );
}

#[test]
fn an_unexpected_blob_is_refused() {
    let good = blob(true, true);
    let found = commitment(&good);
    assert!(load(Loader::new().expect(found), &good).is_ok());
    let expected = Commitment([0; 32]);
    let error = load(Loader::new().expect(expected), &good).unwrap_err();
    assert_eq!(error, BlobError::CommitmentMismatch { expected, found });
}
