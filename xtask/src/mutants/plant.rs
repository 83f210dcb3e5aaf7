//! All mistakes planted in one source text, selected when it runs.
//!
//! A function with mistakes gets one copy of itself for each, with the edits applied, and begins by calling the copy
//! that is selected. One compilation of the reference thus holds every mutant, and each copy differs from the function
//! by its edits alone. The source is formatted as `rustfmt` does: a function's last line is its brace, indented as the
//! first.

use super::Mutant;
use std::fmt::Write as _;
use std::ops::Range;

/// What the planted source has besides: the selection. 0 is the source as it was.
const SELECTION: &str = "
static MUTANT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

/// Selects a mutant by its number; 0 is none.
pub fn select_mutant(number: usize) {
    MUTANT.store(number, std::sync::atomic::Ordering::SeqCst);
}

fn mutant() -> usize {
    MUTANT.load(std::sync::atomic::Ordering::Relaxed)
}

static DIGESTS: std::sync::Mutex<std::collections::BTreeMap<Vec<u8>, Hash>> =
    std::sync::Mutex::new(std::collections::BTreeMap::new());

/// Remembers the digests of long inputs, which make most of the time.
fn remembered(data: &[u8]) -> Hash {
    if data.len() < 500 {
        return keccak256_computed(data);
    }
    if let Some(digest) = DIGESTS.lock().unwrap().get(data) {
        return *digest;
    }
    let digest = keccak256_computed(data);
    DIGESTS.lock().unwrap().insert(data.to_vec(), digest);
    digest
}
";
/// The hash function, and what it calls: where they have no mistake, digests may be remembered.
const HASH: &str = "keccak256";
const HASHING: [&str; 3] = [HASH, "keccak_f", "uint_le"];

/// Why a mutant cannot be planted: the source has changed, or the list is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PlantError {
    /// No function of the path, or several.
    Function {
        id: &'static str,
        function: &'static str,
        count: usize,
    },
    /// A text to be replaced does not occur exactly once in the function.
    Text {
        id: &'static str,
        text: &'static str,
        count: usize,
    },
    /// An edit overlaps another or changes nothing.
    Edit {
        id: &'static str,
        text: &'static str,
    },
}

impl std::fmt::Display for PlantError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Function {
                id,
                function,
                count,
            } => write!(
                f,
                "mutant {id}: {count} functions `{function}`, must be one"
            ),
            Self::Text { id, text, count } => write!(
                f,
                "mutant {id}: `{text}` occurs {count} times in its function, must occur once"
            ),
            Self::Edit { id, text } => write!(
                f,
                "mutant {id}: the edit of `{text}` overlaps another or changes nothing"
            ),
        }
    }
}

impl std::error::Error for PlantError {}

/// A function of the source.
struct Function<'a> {
    /// `name`, or `Type::name`, or `module::name`.
    path: String,
    name: &'a str,
    /// Whether it is called as `Self::name`.
    associated: bool,
    /// Bytes of the whole item, from the line of `fn` to its brace.
    item: Range<usize>,
    /// Offset after the brace that opens the body.
    body: usize,
    /// Names of the parameters.
    parameters: Vec<&'a str>,
}

fn indent(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The name of the function whose first line this is.
fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for word in ["pub ", "const "] {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let rest = rest.strip_prefix("fn ")?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

/// The type of an `impl` line or the name of a `mod` line.
fn block_name(line: &str) -> Option<(&str, bool)> {
    if let Some(rest) = line.strip_prefix("pub mod ") {
        return rest.strip_suffix(" {").map(|name| (name, false));
    }
    let rest = line.strip_prefix("impl")?.strip_suffix(" {")?;
    let name = rest.rsplit_once(" for ").map_or(rest, |(_, name)| name);
    let name = name.trim_start_matches("<'a>").trim();
    name.split('<').next().map(|name| (name, true))
}

/// The name in one `pattern: Type` or receiver.
fn parameter_name(parameter: &str) -> &str {
    let pattern = parameter.split(':').next().unwrap_or(parameter).trim();
    pattern.rsplit([' ', '&']).next().unwrap_or(pattern)
}

/// The names of a parameter list without its parentheses.
fn parameter_names(list: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start, mut last) = (Vec::new(), 0, 0, ' ');
    for (i, c) in list.char_indices() {
        match c {
            '(' | '[' | '<' => depth += 1,
            '>' if last == '-' => {}
            ')' | ']' | '>' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&list[start..i]);
                start = i + 1;
            }
            _ => {}
        }
        last = c;
    }
    parts.push(&list[start..]);
    let names = parts.into_iter().map(parameter_name);
    names.filter(|name| !name.is_empty()).collect()
}

