//! spec 4: what a loader accepts and refuses; spec 3.5: prompts.

#[path = "../../../tests/suite/common/random_blob.rs"]
mod random_blob;

use int_reference::*;
use random_blob::{RandomBlob, Rng, Shape, Style, build, shapes};

/// A blob of both q/k norm and its own head, small enough to change every byte.
fn small() -> RandomBlob {
    let shape = Shape {
        hidden: 4,
        layers: 1,
        heads: 2,
        kv_heads: 1,
        head_dim: 2,
        intermediate: 3,
        vocab: 5,
        accepted: 4,
        ctx: 4,
        qk_norm: true,
        tied: false,
        stop_ids: vec![1, 3],
        ..Shape::default()
    };
    build(&shape, Style::Plausible, 11)
}

fn refuse(bytes: &[u8]) -> BadBlob {
    Model::from_blob(bytes).expect_err("must be refused")
}

fn patched(blob: &RandomBlob, at: usize, value: &[u8]) -> BadBlob {
    let mut bytes = blob.bytes.clone();
    bytes[at..at + value.len()].copy_from_slice(value);
    refuse(&bytes)
}

#[test]
fn accepts_every_shape_and_style() {
    for (name, shape) in shapes() {
        for style in [Style::Plausible, Style::Extreme, Style::Zero] {
            let blob = build(&shape, style, 3);
            let model =
                Model::from_blob(&blob.bytes).unwrap_or_else(|e| panic!("{name}, {style:?}: {e}"));
            assert_eq!(model.vocab(), shape.vocab);
            assert_eq!(model.config().kv_heads, shape.kv_heads);
            assert_eq!(model.metadata()[1], ("note".to_owned(), "größe".to_owned()));
            let tokens = Rng(1).tokens(3, shape.accepted);
            assert_eq!(
                model.all_logits(&tokens).expect("accepted")[2].len(),
                shape.vocab,
                "{name}, {style:?}"
            );
        }
    }
}

#[test]
fn record_fields() {
    let b = small();
    // Field, offset, value that its rule excludes.
    let cases: [(&str, usize, &[u8]); 34] = [
        ("magic", 0, b"b"),
        ("format_version", 8, &[2]),
        ("spec_version", 12, &[0]),
        ("scheme", 16, &[0]),
        ("scheme", 16, &[3]),
        ("manifest_len", 25, &[1, 0, 64, 0]),
        ("hidden", 29, &[0; 4]),
        ("hidden", 29, &8193u32.to_le_bytes()),
        ("layers", 33, &[0; 4]),
        ("layers", 33, &257u32.to_le_bytes()),
        ("heads", 37, &[0; 4]),
        ("heads", 37, &257u32.to_le_bytes()),
        ("kv_heads", 41, &[0; 4]),
        ("kv_heads", 41, &[3, 0, 0, 0]),
        ("kv_heads", 41, &[4, 0, 0, 0]),
        ("head_dim", 45, &[0; 4]),
        ("head_dim", 45, &[3, 0, 0, 0]),
        ("head_dim", 45, &258u32.to_le_bytes()),
        ("intermediate", 49, &[0; 4]),
        ("intermediate", 49, &65537u32.to_le_bytes()),
        ("vocab", 53, &[0; 4]),
        ("vocab", 53, &((1u32 << 20) + 1).to_le_bytes()),
        ("accepted_ids", 57, &[0; 4]),
        ("accepted_ids", 57, &[6, 0, 0, 0]),
        ("max_context", 61, &[0; 4]),
        ("max_context", 61, &32769u32.to_le_bytes()),
        ("qk_norm", 65, &[2]),
        ("tied", 66, &[2]),
        ("eps", 67, &(1u64 << 53).to_le_bytes()),
        ("exp2_digest", 75, &[0]),
        ("sigmoid_digest", 107, &[0]),
        ("rope_digest", 170, &[1]),
        ("stop_ids", 203, &[17, 0, 0, 0]),
        ("stop_ids", 207, &[4, 0, 0, 0, 5]),
    ];
    for (want, at, value) in cases {
        match patched(&b, at, value) {
            BadBlob::Field { field, .. } => assert_eq!(field, want, "{value:?} at {at}"),
            other => panic!("{want} = {value:?}: {other}"),
        }
    }
    for (value, why) in [
        ([3, 0, 0, 0, 3], "equal"),
        ([3, 0, 0, 0, 2], "descending"),
        ([0, 0, 0, 0, 4], "not accepted"),
    ] {
        assert!(
            matches!(
                patched(&b, 207, &value),
                BadBlob::Field {
                    field: "stop_ids",
                    ..
                }
            ),
            "{why} stop ids"
        );
    }
    assert_eq!(patched(&b, 215, &[1]), BadBlob::RecordPadding);
    assert_eq!(patched(&b, 1023, &[1]), BadBlob::RecordPadding);
    let actual = b.bytes.len() as u64;
    assert_eq!(
        patched(&b, 17, &(actual + 1).to_le_bytes()),
        BadBlob::TotalLen {
            declared: actual + 1,
            actual
        }
    );
    assert!(matches!(
        patched(&b, 17, &[0xff; 8]),
        BadBlob::TotalLen { .. }
    ));
    // heads * head_dim: 256 * 66.
    let mut bytes = b.bytes.clone();
    bytes[37..41].copy_from_slice(&256u32.to_le_bytes());
    bytes[45..49].copy_from_slice(&66u32.to_le_bytes());
    assert!(matches!(
        refuse(&bytes),
        BadBlob::Field {
            field: "head_dim",
            ..
        }
    ));
}

