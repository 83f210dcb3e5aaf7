//! The rules of the precompiles twice: the crate `precompile` and the program of `spec/6`, which shares nothing with it.

#[path = "common/chain_walk.rs"]
mod chain_walk;
#[path = "common/random_blob.rs"]
mod random_blob;

use chain_walk::{Step, Walk};
use precompile::memory::ModelSet;
use precompile::word::of_u64;
use precompile::{Outcome, Refusal, Sizes, Target, gas};
use random_blob::Rng;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs the specification. Python 3 is a requirement of this suite: without it the tests fail.
fn run_spec(args: &[&str]) -> String {
    let out = Command::new("python3")
        .arg(root().join("tests/spec/run.py"))
        .args(args)
        .output()
        .expect("python3 is required to run the specification");
    let errors = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "run.py {args:?}: {errors}");
    String::from_utf8(out.stdout).expect("UTF-8")
}

/// The answers of one process to many lines.
fn answers(lines: &[Value]) -> Vec<Value> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(file.path(), text).expect("written");
    let out = run_spec(&["precompile", file.path().to_str().expect("UTF-8")]);
    let parse = |line: &str| serde_json::from_str(line).expect("JSON");
    out.lines().map(parse).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

#[test]
fn the_known_calls_are_those_of_the_pages() {
    let set = root().join(kat::set::CURRENT);
    let count = |name: &str| {
        let path = set.join(format!("precompile/{name}.json"));
        kat::precompiles::parse(&fs::read(path).expect(name))
            .expect(name)
            .len()
    };
    let calls: usize = ["registry", "fail-registry", "inference", "fail-inference"]
        .map(count)
        .iter()
        .sum();
    let found = run_spec(&["calls", set.to_str().expect("UTF-8")]);
    assert_eq!(found.trim(), format!("{calls} calls"));
}

/// What the specification should answer to a step.
fn expected(step: &Step) -> Value {
    let (kind, data) = match &step.outcome {
        Outcome::Return { output, .. } => ("return", hex(output)),
        Outcome::Revert { .. } => ("revert", hex(&step.outcome.data())),
        Outcome::Halt { refusal } => ("halt", refusal.name().to_owned()),
    };
    let storage: serde_json::Map<String, Value> = step
        .changes
        .iter()
        .map(|(key, word)| (hex(key), hex(word).into()))
        .collect();
    let logs: Vec<Value> = step
        .logs
        .iter()
        .map(|(topics, data)| {
            let topics: Vec<String> = topics.iter().map(|t| hex(t)).collect();
            json!([topics, hex(data)])
        })
        .collect();
    let gas = step.outcome.gas_used(step.gas).to_string();
    json!({"kind": kind, "gas": gas, "data": data, "storage": storage, "logs": logs})
}

/// A step as a line.
fn line(step: &Step) -> Value {
    let to = match step.to {
        Target::Registry => "REGISTRY",
        Target::Inference => "INFERENCE",
    };
    json!({"block": step.block, "call": {
        "to": to, "data": hex(&step.data), "gas": step.gas.to_string(), "caller": hex(&step.caller),
        "value": u64::from(step.value_sent), "static": step.is_static, "direct": step.direct,
    }})
}

#[test]
fn random_sequences_of_calls() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut models = ModelSet::default();
    let blobs = chain_walk::blobs(&mut models);
    let mut paths = serde_json::Map::new();
    for blob in &blobs {
        let path = folder.path().join(hex(&blob.commitment[..8]));
        fs::write(&path, &blob.bytes).expect("written");
        paths.insert(hex(&blob.commitment), path.to_str().expect("UTF-8").into());
    }
    let mut lines = vec![json!({"models": paths})];
    let (mut steps, mut sequences) = (Vec::new(), Vec::new());
    for seed in 0..300 {
        let mut walk = Walk::new(seed, &blobs, &models);
        let storage = walk.chain.storage.iter();
        let storage: serde_json::Map<String, Value> =
            storage.map(|(k, w)| (hex(k), hex(w).into())).collect();
        lines.push(json!({"state": storage, "block": walk.chain.block}));
        for _ in 0..12 {
            let step = walk.step();
            lines.push(line(&step));
            steps.push(step);
            sequences.push(seed);
        }
    }
    let found = answers(&lines);
    assert_eq!(found.len(), steps.len());
    for ((step, seed), found) in steps.iter().zip(sequences).zip(&found) {
        assert_eq!(*found, expected(step), "sequence {seed}: {}", line(step));
    }
    covers(&steps);
}