/// The functions of a formatted source that are not inside another one.
fn functions(source: &str) -> Vec<Function<'_>> {
    let mut lines = Vec::new();
    let mut at = 0;
    for line in source.split_inclusive('\n') {
        lines.push((at, line.trim_end_matches('\n')));
        at += line.len();
    }
    let (mut found, mut block, mut i) = (Vec::new(), None, 0);
    while i < lines.len() {
        let (start, line) = lines[i];
        if indent(line) == 0 && !line.is_empty() {
            block = block_name(line);
        }
        let Some(name) = function_name(line).filter(|_| !line.trim_start().starts_with("//"))
        else {
            i += 1;
            continue;
        };
        let brace = format!("{}}}", " ".repeat(indent(line)));
        let Some(last) = (i..lines.len()).find(|&j| lines[j].1 == brace) else {
            break;
        };
        let item = start..lines[last].0 + brace.len();
        let text = &source[item.clone()];
        let open = text.find('(').map_or(text.len(), |p| p + 1);
        let mut depth = 1;
        let close = text[open..]
            .char_indices()
            .find(|&(_, c)| {
                depth += i32::from(c == '(') - i32::from(c == ')');
                depth == 0
            })
            .map_or(text.len(), |(p, _)| open + p);
        let body = (i..=last)
            .find(|&j| lines[j].1.ends_with('{'))
            .map_or(item.end, |j| lines[j].0 + lines[j].1.len());
        let inside = block.filter(|_| indent(line) > 0);
        found.push(Function {
            path: inside.map_or(name.to_owned(), |(block, _)| format!("{block}::{name}")),
            name,
            associated: inside.is_some_and(|(_, is_impl)| is_impl),
            parameters: parameter_names(&text[open..close]),
            item,
            body,
        });
        i = last + 1;
    }
    found
}

/// The edited text of a function. Every text is sought in the function as it was.
fn edited(mutant: &Mutant, text: &str) -> Result<String, PlantError> {
    let mut places = Vec::new();
    for &(find, replace) in mutant.edits {
        let count = text.matches(find).count();
        match text.find(find) {
            Some(at) if count == 1 => places.push((at, find, replace)),
            _ => {
                return Err(PlantError::Text {
                    id: mutant.id,
                    text: find,
                    count,
                });
            }
        }
    }
    places.sort_unstable();
    let (mut new, mut at) = (String::new(), 0);
    for (place, find, replace) in places {
        if place < at || find == replace {
            return Err(PlantError::Edit {
                id: mutant.id,
                text: find,
            });
        }
        new += &text[at..place];
        new += replace;
        at = place + find.len();
    }
    Ok(new + &text[at..])
}

