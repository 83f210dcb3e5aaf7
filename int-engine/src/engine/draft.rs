//! Drafts from the text itself: what followed the last time that the newest tokens stood somewhere before.
//!
//! "Prompt lookup decoding", Saxena 2023. How much to draft is a matter of what came of it so far, in integers; it
//! changes when tokens are computed, never which.

use std::collections::BTreeMap;

/// Most tokens of a draft: the pass over them and the token before them costs little more than one token's.
const MOST: usize = 15;

/// Tokens looked up, at most.
const GRAM: usize = 3;

/// Up to this many tokens a longer match tells a better draft.
const LONGEST: usize = 8;

/// One, for probabilities and costs.
const ONE: u32 = 256;

/// What a token more in a pass costs, where a pass of one token costs [`ONE`].
const COST: u32 = ONE / 5;

/// Rounds between two drafts that are made only to see whether they are worth while again, at first and at most.
const PAUSE: (u32, u32) = (2, 64);

/// What has come of drafts.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DraftStats {
    /// Passes over the weights, with a draft or without one.
    pub passes: u64,
    /// Tokens drafted.
    pub drafted: u64,
    /// Those of them that were the next ids.
    pub accepted: u64,
}

/// The tokens of a text and where each few of them stood last.
#[derive(Clone, Debug)]
pub struct Drafter {
    text: Vec<u32>,
    /// By the last tokens before it, newest first and filled up with `u32::MAX`: the index that followed them last.
    after: BTreeMap<[u32; GRAM], usize>,
    /// By the length of the match.
    trust: [Trust; LONGEST],
    /// Length of the match and of the draft that is being tried.
    tried: Option<(usize, usize)>,
    stats: DraftStats,
}

/// What is known of the drafts after matches of one length.
#[derive(Clone, Copy, Debug)]
struct Trust {
    /// How probably a drafted token is right when those before it are, in parts of [`ONE`].
    right: u32,
    /// Rounds until the next trial, when drafts are not worth while.
    wait: u32,
    /// The same after the next trial that fails.
    pause: u32,
}

impl Trust {
    /// The draft's length with the most tokens for the cost, at most `most`.
    fn length(&self, most: usize) -> usize {
        let (mut chance, mut gain, mut cost) = (ONE, ONE, ONE);
        let mut best = (0, gain, cost);
        for length in 1..=most.min(MOST) {
            chance = chance * self.right / ONE;
            gain += chance;
            cost += COST;
            if gain * best.2 > best.1 * cost {
                best = (length, gain, cost);
            }
        }
        best.0
    }

    /// As [`Trust::length`], with a trial from time to time where nothing is worth while.
    fn plan(&mut self, most: usize) -> usize {
        let length = self.length(most);
        if length > 0 || most == 0 {
            return length;
        }
        if self.wait > 0 {
            self.wait -= 1;
            return 0;
        }
        self.wait = self.pause;
        self.pause = (2 * self.pause).min(PAUSE.1);
        1
    }

    fn learn(&mut self, accepted: usize, failed: bool) {
        for _ in 0..accepted {
            self.right += (ONE - self.right).div_ceil(8);
            self.pause = PAUSE.0;
        }
        if failed {
            self.right -= self.right / 4;
        }
    }
}

impl Default for Drafter {
    fn default() -> Self {
        Self::new()
    }
}

impl Drafter {
    /// No text.
    #[must_use]
    pub fn new() -> Self {
        let trust = |length: u32| Trust {
            right: ONE * (length + 1) / (LONGEST as u32 + 2),
            wait: PAUSE.0,
            pause: PAUSE.0,
        };
        Self {
            text: Vec::new(),
            after: BTreeMap::new(),
            trust: std::array::from_fn(|i| trust(i as u32)),
            tried: None,
            stats: DraftStats::default(),
        }
    }

    /// Appends tokens to the text. Only speed depends on what they are.
    pub fn extend(&mut self, tokens: &[u32]) {
        for &token in tokens {
            for length in 1..=GRAM.min(self.text.len()) {
                self.after.insert(self.newest(length), self.text.len());
            }
            self.text.push(token);
        }
    }

    /// What has come of the drafts so far.
    #[must_use]
    pub fn stats(&self) -> DraftStats {
        self.stats
    }

    /// The last `length` tokens as a key.
    fn newest(&self, length: usize) -> [u32; GRAM] {
        let mut key = [u32::MAX; GRAM];
        for (key, &token) in key[..length].iter_mut().zip(self.text.iter().rev()) {
            *key = token;
        }
        key
    }

    /// The index that followed the newest tokens where they stood last, and how many of them stood there.
    fn find(&self) -> Option<(usize, usize)> {
        let longest = GRAM.min(self.text.len());
        let at = (1..=longest)
            .rev()
            .find_map(|length| self.after.get(&self.newest(length)).copied())?;
        let before = self.text[..at].iter().rev().zip(self.text.iter().rev());
        let matched = before.take(LONGEST).take_while(|(a, b)| a == b).count();
        Some((at, matched))
    }

    /// Appends a draft of at most `most` tokens below `accepted` to `tokens`, often none.
    pub(super) fn draft(&mut self, most: usize, accepted: usize, tokens: &mut Vec<u32>) {
        self.tried = None;
        self.stats.passes += 1;
        let Some((at, matched)) = self.find() else {
            return;
        };
        let length = self.trust[matched - 1].plan(most);
        let first = tokens.len();
        for i in 0..length {
            // Past the end of the text the draft repeats itself.
            let token = match self.text.get(at + i) {
                Some(&token) => token,
                None => tokens[first + at + i - self.text.len()],
            };
            if token as usize >= accepted {
                break;
            }
            tokens.push(token);
        }
        let length = tokens.len() - first;
        if length > 0 {
            self.tried = Some((matched, length));
            self.stats.drafted += length as u64;
        }
    }

