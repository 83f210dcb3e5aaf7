//! A model that a running chain adopts: fetched from a server, ready before its activation, answered; and a node that cannot
//! have it stops rather than forks.

mod common;
#[path = "../../int-engine/tests/sample/mod.rs"]
mod sample;

use std::io::Read;
use std::path::Path;
use std::time::{Duration, Instant};

use alloy_primitives::hex::encode_prefixed as hex;
use common::running::{Running, ask, bytes};
use common::{blue, json_of, text_of};
use int_engine::config::{Config, Dims};
use precompile::registry::Function;
use precompile::{INFERENCE, REGISTRY, calldata};
use serde_json::{Value, json};

/// Status and body.
fn get(url: &str) -> (u16, String) {
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .build()
        .into();
    let answer = agent.get(url).call().unwrap();
    let status = answer.status().as_u16();
    (status, answer.into_body().read_to_string().unwrap())
}

const NAME: [u8; 32] = [9; 32];

/// A chain, and a model that it does not know.
struct Story {
    devnet: Running,
    url: String,
    admin: String,
    commitment: String,
    propose: Vec<u8>,
}

impl Story {
    fn new(blob: &Path, more: &[&str]) -> Self {
        let file = blob.to_str().unwrap();
        let name = hex(NAME);
        let planned = json_of(&mut blue([
            "chain",
            "propose",
            file,
            "--model-version",
            "1",
            "--name",
            &name,
            "--json",
        ]));
        let fixed = ["--metrics", "127.0.0.1:0", "--backend", "scalar"];
        let devnet = Running::devnet(&[&fixed[..], more].concat());
        Self {
            url: devnet.text("url"),
            admin: devnet.first["accounts"][0]["address"]
                .as_str()
                .unwrap()
                .into(),
            commitment: planned["commitment"].as_str().unwrap().into(),
            propose: bytes(&planned["propose"]["data"]),
            devnet,
        }
    }

    fn send(&self, to: [u8; 20], data: &[u8]) -> Result<Value, Value> {
        let tx = json!({"from": self.admin, "to": hex(to), "data": hex(data), "gas": "0xf00000"});
        let hash = ask(&self.url, "eth_sendTransaction", json!([tx]))?;
        ask(&self.url, "eth_getTransactionReceipt", json!([hash]))
    }

    fn must(&self, to: [u8; 20], data: &[u8]) {
        let receipt = self.send(to, data).unwrap();
        assert_eq!(receipt["status"], "0x1", "{receipt}");
    }

    /// What `/ready` says of the model.
    fn ready(&self) -> (u16, Value) {
        let (status, text) = get(&self.devnet.text("metrics").replace("/metrics", "/ready"));
        let all: Value = serde_json::from_str(&text).unwrap();
        let models = all["models"].as_array().unwrap();
        let found = models.iter().find(|m| m["commitment"] == *self.commitment);
        (status, found.cloned().unwrap_or_default())
    }

