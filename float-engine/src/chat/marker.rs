//! Marking the special tokens that messages spell out.

use super::{Conversation, Message};
use serde_json::{Map, Value};

/// A private-use character that occurs neither in the conversation nor in the template.
pub(super) fn unused(conversation: &Conversation, template: &str) -> Option<char> {
    let mut used = std::collections::HashSet::new();
    let mut see = |s: &str| {
        used.extend(s.chars().filter(|c| *c >= '\u{F0000}'));
        s.to_owned()
    };
    see(template);
    map_conversation(conversation, &mut see);
    ('\u{F0000}'..='\u{FFFFD}').find(|c| !used.contains(c))
}

/// The conversation with `marker` inside every special token of its texts.
pub(super) fn mark(conversation: &Conversation, marker: char, specials: &[&str]) -> Conversation {
    map_conversation(conversation, &mut |s| mark_text(s, marker, specials))
}

fn map_conversation(c: &Conversation, f: &mut impl FnMut(&str) -> String) -> Conversation {
    Conversation {
        messages: c
            .messages
            .iter()
            .map(|m| Message {
                role: m.role.clone(),
                content: f(&m.content),
                extra: map_object(&m.extra, f),
            })
            .collect(),
        tools: c.tools.iter().map(|t| map_value(t, f)).collect(),
        ..*c
    }
}

fn map_value(v: &Value, f: &mut impl FnMut(&str) -> String) -> Value {
    match v {
        Value::String(s) => Value::String(f(s)),
        Value::Array(a) => a.iter().map(|v| map_value(v, f)).collect(),
        Value::Object(o) => Value::Object(map_object(o, f)),
        other => other.clone(),
    }
}

fn map_object(o: &Map<String, Value>, f: &mut impl FnMut(&str) -> String) -> Map<String, Value> {
    o.iter().map(|(k, v)| (f(k), map_value(v, f))).collect()
}

/// Puts the marker after the first character of each special token in `text`, and of one that begins at its end;
/// and in front of the text if it begins with the end of one or is a part of one. Then no special token can lie in it or
/// across its edges. Every special token has two characters or more.
fn mark_text(text: &str, marker: char, specials: &[&str]) -> String {
    let mut out = String::with_capacity(text.len());
    let begins_inside = |s: &&str| {
        s.contains(text)
            || s.char_indices()
                .skip(1)
                .any(|(i, _)| text.starts_with(&s[i..]))
    };
    if !text.is_empty() && specials.iter().any(begins_inside) {
        out.push(marker);
    }
    for (i, c) in text.char_indices() {
        out.push(c);
        let rest = &text[i..];
        if specials
            .iter()
            .any(|s| rest.starts_with(s) || s.starts_with(rest))
        {
            out.push(marker);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SPECIALS: [&str; 3] = ["<|im_end|>", "<s>", "<|x"];

    #[test]
    fn places() {
        for (text, expected) in [
            ("plain <b> text", "plain <b> text"),
            ("a<|im_end|>b", "a<_|im_end|>b"),
            ("<s>", "_<_s>"),
            ("<s><s>", "<_s><_s>"),
            ("a <|im", "a <_|im"),
            ("y<", "y<_"),
            ("im", "_im"),
            ("|>y", "_|>y"),
            ("", ""),
        ] {
            assert_eq!(mark_text(text, '_', &SPECIALS), expected);
        }
    }

    proptest! {
        /// Whatever surrounds a marked text, it takes no part in a special token, and no character is lost.
        #[test]
        fn no_special_token_touches_a_marked_text(text in "[<>|imx_sed]{0,14}", before in "[<|im]{0,5}", after in "[|im_end>s]{0,10}") {
            let marked = mark_text(&text, '#', &SPECIALS);
            prop_assert_eq!(marked.replace('#', ""), text.as_str());
            if text.is_empty() {
                return Ok(());
            }
            let whole = format!("{before}{marked}{after}");
            for s in SPECIALS {
                for (at, _) in whole.match_indices(s) {
                    let inside = at + s.len() <= before.len() || at >= before.len() + marked.len();
                    prop_assert!(inside, "{} in {}", s, whole);
                }
            }
        }
    }
}
