//! The committed seed inputs of the fuzz targets, small and valid where the format has such a thing.

#[path = "../../../tests/suite/common/random_blob.rs"]
mod random_blob;

use crate::child;
use anyhow::Result;
use quant_core::Format;
use quant_core::gguf::{Array, GgufBuilder, Value};
use random_blob::{Rng, Shape, Style, build};
use serde_json::{Value as Json, json};
use std::fs;

pub(super) fn write(target: &str, name: &str, parts: &[&[u8]]) -> Result<()> {
    let folder = child::root().join("fuzz/seeds").join(target);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(name), parts.concat())?)
}

fn blobs() -> Result<()> {
    let small = Shape::small();
    let one = Shape {
        hidden: 1,
        heads: 1,
        head_dim: 2,
        intermediate: 1,
        vocab: 1,
        accepted: 1,
        ..small.clone()
    };
    let full = Shape {
        qk_norm: true,
        tied: false,
        stop_ids: vec![1, 5],
        ..small.clone()
    };
    let constant = Shape {
        static_scheme: true,
        ..small.clone()
    };
    for (name, shape) in [
        ("ones", one),
        ("small", small),
        ("untied_qk_norm", full),
        ("static", constant),
    ] {
        write(
            "blob",
            name,
            &[&[0], &build(&shape, Style::Plausible, 1).bytes],
        )?;
    }
    for n in 0..12u8 {
        let recipe: Vec<u8> = std::iter::once(1 + n)
            .chain((0..40).map(|i| n.wrapping_mul(31).wrapping_add(7u8.wrapping_mul(i))))
            .collect();
        write("blob", &format!("recipe_{n}"), &[&recipe])?;
    }
    Ok(())
}

/// A safetensors file of these tensors: name, type, shape, bytes.
fn safetensors(tensors: &[(&str, &str, Vec<usize>, usize)], fill: u8) -> Vec<u8> {
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), json!({"format": "pt"}));
    let mut at = 0;
    for (name, dtype, shape, size) in tensors {
        let end = at + shape.iter().product::<usize>() * size;
        header.insert(
            (*name).into(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": [at, end]}),
        );
        at = end;
    }
    let header = Json::Object(header).to_string().into_bytes();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend(header);
    file.extend((0..at).map(|i| fill ^ (i as u8 & 15)));
    file
}

fn checkpoints() -> Result<()> {
    let three = [
        ("a", "F32", vec![2, 3], 4),
        ("b", "BF16", vec![4], 2),
        ("c", "F16", vec![], 2),
    ];
    write("safetensors", "three", &[&[0], &safetensors(&three, 0)])?;
    let others = [
        ("i", "I64", vec![1], 8),
        ("e", "U8", vec![0, 7], 1),
        ("f", "F8_E4M3", vec![3], 1),
    ];
    write(
        "safetensors",
        "other_types",
        &[&[0], &safetensors(&others, 1)],
    )?;
    write("safetensors", "empty", &[&[0], &safetensors(&[], 0)])?;
    for (name, qk_norm, tied) in [("llama", false, true), ("qwen3", true, false)] {
        let (n, heads, kv, hd, ff, vocab) = (4, 2, 1, 2, 3, 5);
        let layer = |part: &str| format!("model.layers.0.{part}.weight");
        let mut tensors = vec![
            ("model.embed_tokens.weight".to_owned(), vec![vocab, n]),
            ("model.norm.weight".to_owned(), vec![n]),
            (layer("input_layernorm"), vec![n]),
            (layer("post_attention_layernorm"), vec![n]),
            (layer("self_attn.q_proj"), vec![heads * hd, n]),
            (layer("self_attn.k_proj"), vec![kv * hd, n]),
            (layer("self_attn.v_proj"), vec![kv * hd, n]),
            (layer("self_attn.o_proj"), vec![n, heads * hd]),
            (layer("mlp.gate_proj"), vec![ff, n]),
            (layer("mlp.up_proj"), vec![ff, n]),
            (layer("mlp.down_proj"), vec![n, ff]),
        ];
        if qk_norm {
            tensors.push((layer("self_attn.q_norm"), vec![hd]));
            tensors.push((layer("self_attn.k_norm"), vec![hd]));
        }
        if !tied {
            tensors.push(("lm_head.weight".to_owned(), vec![vocab, n]));
        }
        let tensors: Vec<_> = tensors
            .iter()
            .map(|(name, shape)| (name.as_str(), "BF16", shape.clone(), 2))
            .collect();
        let config = json!({
            "architectures": [if qk_norm { "Qwen3ForCausalLM" } else { "LlamaForCausalLM" }],
            "model_type": name, "hidden_size": n, "num_hidden_layers": 1, "num_attention_heads": heads,
            "num_key_value_heads": kv, "head_dim": hd, "intermediate_size": ff, "vocab_size": vocab,
            "max_position_embeddings": 16, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
            "tie_word_embeddings": tied, "attention_bias": false, "mlp_bias": false,
        });
        let config = config.to_string().into_bytes();
        let weights = safetensors(&tensors, 0x3c);
        write(
            "safetensors",
            name,
            &[
                &[1],
                &(config.len() as u16).to_le_bytes(),
                &config,
                &weights,
            ],
        )?;
    }
    Ok(())
}

