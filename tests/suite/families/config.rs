//! Families 3 and 4: the output head, and widths that a configuration gives or leaves out.

use crate::small::{EMBED, HEAD, Parts, Stored};
use float_engine::config::{ConfigError, ModelConfig};
use float_engine::forward::FloatModel;
use float_engine::source::{Checkpoint, SourceError};
use int_engine::model::Model;
use serde_json::{Value, json};

/// A head equal to the embedding, stored in `dtype`.
fn head_of(parts: &Parts) -> Stored {
    Stored {
        name: HEAD.into(),
        ..parts.tensors[0].clone()
    }
}

#[test]
fn family_03_a_tied_head_is_the_embedding() {
    for family in ["llama", "qwen3"] {
        let tied = Parts::new(family, true);
        let absent = tied.open().unwrap();
        assert_eq!(absent.lm_head().unwrap(), None);
        let blob = tied.blob();
        assert!(Model::from_bytes(&blob).unwrap().config().tied());
        // Present and equal: the same checkpoint, in the same and in another stored type.
        for dtype in ["F32", "BF16", "F16"] {
            let mut parts = tied.clone();
            parts.tensors.push(head_of(&tied));
            let last = parts.tensors.len() - 1;
            parts.set(last, dtype, &tied.values(0));
            assert_eq!(parts.open().unwrap().lm_head().unwrap(), None, "{dtype}");
            assert!(parts.blob() == blob, "{family} {dtype}");
        }
        // The embedding is the head: an untied model with that head gives the same logits.
        let mut untied = tied.clone();
        untied.config["tie_word_embeddings"] = json!(false);
        untied.tensors.push(head_of(&tied));
        let untied = untied.open().unwrap();
        let prompt = [3, 0, 15, 7];
        let logits = |c: &Checkpoint| FloatModel::load(c).unwrap().logits(&prompt, 1).unwrap();
        assert_eq!(logits(&absent), logits(&untied));
    }
}

#[test]
fn family_03_a_tied_head_that_differs_is_refused() {
    let tied = Parts::new("llama", true);
    let count = tied.values(0).len();
    for index in [0, 1, 11, 12, count / 2, count - 2, count - 1] {
        let mut parts = tied.clone();
        parts.tensors.push(head_of(&tied));
        let last = parts.tensors.len() - 1;
        let mut values = tied.values(0);
        values[index] += 1.0 / 64.0;
        parts.set(last, "F32", &values);
        match parts.open().expect_err("must be refused") {
            SourceError::TiedHeadDiffers {
                tensor,
                index: found,
            } => assert_eq!((&tensor[..], found), (HEAD, index)),
            other => panic!("{index}: {other}"),
        }
    }
    let mut short = tied.clone();
    let mut head = head_of(&tied);
    head.shape = vec![15, 12];
    head.bytes.truncate(15 * 12 * 4);
    short.tensors.push(head);
    let error = short.open().expect_err("must be refused");
    assert!(
        matches!(&error, SourceError::Shape { tensor, .. } if tensor == HEAD),
        "{error}"
    );
}

#[test]
fn family_03_an_untied_head_that_is_absent_is_refused() {
    for family in ["llama", "qwen3"] {
        let mut parts = Parts::new(family, false);
        assert!(parts.open().unwrap().lm_head().unwrap().is_some());
        assert!(!Model::from_bytes(&parts.blob()).unwrap().config().tied());
        parts.tensors.retain(|t| t.name != HEAD);
        match parts.open().expect_err("must be refused") {
            SourceError::MissingTensor { tensor, expected } => {
                assert_eq!((&tensor[..], expected), (HEAD, vec![16, 12]));
            }
            other => panic!("{other}"),
        }
        // Whether the head is tied is never guessed.
        for value in [None, Some(Value::Null)] {
            let mut parts = Parts::new(family, true);
            match value {
                None => drop(
                    parts
                        .config
                        .as_object_mut()
                        .unwrap()
                        .remove("tie_word_embeddings"),
                ),
                Some(v) => parts.config["tie_word_embeddings"] = v,
            }
            match parts.open().expect_err("must be refused") {
                SourceError::Config(ConfigError::Missing { key }) => {
                    assert_eq!(key, "tie_word_embeddings")
                }
                other => panic!("{other}"),
            }
        }
    }
    let mut no_embedding = Parts::new("llama", false);
    no_embedding.tensors.retain(|t| t.name != EMBED);
    let error = no_embedding.open().expect_err("must be refused");
    assert!(
        matches!(&error, SourceError::MissingTensor { tensor, .. } if tensor == EMBED),
        "{error}"
    );
}