/// The source with every mutant planted; the first has number 1.
///
/// # Errors
/// Every mutant that does not fit.
pub(crate) fn plant(source: &str, mutants: &[Mutant]) -> Result<String, Vec<PlantError>> {
    let functions = functions(source);
    let mut copies = vec![String::new(); functions.len()];
    let mut calls = vec![String::new(); functions.len()];
    let mut errors = Vec::new();
    for (i, mutant) in mutants.iter().enumerate() {
        let named: Vec<usize> = (0..functions.len())
            .filter(|&f| functions[f].path == mutant.function)
            .collect();
        let &[f] = named.as_slice() else {
            errors.push(PlantError::Function {
                id: mutant.id,
                function: mutant.function,
                count: named.len(),
            });
            continue;
        };
        let function = &functions[f];
        let number = i + 1;
        let name = format!("{}_{}", function.name, mutant.id.replace('-', "_"));
        let text = match edited(mutant, &source[function.item.clone()]) {
            Ok(text) => text,
            Err(error) => {
                errors.push(error);
                continue;
            }
        };
        let declared = format!("fn {}", function.name);
        let copy = text.replacen(&declared, &format!("fn {name}"), 1);
        let owner = if function.associated { "Self::" } else { "" };
        let arguments = function.parameters.join(", ");
        // Writing to a string cannot fail.
        let _ = write!(copies[f], "\n\n{copy}");
        let _ = write!(
            calls[f],
            " if crate::mutant() == {number} {{ return {owner}{name}({arguments}); }}"
        );
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    if let Some(f) = functions.iter().position(|f| f.path == HASH) {
        let hashing = (1..)
            .zip(mutants)
            .filter(|(_, m)| HASHING.contains(&m.function));
        let numbers: Vec<String> = hashing.map(|(number, _)| number.to_string()).collect();
        let declared = format!("fn {HASH}");
        let copy =
            source[functions[f].item.clone()].replacen(&declared, "fn keccak256_computed", 1);
        let _ = write!(copies[f], "\n\n{copy}");
        let _ = write!(
            calls[f],
            " if ![{}].contains(&crate::mutant()) {{ return remembered(data); }}",
            numbers.join(", ")
        );
    }
    let (mut planted, mut at) = (String::new(), 0);
    for (f, function) in functions.iter().enumerate() {
        planted += &source[at..function.body];
        planted += &calls[f];
        planted += &source[function.body..function.item.end];
        planted += &copies[f];
        at = function.item.end;
    }
    Ok(planted + &source[at..] + SELECTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
/// fn in a comment (x)
pub fn half(x: i64, f: impl FnOnce() -> (i64, u8), mut z: &[(i64, u8)]) -> i64 {
    x / 2
}

impl<'a> Reader<'a> {
    fn take(
        &mut self,
        n: usize,
    ) -> usize {
        n + 1
    }
}

pub mod toy {
    pub fn half(x: i64) -> i64 {
        fn inner(x: i64) -> i64 {
            x
        }
        inner(x / 2)
    }
}
";

    fn mutant(function: &'static str, edits: &'static [(&'static str, &'static str)]) -> Mutant {
        Mutant {
            id: "a-b",
            place: "1",
            function,
            what: "",
            edits,
        }
    }

    #[test]
    fn functions_are_found_with_their_owners_and_parameters() {
        let found: Vec<_> = functions(SOURCE)
            .into_iter()
            .map(|f| (f.path, f.associated, f.parameters))
            .collect();
        assert_eq!(
            found,
            [
                ("half".to_owned(), false, vec!["x", "f", "z"]),
                ("Reader::take".to_owned(), true, vec!["self", "n"]),
                ("toy::half".to_owned(), false, vec!["x"]),
            ]
        );
    }

    #[test]
    fn a_planted_function_calls_its_copy_when_selected() {
        let all = [
            mutant("Reader::take", &[("n + 1", "n")]),
            mutant("toy::half", &[("x / 2", "x >> 1")]),
        ];
        let planted = plant(SOURCE, &all).unwrap();
        assert!(planted.contains(
            ") -> usize { if crate::mutant() == 1 { return Self::take_a_b(self, n); }\n        n + 1\n    }\n\n    fn take_a_b(\n"
        ));
        assert!(planted.contains("{ if crate::mutant() == 2 { return half_a_b(x); }\n"));
        assert!(planted.contains("inner(x >> 1)") && planted.contains("inner(x / 2)"));
    }

    #[test]
    fn a_mutant_that_does_not_fit_is_an_error() {
        let error = |function, edits| {
            let errors = plant(SOURCE, &[mutant(function, edits), mutant("gone", &[])]);
            let mut errors = errors.unwrap_err();
            assert_eq!(errors.len(), 2, "every error is told");
            errors.remove(0)
        };
        let count = |function, edits| match error(function, edits) {
            PlantError::Function { count, .. } | PlantError::Text { count, .. } => Some(count),
            PlantError::Edit { .. } => None,
        };
        assert_eq!(count("gone", &[("x", "y")]), Some(0));
        assert_eq!(count("half", &[("x / 3", "y")]), Some(0));
        assert_eq!(count("half", &[("i64", "u64")]), Some(4));
        assert_eq!(count("half", &[("x / 2", "x / 2")]), None);
        assert_eq!(count("half", &[("x / 2", "x"), ("/ 2", "/ 3")]), None);
    }
}