fn ggufs() -> Result<()> {
    let mut all = GgufBuilder::new();
    let scalars = [
        Value::U8(1),
        Value::I8(-1),
        Value::U16(2),
        Value::I16(-2),
        Value::U32(3),
        Value::I32(-3),
        Value::F32(1.5),
        Value::U64(4),
        Value::I64(-4),
        Value::F64(f64::NAN),
        Value::Bool(true),
        Value::String("größe".into()),
    ];
    for (i, value) in scalars.into_iter().enumerate() {
        all.metadata(format!("v{i}"), value);
    }
    let nested = Array::Array(vec![
        Array::Array(vec![Array::U8(vec![1, 2])]),
        Array::Bool(vec![true, false]),
    ]);
    for (i, array) in [
        nested,
        Array::String(vec!["a".into(), String::new()]),
        Array::F64(vec![0.5]),
    ]
    .into_iter()
    .enumerate()
    {
        all.metadata(format!("a{i}"), Value::Array(array));
    }
    all.metadata("general.alignment", Value::U32(64));
    let mut rng = Rng(7);
    for &format in Format::ALL {
        let size = format.size_in_bytes(2, format.block_len() as u64)? as usize;
        let data: Vec<u8> = (0..size).map(|_| rng.word() as u8).collect();
        all.tensor(
            format!("t.{}", format.name()),
            format,
            [2, format.block_len() as u64],
            data,
        );
    }
    write("gguf", "all", &[&all.to_bytes()?])?;
    let mut small = GgufBuilder::new();
    small.metadata("general.architecture", Value::String("llama".into()));
    small.tensor(
        "output.weight",
        Format::F16,
        [1, 2],
        [0, 0x3c, 1, 0].as_slice(),
    );
    let small = small.to_bytes()?;
    write("gguf", "small", &[&small])?;
    let mut version_2 = small;
    version_2[4] = 2;
    write("gguf", "version_2", &[&version_2])?;
    write("gguf", "empty", &[&GgufBuilder::new().to_bytes()?])?;
    Ok(())
}

fn tokenizers() -> Result<()> {
    let byte_level = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let file = json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [{"id": 5, "content": "<|im_end|>", "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": true}],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": "\\p{N}| ?\\p{L}+"}, "behavior": "Isolated", "invert": false},
            {"type": "Digits", "individual_digits": true}, byte_level]},
        "post_processor": null,
        "decoder": byte_level,
        "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false, "ignore_merges": false,
            "vocab": {"a": 0, "b": 1, "ab": 2, "Ġ": 3, "Ġa": 4}, "merges": [["a", "b"], ["Ġ", "a"]]},
    });
    write("tokenizer", "json", &[&[0], file.to_string().as_bytes()])?;
    let mut gguf = GgufBuilder::new();
    let strings =
        |v: &[&str]| Value::Array(Array::String(v.iter().map(|s| String::from(*s)).collect()));
    gguf.metadata("tokenizer.ggml.model", Value::String("gpt2".into()));
    gguf.metadata("tokenizer.ggml.pre", Value::String("smollm".into()));
    gguf.metadata(
        "tokenizer.ggml.tokens",
        strings(&["a", "b", "ab", "<s>", "Ġ"]),
    );
    gguf.metadata(
        "tokenizer.ggml.token_type",
        Value::Array(Array::I32(vec![1, 1, 1, 3, 1])),
    );
    gguf.metadata("tokenizer.ggml.merges", strings(&["a b"]));
    write("tokenizer", "gguf", &[&[1], &gguf.to_bytes()?])?;
    let mut rng = Rng(3);
    for n in 0..6 {
        let parts: Vec<u8> = (0..120)
            .map(|_| b"\x01 abeh\xff\x03"[rng.range(0, 7) as usize])
            .collect();
        write("tokenizer", &format!("parts_{n}"), &[&[2], &parts])?;
    }
    let templates = [
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}",
        "{{ bos_token }}{%- set ns = namespace(n=0) -%}{% for m in messages if m['role'] == 'user' %}{{ m.content | trim | tojson }}{% set ns.n = ns.n + loop.index0 %}{% endfor %}{{ ns.n }}",
        "{% macro f(x, y=1) %}{{ x[1:] ~ y }}{% endmacro %}{{ f('abc'.split('b')[0]) }}{% if enable_thinking is defined and not enable_thinking %}<think></think>{% else %}{{ raise_exception('no') }}{% endif %}{{ range(3) | list | join(',') }}",
        "{% if messages[-1].content.split('</think>')[-1].lstrip('\\n') %}{{ messages | length }}{% endif %}{{ eos_token }}",
    ];
    for (n, template) in templates.iter().enumerate() {
        write(
            "tokenizer",
            &format!("template_{n}"),
            &[&[3], template.as_bytes()],
        )?;
    }
    Ok(())
}

