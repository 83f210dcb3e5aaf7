//! Families 5, 6 and 7: what is stored, what is not finite, and rows of awkward magnitudes.

use crate::small::{EMBED, HEAD, NORM, Parts, blob, encode, layer};
use exporter::ExportError;
use float_engine::source::{Checkpoint, Role, SourceError};
use int_engine::model::Model;
use quant_core::Format;
use quant_core::gguf::{GgufBuilder, Value};
use std::fs;

const TYPES: [&str; 3] = ["F32", "F16", "BF16"];

#[test]
fn family_05_one_blob_for_every_stored_type() {
    for (family, tied) in [("llama", false), ("qwen3", true)] {
        let mut parts = Parts::new(family, tied);
        // Subnormals of f16 that bf16 holds too, among the values.
        let mut values = parts.values(0);
        for (i, k) in [1.0f32, 2.0, 3.0, -1.0, -127.0, 255.0, 512.0]
            .into_iter()
            .enumerate()
        {
            values[i] = k * 2f32.powi(-24);
        }
        parts.set(0, "F32", &values);
        let expected = parts.blob();
        let fingerprint = parts.open().unwrap().fingerprint().unwrap();
        for mix in 0..6 {
            let mut copy = parts.clone();
            for i in 0..copy.tensors.len() {
                let dtype = if mix < 3 {
                    TYPES[mix]
                } else {
                    TYPES[(i * (mix - 2) + i / 2) % 3]
                };
                copy.set(i, dtype, &parts.values(i));
            }
            assert_eq!(
                copy.open().unwrap().fingerprint().unwrap(),
                fingerprint,
                "{family}, mix {mix}"
            );
            assert!(copy.blob() == expected, "{family}, mix {mix}");
        }
    }
}

/// The value of a binary16 pattern, from its definition.
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    let magnitude = match exponent {
        0 => fraction * 2f32.powi(-24),
        _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
    };
    if bits >> 15 == 1 {
        -magnitude
    } else {
        magnitude
    }
}

/// A checkpoint whose embedding is `[rows][32]` of these 16-bit patterns.
fn patterns(dtype: &'static str, bits: &[u16]) -> Vec<f32> {
    let mut parts = Parts::new("llama", false);
    let rows = bits.len() / 32;
    parts.config["hidden_size"] = 32.into();
    parts.config["vocab_size"] = rows.into();
    for t in &mut parts.tensors {
        for d in &mut t.shape {
            match *d {
                12 => *d = 32,
                16 if t.name == EMBED || t.name == HEAD => *d = rows,
                _ => {}
            }
        }
        t.bytes = vec![0; 4 * t.shape.iter().product::<usize>()];
    }
    let embed = parts.tensor(EMBED);
    embed.dtype = dtype;
    embed.bytes = bits.iter().flat_map(|b| b.to_le_bytes()).collect();
    parts.open().unwrap().embed().unwrap().data
}

#[test]
fn family_05_every_finite_pattern_of_16_bits_is_exact() {
    let finite = |bits: &u16| bits >> 10 & 31 != 31;
    let bits: Vec<u16> = (0..=u16::MAX).filter(finite).collect();
    assert_eq!(bits.len(), 1984 * 32);
    for (bits, found) in bits.iter().zip(patterns("F16", &bits)) {
        // -0 is 0.
        assert_eq!(
            found.to_bits(),
            (half(*bits) + 0.0).to_bits(),
            "f16 {bits:#06x}"
        );
    }
    let finite = |bits: &u16| bits >> 7 & 255 != 255;
    let bits: Vec<u16> = (0..=u16::MAX).filter(finite).collect();
    assert_eq!(bits.len(), 2040 * 32);
    for (bits, found) in bits.iter().zip(patterns("BF16", &bits)) {
        let expected = f32::from_bits(u32::from(*bits) << 16) + 0.0;
        assert_eq!(found.to_bits(), expected.to_bits(), "bf16 {bits:#06x}");
    }
}