#[test]
fn manifests() {
    let b = small();
    let at = |text: &str| {
        b.bytes
            .windows(text.len())
            .position(|w| w == text.as_bytes())
            .expect("in the manifest")
    };
    assert_eq!(
        patched(&b, 1024, &[65]),
        BadBlob::MetadataCount { count: 65 }
    );
    assert_eq!(
        patched(&b, at("note"), b"make"),
        BadBlob::MetadataOrder { index: 1 }
    );
    assert_eq!(
        patched(&b, 1028, &[0, 0, 0, 0, 11, 0, 0, 0]),
        BadBlob::MetadataOrder { index: 0 },
        "an empty key"
    );
    assert_eq!(
        patched(&b, 1028, &[65, 0]),
        BadBlob::TextLength {
            what: "metadata key",
            len: 65
        }
    );
    assert!(matches!(
        patched(&b, at("random") - 4, &[0xff; 4]),
        BadBlob::TextLength {
            what: "metadata value",
            ..
        }
    ));
    assert_eq!(
        patched(&b, at("größe") + 2, &[0xff]),
        BadBlob::NotUtf8 {
            what: "metadata value"
        }
    );
    let first = at("embed.weight");
    assert!(matches!(
        patched(&b, first - 8, &[0xff; 4]),
        BadBlob::DirectoryLength { got: u32::MAX, .. }
    ));
    for (offset, part) in [
        (0, "name"),
        (12, "dtype"),
        (13, "rank"),
        (17, "shape"),
        (21, "shape"),
        (25, "offset"),
        (33, "length"),
    ] {
        let got = patched(&b, first + offset, &[b.bytes[first + offset] ^ 0x40]);
        assert_eq!(
            got,
            BadBlob::Entry {
                tensor: "embed.weight".into(),
                part
            }
        );
    }
    // A rank of 2^32 - 1 allocates nothing.
    assert!(matches!(
        patched(&b, first + 13, &[0xff; 4]),
        BadBlob::Entry { part: "rank", .. }
    ));
    // One byte more or less of manifest, with everything else as it was.
    let len = b.manifest_len as u32;
    assert!(matches!(
        patched(&b, 25, &(len + 64).to_le_bytes()),
        BadBlob::Entry { part: "offset", .. }
    ));
    assert!(matches!(
        patched(&b, 25, &(1u32 << 22).to_le_bytes()),
        BadBlob::Truncated { what: "manifest" }
    ));
    assert!(matches!(
        patched(&b, 25, &[0; 4]),
        BadBlob::Truncated {
            what: "metadata count"
        }
    ));
}

/// The first length of manifest whose offsets are the same as one byte less: a tail fits unseen.
#[test]
fn manifest_tail() {
    let shape = |layers| Shape {
        hidden: 2,
        layers,
        heads: 1,
        kv_heads: 1,
        head_dim: 2,
        intermediate: 1,
        ..Shape::default()
    };
    let mut seen = false;
    for layers in 1..8 {
        let b = build(&shape(layers), Style::Zero, 1);
        if (1024 + b.manifest_len) % 64 != 0 {
            assert_eq!(
                patched(&b, 25, &(b.manifest_len as u32 + 1).to_le_bytes()),
                BadBlob::ManifestTail
            );
            seen = true;
        }
    }
    assert!(seen);
}

#[test]
fn gaps_and_lengths() {
    let b = small();
    let mut previous = 1024 + b.manifest_len;
    for t in &b.tensors {
        for at in previous..t.offset {
            assert_eq!(
                patched(&b, at, &[1]),
                BadBlob::Gap {
                    before: t.name.clone()
                }
            );
        }
        previous = t.offset + t.length;
    }
    let mut longer = b.bytes.clone();
    longer.push(0);
    assert!(matches!(refuse(&longer), BadBlob::TotalLen { .. }));
    longer[17..25].copy_from_slice(&(b.bytes.len() as u64 + 1).to_le_bytes());
    assert!(
        matches!(refuse(&longer), BadBlob::TotalLen { .. }),
        "a file longer than its last tensor"
    );
}