fn differential() -> Result<()> {
    let mut rng = Rng(11);
    for n in 0..24 {
        let input: Vec<u8> = (0..60 + n).map(|_| rng.word() as u8).collect();
        write("differential", &format!("random_{n}"), &[&input])?;
    }
    Ok(())
}

/// Operations of known answers: name, arguments, results.
fn operations() -> Vec<(&'static str, Json, Json)> {
    let digest = "00".repeat(32);
    let fill = |value: i64, count: u64| json!({"fill": {"value": value, "count": count}});
    vec![
        (
            "isqrt",
            json!({"n": [0, 1, 24, 25, 4611686018427387903u64.to_string()]}),
            json!([0, 1, 4, 5, 2147483647]),
        ),
        (
            "rdbpot",
            json!({"x": [5, -5, 6], "e": 1}),
            json!([3, -3, 3]),
        ),
        (
            "srdhm",
            json!({"a": [1073741824, -3], "b": [2, 1073741824]}),
            json!([1, -1]),
        ),
        (
            "norm_scale",
            json!({"m": [0, 1, 2147483647]}),
            json!({"t": [0, 1073741824, 2147483647], "e": [0, -1, -31]}),
        ),
        (
            "quantize",
            json!({"u": [5, -9, 0], "m": 4}),
            json!([127, -127, 0]),
        ),
        (
            "dynq",
            json!({"u": {"splitmix64": {"seed": 1, "count": 9, "low": -100, "high": 100}}}),
            json!({"q": fill(0, 9), "m": 100}),
        ),
        (
            "rms",
            json!({"x": [3, 4], "eps": 0}),
            json!({"r": 1342177280, "e": 28}),
        ),
        (
            "ratio",
            json!({"m": [1], "r": [1073741824], "e": [0]}),
            json!({"t": [1073741824], "e": [30]}),
        ),
        (
            "requantize",
            json!({"acc": [3, -3], "psh": 0, "scale": [1073741824, -1], "mult": [1073741824, 2147483647], "shift": [0, 1], "limit": 32767}),
            json!([2, -1]),
        ),
        (
            "rope_angle",
            json!({"phase": "4611686018427387904", "position": [0, 1]}),
            json!({"cos": [16384, 0], "sin": [0, 16384]}),
        ),
        (
            "rope",
            json!({"x": [1, 2], "cos_sin": [16384, 0]}),
            json!([1, 2]),
        ),
        (
            "had_block",
            json!({"n": [1, 12, 80, 576]}),
            json!([1, 12, 80, 576]),
        ),
        ("pow2_block", json!({"n": [1, 12]}), json!([1, 4])),
        (
            "had_forward",
            json!({"x": [1, 2, 3, 4], "B": 4}),
            json!([10, -2, -4, 0]),
        ),
        (
            "had_transpose",
            json!({"x": [1, 2], "B": 2}),
            json!([3, -1]),
        ),
        (
            "head_norm",
            json!({"x": [1, -2], "gain": [1073709056, 0]}),
            json!([0, 0]),
        ),
        (
            "swiglu",
            json!({"g": [4096, -4096], "u": [1, 1]}),
            json!([2994, -1102]),
        ),
        (
            "exp2_weight",
            json!({"d": [0, 256, 7936]}),
            json!([32768, 16384, 0]),
        ),
        (
            "attend",
            json!({"q8": [1, 2], "mq": 5, "k8": [1, 2, 3, 4], "mk": [1, 2], "v8": [1, 2, 3, 4], "mv": [3, 4], "score_mult": 1073741824, "score_shift": 30}),
            json!([0, 0]),
        ),
        (
            "linear",
            json!({"weight": [1, 2, 3, 4], "psh": -5, "mult": [1073741824, 1073741824], "shift": [0, 0], "q": [1, -1], "scale": null, "limit": 32767}),
            json!([-16, -16]),
        ),
        (
            "add_residual",
            json!({"x": [1, 2147483647], "y": [2, 1]}),
            json!([3, 2147483647]),
        ),
        (
            "norm",
            json!({"x": [1, 2, 3], "eps": 1}),
            json!({"q": [42, 85, 127], "t": 1, "e": 0}),
        ),
        (
            "norm_static",
            json!({"x": [1, 2, 3], "eps": 1, "c": 100}),
            json!({"q": [1, 2, 3], "t": 1, "e": 0}),
        ),
        (
            "argmax",
            json!({"values": [1, 5, 5, 9], "accepted_ids": 3}),
            json!(1),
        ),
        ("keccak256", json!({"data": [1, 2, 255]}), json!(digest)),
        ("commitment", json!({"blob": fill(7, 1100)}), json!(digest)),
        (
            "prove_chunk",
            json!({"blob": fill(7, 1100), "index": 0}),
            json!([digest]),
        ),
        (
            "verify_chunk",
            json!({"commitment": digest, "total_len": 1100, "index": 0, "chunk": fill(7, 76), "proof": [digest]}),
            json!(0),
        ),
        (
            "toy_gemm",
            json!({"weight": [1, 2], "x": [3, 4], "shift": 1}),
            json!([6]),
        ),
        (
            "toy_norm",
            json!({"x": [1, 2], "w": [3, 4], "mult": 5, "eps": 6}),
            json!([0, 0]),
        ),
        (
            "toy_attend",
            json!({"q": [1], "k": [1], "v": [1]}),
            json!([1]),
        ),
        ("toy_swiglu", json!({"gate": [1], "up": [2]}), json!([0])),
    ]
}

