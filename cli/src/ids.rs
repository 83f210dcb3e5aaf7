//! Token ids on the command line.

use std::str::FromStr;

use float_engine::tokenizer::Tokenizer;
use int_engine::config::Config;

use crate::failure::{Context, Failure, Outcome};

/// The list after `--tokens`: whole numbers from 0 to 2^32 - 1 between commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenList(pub(crate) Vec<u32>);

impl FromStr for TokenList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("an empty prompt: give at least one id, as in --tokens 1,2,3".to_string());
        }
        text.split(',')
            .enumerate()
            .map(|(i, item)| {
                let item = item.trim();
                let digits = !item.is_empty() && item.bytes().all(|b| b.is_ascii_digit());
                match item.parse::<u32>() {
                    Ok(id) if digits => Ok(id),
                    _ => Err(format!(
                        "item {i} is `{item}`: token ids are whole numbers from 0 to {}",
                        u32::MAX
                    )),
                }
            })
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

/// The ids of a text; control tokens spelled out in it are plain characters.
pub(crate) fn encode(tokenizer: &Tokenizer, text: &str) -> Outcome<Vec<u32>> {
    tokenizer.encode(text).or_input("cannot encode the text")
}

/// The checks of a prompt, in the order of spec 3.5.
pub(crate) fn check(ids: &[u32], config: &Config) -> Outcome {
    let dims = config.dims();
    if ids.is_empty() {
        return Err(Failure::input("the prompt holds no tokens")
            .hint("give at least one token; none is added by itself"));
    }
    if ids.len() > dims.max_context as usize {
        return Err(Failure::input(format!(
            "the prompt holds {} tokens, more than the context",
            ids.len()
        ))
        .hint(format!(
            "this model takes at most {} tokens, prompt and output together",
            dims.max_context
        )));
    }
    match ids.iter().position(|&id| id >= dims.accepted_ids) {
        None => Ok(()),
        Some(i) => Err(Failure::input(format!(
            "token {i} of the prompt is {}, outside this model's range",
            ids[i]
        ))
        .hint(format!(
            "this model accepts ids 0 to {}",
            dims.accepted_ids - 1
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_parse_and_hostile_items_are_named() {
        assert_eq!(
            "1,2, 4294967295".parse(),
            Ok(TokenList(vec![1, 2, u32::MAX]))
        );
        for bad in [
            "",
            " ",
            "1,",
            ",1",
            "-1",
            "+1",
            "1.5",
            "1e3",
            "0x10",
            "4294967296",
            "9007199254740992",
            "1;2",
            "١",
        ] {
            assert!(bad.parse::<TokenList>().is_err(), "{bad}");
        }
        assert!(
            "1,1.5"
                .parse::<TokenList>()
                .unwrap_err()
                .contains("item 1 is `1.5`")
        );
    }

    #[test]
    fn prompts_are_checked_against_the_model() {
        let config = Config::new(int_engine::config::Dims {
            scheme: int_engine::config::Scheme::Dynamic,
            hidden: 8,
            layers: 1,
            heads: 1,
            kv_heads: 1,
            head_dim: 8,
            intermediate: 8,
            vocab: 64,
            accepted_ids: 48,
            max_context: 3,
            qk_norm: false,
            tied: true,
            eps: 0,
            stop_ids: vec![],
        })
        .unwrap();
        assert!(check(&[0, 1, 47], &config).is_ok());
        for bad in [vec![], vec![48], vec![0, 63], vec![0; 4]] {
            assert!(check(&bad, &config).is_err(), "{bad:?}");
        }
    }
}
