//! A server on a free port, and a client that knows nothing of its types.

use crate::common::{Blob, small};
use crate::flaky::Flaky;
use crate::gate::{Gate, Gated};
use alloy_primitives::{Address, B256};
use blue_devnet::rpc::{Limits, Mining, Options, Server};
use blue_devnet::{Adoption, Chain, Config, DevAccount, Genesis};
use int_engine::commitment::Commitment;
use int_engine::kernels::Kernels;
use precompile::memory::ModelSet;
use precompile::word::Word;
use precompile::{Fault, Lookup, Models};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::runtime::Runtime;

/// The name of the model.
pub(crate) const MODEL: Word = [9; 32];

/// Models that can be taken away.
struct Unplugged(ModelSet, Arc<AtomicBool>);

impl Models for Unplugged {
    fn model(&self, commitment: Commitment) -> Result<Lookup, Fault> {
        match self.1.load(Ordering::Relaxed) {
            false => self.0.model(commitment),
            true => Err(Fault::Missing {
                commitment,
                reason: "unplugged".into(),
            }),
        }
    }
}

/// A server with one small model.
pub(crate) struct Served {
    pub(crate) chain: Arc<Chain>,
    pub(crate) blob: Blob,
    pub(crate) address: SocketAddr,
    pub(crate) accounts: Vec<DevAccount>,
    /// Whether the models for blocks are gone.
    pub(crate) unplugged: Arc<AtomicBool>,
    /// Where calls of models wait.
    pub(crate) gate: Arc<Gate>,
    /// Whether the database fails.
    pub(crate) full: Arc<AtomicBool>,
    server: Option<Server>,
    runtime: Runtime,
}

impl Served {
    pub(crate) fn new() -> Self {
        Self::with(Limits::default(), Mining::Instant)
    }

    pub(crate) fn with(limits: Limits, mining: Mining) -> Self {
        let blob = Blob::sample(small(), 3);
        let unplugged = Arc::new(AtomicBool::new(false));
        let set = || {
            let mut set = ModelSet::default();
            set.insert(Arc::new(blob.engine(Kernels::detect())));
            set
        };
        let genesis = Genesis {
            models: vec![Adoption {
                name: MODEL,
                commitment: blob.commitment,
                record: blob.bytes[..1024].to_vec(),
                proof: blob.proof.clone(),
            }],
            ..Genesis::default()
        };
        let (database, gate) = (Flaky::default(), Arc::<Gate>::default());
        let full = database.fails.clone();
        let chain = Chain::new(Config {
            genesis,
            database: Box::new(database),
            models: Arc::new(Unplugged(set(), unplugged.clone())),
            call_models: Arc::new(Gated(set(), gate.clone())),
        });
        let chain = Arc::new(chain.unwrap());
        let runtime = Runtime::new().unwrap();
        let options = Options {
            address: ([127, 0, 0, 1], 0).into(),
            mining,
            cors: false,
            limits,
        };
        let server = runtime
            .block_on(Server::start(chain.clone(), options))
            .unwrap();
        Self {
            chain,
            blob,
            address: server.address(),
            accounts: DevAccount::all(),
            unplugged,
            gate,
            full,
            server: Some(server),
            runtime,
        }
    }

    /// Status and body of what is posted.
    pub(crate) fn post(&self, body: &[u8]) -> (u16, String) {
        let agent = ureq::Agent::config_builder().http_status_as_error(false);
        let agent = agent.build().new_agent();
        let request = agent.post(format!("http://{}", self.address));
        let request = request.header("content-type", "application/json");
        let mut response = request.send(body).unwrap();
        let body = response
            .body_mut()
            .with_config()
            .limit(64 << 20)
            .read_to_string();
        (response.status().as_u16(), body.unwrap())
    }

    /// The answer to a request.
    pub(crate) fn raw(&self, method: &str, params: Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let (_, body) = self.post(request.to_string().as_bytes());
        serde_json::from_str(&body).unwrap()
    }

    /// The result of a request that succeeds.
    pub(crate) fn ask(&self, method: &str, params: Value) -> Value {
        let mut answer = self.raw(method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// Code, message and data of a request that is refused.
    pub(crate) fn refused(&self, method: &str, params: Value) -> (i64, String, Value) {
        let answer = self.raw(method, params);
        let error = &answer["error"];
        let (code, message) = (error["code"].as_i64(), error["message"].as_str());
        let (Some(code), Some(message)) = (code, message) else {
            panic!("{method}: {answer}");
        };
        (code, message.to_owned(), error["data"].clone())
    }

    /// Sends a transaction of an account and gives its receipt.
    pub(crate) fn send(&self, from: usize, mut tx: Value) -> Value {
        tx["from"] = json!(self.accounts[from].address);
        let hash = self.ask("eth_sendTransaction", json!([tx]));
        self.ask("eth_getTransactionReceipt", json!([hash]))
    }

    /// The fault that the server waited for.
    pub(crate) fn fault(&self) -> Fault {
        let server = self.server.as_ref().unwrap();
        self.runtime.block_on(server.fault())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // A test that failed may have left it closed.
        self.gate.open();
        if let Some(server) = self.server.take() {
            self.runtime.block_on(server.stop());
        }
    }
}

/// The number behind a quantity, which must be written as Ethereum writes it.
pub(crate) fn number(value: &Value) -> u64 {
    let text = value.as_str().unwrap_or_else(|| panic!("{value}"));
    let digits = text.strip_prefix("0x").unwrap();
    assert!(digits == "0" || !digits.starts_with('0'), "{text}");
    u64::from_str_radix(digits, 16).unwrap()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    alloy_primitives::hex::encode_prefixed(bytes)
}

pub(crate) fn bytes(value: &Value) -> Vec<u8> {
    alloy_primitives::hex::decode(value.as_str().unwrap()).unwrap()
}

pub(crate) fn address(value: &Value) -> Address {
    value.as_str().unwrap().parse().unwrap()
}

pub(crate) fn hash(value: &Value) -> B256 {
    value.as_str().unwrap().parse().unwrap()
}

/// The artifact of a contract of `precompile/solidity`.
pub(crate) fn creation_code(contract: &str) -> Vec<u8> {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../precompile/solidity/artifacts"
    );
    let text = std::fs::read_to_string(format!("{folder}/{contract}.json")).unwrap();
    let artifact: Value = serde_json::from_str(&text).unwrap();
    bytes(&artifact["bytecode"])
}
