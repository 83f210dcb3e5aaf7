//! The levels of known answers, each on its own: does it notice that an implementation is wrong?
//!
//! The implementation is the reference that this program is linked with. The same file is compiled twice: here, where
//! the reference is sound and no level may notice anything, and beside a reference with planted mistakes.

use int_engine::engine::logits_digest;
use kat::file::{self, BlobSource, File, ModelFile, Run};
use kat::target::{Model, Models, ReferenceTarget, Stop};
use kat::verify;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// The levels, in the order of every list here.
pub(crate) const LEVELS: [&str; 6] = ["op", "layer", "logits", "tokens", "blob", "toy"];

/// How a level notices a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Notice {
    /// The file that notices, or for operations every one, by the operation's name.
    pub(crate) files: Vec<String>,
    /// Whether there was no answer at all: a panic, a refused blob, a refused prompt.
    pub(crate) stopped: bool,
    /// The first difference.
    pub(crate) detail: String,
}

/// What each level notices.
pub(crate) type Notices = [Option<Notice>; LEVELS.len()];

/// No difference, or whether there was no answer and the difference.
type Checked = Result<(), (bool, String)>;

/// A file with the blob it speaks of.
enum Answers {
    Op(File),
    Model(Box<ModelFile>, Vec<u8>),
    Toy(File),
    Legacy(Vec<u8>),
}

/// A set of known answers, read once.
pub(crate) struct Set {
    root: PathBuf,
    files: Vec<(String, Answers)>,
}

fn differs(what: &str) -> Checked {
    Err((false, what.to_owned()))
}

fn equal<T: PartialEq>(expected: T, found: T, what: impl FnOnce() -> String) -> Checked {
    if expected == found {
        Ok(())
    } else {
        differs(&what())
    }
}

fn stopped(what: &str, stop: &Stop) -> (bool, String) {
    let why = match stop {
        Stop::Halt(halt) => halt.name,
        Stop::Fault(why) => why,
    };
    (true, format!("{what}: {why}"))
}

/// A panic is no answer.
fn guarded(check: impl FnOnce() -> Checked) -> Checked {
    catch_unwind(AssertUnwindSafe(check)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied());
        Err((true, format!("panic: {}", text.unwrap_or("no message"))))
    })
}

fn prompt(run: &Run) -> Vec<u32> {
    run.prompt.expand().iter().map(|&id| id as u32).collect()
}

/// The layer digests of a run (spec 7.3).
fn layers(run: &Run, model: &dyn Model) -> Checked {
    let stages: usize = run.layers.iter().map(Vec::len).sum();
    if stages == 0 {
        return Ok(());
    }
    let (mut seen, mut first) = (0, Ok(()));
    let sink = &mut |position: usize, stage: usize, row: &[i32]| {
        seen += 1;
        let expected = run.layers.get(position).and_then(|p| p.get(stage));
        if first.is_ok() && expected != Some(&logits_digest(row)) {
            first = differs(&format!("{}: position {position} stage {stage}", run.name));
        }
    };
    let end = model.layers(&prompt(run), sink);
    end.map_err(|stop| stopped(&run.name, &stop))?;
    first?;
    equal(stages, seen, || format!("{}: {seen} stages", run.name))
}

/// The logits digests of a run, made by the reference.
fn logits(run: &Run, model: &dyn Model) -> Checked {
    if run.logits.is_empty() {
        return Ok(());
    }
    let (mut seen, mut first) = (0, Ok(()));
    let sink = &mut |position: usize, row: &[i32]| {
        seen += 1;
        let digest = int_reference::logits_digest(row);
        if first.is_ok() && run.logits.get(position) != Some(&digest) {
            first = differs(&format!("{}: position {position}", run.name));
        }
    };
    let end = model.logits(&prompt(run), sink);
    end.map_err(|stop| stopped(&run.name, &stop))?;
    first?;
    equal(run.logits.len(), seen, || {
        format!("{}: {seen} positions", run.name)
    })
}

/// The generated tokens of a run and why they end.
fn tokens(run: &Run, model: &dyn Model) -> Checked {
    let found = model.generate(&prompt(run), run.max_new);
    let (found, finish) = found.map_err(|stop| stopped(&run.name, &stop))?;
    equal(&run.tokens, &found, || format!("{}: {found:?}", run.name))?;
    equal(run.finish.as_str(), finish, || {
        format!("{}: {finish}", run.name)
    })
}

