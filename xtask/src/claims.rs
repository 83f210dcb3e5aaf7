//! Claims about a real model's answers through the inference precompile: true exactly for the answer.

use crate::bench::Bench;
use anyhow::{Context, Result, bail, ensure};
use int_engine::blob::Record;
use int_engine::engine::{CpuEngine, Engine};
use int_engine::kernels::Kernels;
use int_engine::model::Model;
use precompile::memory::{Memory, ModelSet};
use precompile::word::{Word, ZERO};
use precompile::{Call, Outcome, Target, calldata, put_active};
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const NAME: Word = [7; 32];
/// Prompts, and new tokens of each.
const PROMPTS: u32 = 10;
const MAX_NEW: u32 = 8;

/// A chain in memory with one active model.
struct Chain {
    state: Memory,
    models: ModelSet,
}

impl Chain {
    fn of(blob: &Path) -> Result<(Self, u32, Vec<u32>)> {
        let bytes = std::fs::read(blob).with_context(|| blob.display().to_string())?;
        let record = Record::parse(&bytes)?;
        let dims = record.config.dims().clone();
        let model = Arc::new(Model::from_bytes(&bytes)?);
        let threads = NonZeroUsize::MIN.saturating_add(1);
        let engine = CpuEngine::new(model, Kernels::detect(), threads);
        let mut state = Memory::default();
        let commitment = engine.commitment();
        put_active(&mut state, &NAME, commitment, &record)?;
        let mut models = ModelSet::default();
        models.insert(Arc::new(engine));
        Ok((Self { state, models }, dims.accepted_ids, dims.stop_ids))
    }

    /// Gas and output of a call.
    fn call(&mut self, data: &[u8]) -> Result<(u64, Vec<u8>)> {
        let call = Call::new(Target::Inference, data, u64::MAX, [0; 20]);
        match self.state.call(&call, &self.models)? {
            Outcome::Return { gas_used, output } => Ok((gas_used, output)),
            refused => bail!("refused: {refused:?}"),
        }
    }

    fn generate(&mut self, prompt: &[u32], max_new: u32) -> Result<(u64, Vec<u32>)> {
        let data = calldata::generate(&NAME, &ZERO, prompt, max_new);
        let (gas, output) = self.call(&data)?;
        let (tokens, _) = calldata::generated(&output).context("no tokens")?;
        Ok((gas, tokens))
    }

    fn verify(&mut self, prompt: &[u32], max_new: u32, claim: &[u32]) -> Result<(u64, bool)> {
        let data = calldata::verify(&NAME, &ZERO, prompt, max_new, claim);
        let (gas, output) = self.call(&data)?;
        let right = calldata::verified(&output).context("no truth")?;
        Ok((gas, right))
    }
}

/// What may be claimed in place of an answer: cut, extended, one token altered at each position.
fn others(answer: &[u32], accepted: u32) -> Vec<Vec<u32>> {
    let mut claims: Vec<_> = (0..answer.len()).map(|n| answer[..n].to_vec()).collect();
    claims.push([answer, &[0]].concat());
    claims.push([answer, &answer[..1]].concat());
    for (i, &id) in answer.iter().enumerate() {
        for other in [id ^ 1, (id + 7919) % accepted, u32::MAX] {
            let mut claim = answer.to_vec();
            claim[i] = other;
            claims.push(claim);
        }
    }
    claims
}

impl Bench {
    /// `verify` against `generate` on ten prompts, also where an answer stops; its cost beside generating 64 tokens.
    pub(crate) fn claims(&mut self, blob: &str) -> Result<()> {
        let (mut chain, accepted, stop_ids) = Chain::of(Path::new(&self.path(blob)))?;
        let (mut right, mut wrong) = (0, 0);
        for p in 0..PROMPTS {
            let len = 1 + 3 * p;
            let prompt: Vec<u32> = (0..len)
                .map(|i| (7919 * i + 104_729 * p + 17) % accepted)
                .collect();
            let (_, answer) = chain.generate(&prompt, MAX_NEW)?;
            ensure!(!answer.is_empty(), "no answer to prompt {p}");
            right += u32::from(chain.verify(&prompt, MAX_NEW, &answer)?.1);
            for claim in others(&answer, accepted) {
                if chain.verify(&prompt, MAX_NEW, &claim)?.1 {
                    bail!("prompt {p}: {claim:?} holds, the answer is {answer:?}");
                }
                wrong += 1;
            }
        }
        self.checks.holds(
            "SmolLM2 verify: answers of 10 prompts hold, claims near them do not",
            &format!("{right} and {wrong}"),
            right == PROMPTS,
        );
        // A stop id ends an answer: an answer without it does not hold, nor one that goes on.
        let stops = |answer: &[u32]| answer.last().is_some_and(|id| stop_ids.contains(id));
        let mut stopped = None;
        for p in 0..40 {
            let prompt = [(p * 1237 + 1) % accepted, 28, 198];
            let (_, answer) = chain.generate(&prompt, 48)?;
            if stops(&answer) {
                stopped = Some((prompt, answer));
                break;
            }
        }
        let (prompt, answer) = stopped.context("no answer of 40 stopped")?;
        let whole = chain.verify(&prompt, 48, &answer)?.1;
        let cut = chain.verify(&prompt, 48, &answer[..answer.len() - 1])?.1;
        let longer = chain.verify(&prompt, 48, &[&answer[..], &[28]].concat())?.1;
        self.checks.holds(
            "SmolLM2 verify: an answer holds with its stop id only",
            &format!("{} tokens", answer.len()),
            whole && !cut && !longer,
        );
        let prompt: Vec<u32> = (0..16).map(|i| (i * 331 + 5) % accepted).collect();
        let start = Instant::now();
        let (generating, answer) = chain.generate(&prompt, 64)?;
        let slow = start.elapsed().as_secs_f64();
        let start = Instant::now();
        let (checking, holds) = chain.verify(&prompt, 64, &answer)?;
        let fast = start.elapsed().as_secs_f64();
        ensure!(holds, "the answer of {} tokens does not hold", answer.len());
        self.checks.note(
            "SmolLM2 verify of 64 tokens, of generating them: gas, time",
            format!(
                "{:.2} ({checking} of {generating}), {:.2}",
                checking as f64 / generating as f64,
                fast / slow
            ),
        );
        self.checks.holds(
            "SmolLM2 verify costs less than half",
            &format!("{checking} gas"),
            2 * checking < generating,
        );
        Ok(())
    }
}
