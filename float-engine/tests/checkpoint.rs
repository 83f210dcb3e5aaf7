//! Opening, re-saving and refusing checkpoints.

use float_engine::config::ConfigLayout;
use float_engine::source::{Checkpoint, LayerRole, Role, SaveDtype, SaveOptions, SourceError};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

mod common;
use common::{FOLDERS, copy_of, model};

#[test]
fn both_config_layouts_give_the_same_model() {
    for name in FOLDERS {
        let dir = copy_of(name);
        let v5 = Checkpoint::open(dir.path()).unwrap();
        std::fs::copy(
            dir.path().join("config.v4.json"),
            dir.path().join("config.json"),
        )
        .unwrap();
        let v4 = Checkpoint::open(dir.path()).unwrap();
        let mut config = v5.config().clone();
        // transformers 4 keeps the end ids in generation_config.json only
        config.eos_ids = v4.config().eos_ids.clone();
        assert_eq!(&config, v4.config(), "{name}");
    }
}

#[test]
fn stored_type_and_sharding_do_not_change_the_fingerprint() {
    for name in FOLDERS {
        let original = Checkpoint::open(&model(name)).unwrap();
        let expected = original.fingerprint().unwrap();
        for (dtype, shards, layout) in [
            (SaveDtype::F32, 1, ConfigLayout::V4),
            (SaveDtype::F32, 5, ConfigLayout::V5),
            (SaveDtype::Bf16, 2, ConfigLayout::V5),
            (SaveDtype::F16, 1, ConfigLayout::V4),
            (SaveDtype::F16, 1000, ConfigLayout::V4),
        ] {
            let dir = tempfile::tempdir().unwrap();
            original
                .save_hf(
                    dir.path(),
                    &SaveOptions {
                        dtype,
                        shards,
                        layout,
                    },
                )
                .unwrap();
            let saved = Checkpoint::open(dir.path()).unwrap();
            assert_eq!(saved.config(), original.config());
            let exact = Role::all(original.config()).all(|r| {
                let values = original.tensor(r).unwrap();
                values.iter().all(|&x| match dtype {
                    SaveDtype::F32 => true,
                    SaveDtype::Bf16 => half::bf16::from_f32(x).to_f32() == x,
                    SaveDtype::F16 => half::f16::from_f32(x).to_f32() == x,
                })
            });
            assert_eq!(
                saved.fingerprint().unwrap() == expected,
                exact,
                "{name} {dtype:?}"
            );
            let stored_exactly = matches!(
                (name, dtype),
                (_, SaveDtype::F32)
                    | ("golden/a_qwen3_tied_bf16" | "tiny-austen", SaveDtype::Bf16)
                    | ("golden/c_llama_untied_f16", SaveDtype::F16)
            );
            assert!(exact || !stored_exactly, "{name} {dtype:?}");
        }
    }
}