/// The answer of a verifier in words.
fn in_words(checked: Result<(), String>) -> Checked {
    checked.map_err(|detail| {
        let stopped = detail.contains("panicked") || detail.contains("refused: ");
        (stopped, detail)
    })
}

impl Set {
    /// Reads the set in `dir`; `root` is the folder that paths of blobs start from.
    pub(crate) fn read(dir: &Path, root: &Path) -> Result<Self, String> {
        let bytes = |name: &str| {
            std::fs::read(dir.join(name)).map_err(|e| format!("{}: {e}", dir.join(name).display()))
        };
        let parse = |name: &str| file::parse(&bytes(name)?).map_err(|e| format!("{name}: {e}"));
        let File::Index(listed) = parse(verify::INDEX)? else {
            return Err(format!("{} is not an index", verify::INDEX));
        };
        let mut files = Vec::new();
        // Calls of the precompiles run on the engine and not on the reference, in which mistakes are planted.
        let listed = listed
            .into_iter()
            .filter(|e| e.level != kat::precompiles::LEVEL);
        for entry in listed {
            let name = entry.file;
            let answers = if entry.level == "legacy" {
                Answers::Legacy(bytes(&name)?)
            } else {
                match parse(&name)? {
                    file @ File::Op(_) => Answers::Op(file),
                    file @ File::Toy(_) => Answers::Toy(file),
                    File::Model(model) => {
                        let blob = match &model.source {
                            BlobSource::Recipe(recipe) => kat::blob::build(recipe),
                            BlobSource::File(path) => std::fs::read(root.join(path))
                                .map_err(|e| format!("{path}: {e}"))?,
                        };
                        Answers::Model(model, blob)
                    }
                    File::Index(_) | File::States(_) => {
                        return Err(format!("{name} is of another level"));
                    }
                }
            };
            files.push((name, answers));
        }
        Ok(Self {
            root: root.to_owned(),
            files,
        })
    }

    /// What each level notices of the reference that this program is linked with. Every file of operations is asked,
    /// the files of another level until one notices.
    pub(crate) fn notices(&self) -> Notices {
        let mut notices = Notices::default();
        for (name, answers) in &self.files {
            let done = notices.each_ref().map(Option::is_some);
            let mut keep = |level: usize, name: &str, checked: Checked| {
                if let Err((stopped, detail)) = checked {
                    let first = notices[level].get_or_insert(Notice {
                        files: Vec::new(),
                        stopped,
                        detail,
                    });
                    first.files.push(name.to_owned());
                }
            };
            match answers {
                Answers::Op(file) => {
                    let checked = verify::check(file, &self.root, &ReferenceTarget);
                    keep(0, file.subject(), in_words(checked));
                }
                Answers::Toy(file) => {
                    let checked = verify::check(file, &self.root, &ReferenceTarget);
                    keep(5, name, in_words(checked));
                }
                Answers::Legacy(bytes) => {
                    let verified =
                        || in_words(kat::legacy::verify(bytes, &ReferenceTarget).map(|_| ()));
                    keep(5, name, guarded(verified));
                }
                Answers::Model(file, blob) => {
                    for (level, checked) in self.model(file, blob, done) {
                        keep(level, name, checked);
                    }
                }
            }
        }
        notices
    }

    /// The levels of one model that have not noticed anything yet.
    fn model(
        &self,
        file: &ModelFile,
        blob: &[u8],
        done: [bool; LEVELS.len()],
    ) -> Vec<(usize, Checked)> {
        type Level = fn(&Run, &dyn Model) -> Checked;
        let levels: [(usize, Level); 3] = [(1, layers), (2, logits), (3, tokens)];
        if done[1..5] == [true; 4] {
            return Vec::new();
        }
        let mut loaded = None;
        let load = guarded(|| match ReferenceTarget.load(blob) {
            Ok(model) => {
                loaded = Some(model);
                Ok(())
            }
            Err(why) => Err((true, format!("blob refused: {why}"))),
        });
        let mut found = Vec::new();
        for (level, check) in levels.into_iter().filter(|(level, _)| !done[*level]) {
            let checked = match &loaded {
                Some(model) => guarded(|| file.runs.iter().try_for_each(|r| check(r, &**model))),
                None => load.clone(),
            };
            found.push((level, checked));
        }
        if done[4] {
            return found;
        }
        let mut rest = file.clone();
        rest.runs.clear();
        let checked = verify::check(&File::Model(Box::new(rest)), &self.root, &ReferenceTarget);
        found.push((4, in_words(checked)));
        found
    }
}
