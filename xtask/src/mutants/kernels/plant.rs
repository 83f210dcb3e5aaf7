//! All mistakes of the kernels planted in their source texts, selected when the tests run.
//!
//! An edit replaces an expression, or a statement that ends in a semicolon, by a choice between itself and its
//! replacements. One compilation of the crate thus holds every mutant of every backend.

use crate::mutants::mutant::Mutant;
use std::collections::BTreeMap;
use std::ops::Range;

/// What the crate's root has besides: the selection by an environment variable. 0 is the source as it was.
pub(super) const SELECTION: &str = "
static MUTANT: std::sync::OnceLock<usize> = std::sync::OnceLock::new();

#[inline]
pub(crate) fn mutant(number: usize) -> bool {
    let read = || std::env::var(\"BLUE_MUTANT\").map_or(0, |n| n.parse().unwrap());
    *MUTANT.get_or_init(read) == number
}
";
/// Its name.
pub(super) const VARIABLE: &str = "BLUE_MUTANT";

/// The bytes of the function `name`, or `Type::name`, from the line of `fn` on, if there is exactly one.
fn function(source: &str, path: &str) -> Result<Range<usize>, String> {
    let (within, name) = match path.rsplit_once("::") {
        Some((owner, name)) => (
            block(source, |line| line.starts_with(&format!("impl {owner} ")))?,
            name,
        ),
        None => (0..source.len(), path),
    };
    let range = block(&source[within.clone()], |line| {
        let rest = line
            .split_once("fn ")
            .and_then(|(_, rest)| rest.strip_prefix(name));
        rest.is_some_and(|rest| rest.starts_with(['(', '<']))
    })
    .map_err(|why| format!("function `{path}`: {why}"))?;
    Ok(within.start + range.start..within.start + range.end)
}

/// The bytes from the one line that `begins` a block to its brace, which is indented as that line.
fn block(source: &str, begins: impl Fn(&str) -> bool) -> Result<Range<usize>, String> {
    let (mut found, mut at) = (Vec::new(), 0);
    for line in source.split_inclusive('\n') {
        if begins(line) {
            found.push((at, line.len() - line.trim_start().len()));
        }
        at += line.len();
    }
    let [(start, indent)] = found[..] else {
        return Err(format!("occurs {} times, must be one", found.len()));
    };
    let end = format!("\n{}}}\n", &" ".repeat(indent));
    let len = source[start..].find(&end).ok_or("it has no end")?;
    Ok(start..start + len + end.len())
}

/// The source of a file with the mutants that have edits in it, each with its number.
pub(super) fn plant(source: &str, mutants: &[(usize, &Mutant)]) -> Result<String, String> {
    let mut edits: BTreeMap<(usize, usize), Vec<(usize, &str)>> = BTreeMap::new();
    for (number, mutant) in mutants {
        let of = |why: String| format!("mutant {}: {why}", mutant.id);
        let range = function(source, mutant.function).map_err(of)?;
        for (old, new) in mutant.edits {
            let text = &source[range.clone()];
            let mut places = text.match_indices(old);
            let (Some((at, _)), None) = (places.next(), places.next()) else {
                let count = text.matches(old).count();
                return Err(of(format!("`{old}` occurs {count} times, must occur once")));
            };
            if old == new {
                return Err(of(format!("the edit of `{old}` changes nothing")));
            }
            let start = range.start + at;
            let choices = edits.entry((start, start + old.len())).or_default();
            choices.push((*number, new));
        }
    }
    let (mut planted, mut at) = (String::new(), 0);
    for ((start, end), choices) in edits {
        if start < at {
            return Err(format!("edits of `{}` overlap", &source[start..end]));
        }
        planted += &source[at..start];
        let old = &source[start..end];
        let (open, close) = if old.ends_with(';') {
            ("", "")
        } else {
            ("(", ")")
        };
        planted += open;
        for (number, new) in choices {
            planted += &format!("if crate::mutant({number}) {{ {new} }} else ");
        }
        planted += &format!("{{ {old} }}{close}");
        at = end;
    }
    Ok(planted + &source[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str =
        "fn a(x: u8) -> u8 {\n    x + 1\n}\n\nunsafe fn b<T>(x: u8) {\n    f(x);\n}\n";

    const fn mutant(
        function: &'static str,
        edits: &'static [(&'static str, &'static str)],
    ) -> Mutant {
        Mutant {
            id: "m",
            place: "f.rs",
            function,
            what: "",
            edits,
        }
    }

    #[test]
    fn expressions_and_statements_become_choices() {
        let a = mutant("a", &[("x + 1", "x + 2")]);
        let also = mutant("a", &[("x + 1", "x")]);
        let b = mutant("b", &[("f(x);", "g(x);")]);
        let planted = plant(SOURCE, &[(1, &a), (2, &also), (7, &b)]).unwrap();
        assert_eq!(
            planted,
            "fn a(x: u8) -> u8 {\n    (if crate::mutant(1) { x + 2 } else if crate::mutant(2) { x } else { x + 1 })\n}\n\n\
             unsafe fn b<T>(x: u8) {\n    if crate::mutant(7) { g(x); } else { f(x); }\n}\n"
        );
    }

    #[test]
    fn edits_that_do_not_fit_are_refused() {
        for (mutant, why) in [
            (mutant("c", &[("x", "y")]), "function `c`: occurs 0 times"),
            (mutant("a", &[("y", "x")]), "`y` occurs 0 times"),
            (mutant("a", &[("x + 1", "x + 1")]), "changes nothing"),
            (mutant("a", &[("x + 1", "x"), ("x +", "-")]), "overlap"),
        ] {
            let error = plant(SOURCE, &[(1, &mutant)]).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