#[test]
fn from_parts_equals_the_file_and_checks_shapes() {
    let ck = Checkpoint::open(&model(FOLDERS[2])).unwrap();
    let parts = || {
        let layers = (0..3).map(|i| ck.layer(i).unwrap()).collect::<Vec<_>>();
        (
            ck.embed().unwrap(),
            layers,
            ck.final_norm().unwrap(),
            ck.lm_head().unwrap(),
        )
    };
    let (e, l, n, h) = parts();
    let built = Checkpoint::from_parts(ck.config().clone(), e, l, n, h).unwrap();
    assert_eq!(built.fingerprint().unwrap(), ck.fingerprint().unwrap());

    let (e, l, n, _) = parts();
    let no_head = Checkpoint::from_parts(ck.config().clone(), e, l, n, None).unwrap_err();
    assert!(
        matches!(no_head, SourceError::MissingTensor { tensor, .. } if tensor == "lm_head.weight")
    );
    let (e, mut l, n, h) = parts();
    l.pop();
    let short = Checkpoint::from_parts(ck.config().clone(), e, l, n, h).unwrap_err();
    assert!(matches!(
        short,
        SourceError::LayerCount {
            found: 2,
            expected: 3
        }
    ));
    let (e, mut l, n, h) = parts();
    l[1].q_norm = Some(vec![1.0; 16]);
    let extra = Checkpoint::from_parts(ck.config().clone(), e, l, n, h).unwrap_err();
    assert!(matches!(extra, SourceError::UnknownTensor { .. }));
    let (e, mut l, n, h) = parts();
    l[2].down.data[5] = f32::NAN;
    let nan = Checkpoint::from_parts(ck.config().clone(), e, l, n, h).unwrap_err();
    assert!(
        matches!(nan, SourceError::NonFinite { tensor, index: 5, .. } if tensor == "model.layers.2.mlp.down_proj.weight")
    );
    assert!(matches!(
        ck.layer(3),
        Err(SourceError::LayerCount {
            found: 4,
            expected: 3
        })
    ));
    assert!(matches!(
        ck.layer(usize::MAX),
        Err(SourceError::LayerCount { .. })
    ));
}

/// Tensors by name, as `(dtype, shape, bytes)`; written with the safetensors crate, whose reader is not used elsewhere.
type Tensors = BTreeMap<String, (safetensors::Dtype, Vec<usize>, Vec<u8>)>;

fn tensors_of(path: &Path) -> Tensors {
    let bytes = std::fs::read(path).unwrap();
    let st = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    st.iter()
        .map(|(n, v)| {
            (
                n.to_owned(),
                (v.dtype(), v.shape().to_vec(), v.data().to_vec()),
            )
        })
        .collect()
}

fn write_tensors(path: &Path, tensors: &Tensors) {
    let views = tensors.iter().map(|(n, (d, s, b))| {
        (
            n.clone(),
            safetensors::tensor::TensorView::new(*d, s.clone(), b).unwrap(),
        )
    });
    safetensors::serialize_to_file(views, None, path).unwrap();
}

/// Opens a copy of a golden model whose tensors `change` has altered, and reads all of it.
fn altered(name: &str, change: impl FnOnce(&mut Tensors)) -> Result<Checkpoint, SourceError> {
    let dir = copy_of(name);
    let path = dir.path().join("model.safetensors");
    let mut tensors = tensors_of(&path);
    change(&mut tensors);
    write_tensors(&path, &tensors);
    let ck = Checkpoint::open(dir.path())?;
    ck.fingerprint()?;
    Ok(ck)
}

const A: &str = FOLDERS[0];
const C: &str = FOLDERS[2];

#[test]
fn values_that_are_not_finite_are_named() {
    for (bits, name) in [(0x7FC0u16, "NaN"), (0x7F80, "inf"), (0xFF80, "-inf")] {
        let e = altered(A, |t| {
            t.get_mut("model.norm.weight").unwrap().2[6..8].copy_from_slice(&bits.to_le_bytes())
        })
        .unwrap_err();
        assert!(
            matches!(&e, SourceError::NonFinite { tensor, index: 3, .. } if tensor == "model.norm.weight"),
            "{name}: {e}"
        );
    }
}

#[test]
fn minus_zero_is_zero() {
    let set = |bits: u16| {
        move |t: &mut Tensors| {
            t.get_mut("model.norm.weight").unwrap().2[0..2].copy_from_slice(&bits.to_le_bytes())
        }
    };
    let [plus, minus] = [0u16, 0x8000].map(|b| altered(A, set(b)).unwrap());
    assert_eq!(minus.final_norm().unwrap()[0].to_bits(), 0);
    assert_eq!(plus.fingerprint().unwrap(), minus.fingerprint().unwrap());
    assert_ne!(
        plus.fingerprint().unwrap(),
        Checkpoint::open(&model(A)).unwrap().fingerprint().unwrap()
    );
}

