//! A claim is true exactly when it is the answer: honest, cut, extended and altered claims, on 200 random prompts.

mod common;

use common::*;
use precompile::word::ZERO;
use precompile::{calldata, gas};

/// splitmix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % u64::from(limit)) as u32
    }
}

/// Asserts that the claim is true exactly when it is the answer of `generate`.
fn holds(chain: &mut Chain, prompt: &[u32], max_new: u32, claim: &[u32], answer: &[u32]) {
    let data = calldata::verify(&NAME, &ZERO, prompt, max_new, claim);
    let found = truth(&chain.infer(&data));
    assert_eq!(found, claim == answer, "{prompt:?} {max_new} {claim:?}");
}

fn check(
    chain: &mut Chain,
    prompt: &[u32],
    max_new: u32,
    accepted: u32,
    random: &mut Random,
) -> bool {
    let data = calldata::generate(&NAME, &ZERO, prompt, max_new);
    let (answer, complete) = tokens(&returned(&chain.infer(&data)));
    holds(chain, prompt, max_new, &answer, &answer);
    for len in 0..answer.len() {
        holds(chain, prompt, max_new, &answer[..len], &answer);
    }
    for more in [0, random.below(accepted), accepted, u32::MAX] {
        let longer = [&answer[..], &[more]].concat();
        holds(chain, prompt, max_new, &longer, &answer);
    }
    for at in 0..answer.len() {
        let near = answer[at] ^ 1;
        for other in [near, random.below(accepted), accepted, u32::MAX] {
            let mut claim = answer.clone();
            claim[at] = other;
            holds(chain, prompt, max_new, &claim, &answer);
        }
    }
    // The same tokens, asked for with another limit: true only where the answer is the same.
    for other in [max_new.saturating_sub(1), max_new + 1] {
        let data = calldata::generate(&NAME, &ZERO, prompt, other);
        let (its, _) = tokens(&returned(&chain.infer(&data)));
        holds(chain, prompt, other, &answer, &its);
    }
    complete
}

#[test]
fn the_demos_model() {
    let blob = tiny();
    let mut chain = Chain::single(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let mut random = Random(1);
    for _ in 0..200 {
        let len = 1 + random.below(20);
        let prompt: Vec<u32> = (0..len).map(|_| random.below(1533)).collect();
        let max_new = random.below(9);
        check(&mut chain, &prompt, max_new, 1533, &mut random);
    }
}

#[test]
fn a_model_whose_answers_stop() {
    let blob = Blob::sample(small(), 3);
    let mut chain = Chain::single(&[&blob]);
    chain.adopt(&NAME, 1, &blob);
    let mut random = Random(2);
    let mut complete = 0;
    for _ in 0..200 {
        let len = 1 + random.below(24);
        let prompt: Vec<u32> = (0..len).map(|_| random.below(37)).collect();
        let max_new = random.below(30);
        complete += u32::from(check(&mut chain, &prompt, max_new, 37, &mut random));
    }
    assert!(complete > 20, "{complete} of 200 answers stopped");
}

#[test]
fn checking_is_cheaper_than_generating() {
    let sizes = precompile::Sizes::of(&tiny().record.config);
    let (generating, checking) = (
        gas::of_generate(&sizes, 16, 64),
        gas::of_verify(&sizes, 16, 64),
    );
    assert!(2 * checking < generating, "{checking} {generating}");
}
