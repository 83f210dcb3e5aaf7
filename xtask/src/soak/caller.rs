//! One caller: questions, claims, mistakes that it makes on purpose, transactions.

use super::chain::{Node, Question, Questions};
use super::rpc::{Client, bytes};
use alloy_primitives::hex::encode_prefixed as hex;
use anyhow::{Context, Result, bail, ensure};
use precompile::word::{Word, ZERO};
use precompile::{INFERENCE, Refusal, calldata, revert_data};
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What a caller does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Generate,
    Verify,
    OtherCommitment,
    TooLittleGas,
    Transaction,
    Query,
}

impl Kind {
    pub(super) const ALL: [Self; 6] = [
        Self::Generate,
        Self::Verify,
        Self::OtherCommitment,
        Self::TooLittleGas,
        Self::Transaction,
        Self::Query,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Generate => "eth_call generate",
            Self::Verify => "eth_call verify",
            Self::OtherCommitment => "refused: another commitment",
            Self::TooLittleGas => "refused: too little gas",
            Self::Transaction => "transaction and receipt",
            Self::Query => "blocks and logs",
        }
    }

    /// By a number below 100.
    const fn of(percent: u64) -> Self {
        match percent {
            0..=54 => Self::Generate,
            55..=74 => Self::Verify,
            75..=81 => Self::OtherCommitment,
            82..=87 => Self::TooLittleGas,
            88..=92 => Self::Transaction,
            _ => Self::Query,
        }
    }
}

/// Calls with when they began and how long they took.
#[derive(Default)]
pub(super) struct Tally(pub(super) Vec<(Kind, Duration, Duration)>);

impl Tally {
    pub(super) fn add(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// Times of the calls of some kinds, ascending.
    pub(super) fn times(&self, of: impl Fn(Kind) -> bool) -> Vec<Duration> {
        let chosen = self.0.iter().filter(|(kind, ..)| of(*kind));
        let mut times: Vec<_> = chosen.map(|(_, _, took)| *took).collect();
        times.sort();
        times
    }

    /// Transactions that began after a time.
    pub(super) fn transactions_since(&self, from: Duration) -> u64 {
        let since =
            |&&(kind, at, _): &&(Kind, Duration, Duration)| kind == Kind::Transaction && at >= from;
        self.0.iter().filter(since).count() as u64
    }

    /// Calls that ended between two times, and all others.
    pub(super) fn ended(&self, from: Duration, to: Duration) -> (usize, usize) {
        let within =
            |&&(_, at, took): &&(Kind, Duration, Duration)| (from..to).contains(&(at + took));
        let within = self.0.iter().filter(within).count();
        (within, self.0.len() - within)
    }

    /// Calls that began before and ended after both.
    pub(super) fn across(&self, from: Duration, to: Duration) -> usize {
        let across = |&&(_, at, took): &&(Kind, Duration, Duration)| at <= from && at + took >= to;
        self.0.iter().filter(across).count()
    }
}

pub(super) struct Caller<'a> {
    questions: &'a Questions,
    /// Models that are active.
    served: &'a AtomicU32,
    account: &'a str,
    random: u64,
    client: Client,
}

impl<'a> Caller<'a> {
    pub(super) fn new(
        seed: u32,
        node: &'a Node,
        questions: &'a Questions,
        served: &'a AtomicU32,
    ) -> Self {
        // The first account sends what the registry is told.
        let account = 1 + seed as usize % (node.accounts.len() - 1);
        Self {
            questions,
            served,
            account: &node.accounts[account],
            random: u64::from(seed) + 1,
            client: Client::new(&node.url),
        }
    }

    /// Below `n`, by SplitMix64.
    fn below(&mut self, n: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.random ^ (self.random >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    pub(super) fn call_until(
        mut self,
        end: Instant,
        stop: &AtomicBool,
        origin: Instant,
    ) -> Result<Tally> {
        let mut tally = Tally::default();
        while Instant::now() < end && !stop.load(Ordering::Relaxed) {
            let kind = Kind::of(self.below(100));
            let at = origin.elapsed();
            self.one(kind).with_context(|| kind.name())?;
            tally.0.push((kind, at, origin.elapsed() - at));
        }
        Ok(tally)
    }

    fn call(&self, data: &[u8], gas: u64) -> Result<Result<Value, Value>> {
        let call = json!({"from": self.account, "to": hex(INFERENCE), "data": hex(data), "gas": format!("{gas:#x}")});
        self.client.ask("eth_call", &json!([call, "latest"]))
    }

    fn question(&mut self) -> (&'a Word, &'a Question) {
        let models = u64::from(self.served.load(Ordering::Relaxed));
        let (name, questions) = &self.questions.0[self.below(models) as usize];
        let question = &questions[self.below(questions.len() as u64) as usize];
        (name, question)
    }

    fn one(&mut self, kind: Kind) -> Result<()> {
        const GAS: u64 = 16_000_000;
        let (name, question) = self.question();
        let Question {
            prompt,
            max_new,
            answer,
        } = question;
        let generate = calldata::generate(name, &ZERO, prompt, *max_new);
        match kind {
            Kind::Generate => {
                let output = right(self.call(&generate, GAS)?)?;
                let (tokens, _) = calldata::generated(&output).context("no tokens")?;
                ensure!(tokens == *answer, "{tokens:?} in place of {answer:?}");
            }
            Kind::Verify => {
                let truth = self.below(2) == 0;
                let claim = match truth {
                    true => answer.clone(),
                    false => answer[..answer.len() - 1].to_vec(),
                };
                let data = calldata::verify(name, &ZERO, prompt, *max_new, &claim);
                let output = right(self.call(&data, GAS)?)?;
                ensure!(
                    calldata::verified(&output) == Some(truth),
                    "a claim is misjudged"
                );
            }
            Kind::OtherCommitment => {
                let data = calldata::generate(name, &[1; 32], prompt, *max_new);
                let error = refused(self.call(&data, GAS)?)?;
                let expected = hex(revert_data(Refusal::NotActive));
                ensure!(error["data"] == *expected, "{error}");
            }
            Kind::TooLittleGas => {
                // As many tokens as there is room for, and gas for a few.
                let data = calldata::generate(name, &ZERO, &prompt[..1], u32::MAX);
                let error = refused(self.call(&data, 40_000)?)?;
                let said = (&error["code"], &error["message"]);
                ensure!(said == (&json!(-32000), &json!("out of gas")), "{error}");
            }
            Kind::Transaction => {
                self.client.transact(self.account, &INFERENCE, &generate)?;
            }
            Kind::Query => {
                let number = self.client.must("eth_blockNumber", &json!([]))?;
                let from = json!([{"fromBlock": number}]);
                let logs = self.client.must("eth_getLogs", &from)?;
                ensure!(logs.is_array(), "no logs: {logs}");
            }
        }
        Ok(())
    }
}

fn right(said: Result<Value, Value>) -> Result<Vec<u8>> {
    bytes(&said.map_err(|error| anyhow::anyhow!("{error}"))?)
}

fn refused(said: Result<Value, Value>) -> Result<Value> {
    match said {
        Err(error) => Ok(error),
        Ok(value) => bail!("an answer where there must be none: {value}"),
    }
}
