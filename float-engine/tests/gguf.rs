//! The same model from a folder and from a GGUF file.

use float_engine::chat::{ChatError, ChatTemplate};
use float_engine::config::{ConfigError, Family};
use float_engine::source::{Checkpoint, LayerRole, Role, SourceError};
use quant_core::Format;
use quant_core::gguf::{GgufBuilder, Value};
use std::path::PathBuf;

mod common;
use common::{FOLDERS, model};

type Entry = (String, Value);
type Tensor = (String, Vec<u64>, Vec<f32>);

/// The metadata and tensors of a golden model as a GGUF file has them: llama's q and k rows interleaved.
fn contents(ck: &Checkpoint) -> (Vec<Entry>, Vec<Tensor>) {
    let c = ck.config();
    let arch = c.family.name();
    let number = |key: &str, n: usize| (format!("{arch}.{key}"), Value::U32(n as u32));
    let metadata = vec![
        (
            "general.architecture".to_owned(),
            Value::String(arch.into()),
        ),
        number("embedding_length", c.hidden),
        number("block_count", c.layers),
        number("attention.head_count", c.heads),
        number("attention.head_count_kv", c.kv_heads),
        number("attention.key_length", c.head_dim),
        number("attention.value_length", c.head_dim),
        number("rope.dimension_count", c.head_dim),
        number("feed_forward_length", c.intermediate),
        number("context_length", c.max_context),
        (
            format!("{arch}.rope.freq_base"),
            Value::F32(c.rope_theta as f32),
        ),
        (
            format!("{arch}.attention.layer_norm_rms_epsilon"),
            Value::F32(c.rms_eps as f32),
        ),
    ];
    let tensors = Role::all(c).map(|role| {
        let shape = role.shape(c);
        let mut data = ck.tensor(role).unwrap();
        if c.family == Family::Llama && matches!(role, Role::Layer(_, LayerRole::Q | LayerRole::K))
        {
            let half = c.head_dim / 2;
            let rows: Vec<&[f32]> = data.chunks(c.hidden).collect();
            let permuted = rows
                .chunks(c.head_dim)
                .flat_map(|head| (0..half).flat_map(|i| [head[i], head[i + half]]));
            data = permuted.flatten().copied().collect();
        }
        (
            role.gguf_name(),
            shape.iter().map(|&d| d as u64).collect(),
            data,
        )
    });
    (metadata, tensors.collect())
}

