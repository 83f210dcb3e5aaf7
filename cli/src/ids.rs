//! Token ids on the command line.

use std::str::FromStr;

use crate::failure::{Failure, Outcome};

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

/// Refuses an empty prompt and any id at or above `accepted_ids`.
pub(crate) fn check(ids: &[u32], accepted_ids: u32) -> Outcome {
    if ids.is_empty() {
        return Err(Failure::input("the prompt holds no tokens")
            .hint("give at least one token; none is added by itself"));
    }
    match ids.iter().position(|&id| id >= accepted_ids) {
        None => Ok(()),
        Some(i) => Err(Failure::input(format!(
            "token {i} of the prompt is {}, outside this model's range",
            ids[i]
        ))
        .hint(format!("this model accepts ids 0 to {}", accepted_ids - 1))),
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
    fn the_last_accepted_id_passes_and_the_next_does_not() {
        assert!(check(&[0, 47], 48).is_ok());
        assert!(check(&[48], 48).is_err());
        assert!(check(&[], 48).is_err());
    }
}
