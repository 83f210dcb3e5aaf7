//! A client of a node's JSON-RPC over HTTP.
//!
//! Nodes are not trusted: answers are bounded, typed and checked, and the time for each is limited. No environment variable
//! is read, so that no proxy stands between by accident.

mod error;
mod quantity;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::time::Duration;

use alloy_primitives::{Address, B256, Bytes};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use ureq::http::Uri;

pub(crate) use error::{Error, shown};
pub(crate) use quantity::Quantity;

/// Most bytes of an answer: four times the hexadecimal digits of the events that a transaction of 2^24 gas can emit.
const MAX_ANSWER: u64 = 16 << 20;
/// Longest time limit, in seconds.
const MAX_TIMEOUT: f64 = 86_400.0;

/// Where the node is, and how long it may take.
#[derive(clap::Args)]
pub(crate) struct RpcArgs {
    /// The node's JSON-RPC
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8545")]
    pub(crate) rpc: String,
    /// Seconds that each answer may take
    #[arg(long, value_name = "SECONDS", default_value = "120", value_parser = seconds)]
    pub(crate) timeout: Duration,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse::<f64>().ok();
    let seconds = seconds.filter(|s| (0.001..=MAX_TIMEOUT).contains(s));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("must be a number of seconds from 0.001 to {MAX_TIMEOUT}"))
}

/// A node.
pub(crate) struct Client {
    agent: ureq::Agent,
    url: String,
    /// Scheme, host and port: what errors may show, since paths hold access keys.
    node: String,
    timeout: Duration,
    next: Cell<u64>,
}

/// The transaction of a receipt, as far as it matters here.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Receipt {
    pub(crate) transaction_hash: B256,
    pub(crate) block_number: Quantity<u64>,
    /// 1 where the transaction did what it was to do.
    pub(crate) status: Quantity<u64>,
    pub(crate) gas_used: Quantity<u64>,
    pub(crate) logs: Vec<Log>,
}

/// An event.
#[derive(Debug, Deserialize)]
pub(crate) struct Log {
    pub(crate) address: Address,
    pub(crate) topics: Vec<B256>,
    pub(crate) data: Bytes,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Header {
    base_fee_per_gas: Option<Quantity<u128>>,
}

/// A call that changes nothing.
#[derive(Clone, Copy)]
pub(crate) struct Call<'a> {
    pub(crate) from: Option<Address>,
    pub(crate) to: Address,
    pub(crate) data: &'a [u8],
    pub(crate) gas: Option<u64>,
}

impl<'a> Call<'a> {
    /// A call by nobody in particular.
    pub(crate) fn new(to: Address, data: &'a [u8]) -> Self {
        Self {
            from: None,
            to,
            data,
            gas: None,
        }
    }

    fn json(&self) -> Value {
        let mut call = json!({"to": self.to, "data": Bytes::copy_from_slice(self.data)});
        if let Some(from) = self.from {
            call["from"] = json!(from);
        }
        if let Some(gas) = self.gas {
            call["gas"] = json!(Quantity(gas));
        }
        call
    }
}

impl Client {
    /// A client of the node at `args.rpc`; nothing is sent yet.
    ///
    /// # Errors
    /// [`Error::Url`].
    pub(crate) fn new(args: &RpcArgs) -> Result<Self, Error> {
        let refused = || Error::Url(shown(&args.rpc));
        let uri: Uri = args.rpc.parse().map_err(|_| refused())?;
        let scheme = uri.scheme_str().unwrap_or_default();
        let host = uri.host().filter(|host| !host.is_empty());
        let host = host.ok_or_else(refused)?;
        if scheme != "http" && scheme != "https" {
            return Err(refused());
        }
        let port = uri.port_u16().map(|port| format!(":{port}"));
        let config = ureq::Agent::config_builder()
            .timeout_global(Some(args.timeout))
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .proxy(None)
            .build();
        Ok(Self {
            agent: config.into(),
            url: args.rpc.clone(),
            node: format!("{scheme}://{host}{}", port.unwrap_or_default()),
            timeout: args.timeout,
            next: Cell::new(1),
        })
    }

    /// Sends one request and returns its result.
    fn value(&self, method: &'static str, params: Value) -> Result<Value, Error> {
        let id = self.next.replace(self.next.get().wrapping_add(1));
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let failed = |cause| self.failed(method, cause);
        let sent = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .send(request.to_string());
        let mut answer = sent.map_err(failed)?;
        let status = answer.status();
        let body = answer.body_mut().with_config().limit(MAX_ANSWER);
        let body = body.read_to_vec().map_err(failed)?;
        let answer: Value = match serde_json::from_slice(&body) {
            Ok(answer) => answer,
            // Some nodes refuse with a status of its own and JSON-RPC in the body; a page of a proxy is not that.
            Err(_) if !status.is_success() => {
                return Err(Error::Status {
                    method,
                    node: self.node.clone(),
                    status: status.as_u16(),
                });
            }
            Err(e) => return Err(form(method, format!("no JSON ({e})"))),
        };
        result_of(method, id, answer)
    }

    fn failed(&self, method: &'static str, cause: ureq::Error) -> Error {
        let node = self.node.clone();
        match cause {
            ureq::Error::Timeout(_) => Error::Timeout {
                method,
                node,
                limit: self.timeout,
            },
            ureq::Error::BodyExceedsLimit(limit) => Error::TooLarge { method, limit },
            cause => Error::Transport {
                method,
                node,
                cause,
            },
        }
    }