#[test]
fn family_05_other_types_are_named() {
    for (dtype, size) in [
        ("F64", 8),
        ("I64", 8),
        ("U64", 8),
        ("I32", 4),
        ("U32", 4),
        ("I16", 2),
        ("U16", 2),
        ("I8", 1),
        ("U8", 1),
        ("BOOL", 1),
        ("F8_E4M3", 1),
        ("F8_E5M2", 1),
    ] {
        for name in [EMBED.to_owned(), NORM.to_owned(), layer("mlp.down_proj")] {
            let mut parts = Parts::new("llama", true);
            let t = parts.tensor(&name);
            t.dtype = dtype;
            t.bytes = vec![0; size * t.shape.iter().product::<usize>()];
            match parts.open().expect_err("must be refused") {
                SourceError::Dtype {
                    tensor,
                    found,
                    supported,
                } => {
                    assert_eq!(
                        (tensor, &found[..], supported),
                        (name, dtype, "F32, F16, BF16")
                    );
                }
                other => panic!("{dtype}: {other}"),
            }
        }
    }
    for dtype in ["F4", "F8_E8M0", "Q8_0", "f32", "FP16", "", "F32 "] {
        let mut parts = Parts::new("llama", true);
        parts.tensor(NORM).dtype = dtype;
        let error = parts.open().expect_err("must be refused");
        assert!(
            matches!(&error, SourceError::Dtype { tensor, found, .. } if tensor == NORM && found == dtype),
            "{error}"
        );
    }
}

/// Patterns that are no finite number, by stored type.
fn not_finite(dtype: &str) -> Vec<Vec<u8>> {
    let f32s = [
        0x7fc0_0000u32,
        0xffc0_0000,
        0x7f80_0001,
        0x7fff_ffff,
        0x7f80_0000,
        0xff80_0000,
    ];
    match dtype {
        "F32" => f32s.iter().map(|b| b.to_le_bytes().to_vec()).collect(),
        "BF16" => [0x7fc0u16, 0xffc0, 0x7f81, 0x7fff, 0x7f80, 0xff80]
            .iter()
            .map(|b| b.to_le_bytes().to_vec())
            .collect(),
        _ => [0x7e00u16, 0xfe00, 0x7c01, 0x7fff, 0x7c00, 0xfc00]
            .iter()
            .map(|b| b.to_le_bytes().to_vec())
            .collect(),
    }
}

#[test]
fn family_06_a_value_that_is_not_finite_is_named_anywhere() {
    let parts = Parts::new("qwen3", false);
    for i in 0..parts.tensors.len() {
        let name = parts.tensors[i].name.clone();
        let values = parts.values(i);
        for dtype in TYPES {
            let patterns = not_finite(dtype);
            for (turn, at) in [0, 1, values.len() / 2, values.len() - 1]
                .into_iter()
                .enumerate()
            {
                let mut copy = parts.clone();
                copy.set(i, dtype, &values);
                let pattern = &patterns[(turn + i) % patterns.len()];
                copy.tensors[i].bytes[at * pattern.len()..][..pattern.len()]
                    .copy_from_slice(pattern);
                let checkpoint = copy.open().unwrap();
                for error in [
                    checkpoint.fingerprint().expect_err("must be refused"),
                    Role::all(checkpoint.config())
                        .find_map(|r| checkpoint.tensor(r).err())
                        .expect("a refused tensor"),
                ] {
                    match error {
                        SourceError::NonFinite {
                            tensor,
                            index,
                            value,
                        } => {
                            assert_eq!((&tensor, index), (&name, at));
                            assert!(!value.is_finite());
                        }
                        other => panic!("{name}: {other}"),
                    }
                }
            }
        }
        // Every pattern, in one place, and through the export.
        let mut copy = parts.clone();
        copy.tensors[i].bytes[..4].copy_from_slice(&not_finite("F32")[i % 6]);
        let error = blob(&copy.open().unwrap()).expect_err("must be refused");
        assert!(error.to_string().contains(&name), "{error}");
    }
    for dtype in TYPES {
        for pattern in not_finite(dtype) {
            let mut copy = parts.clone();
            copy.set(1, dtype, &parts.values(1));
            copy.tensors[1].bytes[..pattern.len()].copy_from_slice(&pattern);
            let error = copy
                .open()
                .unwrap()
                .final_norm()
                .expect_err("must be refused");
            assert!(
                matches!(&error, SourceError::NonFinite { tensor, index: 0, .. } if tensor == NORM),
                "{pattern:x?}"
            );
        }
    }
}

