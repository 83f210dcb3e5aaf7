//! A connection to the chain that is called.

use alloy_primitives::hex;
use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};
use std::time::Duration;

/// Of one caller.
pub(super) struct Client {
    agent: ureq::Agent,
    url: String,
}

impl Client {
    pub(super) fn new(url: &str) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false);
        let config = config.timeout_global(Some(Duration::from_secs(60)));
        Self {
            agent: config.build().into(),
            url: url.to_owned(),
        }
    }

    /// One request; the inner error is the node's.
    pub(super) fn ask(&self, method: &str, params: &Value) -> Result<Result<Value, Value>> {
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let answer = self
            .agent
            .post(&self.url)
            .header("content-type", "application/json")
            .send(request.to_string())?;
        let text = answer.into_body().read_to_string()?;
        let mut said: Value = serde_json::from_str(&text).with_context(|| text.clone())?;
        Ok(match said.get_mut("error") {
            Some(error) => Err(error.take()),
            None => Ok(said["result"].take()),
        })
    }

    /// One request that must be answered.
    pub(super) fn must(&self, method: &str, params: &Value) -> Result<Value> {
        self.ask(method, params)?
            .map_err(|error| anyhow!("{method}: {error}"))
    }

    /// Sends a transaction from one of the node's accounts; its receipt is there and says success.
    pub(super) fn transact(&self, from: &str, to: &[u8], data: &[u8]) -> Result<()> {
        let tx = json!({
            "from": from,
            "to": hex::encode_prefixed(to),
            "data": hex::encode_prefixed(data),
            "gas": "0xf00000",
        });
        let hash = self.must("eth_sendTransaction", &json!([tx]))?;
        let receipt = self.must("eth_getTransactionReceipt", &json!([hash]))?;
        match receipt["status"] == "0x1" {
            true => Ok(()),
            false => Err(anyhow!("a transaction failed: {receipt}")),
        }
    }
}

/// The bytes of a text of hexadecimal digits.
pub(super) fn bytes(value: &Value) -> Result<Vec<u8>> {
    let text = value.as_str().context("no text")?;
    Ok(hex::decode(text)?)
}
