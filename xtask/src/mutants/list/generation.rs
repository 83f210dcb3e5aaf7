//! Section 3.5: greedy generation, prompts, the logits digest.

use super::{Mutant, m};

pub(super) const MUTANTS: &[Mutant] = &[
    m(
        "argmax-highest-id",
        "3.5",
        "argmax",
        "ties to the highest id",
        &[(".position(", ".rposition(")],
    ),
    m(
        "argmax-padding",
        "3.5",
        "argmax",
        "padding ids considered",
        &[("[..accepted_ids]", "[..logits.len() + 0 * accepted_ids]")],
    ),
    m(
        "argmax-magnitude",
        "3.5",
        "argmax",
        "the largest magnitude",
        &[(".iter().max()", ".iter().max_by_key(|v| v.unsigned_abs())")],
    ),
    m(
        "empty-prompt",
        "3.5",
        "Model::check_prompt",
        "an empty prompt is checked last",
        &[(
            "if prompt.is_empty()",
            "if prompt.is_empty() && self.config.max_context == 0",
        )],
    ),
    m(
        "prompt-fills-context",
        "3.5",
        "Model::check_prompt",
        "a prompt that fills the context is refused",
        &[("prompt.len() > self", "prompt.len() >= self")],
    ),
    m(
        "prompt-too-long",
        "3.5",
        "Model::check_prompt",
        "one token too many accepted",
        &[("self.config.max_context", "self.config.max_context + 1")],
    ),
    m(
        "check-ids-first",
        "3.5",
        "Model::check_prompt",
        "ids checked before the length",
        &[(
            "prompt.len() > self.config.max_context",
            "prompt.len() > self.config.max_context && prompt.iter().all(|&t| (t as usize) < self.config.accepted_ids)",
        )],
    ),
    m(
        "check-last-id",
        "3.5",
        "Model::check_prompt",
        "the last offending position",
        &[(".position(|&t|", ".rposition(|&t|")],
    ),
    m(
        "padding-accepted",
        "3.5",
        "Model::check_prompt",
        "padding ids accepted in a prompt",
        &[("self.config.accepted_ids", "self.config.vocab")],
    ),
    m(
        "id-limit",
        "3.5",
        "Model::check_prompt",
        "the last accepted id refused",
        &[("t as usize >= self", "t as usize + 1 >= self")],
    ),
    m(
        "stop-ignored",
        "3.5",
        "Model::generate",
        "stop ids ignored",
        &[(
            "c.stop_ids.contains(&token)",
            "c.stop_ids.contains(&u32::MAX)",
        )],
    ),
    m(
        "stop-first-only",
        "3.5",
        "Model::generate",
        "the first stop id only",
        &[(
            "c.stop_ids.contains(&token)",
            "c.stop_ids.first() == Some(&token)",
        )],
    ),
    m(
        "stop-not-emitted",
        "3.5",
        "Model::generate",
        "a stop id is not part of the output",
        &[(
            "output.push(token);",
            "if !c.stop_ids.contains(&token) { output.push(token); }",
        )],
    ),
    m(
        "stop-before-length",
        "3.5",
        "Model::generate",
        "a last token that stops counts as length",
        &[(
            "if c.stop_ids.contains(&token)",
            "if c.stop_ids.contains(&token) && output.len() < max_new",
        )],
    ),
    m(
        "context-less",
        "3.5",
        "Model::generate",
        "the context ends one token early",
        &[(
            "output.len() == c.max_context",
            "output.len() + 1 == c.max_context || prompt.len() == c.max_context",
        )],
    ),
    m(
        "context-more",
        "3.5",
        "Model::generate",
        "one token beyond the context",
        &[(
            "output.len() == c.max_context",
            "output.len() == c.max_context + 1",
        )],
    ),
    m(
        "context-before-length",
        "3.5",
        "Model::generate",
        "a full context wins over the length",
        &[(
            "Ok((output, Finish::Length))",
            "Ok((output.clone(), if prompt.len() + output.len() == c.max_context { Finish::Context } else { Finish::Length }))",
        )],
    ),
    m(
        "logits-digest-big-endian",
        "3.5",
        "logits_digest",
        "logits as big-endian words",
        &[("to_le_bytes", "to_be_bytes")],
    ),
];