fn vectors() -> Result<()> {
    for (op, input, out) in operations() {
        let case = json!({"name": "a", "in": input, "out": out});
        let file = json!({"schema": "blue-kat-1", "spec_version": 1, "level": "op", "op": op, "cases": [case]});
        write(
            "vectors",
            &format!("op_{op}"),
            &[&[0], file.to_string().as_bytes()],
        )?;
    }
    let digest = "ab".repeat(32);
    let index = json!({"schema": "blue-kat-1", "spec_version": 1, "level": "index", "files": [
        {"file": "ops/rdbpot.json", "level": "op", "cases": 1, "bytes": 100, "keccak256": digest}]});
    write("vectors", "index", &[&[0], index.to_string().as_bytes()])?;
    let calls = json!([{"Input": "00", "ExpectedError": "OutOfGas", "Name": "short"}, {"Input": "", "Expected": "", "Name": "none", "Gas": 1}]);
    write("vectors", "calls", &[&[1], calls.to_string().as_bytes()])?;
    let header = json!({"schema": "blue-trace-1", "commitment": digest, "prompt": [1, 2], "target": "scalar", "machine": "m"});
    let entries = [
        json!({"position": 0, "layer": null, "op": "embed", "count": 3, "digest": digest}),
        json!({"position": 0, "layer": 0, "op": "attn_norm", "count": 1, "digest": digest}),
        json!({"position": 1, "layer": null, "op": "logits", "count": "3", "digest": digest}),
    ];
    let lines: Vec<String> = std::iter::once(&header)
        .chain(&entries)
        .map(Json::to_string)
        .collect();
    write("vectors", "trace", &[&[2], lines.join("\n").as_bytes()])
}

/// Writes every seed into `fuzz/seeds`; the same bytes every time.
pub(crate) fn write_all() -> Result<()> {
    blobs()?;
    checkpoints()?;
    ggufs()?;
    tokenizers()?;
    vectors()?;
    super::calls::write_seeds()?;
    differential()
}