    fn typed<T: DeserializeOwned>(&self, method: &'static str, params: Value) -> Result<T, Error> {
        let value = self.value(method, params)?;
        serde_json::from_value(value).map_err(|e| form(method, shown(&e.to_string())))
    }

    /// The chain that the node follows.
    pub(crate) fn chain_id(&self) -> Result<u64, Error> {
        self.typed::<Quantity<u64>>("eth_chainId", json!([]))
            .map(|n| n.0)
    }

    /// The newest block.
    pub(crate) fn block_number(&self) -> Result<u64, Error> {
        self.typed::<Quantity<u64>>("eth_blockNumber", json!([]))
            .map(|n| n.0)
    }

    /// What a call returns in the state after a block.
    pub(crate) fn call(&self, call: &Call<'_>, block: u64) -> Result<Vec<u8>, Error> {
        let params = json!([call.json(), Quantity(block)]);
        self.typed::<Bytes>("eth_call", params).map(Vec::from)
    }

    /// The code of an account after a block; none where no contract is.
    pub(crate) fn code(&self, account: Address, block: u64) -> Result<Bytes, Error> {
        self.typed("eth_getCode", json!([account, Quantity(block)]))
    }

    /// The gas that a transaction needs in the state after a block, or on the newest one.
    pub(crate) fn estimate_gas(&self, call: &Call<'_>, block: Option<u64>) -> Result<u64, Error> {
        let block = block.map_or(json!("latest"), |block| json!(Quantity(block)));
        let params = json!([call.json(), block]);
        self.typed::<Quantity<u64>>("eth_estimateGas", params)
            .map(|n| n.0)
    }

    /// The accounts whose keys the node holds.
    pub(crate) fn accounts(&self) -> Result<Vec<Address>, Error> {
        self.typed("eth_accounts", json!([]))
    }

    /// The next transaction's number of an account.
    pub(crate) fn next_nonce(&self, account: Address) -> Result<u64, Error> {
        let params = json!([account, "pending"]);
        self.typed::<Quantity<u64>>("eth_getTransactionCount", params)
            .map(|n| n.0)
    }

    /// The newest block's base fee, in wei for a gas; `None` on a chain without.
    pub(crate) fn base_fee(&self) -> Result<Option<u128>, Error> {
        let header = self.typed::<Header>("eth_getBlockByNumber", json!(["latest", false]))?;
        Ok(header.base_fee_per_gas.map(|fee| fee.0))
    }

    /// The tip that the node finds right, in wei for a gas.
    pub(crate) fn priority_fee(&self) -> Result<u128, Error> {
        self.typed::<Quantity<u128>>("eth_maxPriorityFeePerGas", json!([]))
            .map(|fee| fee.0)
    }

    /// Hands a signed transaction over.
    pub(crate) fn send_raw(&self, raw: &[u8]) -> Result<B256, Error> {
        let params = json!([Bytes::copy_from_slice(raw)]);
        self.typed("eth_sendRawTransaction", params)
    }

    /// Lets the node sign and send a transaction from one of its accounts.
    pub(crate) fn send(&self, call: &Call<'_>) -> Result<B256, Error> {
        self.typed("eth_sendTransaction", json!([call.json()]))
    }

    /// The receipt of a transaction that is in a block.
    pub(crate) fn receipt(&self, transaction: B256) -> Result<Option<Receipt>, Error> {
        let method = "eth_getTransactionReceipt";
        let receipt = self.typed::<Option<Receipt>>(method, json!([transaction]))?;
        match receipt {
            Some(receipt) if receipt.transaction_hash != transaction => {
                Err(form(method, "the receipt of another transaction"))
            }
            receipt => Ok(receipt),
        }
    }
}

fn form(method: &'static str, what: impl Into<String>) -> Error {
    Error::Form {
        method,
        what: what.into(),
    }
}

/// The result in an answer to request `id`.
fn result_of(method: &'static str, id: u64, answer: Value) -> Result<Value, Error> {
    let Value::Object(mut answer) = answer else {
        return Err(form(method, "no object"));
    };
    let found = answer.remove("id").unwrap_or_default();
    match (answer.remove("result"), answer.remove("error")) {
        (None | Some(Value::Null), Some(Value::Object(error))) => {
            // A node that could not read the request names none.
            if found != json!(id) && !found.is_null() {
                return Err(form(method, "it answers another request"));
            }
            Err(said(method, error))
        }
        (Some(result), None | Some(Value::Null)) => {
            if found != json!(id) {
                return Err(form(method, "it answers another request"));
            }
            Ok(result)
        }
        _ => Err(form(method, "it has not one of `result` and `error`")),
    }
}

fn said(method: &'static str, mut error: Map<String, Value>) -> Error {
    let code = error.get("code").and_then(Value::as_i64);
    let message = error.get("message").and_then(Value::as_str);
    let (Some(code), Some(message)) = (code, message) else {
        return form(method, "an error without code and message");
    };
    let message = message.to_string();
    let data = match error.remove("data") {
        // Some nodes wrap it once more.
        Some(Value::Object(mut inner)) => inner.remove("data"),
        data => data,
    };
    let data = data.filter(Value::is_string);
    let data = data.and_then(|data| serde_json::from_value::<Bytes>(data).ok());
    Error::Node {
        method,
        code,
        message,
        data: data.map(Vec::from),
    }
}
