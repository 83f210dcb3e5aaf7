//! The chain that is called: its process, its models, and what they answer.

#[path = "../../../int-engine/tests/sample/mod.rs"]
mod sample;

use super::rpc::Client;
use anyhow::{Context, Result, bail, ensure};
use int_engine::commitment::{Commitment, Tree};
use int_engine::config::{Config, Dims};
use int_engine::engine::{CpuEngine, Engine, generate};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use precompile::registry::Function;
use precompile::word::Word;
use precompile::{REGISTRY, calldata};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Questions to each model.
const QUESTIONS: u32 = 12;

/// A blob, its file, and the name that it is active under.
pub(super) struct Blob {
    pub(super) name: Word,
    pub(super) bytes: Vec<u8>,
    path: PathBuf,
    commitment: Commitment,
    proof: Vec<Word>,
}

impl Blob {
    fn new(name: &str, path: PathBuf, bytes: Vec<u8>) -> Result<Self> {
        let tree = Tree::read(&bytes[..], bytes.len() as u64, NonZeroUsize::MIN, |_| ())?;
        std::fs::write(&path, &bytes)?;
        Ok(Self {
            name: int_engine::commitment::keccak256(name.as_bytes()),
            commitment: tree.commitment(),
            proof: tree.prove(0).context("a tree has a first leaf")?,
            bytes,
            path,
        })
    }
}

fn random(hidden: u32, layers: u32, vocab: u32, seed: u64) -> Result<Vec<u8>> {
    let dims = Dims {
        scheme: Default::default(),
        hidden,
        layers,
        heads: hidden / 32,
        kv_heads: 2,
        head_dim: 32,
        intermediate: 3 * hidden,
        vocab,
        accepted_ids: vocab,
        max_context: 256,
        qk_norm: true,
        tied: true,
        eps: 1,
        stop_ids: vec![3],
    };
    Ok(sample::sample(&Config::new(dims)?, seed))
}

/// The demo's model, a small random one, and a larger one that is adopted while the others are called.
pub(super) fn blobs(root: &Path, folder: &Path) -> Result<Vec<Blob>> {
    let tiny = std::fs::read(root.join("models/default/blue-tiny.blob"))?;
    let file = |name: &str| folder.join(format!("{name}.blob"));
    Ok(vec![
        Blob::new("blue", file("tiny"), tiny)?,
        Blob::new("small", file("small"), random(64, 2, 500, 1)?)?,
        Blob::new("large", file("large"), random(512, 6, 16_384, 2)?)?,
    ])
}

/// A prompt and the answer.
pub(super) struct Question {
    pub(super) prompt: Vec<u32>,
    pub(super) max_new: u32,
    pub(super) answer: Vec<u32>,
}

/// Questions to each model, answered by the portable kernels.
pub(super) struct Questions(pub(super) Vec<(Word, Vec<Question>)>);

impl Questions {
    pub(super) fn of(blobs: &[Blob]) -> Result<Self> {
        let mut all = Vec::new();
        for blob in blobs {
            let model = Arc::new(Model::from_bytes(&blob.bytes)?);
            let engine = CpuEngine::new(model, Kernels::scalar(), NonZeroUsize::MIN);
            let accepted = engine.config().dims().accepted_ids;
            let mut questions = Vec::new();
            for i in 0..QUESTIONS {
                let prompt = (0..1 + 7 * i).map(|j| (i * 31 + j * j * 17 + 1) % accepted);
                let prompt: Vec<u32> = prompt.collect();
                let max_new = 1 + i % 5;
                let go_on = &mut |_| ControlFlow::Continue(());
                let mut session = engine.session()?;
                let answer = generate(&mut *session, &prompt, max_new as usize, go_on)?.ids;
                questions.push(Question {
                    prompt,
                    max_new,
                    answer,
                });
            }
            all.push((blob.name, questions));
        }
        Ok(Self(all))
    }
}

/// A running `blue devnet`, ended with the value.
pub(super) struct Node {
    child: Child,
    pub(super) url: String,
    metrics: String,
    pub(super) accounts: Vec<String>,
}

impl Drop for Node {
    fn drop(&mut self) {
        // It has ended already where the run went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Node {
    /// The first two blobs are active; the third can be fetched.
    pub(super) fn start(blue: &Path, folder: &Path, blobs: &[Blob]) -> Result<Self> {
        let theirs = folder.join("theirs");
        let import = Command::new(blue)
            .args(["blob", "import"])
            .arg(&blobs[2].path)
            .arg("--store")
            .arg(&theirs)
            .stdout(Stdio::null())
            .status()?;
        ensure!(import.success(), "the blob is not imported");
        let mut command = Command::new(blue);
        command
            .args([
                "devnet", "--port", "0", "--json", "--delay", "1", "--calls", "8",
            ])
            .args(["--metrics", "127.0.0.1:0", "--blob"])
            .arg(&blobs[0].path)
            .arg("--blob")
            .arg(&blobs[1].path)
            .arg("--store")
            .arg(folder.join("ours"))
            .arg("--from")
            .arg(&theirs)
            .stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let stdout = child.stdout.take().context("no output")?;
        let mut node = Self {
            child,
            url: String::new(),
            metrics: String::new(),
            accounts: vec![],
        };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line)?;
        let said: Value = serde_json::from_str(&line).context("blue devnet did not start")?;
        let text = |value: &Value| value.as_str().map(str::to_owned).context("a text");
        node.url = text(&said["url"])?;
        node.metrics = text(&said["metrics"])?;
        let accounts = said["accounts"].as_array().context("accounts")?;
        let accounts = accounts.iter().map(|account| text(&account["address"]));
        node.accounts = accounts.collect::<Result<_>>()?;
        Ok(node)
    }

    /// Ends it as an operator does.
    pub(super) fn end(mut self) -> Result<()> {
        let ended = Command::new("kill")
            .arg(self.child.id().to_string())
            .status()?;
        ensure!(ended.success(), "the chain is gone");
        for _ in 0..500 {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "the chain ended with {status}");
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the chain does not end")
    }

    pub(super) fn resident_bytes(&self) -> Result<u64> {
        super::resident(self.child.id())
    }

    /// The first account sends what the registry is told.
    fn send(&self, data: &[u8]) -> Result<()> {
        Client::new(&self.url).transact(&self.accounts[0], &REGISTRY, data)
    }

    pub(super) fn propose(&self, blob: &Blob) -> Result<()> {
        let record = &blob.bytes[..1024];
        self.send(&calldata::propose(
            &blob.name,
            1,
            &blob.commitment.0,
            record,
            &blob.proof,
        ))
    }

    pub(super) fn activate(&self, blob: &Blob) -> Result<()> {
        self.send(&calldata::of_version(Function::Activate, &blob.name, 1))
    }

    pub(super) fn is_ready(&self, blob: &Blob) -> Result<bool> {
        let url = self.metrics.replace("/metrics", "/ready");
        let text = ureq::get(&url)
            .config()
            .http_status_as_error(false)
            .timeout_global(Some(Duration::from_secs(60)))
            .build()
            .call()?
            .into_body()
            .read_to_string()?;
        let said: Value = serde_json::from_str(&text)?;
        let models = said["models"].as_array().context("models")?;
        let commitment = blob.commitment.to_string();
        let found = models
            .iter()
            .find(|model| model["commitment"] == *commitment);
        Ok(found.is_some_and(|model| model["ready"] == true))
    }
}