#[test]
fn ranges_name_tensor_and_index() {
    let b = small();
    let check = |tensor: &str, index: usize, raw: &[u8]| {
        let at = b.range(tensor).start + index * raw.len();
        match patched(&b, at, raw) {
            BadBlob::Value {
                tensor: got,
                index: i,
                ..
            } => assert_eq!((got.as_str(), i), (tensor, index)),
            other => panic!("{tensor}[{index}]: {other}"),
        }
    };
    for t in &b.tensors {
        let last = t.length / (1 << t.dtype) - 1;
        for index in [0, last] {
            let name = t.name.as_str();
            if name.ends_with(".weight") {
                check(name, index, &[0x80]);
            } else if name.ends_with(".shift") {
                check(name, index, &[65]);
                check(name, index, &[-65i8 as u8]);
                check(name, index, &[0x80]);
            } else if name.ends_with(".mult") {
                check(name, index, &((1i32 << 30) - 1).to_le_bytes());
                check(name, index, &(-1i32).to_le_bytes());
            } else if name.ends_with("_norm.gain") && t.dtype == 2 {
                check(name, index, &((32767 << 15) + 1i32).to_le_bytes());
                check(name, index, &(-(32767 << 15) - 1i32).to_le_bytes());
            } else if name == "final_norm.gain" {
                check(name, index, &i16::MIN.to_le_bytes());
            }
        }
    }
    let static_shape = Shape {
        static_scheme: true,
        ..Shape::default()
    };
    let s = build(&static_shape, Style::Plausible, 3);
    for layer in 0..2 {
        let name = format!("layers.{layer}.static");
        for (index, (low, high)) in [
            (1, 1 << 16),
            (1, 1 << 16),
            (1, i32::MAX),
            (0, 39),
            (1, i32::MAX),
        ]
        .into_iter()
        .enumerate()
        {
            let set = |value: i32| {
                let mut bytes = s.bytes.clone();
                let at = s.range(&name).start + 4 * index;
                bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
                bytes
            };
            for value in [low, high] {
                assert!(Model::from_blob(&set(value)).is_ok());
            }
            for value in [low - 1, high.wrapping_add(1), i32::MIN] {
                assert_eq!(
                    refuse(&set(value)),
                    BadBlob::Value {
                        tensor: name.clone(),
                        index,
                        value: value.into(),
                        low: low.into(),
                        high: high.into()
                    }
                );
            }
        }
    }
    check("layers.0.consts", 7, &((1i32 << 30) - 1).to_le_bytes());
    check("layers.0.consts", 8, &62i32.to_le_bytes());
    check("layers.0.consts", 8, &(-1i32).to_le_bytes());
    let consts = b.range("layers.0.consts").start;
    for (i, name) in ["q", "k", "v", "o", "gate", "up", "down"]
        .iter()
        .enumerate()
    {
        for psh in [-6i32, -4, 0, i32::MIN] {
            let want = BadBlob::Psh {
                matrix: format!("layers.0.{name}"),
                got: psh.into(),
                want: -5,
            };
            assert_eq!(patched(&b, consts + 4 * i, &psh.to_le_bytes()), want);
        }
    }
    let head = b.range("head.consts").start;
    assert_eq!(
        patched(&b, head, &[0; 4]),
        BadBlob::Psh {
            matrix: "head".into(),
            got: 0,
            want: -5
        }
    );
}

/// spec 4.5: the psh that full rows need, on both sides of the power of two.
#[test]
fn psh_steps() {
    for (cols, want) in [(4160, -5i32), (4161, -4), (8321, -4), (8322, -3)] {
        let shape = Shape {
            hidden: 1,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 2,
            intermediate: cols,
            vocab: 1,
            accepted: 1,
            ..Shape::default()
        };
        let mut b = build(&shape, Style::Extreme, 1);
        let down = b.range("layers.0.down.weight");
        b.bytes[down].fill(127);
        let at = b.range("layers.0.consts").start + 4 * 6;
        b.bytes[at..at + 4].copy_from_slice(&want.to_le_bytes());
        assert!(Model::from_blob(&b.bytes).is_ok(), "K = {cols}");
        assert!(
            matches!(patched(&b, at, &(want - 1).to_le_bytes()), BadBlob::Psh { want: w, .. } if w == i64::from(want))
        );
    }
}