#[test]
fn half_precision_subnormals_are_exact() {
    let ck = altered(C, |t| {
        t.get_mut("model.norm.weight").unwrap().2[0..2].copy_from_slice(&1u16.to_le_bytes())
    })
    .unwrap();
    assert_eq!(ck.final_norm().unwrap()[0], 2f32.powi(-24));
}

#[test]
fn tied_head_present() {
    let key = "model.embed_tokens.weight";
    let equal = altered(A, |t| {
        drop(t.insert("lm_head.weight".into(), t[key].clone()))
    })
    .unwrap();
    assert_eq!(equal.lm_head().unwrap(), None);
    assert_eq!(
        equal.fingerprint().unwrap(),
        Checkpoint::open(&model(A)).unwrap().fingerprint().unwrap()
    );
    let different = altered(A, |t| {
        let mut head = t[key].clone();
        head.2[200] ^= 1;
        t.insert("lm_head.weight".into(), head);
    });
    assert!(matches!(
        different,
        Err(SourceError::TiedHeadDiffers { index: 100, .. })
    ));
    let absent = altered(C, |t| drop(t.remove("lm_head.weight")));
    assert!(
        matches!(absent, Err(SourceError::MissingTensor { tensor, .. }) if tensor == "lm_head.weight")
    );
}

#[test]
fn extra_and_missing_tensors() {
    let vector = |n: usize| (safetensors::Dtype::F32, vec![n], vec![0; 4 * n]);
    assert!(
        altered(A, |t| drop(t.insert(
            "model.layers.0.self_attn.rotary_emb.inv_freq".into(),
            vector(16)
        )))
        .is_ok()
    );
    let bias = altered(A, |t| {
        drop(t.insert("model.layers.0.self_attn.q_proj.bias".into(), vector(128)))
    });
    assert!(
        matches!(bias, Err(SourceError::Bias { tensor }) if tensor == "model.layers.0.self_attn.q_proj.bias")
    );
    for name in ["model.layers.3.mlp.up_proj.weight", "score.weight"] {
        let extra = altered(A, |t| drop(t.insert(name.into(), vector(1))));
        assert!(matches!(extra, Err(SourceError::UnknownTensor { tensor, .. }) if tensor == name));
    }
    let name = Role::Layer(2, LayerRole::KNorm).hf_name();
    let missing = altered(A, |t| drop(t.remove(&name)));
    assert!(
        matches!(missing, Err(SourceError::MissingTensor { tensor, expected }) if tensor == name && expected == [32])
    );
}

#[test]
fn shapes_and_types() {
    let name = "model.layers.1.self_attn.q_proj.weight";
    let transposed = altered(A, |t| t.get_mut(name).unwrap().1.reverse());
    match transposed.unwrap_err() {
        SourceError::Shape {
            tensor,
            found,
            expected,
        } => assert_eq!(
            (&tensor[..], found, expected),
            (name, vec![64, 128], vec![128, 64])
        ),
        e => panic!("{e}"),
    }
    for (dtype, size) in [
        (safetensors::Dtype::F64, 8),
        (safetensors::Dtype::I8, 1),
        (safetensors::Dtype::F8_E4M3, 1),
        (safetensors::Dtype::F8_E5M2, 1),
    ] {
        let e = altered(A, |t| {
            drop(t.insert(
                "model.norm.weight".into(),
                (dtype, vec![64], vec![0; 64 * size]),
            ))
        })
        .unwrap_err();
        assert!(
            matches!(&e, SourceError::Dtype { tensor, .. } if tensor == "model.norm.weight"),
            "{e}"
        );
    }
}

/// Opens a copy of the sharded model whose index `change` has altered.
fn with_index(change: impl FnOnce(&mut Value, &Path)) -> Result<Checkpoint, SourceError> {
    let dir = copy_of(FOLDERS[1]);
    let path: PathBuf = dir.path().join("model.safetensors.index.json");
    let mut index: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    change(&mut index, dir.path());
    std::fs::write(&path, index.to_string()).unwrap();
    Checkpoint::open(dir.path())
}