fn write(metadata: &[Entry], tensors: &[Tensor]) -> (tempfile::TempDir, PathBuf) {
    let mut b = GgufBuilder::new();
    for (k, v) in metadata {
        b.metadata(k.clone(), v.clone());
    }
    for (name, shape, data) in tensors {
        let bytes: Vec<u8> = data.iter().flat_map(|x| x.to_le_bytes()).collect();
        b.tensor(name.clone(), Format::F32, shape.clone(), bytes);
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("model.gguf");
    std::fs::write(&path, b.to_bytes().unwrap()).unwrap();
    (dir, path)
}

#[test]
fn same_configuration_and_fingerprint_as_the_folder() {
    for name in FOLDERS {
        let ck = Checkpoint::open(&model(name)).unwrap();
        let (mut metadata, tensors) = contents(&ck);
        if let [id] = ck.config().eos_ids[..] {
            metadata.push(("tokenizer.ggml.eos_token_id".into(), Value::U32(id)));
        }
        let (_dir, path) = write(&metadata, &tensors);
        let gguf = Checkpoint::open(&path).unwrap();
        assert_eq!(gguf.config(), ck.config(), "{name}");
        for role in Role::all(ck.config()) {
            assert_eq!(
                gguf.tensor(role).unwrap(),
                ck.tensor(role).unwrap(),
                "{name} {role:?}"
            );
        }
        assert_eq!(
            gguf.fingerprint().unwrap(),
            ck.fingerprint().unwrap(),
            "{name}"
        );
        assert!(matches!(
            ChatTemplate::open(&path),
            Err(ChatError::NoTemplate { .. })
        ));
    }
}

/// Opens the GGUF form of a golden model whose metadata and tensors `change` has altered.
fn altered(name: &str, change: impl FnOnce(&mut Vec<Entry>, &mut Vec<Tensor>)) -> SourceError {
    let (mut metadata, mut tensors) = contents(&Checkpoint::open(&model(name)).unwrap());
    change(&mut metadata, &mut tensors);
    let (_dir, path) = write(&metadata, &tensors);
    match Checkpoint::open(&path) {
        Err(e) => e,
        Ok(ck) => ck.fingerprint().unwrap_err(),
    }
}

#[test]
fn metadata_keys_are_required() {
    let (metadata, _) = contents(&Checkpoint::open(&model(FOLDERS[2])).unwrap());
    let optional = [
        "head_count_kv",
        "key_length",
        "value_length",
        "dimension_count",
    ];
    for (key, _) in &metadata {
        if optional.iter().any(|o| key.ends_with(o)) {
            continue;
        }
        let e = altered(FOLDERS[2], |m, _| m.retain(|(k, _)| k != key));
        assert!(
            matches!(&e, SourceError::Config(ConfigError::Missing { key: k }) if k == key),
            "{key}: {e}"
        );
    }
}

#[test]
fn what_is_not_implemented_is_refused() {
    let string = |s: &str| Value::String(s.into());
    for (key, value) in [
        ("llama.rope.scaling.type", string("yarn")),
        ("llama.rope.scaling.factor", Value::F32(8.0)),
        ("llama.rope.scale_linear", Value::F32(2.0)),
        ("llama.expert_count", Value::U32(8)),
        ("llama.attention.sliding_window", Value::U32(4096)),
    ] {
        let e = altered(FOLDERS[2], |m, _| m.push((key.into(), value)));
        assert!(
            matches!(&e, SourceError::Config(ConfigError::Unsupported { key: k, .. }) if k == key),
            "{key}: {e}"
        );
    }
    let e = altered(FOLDERS[2], |m, _| m[0].1 = string("gemma"));
    assert!(matches!(
        e,
        SourceError::Config(ConfigError::UnsupportedFamily { .. })
    ));
    let e = altered(FOLDERS[2], |m, _| {
        m.iter_mut().for_each(|(k, v)| {
            if k.ends_with("value_length") {
                *v = Value::U32(8)
            }
        })
    });
    assert!(matches!(
        e,
        SourceError::Config(ConfigError::Invalid { .. })
    ));
    let e = altered(FOLDERS[2], |_, t| {
        t.push(("rope_freqs.weight".into(), vec![8], vec![1.0; 8]))
    });
    assert!(
        matches!(e, SourceError::UnknownTensor { tensor, .. } if tensor == "rope_freqs.weight")
    );
    let e = altered(FOLDERS[2], |_, t| {
        t.push(("blk.0.attn_q.bias".into(), vec![96], vec![0.0; 96]))
    });
    assert!(matches!(e, SourceError::Bias { .. }));
}

#[test]
fn bad_tensors_are_named() {
    let e = altered(FOLDERS[0], |_, t| {
        t.retain(|(n, ..)| n != "blk.1.attn_k_norm.weight")
    });
    assert!(
        matches!(e, SourceError::MissingTensor { tensor, .. } if tensor == "blk.1.attn_k_norm.weight")
    );
    let e = altered(FOLDERS[0], |_, t| t[1].2[3] = f32::INFINITY);
    assert!(matches!(e, SourceError::NonFinite { index: 3, .. }));
    let e = altered(FOLDERS[0], |_, t| {
        t.iter_mut().for_each(|(n, s, _)| {
            if n == "blk.0.attn_q.weight" {
                s.reverse()
            }
        })
    });
    assert!(matches!(e, SourceError::Shape { tensor, .. } if tensor == "blk.0.attn_q.weight"));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.gguf");
    std::fs::write(&path, b"GGUF\x01\0\0\0").unwrap();
    assert!(matches!(
        Checkpoint::open(&path),
        Err(SourceError::Gguf { .. })
    ));
}
