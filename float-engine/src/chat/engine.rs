//! The template engine, bounded: templates come with a model and may be hostile.
//!
//! Everything that recurses over a template (parsing, compiling, rendering, dropping) happens on a thread of its
//! own, whose stack holds the deepest nesting that a source of [`MAX_SOURCE`] bytes can spell.

use super::ChatError;
use minijinja::value::{Kwargs, Serde, Value as Jinja};
use minijinja::{Environment, Error, ErrorKind};
use serde::Serialize;
use std::io::Write;

/// Most bytes of a template's source: 16 KiB; compiling a chain of operators takes time by the square of its length.
pub(super) const MAX_SOURCE: usize = 16 << 10;
/// Most `~` in a template's source: compiling a chain of them takes time by the square of its length.
pub(super) const MAX_CONCATENATIONS: usize = 2000;
/// Most bytes of a rendered conversation: 16 MiB.
pub(super) const MAX_OUTPUT: usize = 16 << 20;
/// Most steps of the engine in one rendering.
pub(super) const MAX_FUEL: u64 = 2_000_000;
/// Most elements of a `range`.
const MAX_RANGE: usize = 10_000;
/// Bytes of address space of the thread's stack; only what is touched takes memory.
const STACK: usize = 1 << 30;

/// Refuses a template that is too long or does not compile.
pub(super) fn check(source: &str) -> Result<(), ChatError> {
    if source.len() > MAX_SOURCE {
        return Err(ChatError::TooLong {
            bytes: source.len(),
            max: MAX_SOURCE,
        });
    }
    let concatenations = source.matches('~').count();
    if concatenations > MAX_CONCATENATIONS {
        return Err(ChatError::TooManyConcatenations {
            found: concatenations,
            max: MAX_CONCATENATIONS,
        });
    }
    on_thread(|| environment(source).map(drop))
}

/// Renders a template that [`check`] has accepted.
pub(super) fn render(source: &str, context: &(impl Serialize + Sync)) -> Result<String, ChatError> {
    on_thread(|| {
        let env = environment(source)?;
        let template = env.get_template("chat").map_err(ChatError::Render)?;
        let mut out = Capped {
            bytes: Vec::new(),
            full: false,
        };
        let value = Jinja::from(Serde(context));
        let result = template.render_captured_to(value, &mut out).map(drop);
        if out.full {
            return Err(ChatError::OutputTooLong { max: MAX_OUTPUT });
        }
        result.map_err(|e| match e.kind() {
            ErrorKind::OutOfFuel => ChatError::OutOfFuel { max: MAX_FUEL },
            _ => ChatError::Render(e),
        })?;
        String::from_utf8(out.bytes).map_err(|_| ChatError::Panicked)
    })
}

/// Runs `work` on a thread with a large stack; a panic in it is an error.
fn on_thread<T: Send>(work: impl FnOnce() -> Result<T, ChatError> + Send) -> Result<T, ChatError> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new()
            .name("chat-template".into())
            .stack_size(STACK)
            .spawn_scoped(scope, work)
            .map_err(ChatError::Thread)?;
        thread.join().unwrap_or(Err(ChatError::Panicked))
    })
}

fn environment(source: &str) -> Result<Environment<'_>, ChatError> {
    let mut env = Environment::new();
    let syntax = minijinja::syntax::SyntaxConfig::builder()
        .trim_blocks(true)
        .lstrip_blocks(true)
        .build();
    env.set_syntax(syntax.map_err(ChatError::Syntax)?);
    // an error with debug information would carry the template's values out of the thread
    env.set_debug(false);
    env.set_fuel(Some(MAX_FUEL));
    env.set_unknown_method_callback(|state, value, method, args| {
        if method == "format" {
            return Err(Error::from(ErrorKind::UnknownMethod));
        }
        minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
    });
    // their widths are unbounded
    env.remove_filter("format");
    env.remove_filter("indent");
    env.add_filter("tojson", to_json);
    env.add_function("range", range);
    env.add_function(
        "raise_exception",
        |message: String| -> Result<Jinja, Error> {
            Err(Error::new(ErrorKind::InvalidOperation, message))
        },
    );
    env.add_template("chat", source)
        .map_err(ChatError::Syntax)?;
    Ok(env)
}

/// Python's `range`, with at most [`MAX_RANGE`] elements.
fn range(first: i64, second: Option<i64>, step: Option<i64>) -> Result<Vec<i64>, Error> {
    let refused = |what: String| Error::new(ErrorKind::InvalidOperation, what);
    let (start, end) = second.map_or((0, first), |end| (first, end));
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(refused("range with a step of 0".into()));
    }
    let inside = |x: i64| if step > 0 { x < end } else { x > end };
    let mut out = Vec::new();
    let mut next = Some(start);
    while let Some(x) = next.filter(|&x| inside(x)) {
        if out.len() == MAX_RANGE {
            return Err(refused(format!("range of more than {MAX_RANGE} elements")));
        }
        out.push(x);
        next = x.checked_add(step);
    }
    Ok(out)
}

/// Collects at most [`MAX_OUTPUT`] bytes.
struct Capped {
    bytes: Vec<u8>,
    full: bool,
}

impl Write for Capped {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if bytes.len() > MAX_OUTPUT - self.bytes.len() {
            self.full = true;
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// `json.dumps(value, ensure_ascii=False, indent=indent)` of Python, which templates are written for:
/// a space after `,` and `:`, and no HTML escapes.
fn to_json(value: &Jinja, kwargs: Kwargs) -> Result<Jinja, Error> {
    let indent: Option<usize> = kwargs.get("indent")?;
    kwargs.assert_all_used()?;
    let failed = |e: &dyn std::fmt::Display| Error::new(ErrorKind::BadSerialization, e.to_string());
    let mut out = Vec::new();
    match indent {
        None => value.serialize(&mut serde_json::Serializer::with_formatter(
            &mut out, Spaced,
        )),
        Some(n) => {
            let spaces = " ".repeat(n.min(64));
            let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut serde_json::Serializer::with_formatter(
                &mut out, formatter,
            ))
        }
    }
    .map_err(|e| failed(&e))?;
    String::from_utf8(out)
        .map(Jinja::from_safe_string)
        .map_err(|e| failed(&e))
}

/// Writes `", "` and `": "`.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        w: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { w.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, w: &mut W) -> std::io::Result<()> {
        w.write_all(b": ")
    }
}