/// A configuration with these changes; null removes.
fn read(family: &str, changes: &[(&str, Value)]) -> Result<ModelConfig, ConfigError> {
    let mut config = Parts::new(family, true).config;
    for (key, value) in changes {
        match value {
            Value::Null => drop(config.as_object_mut().unwrap().remove(*key)),
            value => config[*key] = value.clone(),
        }
    }
    ModelConfig::from_hf_json(config.to_string().as_bytes(), None)
}

#[test]
fn family_04_the_width_of_a_head() {
    // hidden, heads, kv heads, head_dim in the file, head_dim meant.
    for (hidden, heads, kv, given, meant) in [
        (1024, 16, 8, Some(128), 128), // Qwen3-0.6B
        (1024, 16, 8, None, 64),
        (2048, 16, 8, Some(128), 128),
        (2560, 32, 8, Some(128), 128), // Qwen3-4B: 4096 of 2560
        (5120, 40, 8, Some(128), 128),
        (576, 9, 3, None, 64), // SmolLM2-135M
        (960, 15, 5, Some(64), 64),
        (64, 4, 2, Some(2), 2),
        (12, 5, 5, Some(6), 6), // hidden / heads is no whole number, and not needed
    ] {
        for family in ["llama", "qwen3"] {
            let given = given.map_or(Value::Null, |n: usize| json!(n));
            let c = read(
                family,
                &[
                    ("hidden_size", json!(hidden)),
                    ("num_attention_heads", json!(heads)),
                    ("num_key_value_heads", json!(kv)),
                    ("head_dim", given),
                ],
            )
            .unwrap();
            assert_eq!(
                (c.head_dim, c.q_dim(), c.kv_dim()),
                (meant, heads * meant, kv * meant)
            );
        }
    }
    for (hidden, heads) in [(12, 5), (100, 3), (1, 2)] {
        let changes = [
            ("hidden_size", json!(hidden)),
            ("num_attention_heads", json!(heads)),
            ("num_key_value_heads", json!(heads)),
            ("head_dim", Value::Null),
        ];
        let error = read("llama", &changes).expect_err("must be refused");
        assert!(
            matches!(&error, ConfigError::Invalid { key, .. } if key == "hidden_size"),
            "{error}"
        );
    }
    for bad in [
        json!(0),
        json!(-8),
        json!(7),
        json!(8.5),
        json!("8"),
        json!(1u64 << 40),
        json!([8]),
    ] {
        let error = read("qwen3", &[("head_dim", bad.clone())]).expect_err("must be refused");
        assert!(
            matches!(&error, ConfigError::Invalid { key, .. } if key == "head_dim"),
            "{bad}: {error}"
        );
    }
}

#[test]
fn family_04_a_width_of_its_own_reaches_the_blob() {
    for family in ["llama", "qwen3"] {
        // hidden 12 over 2 heads would be 6; the file says 8.
        let model = Model::from_bytes(&Parts::new(family, true).blob()).unwrap();
        let c = model.config();
        assert_eq!(
            (c.hidden(), c.heads(), c.kv_heads(), c.head_dim()),
            (12, 2, 1, 8)
        );
        assert_eq!(model.layers()[0].q.weight.rows(), 16);
        // Left out, the file's tensors have another shape than the configuration.
        let mut parts = Parts::new(family, true);
        parts.config.as_object_mut().unwrap().remove("head_dim");
        let error = parts.open().expect_err("must be refused");
        assert!(matches!(&error, SourceError::Shape { .. }), "{error}");
    }
}

