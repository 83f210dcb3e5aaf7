//! A program that goes on until the test ends, and its JSON-RPC.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};

use alloy_primitives::hex;
use serde_json::{Value, json};

use super::blue;

/// A process that has printed its first line, which is JSON; ended with the value.
pub struct Running {
    pub child: Child,
    /// What it printed.
    pub first: Value,
}

impl Running {
    pub fn start(args: &[&str]) -> Self {
        let mut command = blue(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        let first = serde_json::from_str(&line).unwrap_or_else(|_| {
            let mut said = String::new();
            let _ = child.stderr.take().unwrap().read_to_string(&mut said);
            panic!("{args:?}: {line} {said}")
        });
        Self { child, first }
    }

    /// `blue devnet` on a free port.
    pub fn devnet(args: &[&str]) -> Self {
        Self::start(&[&["devnet", "--port", "0", "--json"], args].concat())
    }

    /// A text of the first line.
    pub fn text(&self, key: &str) -> String {
        self.first[key].as_str().unwrap().to_owned()
    }

    /// Ends it as an operator does; it is quiet and succeeds, however soon that is.
    pub fn end(mut self) {
        let id = self.child.id().to_string();
        let kill = Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(kill.success());
        let status = self.child.wait().unwrap();
        let mut said = String::new();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut said).unwrap();
        assert!(status.success() && said.is_empty(), "{status}: {said}");
    }

    /// The result of a request that is answered.
    pub fn ask(&self, method: &str, params: Value) -> Value {
        ask(self.first["url"].as_str().unwrap(), method, params)
            .unwrap_or_else(|error| panic!("{method}: {error}"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One JSON-RPC request: its result, or the node's error.
pub fn ask(url: &str, method: &str, params: Value) -> Result<Value, Value> {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    let answer = ureq::post(url)
        .header("content-type", "application/json")
        .send(request.to_string())
        .unwrap();
    let text = answer.into_body().read_to_string().unwrap();
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    match answer.get_mut("error") {
        Some(error) => Err(error.take()),
        None => Ok(answer["result"].take()),
    }
}

/// The bytes of a text of hexadecimal digits.
pub fn bytes(value: &Value) -> Vec<u8> {
    hex::decode(value.as_str().unwrap()).unwrap()
}