#[test]
fn bad_shards() {
    assert!(with_index(|_, _| ()).is_ok());
    let second = "model-00002-of-00002.safetensors";
    let missing = with_index(|_, dir| std::fs::remove_file(dir.join(second)).unwrap());
    assert!(matches!(missing, Err(SourceError::MissingShard { name }) if name == second));
    for bad in [
        "../model.safetensors",
        "/etc/passwd",
        "..",
        ".",
        "",
        "a/b",
        "a\\b",
        "C:x",
    ] {
        let e = with_index(|i, _| i["weight_map"]["model.norm.weight"] = json!(bad)).unwrap_err();
        assert!(
            matches!(&e, SourceError::ShardName { name } if name == bad),
            "{bad}: {e}"
        );
    }
    let twice = with_index(|i, dir| {
        std::fs::copy(dir.join(second), dir.join("again.safetensors")).unwrap();
        i["weight_map"]["extra"] = json!("again.safetensors");
    });
    assert!(matches!(twice, Err(SourceError::DuplicateTensor { .. })));
    let other = with_index(|i, _| {
        let first = i["weight_map"]["model.embed_tokens.weight"].clone();
        let norm = &mut i["weight_map"]["model.norm.weight"];
        *norm = if *norm == first { json!(second) } else { first };
    });
    assert!(
        matches!(other, Err(SourceError::Misplaced { tensor, .. }) if tensor == "model.norm.weight")
    );
    let unlisted = with_index(|i, _| {
        drop(
            i["weight_map"]
                .as_object_mut()
                .unwrap()
                .remove("model.norm.weight"),
        )
    });
    assert!(
        matches!(unlisted, Err(SourceError::Misplaced { tensor, .. }) if tensor == "model.norm.weight")
    );
    assert!(matches!(
        with_index(|i, _| *i = json!({})),
        Err(SourceError::Index { .. })
    ));
    assert!(matches!(
        with_index(|i, _| i["weight_map"] = json!({})),
        Err(SourceError::Index { .. })
    ));
    let both = with_index(|_, dir| {
        std::fs::copy(dir.join(second), dir.join("model.safetensors"))
            .map(drop)
            .unwrap()
    });
    assert!(matches!(both, Err(SourceError::AmbiguousWeights { .. })));
}

#[test]
fn nothing_to_open() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(
        Checkpoint::open(dir.path()),
        Err(SourceError::Config(_))
    ));
    std::fs::copy(model(A).join("config.json"), dir.path().join("config.json")).unwrap();
    assert!(matches!(
        Checkpoint::open(dir.path()),
        Err(SourceError::NoWeights { .. })
    ));
    assert!(Checkpoint::open(&dir.path().join("absent")).is_err());
    std::fs::write(dir.path().join("model.safetensors"), b"").unwrap();
    assert!(matches!(
        Checkpoint::open(dir.path()),
        Err(SourceError::Header { .. } | SourceError::Io { .. })
    ));
}

#[test]
fn too_large_for_half_precision() {
    let ck = Checkpoint::open(&model(C)).unwrap();
    let layers = (0..3).map(|i| ck.layer(i).unwrap()).collect();
    let mut norm = ck.final_norm().unwrap();
    norm[7] = 70000.0;
    let big = Checkpoint::from_parts(
        ck.config().clone(),
        ck.embed().unwrap(),
        layers,
        norm,
        ck.lm_head().unwrap(),
    )
    .unwrap();
    let dir = tempfile::tempdir().unwrap();
    let options = SaveOptions {
        dtype: SaveDtype::F16,
        ..SaveOptions::default()
    };
    assert!(matches!(
        big.save_hf(dir.path(), &options),
        Err(SourceError::TooLarge { index: 7, .. })
    ));
}