    fn until(&self, what: &str, done: impl Fn(u16, &Value) -> bool) {
        let begun = Instant::now();
        loop {
            let (status, model) = self.ready();
            if done(status, &model) {
                return;
            }
            assert!(begun.elapsed().as_secs() < 60, "{what}: {status} {model}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn activate(&self) {
        let data = calldata::of_version(Function::Activate, &NAME, 1);
        self.must(REGISTRY, &data);
    }

    fn question(&self) -> Vec<u8> {
        calldata::generate(&NAME, &[0; 32], &[1, 2, 3], 6)
    }
}

/// A blob file of a small random model.
fn blob(folder: &Path) -> std::path::PathBuf {
    let dims = Dims {
        scheme: Default::default(),
        hidden: 64,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        intermediate: 96,
        vocab: 100,
        accepted_ids: 100,
        max_context: 32,
        qk_norm: true,
        tied: true,
        eps: 1,
        stop_ids: vec![],
    };
    let path = folder.join("second.blob");
    std::fs::write(&path, sample::sample(&Config::new(dims).unwrap(), 5)).unwrap();
    path
}

#[test]
fn a_model_that_is_adopted_comes_from_elsewhere_and_answers() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let blob = blob(folder.path());
    let (file, theirs, ours) = (blob.to_str().unwrap(), path("theirs"), path("ours"));
    text_of(&mut blue(["blob", "import", file, "--store", &theirs]));
    let server = Running::start(&[
        "blob",
        "serve",
        "--store",
        &theirs,
        "--listen",
        "127.0.0.1:0",
        "--json",
    ]);
    let from = server.text("address");
    let story = Story::new(
        &blob,
        &[
            "--store",
            &ours,
            "--from",
            &from,
            "--delay",
            "3",
            "--selftest",
        ],
    );
    story.must(REGISTRY, &story.propose);
    story.until("ready", |_, model| model["ready"] == true);
    let digits = story.commitment.trim_start_matches("0x");
    let fetched = std::fs::read(folder.path().join("ours").join(format!("{digits}.blob")));
    assert_eq!(fetched.unwrap(), std::fs::read(&blob).unwrap());
    // Not active yet: the registry says so, whatever is in memory.
    let question = json!([{"to": hex(INFERENCE), "data": hex(story.question())}, "latest"]);
    let refused = ask(&story.url, "eth_call", question.clone()).unwrap_err();
    assert_eq!(refused["code"], 3, "{refused}");
    for _ in 0..3 {
        ask(&story.url, "evm_mine", json!([])).unwrap();
    }
    story.activate();
    let output = bytes(&ask(&story.url, "eth_call", question).unwrap());
    let (tokens, _) = calldata::generated(&output).unwrap();
    let expected = json_of(&mut blue([
        "generate",
        file,
        "--tokens",
        "1,2,3",
        "--max-new",
        "6",
        "--backend",
        "reference",
        "--json",
    ]));
    assert_eq!(json!(tokens), expected["output_ids"]);
    story.must(INFERENCE, &story.question());
    let (status, model) = story.ready();
    assert_eq!((status, &model["alarm"]), (200, &json!(false)), "{model}");
    let (_, metrics) = get(&story.devnet.text("metrics"));
    for line in [
        "blue_models_resident 2",
        "blue_readiness_alarm 0",
        "blue_model_requests_total{for=\"blocks\",result=\"ready\"} 1",
    ] {
        assert!(metrics.lines().any(|l| l == line), "{line} in {metrics}");
    }
}

#[test]
fn a_node_without_the_blob_raises_an_alarm_and_stops_at_the_first_call() {
    let folder = tempfile::tempdir().unwrap();
    let mut story = Story::new(&blob(folder.path()), &["--delay", "1"]);
    story.must(REGISTRY, &story.propose);
    story.until("the alarm", |status, model| {
        status == 503 && model["alarm"] == true
    });
    let (_, metrics) = get(&story.devnet.text("metrics"));
    assert!(
        metrics.lines().any(|l| l == "blue_readiness_alarm 1"),
        "{metrics}"
    );
    ask(&story.url, "evm_mine", json!([])).unwrap();
    story.activate();
    // Outside of blocks it is one call's trouble.
    let question = json!([{"to": hex(INFERENCE), "data": hex(story.question())}, "latest"]);
    let failed = ask(&story.url, "eth_call", question).unwrap_err();
    assert_ne!(failed["code"], 3, "no verdict: {failed}");
    let before = ask(&story.url, "eth_blockNumber", json!([])).unwrap();
    assert!(story.send(INFERENCE, &story.question()).is_err());
    let begun = Instant::now();
    let status = loop {
        if let Some(status) = story.devnet.child.try_wait().unwrap() {
            break status;
        }
        assert!(
            begun.elapsed().as_secs() < 30,
            "it goes on after block {before}"
        );
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(status.code(), Some(1));
    let mut said = String::new();
    let mut stderr = story.devnet.child.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains(&story.commitment), "{said}");
}