/// The sequences are worth comparing: every function returns, most refusals occur, actions pass and rounds expire.
fn covers(steps: &[Step]) {
    let returned: BTreeSet<(u8, [u8; 4])> = steps
        .iter()
        .filter(|s| matches!(s.outcome, Outcome::Return { .. }))
        .filter_map(|s| Some((s.to.address()[19], *s.data.first_chunk()?)))
        .collect();
    for f in precompile::registry::Function::ALL {
        assert!(returned.contains(&(2, f.selector())), "{f:?}");
    }
    for f in precompile::infer::Function::ALL {
        assert!(returned.contains(&(3, f.selector())), "{f:?}");
    }
    let refused: BTreeSet<Refusal> = steps.iter().filter_map(|s| s.outcome.refusal()).collect();
    let missing: Vec<_> = Refusal::ALL
        .iter()
        .filter(|r| !refused.contains(r))
        .collect();
    assert!(missing.len() <= 3, "never refused: {missing:?}");
    let events: BTreeSet<[u8; 32]> = steps
        .iter()
        .flat_map(|s| &s.logs)
        .map(|(topics, _)| topics[0])
        .collect();
    assert_eq!(events.len(), 6, "kinds of events");
    let truth = |data: &[u8], n| data.len() == 32 && data == of_u64(n);
    let verify = precompile::infer::Function::Verify.selector();
    for claim in [0, 1] {
        let is = |s: &&Step| s.data.starts_with(&verify) && truth(&s.outcome.data(), claim);
        assert!(steps.iter().any(|s| is(&s)), "a claim that is {claim}");
    }
}

/// A number of any size up to `high`: its length in bits is drawn first.
fn any(rng: &mut Rng, high: u64) -> u32 {
    let bits = rng.range(0, 64 - i64::from(high.leading_zeros()));
    let below = (rng.word() & ((1u64 << bits) - 1)).min(high);
    u32::try_from(below).expect("32 bits")
}

#[test]
fn prices_of_random_models() {
    let mut rng = Rng(77);
    let (mut lines, mut wanted) = (Vec::new(), Vec::new());
    let mut cheapest = u64::MAX;
    for i in 0..4000u32 {
        let mut size = |high| any(&mut rng, high).max(1);
        let sizes = Sizes {
            hidden: size(8192),
            layers: size(256),
            heads: size(256),
            kv_heads: size(256),
            head_dim: size(256),
            intermediate: size(65536),
            vocab: size(1 << 20),
            accepted_ids: 1,
            max_context: size(32768),
            is_static: i % 2 == 0,
        };
        let most = u64::from(u32::MAX);
        let ends = [0, 1, 2, u32::MAX - 1, u32::MAX];
        let mut count = || match rng.word() % 4 {
            0 => rng.pick(&ends),
            _ => any(&mut rng, most),
        };
        let (n, k) = (count(), count());
        let (signature, tokens, price) = match i % 3 {
            0 => (
                "gasOfGenerate(bytes32,bytes32,uint32,uint32)",
                vec![n, k],
                gas::of_generate(&sizes, n.into(), k),
            ),
            1 => (
                "gasOfVerify(bytes32,bytes32,uint32,uint32)",
                vec![n, k],
                gas::of_verify(&sizes, n.into(), k.into()),
            ),
            _ => (
                "gasOfLogitsDigest(bytes32,bytes32,uint32)",
                vec![n],
                gas::of_logits_digest(&sizes, n.into()),
            ),
        };
        lines.push(json!({"price": signature, "tokens": tokens, "sizes": {
            "hidden": sizes.hidden, "layers": sizes.layers, "heads": sizes.heads, "kv_heads": sizes.kv_heads,
            "head_dim": sizes.head_dim, "intermediate": sizes.intermediate, "vocab": sizes.vocab,
            "accepted_ids": sizes.accepted_ids, "max_context": sizes.max_context,
            "scheme": if sizes.is_static { 2 } else { 1 },
        }}));
        wanted.push(hex(&of_u64(price)));
        cheapest = cheapest.min(price);
    }
    let capped = hex(&of_u64(u64::MAX));
    assert!(wanted.contains(&capped) && wanted.iter().any(|w| *w != capped));
    assert!(cheapest < 50_000, "{cheapest}");
    for ((line, wanted), found) in lines.iter().zip(wanted).zip(answers(&lines)) {
        assert_eq!(found, wanted, "{line}");
    }
}
