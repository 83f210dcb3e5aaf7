//! What `config.json` may and may not say.

use super::*;

fn base() -> Value {
    json!({
        "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "intermediate_size": 96, "vocab_size": 100, "max_position_embeddings": 128,
        "rope_theta": 10000.0, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "hidden_act": "silu",
    })
}

fn read(v: &Value) -> Result<ModelConfig, ConfigError> {
    ModelConfig::from_hf_json(v.to_string().as_bytes(), None)
}

fn with(key: &str, value: Value) -> Result<ModelConfig, ConfigError> {
    let mut v = base();
    v[key] = value;
    read(&v)
}

fn without(key: &str) -> Result<ModelConfig, ConfigError> {
    let mut v = base();
    v.as_object_mut().unwrap().remove(key);
    read(&v)
}

#[test]
fn head_dim_defaults_to_hidden_over_heads_and_is_honoured_when_present() {
    assert_eq!(read(&base()).unwrap().head_dim, 16);
    assert_eq!(with("head_dim", json!(128)).unwrap().head_dim, 128);
    assert!(
        matches!(with("head_dim", json!(15)), Err(ConfigError::Invalid { key, .. }) if key == "head_dim")
    );
    let mut v = base();
    v["hidden_size"] = json!(66);
    assert!(matches!(read(&v), Err(ConfigError::Invalid { key, .. }) if key == "hidden_size"));
}

#[test]
fn every_required_key_is_required() {
    for key in base().as_object().unwrap().keys() {
        if key == "num_key_value_heads" {
            assert_eq!(without(key).unwrap().kv_heads, 4);
            continue;
        }
        assert!(
            matches!(without(key), Err(ConfigError::Missing { key: k }) if &k == key),
            "{key}"
        );
    }
    let mut v = base();
    v["model_type"] = json!("qwen3");
    v.as_object_mut().unwrap().remove("num_key_value_heads");
    assert!(matches!(read(&v), Err(ConfigError::Missing { key }) if key == "num_key_value_heads"));
}

#[test]
fn rope_theta_from_either_layout_but_never_two_values() {
    let mut v = base();
    v.as_object_mut().unwrap().remove("rope_theta");
    v["rope_parameters"] = json!({"rope_theta": 5e5, "rope_type": "default"});
    assert_eq!(read(&v).unwrap().rope_theta, 5e5);
    v["rope_theta"] = json!(5e5);
    assert_eq!(read(&v).unwrap().rope_theta, 5e5);
    v["rope_theta"] = json!(1e4);
    assert!(matches!(read(&v), Err(ConfigError::Conflict { .. })));
    assert!(with("rope_scaling", json!({"type": "default"})).is_ok());
}

#[test]
fn what_is_not_implemented_is_refused_by_name() {
    let cases = [
        (
            "rope_scaling",
            json!({"rope_type": "llama3", "factor": 8.0}),
        ),
        ("rope_scaling", json!({"type": "linear", "factor": 2.0})),
        ("rope_scaling", json!({"factor": 2.0})),
        (
            "rope_parameters",
            json!({"rope_type": "yarn", "rope_theta": 1e4}),
        ),
        (
            "rope_parameters",
            json!({"full_attention": {"rope_theta": 1e4}}),
        ),
        ("attention_bias", json!(true)),
        ("mlp_bias", json!(true)),
        ("hidden_act", json!("gelu")),
        ("sliding_window", json!(4096)),
        ("use_sliding_window", json!(true)),
        (
            "layer_types",
            json!(["full_attention", "sliding_attention"]),
        ),
        ("quantization_config", json!({"bits": 4})),
        ("num_experts", json!(8)),
    ];
    for (key, value) in cases {
        let e = with(key, value.clone()).unwrap_err();
        assert!(
            matches!(&e, ConfigError::Unsupported { key: k, .. } if k.starts_with(key)),
            "{key} {value}: {e}"
        );
    }
    assert!(matches!(
        with("model_type", json!("mixtral")),
        Err(ConfigError::UnsupportedFamily { .. })
    ));
    let mut qwen = base();
    qwen["model_type"] = json!("qwen3");
    qwen["use_sliding_window"] = json!(false);
    qwen["sliding_window"] = json!(4096);
    assert!(read(&qwen).unwrap().qk_norm);
}