#[test]
fn family_06_a_quantised_value_that_is_not_finite_is_named() {
    let (vocab, hidden) = (4u64, 32u64);
    let ones = vec![1.0f32.to_le_bytes(); 32 * 32].concat();
    for (format, bad, index) in [
        (Format::Q8_0, vec![0x00, 0x7c], 64), // a scale of infinity
        (Format::Q8_0, vec![0x01, 0x7e], 64), // of NaN
        (Format::Q4_0, vec![0x00, 0xfc], 64),
        (Format::F16, vec![0x00, 0x7e], 64),
        (Format::BF16, vec![0x80, 0x7f], 64),
        (Format::F32, vec![0, 0, 0x80, 0xff], 64),
    ] {
        let row = format.size_in_bytes(1, hidden).unwrap() as usize;
        let mut embed = vec![1; row * vocab as usize];
        embed[2 * row..][..bad.len()].copy_from_slice(&bad);
        let mut b = GgufBuilder::new();
        b.metadata("general.architecture", Value::String("llama".into()));
        for (key, value) in [
            ("embedding_length", 32),
            ("block_count", 1),
            ("attention.head_count", 4),
            ("attention.head_count_kv", 4),
            ("feed_forward_length", 32),
            ("context_length", 8),
        ] {
            b.metadata(format!("llama.{key}"), Value::U32(value));
        }
        b.metadata("llama.rope.freq_base", Value::F32(1e4));
        b.metadata("llama.attention.layer_norm_rms_epsilon", Value::F32(1e-5));
        b.tensor("token_embd.weight", format, [vocab, hidden], embed);
        for name in ["output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"] {
            b.tensor(
                format!("{name}.weight"),
                Format::F32,
                [32],
                ones[..128].to_vec(),
            );
        }
        for name in [
            "attn_q",
            "attn_k",
            "attn_v",
            "attn_output",
            "ffn_gate",
            "ffn_up",
            "ffn_down",
        ] {
            b.tensor(
                format!("blk.0.{name}.weight"),
                Format::F32,
                [32, 32],
                ones.clone(),
            );
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("model.gguf");
        fs::write(&path, b.to_bytes().unwrap()).unwrap();
        match Checkpoint::open(&path)
            .unwrap()
            .embed()
            .expect_err("must be refused")
        {
            SourceError::NonFinite {
                tensor,
                index: found,
                ..
            } => {
                assert_eq!(
                    (&tensor[..], found),
                    ("token_embd.weight", index),
                    "{format}"
                );
            }
            other => panic!("{format}: {other}"),
        }
    }
}

#[test]
fn family_06_minus_zero_is_zero() {
    for dtype in TYPES {
        let with = |zero: f32| {
            let mut parts = Parts::new("qwen3", false);
            for i in 0..parts.tensors.len() {
                let mut values = parts.values(i);
                values.iter_mut().step_by(3).for_each(|v| *v = zero);
                parts.set(i, dtype, &values);
            }
            parts
        };
        let (plus, minus) = (with(0.0), with(-0.0));
        assert_ne!(plus.tensors[0].bytes, minus.tensors[0].bytes, "{dtype}");
        assert_eq!(minus.open().unwrap().embed().unwrap().data[0].to_bits(), 0);
        assert!(plus.blob() == minus.blob(), "{dtype}");
    }
}

/// Replaces the rows of a matrix.
fn set_rows(parts: &mut Parts, name: &str, row: impl Fn(usize) -> Option<Vec<f32>>) {
    let index = parts.tensors.iter().position(|t| t.name == name).unwrap();
    let cols = parts.tensors[index].shape[1];
    let mut values = parts.values(index);
    for (i, old) in values.chunks_mut(cols).enumerate() {
        if let Some(new) = row(i) {
            old.copy_from_slice(&new);
        }
    }
    parts.set(index, "F32", &values);
}

const MATRICES: [&str; 7] = [
    "self_attn.q_proj",
    "self_attn.k_proj",
    "self_attn.v_proj",
    "self_attn.o_proj",
    "mlp.gate_proj",
    "mlp.up_proj",
    "mlp.down_proj",
];

/// Every multiplier and shift lies in its domain: what the loader accepts, restated.
fn scales_in_range(model: &Model, what: &str) {
    let mut channels = vec![
        (&model.embed().mult, &model.embed().shift),
        (&model.head().mult, &model.head().shift),
    ];
    for l in model.layers() {
        for m in [&l.q, &l.k, &l.v, &l.o, &l.gate, &l.up, &l.down] {
            channels.push((&m.mult, &m.shift));
        }
    }
    for (mult, shift) in channels {
        assert!(mult.iter().all(|&m| m >= 1 << 30), "{what}");
        assert!(shift.iter().all(|&s| (-64..=64).contains(&s)), "{what}");
    }
}

#[test]
fn family_07_rows_of_zero_and_of_hardly_anything() {
    for (family, tied) in [("llama", true), ("qwen3", false)] {
        for magnitude in [
            0.0f32,
            1e-8,
            -1e-8,
            1e-20,
            f32::MIN_POSITIVE,
            1e-40,
            f32::from_bits(1),
            -f32::from_bits(1),
        ] {
            let mut parts = Parts::new(family, tied);
            let names: Vec<String> = MATRICES
                .iter()
                .map(|m| layer(m))
                .chain([EMBED.to_owned()])
                .collect();
            for name in &names {
                set_rows(&mut parts, name, |i| {
                    let cols = match &name[..] {
                        n if n.contains("o_proj") => 16,
                        n if n.contains("down_proj") => 10,
                        _ => 12,
                    };
                    [0, 3, 7].contains(&i).then(|| vec![magnitude; cols])
                });
            }
            let bytes = parts.blob();
            let what = format!("{family} {magnitude:e}");
            let model = Model::from_bytes(&bytes).unwrap();
            scales_in_range(&model, &what);
            if magnitude == 0.0 {
                for row in [0, 3, 7] {
                    assert!(model.embed().weight.row(row).all(|w| w == 0), "{what}");
                    // Rows of gate and up are not mixed with others.
                    for m in [&model.layers()[0].gate, &model.layers()[0].up] {
                        assert!(m.weight.row(row).all(|w| w == 0), "{what}");
                    }
                }
            }
            let reference = int_reference::Model::from_blob(&bytes).unwrap();
            assert_eq!(reference.all_logits(&[0, 3, 7, 1]).unwrap().len(), 4);
        }
    }
}

#[test]
fn family_07_one_outlier_of_3e38() {
    let mut named = 0;
    for name in MATRICES.iter().map(|m| layer(m)).chain([
        EMBED.to_owned(),
        HEAD.to_owned(),
        NORM.to_owned(),
    ]) {
        for value in [3e38f32, -3e38] {
            let mut parts = Parts::new("qwen3", false);
            let t = parts.tensor(&name);
            t.bytes[8..12].copy_from_slice(&encode("F32", value));
            match blob(&parts.open().unwrap()) {
                // Either the outlier fits and every scale is in range,
                Ok(bytes) => scales_in_range(&Model::from_bytes(&bytes).unwrap(), &name),
                // or the error says where the float model or the format ends.
                Err(ExportError::Scale { value, .. }) => {
                    assert!(value >= 2f64.powi(64), "{name}: {value:e}");
                    named += 1;
                }
                Err(ExportError::Activation { .. } | ExportError::Scores { .. }) => named += 1,
                Err(other) => panic!("{name}: {other}"),
            }
        }
    }
    assert!(named > 0);
}

#[test]
fn family_07_rows_of_any_maximum_quantise_equally_well() {
    const MAXIMA: [f32; 8] = [0.03, 0.4, 0.999, 1.0, 1.7, 1e-3, 40.0, 900.0];
    for name in [
        EMBED.to_owned(),
        HEAD.to_owned(),
        layer("mlp.gate_proj"),
        layer("self_attn.v_proj"),
    ] {
        let base: Vec<f32> = (0..12)
            .map(|i| [1.0, -0.31, 0.57, 0.113, -0.77, 0.011][i % 6] / (1 + i / 6) as f32)
            .collect();
        let mut parts = Parts::new("llama", false);
        set_rows(&mut parts, &name, |i| {
            MAXIMA.get(i).map(|m| base.iter().map(|v| v * m).collect())
        });
        let model = Model::from_bytes(&parts.blob()).unwrap();
        let layer = &model.layers()[0];
        let (codes, mult, shift) = match &name[..] {
            EMBED => (
                &model.embed().weight,
                &model.embed().mult,
                &model.embed().shift,
            ),
            HEAD => (model.head_weight(), &model.head().mult, &model.head().shift),
            n if n.contains("gate") => (&layer.gate.weight, &layer.gate.mult, &layer.gate.shift),
            _ => (&layer.v.weight, &layer.v.mult, &layer.v.shift),
        };
        // v's rows are rotated among each other: each is a sum of the eight with signs, so only their range is told.
        let mixed = name.contains("v_proj");
        let scale = |r: usize| f64::from(mult[r]) * 2f64.powi(-31 - i32::from(shift[r]));
        for (r, &maximum) in MAXIMA.iter().enumerate() {
            let row: Vec<i8> = codes.row(r).collect();
            let largest = row.iter().map(|w| w.unsigned_abs()).max().unwrap();
            assert!(
                largest >= 120,
                "{name}: row {r} uses codes up to {largest} of 127"
            );
            if !mixed {
                let ratio = scale(r) / scale(3) / f64::from(maximum / MAXIMA[3]);
                assert!(
                    (ratio - 1.0).abs() < 0.02,
                    "{name}: row {r} is off by {ratio}"
                );
                // The error of a row is that of any other, as a fraction of its maximum.
                for (a, b) in row.iter().zip(codes.row(3)) {
                    assert!(
                        (i32::from(*a) - i32::from(b)).abs() <= 2,
                        "{name}: row {r}: {row:?}"
                    );
                }
            }
        }
    }
}