/// Of the cases of a long test one in so many runs on machines that are tested under emulation.
const STEP: usize = if cfg!(target_arch = "x86_64") { 1 } else { 7 };

#[test]
fn prefixes_and_declared_sizes() {
    let b = small();
    for len in (0..b.bytes.len()).step_by(STEP) {
        let got = refuse(&b.bytes[..len]);
        if len < 1024 {
            assert_eq!(got, BadBlob::ShorterThanRecord { len });
        } else {
            assert!(matches!(got, BadBlob::TotalLen { .. }));
        }
        // The same with a matching total_len: the defect is found elsewhere.
        if len >= 1024 {
            let mut bytes = b.bytes[..len].to_vec();
            bytes[17..25].copy_from_slice(&(len as u64).to_le_bytes());
            refuse(&bytes);
        }
    }
    // The largest sizes on a file of a few kilobytes.
    let mut bytes = b.bytes.clone();
    for (at, v) in [
        (29, 8192u32),
        (33, 256),
        (37, 64),
        (41, 64),
        (45, 256),
        (49, 65536),
        (53, 1 << 20),
        (57, 1 << 20),
        (61, 32768),
    ] {
        bytes[at..at + 4].copy_from_slice(&v.to_le_bytes());
    }
    assert!(matches!(refuse(&bytes), BadBlob::DirectoryLength { .. }));
}

/// A change of one bit, in every byte, is refused or gives a model that still runs.
#[test]
fn one_bit_changes() {
    let b = small();
    let mut accepted = 0;
    for at in (0..b.bytes.len()).step_by(STEP) {
        let mut bytes = b.bytes.clone();
        bytes[at] ^= 1 << (at * 5 % 8);
        if let Ok(model) = Model::from_blob(&bytes) {
            accepted += 1;
            model.generate(&[0], 2).expect("an accepted prompt");
            assert_ne!(commitment(&bytes), commitment(&b.bytes));
        }
    }
    assert!(
        accepted > 200 / STEP,
        "weights, multipliers and phases may change: {accepted}"
    );
}

#[test]
fn prompts() {
    let model = Model::from_blob(&small().bytes).expect("valid");
    assert_eq!(model.generate(&[], 1), Err(Halt::EmptyPrompt));
    assert_eq!(
        model.generate(&[9; 5], 1),
        Err(Halt::ContextExceeded),
        "the length is checked before the ids"
    );
    assert_eq!(
        model.generate(&[0, 4], 1),
        Err(Halt::TokenOutOfRange { position: 1, id: 4 }),
        "a padding id"
    );
    assert_eq!(
        model.generate(&[u32::MAX, 9], 0),
        Err(Halt::TokenOutOfRange {
            position: 0,
            id: u32::MAX
        })
    );
    assert_eq!(model.all_logits(&[]), Err(Halt::EmptyPrompt));
    assert_eq!(model.generate(&[0; 4], 3), Ok((vec![], Finish::Context)));
    assert_eq!(model.generate(&[0; 4], 0), Ok((vec![], Finish::Length)));
    assert!(model.generate(&[0], usize::MAX).expect("accepted").0.len() <= 3);
}

#[test]
fn argmax_ties_and_padding() {
    let model = Model::from_blob(&small().bytes).expect("valid"); // 5 rows, 4 accepted
    assert_eq!(model.argmax(&[1, 7, 7, 0, 9]), 1);
    assert_eq!(model.argmax(&[i32::MIN; 5]), 0);
    assert_eq!(model.argmax(&[0, 0, 0, 1, 1]), 3);
}

#[test]
fn generation_is_repeated_argmax() {
    let shape = Shape {
        qk_norm: true,
        tied: false,
        ..Shape::default()
    };
    let model = Model::from_blob(&build(&shape, Style::Plausible, 2).bytes).expect("valid");
    let prompt = Rng(4).tokens(5, shape.accepted);
    let (output, finish) = model.generate(&prompt, 20).expect("accepted");
    assert_eq!((output.len(), finish), (20, Finish::Length));
    let whole = [&prompt[..], &output].concat();
    let logits = model.all_logits(&whole).expect("accepted");
    for (i, &t) in output.iter().enumerate() {
        assert_eq!(model.argmax(&logits[prompt.len() + i - 1]), t);
    }
    // A prefix's logits do not depend on what follows.
    assert_eq!(
        model.all_logits(&prompt).expect("accepted"),
        logits[..prompt.len()]
    );
    // The digest is over little-endian int32.
    assert_eq!(
        logits_digest(&[1, -2]),
        keccak256(&[1, 0, 0, 0, 0xfe, 0xff, 0xff, 0xff])
    );
}