#[test]
fn bad_numbers_are_refused() {
    for bad in [
        json!(0),
        json!(-1),
        json!(1.5),
        json!(1u64 << 62),
        json!("64"),
        json!([64]),
    ] {
        assert!(
            matches!(
                with("hidden_size", bad.clone()),
                Err(ConfigError::Invalid { .. })
            ),
            "{bad}"
        );
    }
    assert!(matches!(
        with("num_key_value_heads", json!(3)),
        Err(ConfigError::HeadsNotMultiple {
            heads: 4,
            kv_heads: 3
        })
    ));
    assert!(matches!(
        with("rope_theta", json!(-1.0)),
        Err(ConfigError::Invalid { .. })
    ));
    assert!(matches!(
        with("rms_norm_eps", json!(0.0)),
        Err(ConfigError::Invalid { .. })
    ));
    assert!(matches!(
        ModelConfig::from_hf_json(b"[1]", None),
        Err(ConfigError::Json { .. })
    ));
    assert!(matches!(
        ModelConfig::from_hf_json(b"{", None),
        Err(ConfigError::Json { .. })
    ));
}

#[test]
fn eos_ids_are_merged_with_the_generation_config() {
    let mut v = base();
    v["eos_token_id"] = json!(7);
    let read = |v: &Value, g: &str| {
        ModelConfig::from_hf_json(v.to_string().as_bytes(), Some(g.as_bytes()))
    };
    assert_eq!(
        read(&v, r#"{"eos_token_id": [7, 9]}"#).unwrap().eos_ids,
        [7, 9]
    );
    assert_eq!(read(&v, r#"{"eos_token_id": 3}"#).unwrap().eos_ids, [7, 3]);
    assert_eq!(read(&v, "{}").unwrap().eos_ids, [7]);
    for bad in [
        "100",
        "-1",
        "1.5",
        "4294967296",
        "9007199254740992",
        "\"7\"",
    ] {
        assert!(
            read(&v, &format!("{{\"eos_token_id\": {bad}}}")).is_err(),
            "{bad}"
        );
    }
}

#[test]
fn written_config_reads_back_equal() {
    let mut c = read(&base()).unwrap();
    for family in [Family::Llama, Family::Qwen3] {
        (c.family, c.qk_norm) = (family, family == Family::Qwen3);
        for (layout, eos) in [
            (ConfigLayout::V4, vec![]),
            (ConfigLayout::V5, vec![5]),
            (ConfigLayout::V4, vec![1, 2]),
        ] {
            c.eos_ids = eos;
            let text = c.to_hf_json(layout, "float32");
            assert_eq!(ModelConfig::from_hf_json(text.as_bytes(), None).unwrap(), c);
        }
    }
}

#[test]
fn a_key_given_twice_is_refused() {
    let text = base().to_string();
    let twice = text.replacen('{', r#"{"vocab_size": 100, "#, 1);
    match ModelConfig::from_hf_json(twice.as_bytes(), None) {
        Err(ConfigError::Json { file, detail }) => {
            assert_eq!(file, "config.json");
            assert!(detail.contains("`vocab_size`"), "{detail}");
        }
        other => panic!("{other:?}"),
    }
    let generation = br#"{"eos_token_id": 1, "eos_token_id": 2}"#;
    assert!(matches!(
        ModelConfig::from_hf_json(text.as_bytes(), Some(generation)),
        Err(ConfigError::Json {
            file: "generation_config.json",
            ..
        })
    ));
}