#[test]
fn family_04_heads_and_kv_heads() {
    for (heads, kv) in [(4, 3), (2, 4), (9, 2), (16, 5), (1, 2)] {
        let changes = [
            ("num_attention_heads", json!(heads)),
            ("num_key_value_heads", json!(kv)),
        ];
        match read("llama", &changes).expect_err("must be refused") {
            ConfigError::HeadsNotMultiple { heads: h, kv_heads } => {
                assert_eq!((h, kv_heads), (heads, kv))
            }
            other => panic!("{heads} {kv}: {other}"),
        }
    }
    let absent = [("num_key_value_heads", Value::Null)];
    assert_eq!(read("llama", &absent).unwrap().kv_heads, 2);
    let error = read("qwen3", &absent).expect_err("a default of its own");
    assert!(
        matches!(&error, ConfigError::Missing { key } if key == "num_key_value_heads"),
        "{error}"
    );
    for bad in [json!(0), json!(-1), json!(1.5), json!("1")] {
        for key in ["num_attention_heads", "num_key_value_heads"] {
            let error = read("llama", &[(key, bad.clone())]).expect_err("must be refused");
            assert!(
                matches!(&error, ConfigError::Invalid { key: k, .. } if k == key),
                "{key} {bad}: {error}"
            );
        }
    }
}

#[test]
fn family_04_the_rotary_base_is_never_defaulted() {
    for family in ["llama", "qwen3"] {
        for theta in [
            json!(10000),
            json!(100000.0),
            json!(1e6),
            json!(500000),
            json!(1.5),
        ] {
            let expected = theta.as_f64().unwrap();
            let nested = json!({"rope_theta": theta, "rope_type": "default"});
            for changes in [
                vec![("rope_theta", theta.clone())],
                vec![
                    ("rope_theta", Value::Null),
                    ("rope_parameters", nested.clone()),
                ],
                vec![("rope_theta", theta.clone()), ("rope_parameters", nested)],
            ] {
                assert_eq!(read(family, &changes).unwrap().rope_theta, expected);
            }
        }
        for changes in [
            vec![("rope_theta", Value::Null)],
            vec![
                ("rope_theta", Value::Null),
                ("rope_parameters", json!({"rope_type": "default"})),
            ],
            vec![("rope_theta", Value::Null), ("rope_scaling", json!({}))],
        ] {
            let error = read(family, &changes).expect_err("must be refused");
            assert!(
                matches!(&error, ConfigError::Missing { key } if key == "rope_theta"),
                "{error}"
            );
        }
        for bad in [
            json!(0),
            json!(-1),
            json!(1),
            json!("10000"),
            json!(true),
            json!([1e4]),
        ] {
            let error = read(family, &[("rope_theta", bad.clone())]).expect_err("must be refused");
            assert!(
                matches!(&error, ConfigError::Invalid { key, .. } if key == "rope_theta"),
                "{bad}: {error}"
            );
        }
        let error = read(family, &[("rope_parameters", json!({"rope_theta": 5e5}))])
            .expect_err("two values");
        assert!(matches!(error, ConfigError::Conflict { .. }), "{error}");
        for scaling in ["linear", "dynamic", "yarn", "llama3", "longrope"] {
            for key in ["rope_scaling", "rope_parameters"] {
                let error = read(
                    family,
                    &[(key, json!({"rope_type": scaling, "factor": 2.0}))],
                )
                .expect_err("refused");
                assert!(
                    matches!(error, ConfigError::Unsupported { .. }),
                    "{scaling}: {error}"
                );
            }
        }
    }
    for name in ["qwen2", "qwen3_moe", "mistral", "gpt2", "", "Llama"] {
        let error = read("llama", &[("model_type", json!(name))]).expect_err("must be refused");
        assert!(
            matches!(&error, ConfigError::UnsupportedFamily { found } if found == name),
            "{error}"
        );
    }
}