    /// Learns from the last draft: so many of its tokens were right; `ended` tells that no more were asked for.
    pub(super) fn learn(&mut self, accepted: usize, ended: bool) {
        if let Some((matched, length)) = self.tried.take() {
            let failed = accepted < length && !ended;
            self.trust[matched - 1].learn(accepted, failed);
            self.stats.accepted += accepted as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeded::Rng;

    /// Decodes `text[start..]` with drafts; the cost in tokens' passes, in parts of [`ONE`], where a token more in a
    /// pass costs `more`.
    fn cost(text: &[u32], start: usize, more: u32) -> u64 {
        let mut drafter = Drafter::new();
        drafter.extend(&text[..start]);
        let (mut at, mut total) = (start, 0);
        while at < text.len() {
            let mut tokens = Vec::new();
            drafter.draft(text.len() - at - 1, usize::MAX, &mut tokens);
            total += u64::from(ONE) + u64::from(more) * tokens.len() as u64;
            let right = tokens.iter().zip(&text[at..]).take_while(|(a, b)| a == b);
            let accepted = right.count();
            drafter.extend(&text[at..=at + accepted]);
            drafter.learn(accepted, false);
            at += accepted + 1;
        }
        total
    }

    /// The speed of plain decoding is 100.
    fn speed(text: &[u32], start: usize, more: u32) -> u64 {
        100 * u64::from(ONE) * (text.len() - start) as u64 / cost(text, start, more)
    }

    /// Small ids are frequent, as words are.
    fn random(len: usize, vocab: i64, seed: u64) -> Vec<u32> {
        let mut rng = Rng(seed);
        let mut id = || {
            let below = rng.between(0, vocab);
            rng.between(0, below) as u32
        };
        (0..len).map(|_| id()).collect()
    }

    #[test]
    fn adverse_text_costs_next_to_nothing() {
        for vocab in [3, 10, 50, 1000, 50_000] {
            for len in [8, 64, 300, 2000] {
                for seed in 0..4 {
                    let text = random(2 * len, vocab, seed);
                    let speed = speed(&text, len, COST);
                    assert!(speed >= 94, "{vocab} {len} {seed}: {speed}");
                }
            }
        }
    }

    #[test]
    fn copies_are_fast() {
        for seed in 0..4 {
            // A copy with an error every 20 tokens, of a text without repetitions.
            let mut text = random(400, 50_000, seed);
            let copy = text.clone();
            text.extend(&copy);
            for at in (410..800).step_by(20) {
                text[at] = 60_000 + at as u32;
            }
            assert!(speed(&text, 400, ONE / 10) >= 250, "{seed}");
            assert!(speed(&text, 400, ONE / 5) >= 180, "{seed}");
            // From adverse text into a copy and out again.
            let mixed = [
                &random(300, 1000, seed)[..],
                &copy,
                &random(300, 1000, seed + 9),
            ]
            .concat();
            let mixed = [&copy[..], &mixed].concat();
            assert!(speed(&mixed, 400, ONE / 10) >= 130, "{seed}");
        }
        let again = [7, 8, 9].repeat(100);
        assert!(speed(&again, 6, ONE / 10) >= 400);
    }

    #[test]
    fn what_followed_last_is_drafted() {
        let mut drafter = Drafter::new();
        assert_eq!(drafter.find(), None);
        drafter.extend(&[1, 2, 3, 4, 9, 3, 5]);
        assert_eq!(drafter.find(), None);
        drafter.extend(&[3]);
        // The last 3 was followed by 5, at index 6.
        assert_eq!(drafter.find(), Some((6, 1)));
        drafter.extend(&[8, 1, 2, 3]);
        // Three tokens stand at the beginning, though 3 alone stood later.
        assert_eq!(drafter.find(), Some((3, 3)));
        let mut tokens = vec![77];
        drafter.trust[2].right = ONE;
        drafter.draft(4, 100, &mut tokens);
        assert_eq!(tokens, [77, 4, 9, 3, 5]);
        // None that cannot be fed.
        let mut tokens = vec![];
        drafter.draft(4, 9, &mut tokens);
        assert_eq!(tokens, [4]);
        // A draft that reaches the end goes round.
        let mut drafter = Drafter::new();
        drafter.extend(&[5, 6, 5, 6, 5]);
        drafter.trust[2].right = ONE;
        let mut tokens = vec![];
        drafter.draft(5, 100, &mut tokens);
        assert_eq!(tokens, [6, 5, 6, 5, 6]);
        drafter.learn(5, false);
        let want = DraftStats {
            passes: 1,
            drafted: 5,
            accepted: 5,
        };
        assert_eq!(drafter.stats(), want);
    }

    #[test]
    fn room_for_nothing_drafts_nothing() {
        let mut drafter = Drafter::new();
        drafter.extend(&[1; 50]);
        for trust in &mut drafter.trust {
            trust.right = ONE;
        }
        let mut tokens = vec![];
        drafter.draft(0, 100, &mut tokens);
        assert!(tokens.is_empty());
        drafter.draft(usize::MAX, 100, &mut tokens);
        assert_eq!(tokens, [1; MOST]);
    }
}
