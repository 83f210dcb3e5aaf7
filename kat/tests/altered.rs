//! Every kind of value, altered: verification fails and names the case.

use std::fs;
use std::path::{Path, PathBuf};

use kat::file::{File, ModelFile, OpFile, parse};
use kat::op::{Answer, Value};
use kat::row::Row;
use kat::target::{ReferenceTarget, Target};
use kat::verify::{Outcome, Verdict, check};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn set() -> PathBuf {
    root().join(kat::set::CURRENT)
}

fn read(name: &str) -> File {
    parse(&fs::read(set().join(name)).expect(name)).expect(name)
}

fn refused(file: &File, names: &[&str]) {
    let why = check(file, &root(), &ReferenceTarget).expect_err("an altered value");
    for name in names {
        assert!(why.contains(name), "{why}: does not name {name}");
    }
}

fn alter(answer: &mut Answer) {
    match answer {
        Answer::Int(v) => *v += 1,
        Answer::Row(values) => *values.last_mut().expect("a value") -= 1,
        Answer::RowDigest { keccak256, .. } | Answer::Digest(keccak256) => keccak256[31] ^= 1,
        Answer::Digests(list) => match list.last_mut() {
            Some(last) => last[0] ^= 128,
            None => list.push([0; 32]),
        },
    }
}

/// Alters an input so that it stays in its domain where that is easy.
fn alter_input(value: &mut Value) {
    match value {
        Value::Int(v) => *v += 1,
        Value::Row(row) => {
            let mut values = row.expand();
            if let Some(v) = values.iter_mut().max_by_key(|v| v.unsigned_abs()) {
                *v -= v.signum() * (1 + v.abs() / 2);
            }
            *row = Row::List(values);
        }
        Value::Scale(Some((t, _))) => *t /= 3,
        Value::Scale(None) => *value = Value::Scale(Some((1 << 30, -3))),
        Value::Digest(d) => d[5] ^= 4,
        Value::Digests(list) => list.push([7; 32]),
    }
}

#[test]
fn an_altered_answer_of_any_operation_is_named() {
    for op in kat::op::OPS {
        let File::Op(file) = read(&format!("ops/{}.json", op.name)) else {
            panic!("{} is of level op", op.name)
        };
        assert!(file.cases.len() >= 3, "{}", op.name);
        for case in &file.cases {
            for i in 0..case.out.len() {
                let mut case = case.clone();
                alter(&mut case.out[i]);
                let name = case.name.clone();
                let altered = File::Op(OpFile {
                    op,
                    cases: vec![case],
                });
                refused(&altered, &["case", &name]);
            }
        }
    }
}

#[test]
fn an_answer_of_another_length_is_named() {
    for op in kat::op::OPS {
        let File::Op(file) = read(&format!("ops/{}.json", op.name)) else {
            panic!("{} is of level op", op.name)
        };
        let lists = |a: &Answer| matches!(a, Answer::Row(_) | Answer::Digests(_));
        for case in &file.cases {
            for i in (0..case.out.len()).filter(|&i| lists(&case.out[i])) {
                for longer in [false, true] {
                    let mut case = case.clone();
                    let changed = match &mut case.out[i] {
                        Answer::Row(v) if longer => {
                            v.push(0);
                            true
                        }
                        Answer::Row(v) => v.pop().is_some(),
                        Answer::Digests(v) if longer => {
                            v.push([0; 32]);
                            true
                        }
                        Answer::Digests(v) => v.pop().is_some(),
                        _ => false,
                    };
                    if changed {
                        let name = case.name.clone();
                        let cases = vec![case];
                        refused(&File::Op(OpFile { op, cases }), &[&name, "expected"]);
                    }
                }
            }
        }
    }
}

#[test]
fn every_input_of_every_operation_matters() {
    for op in kat::op::OPS {
        let File::Op(file) = read(&format!("ops/{}.json", op.name)) else {
            panic!("{} is of level op", op.name)
        };
        for (i, (member, _)) in op.inputs.iter().enumerate() {
            let noticed = |case: &kat::file::Case| {
                let mut case = case.clone();
                alter_input(&mut case.input[i]);
                let cases = vec![case];
                check(&File::Op(OpFile { op, cases }), &root(), &ReferenceTarget).is_err()
            };
            assert!(file.cases.iter().any(noticed), "{} {member}", op.name);
        }
    }
}

fn model(name: &str) -> ModelFile {
    match read(&format!("models/{name}.json")) {
        File::Model(file) => *file,
        other => panic!("{name} is of level {}", other.level()),
    }
}

fn refused_model(file: &ModelFile, change: impl FnOnce(&mut ModelFile), names: &[&str]) {
    let mut file = file.clone();
    change(&mut file);
    refused(&File::Model(Box::new(file)), names);
}

#[test]
fn an_altered_value_of_a_model_is_named() {
    let file = model("twelve");
    assert_eq!(
        check(
            &File::Model(Box::new(file.clone())),
            &root(),
            &ReferenceTarget
        ),
        Ok(())
    );
    refused_model(&file, |f| f.bytes += 1, &["blob, bytes"]);
    refused_model(&file, |f| f.keccak256[0] ^= 1, &["blob, keccak256"]);
    refused_model(&file, |f| f.commitment[31] ^= 1, &["commitment"]);
    for run in 0..file.runs.len() {
        let one = ModelFile {
            runs: vec![file.runs[run].clone()],
            ..file.clone()
        };
        let name = &file.runs[run].name;
        for i in 0..one.runs[0].tokens.len() {
            let index = format!("tokens, index {i}");
            refused_model(&one, |f| f.runs[0].tokens[i] ^= 1, &[name, &index]);
        }
        for i in 0..one.runs[0].logits.len() {
            let place = format!("logits position {i}");
            refused_model(&one, |f| f.runs[0].logits[i][3] ^= 1, &[name, &place]);
        }
        for p in 0..one.runs[0].layers.len() {
            for s in 0..one.runs[0].layers[p].len() {
                let place = format!("layers position {p} stage {s}");
                refused_model(&one, |f| f.runs[0].layers[p][s][9] ^= 1, &[name, &place]);
            }
        }
        refused_model(
            &one,
            |f| f.runs[0].finish = "stop".into(),
            &[name, "finish"],
        );
        refused_model(&one, |f| f.runs[0].tokens.push(0), &[name]);
    }
    refused_model(
        &file,
        |f| f.runs[0].layers[0].truncate(1),
        &["twelve ids", "stage"],
    );
    refused_model(
        &file,
        |f| f.runs[0].layers[0].push([0; 32]),
        &["twelve ids", "layers position 0, stages"],
    );
    refused_model(
        &file,
        |f| {
            let run = f.runs.iter_mut().find(|r| !r.tokens.is_empty());
            run.expect("a run with tokens").tokens.pop();
        },
        &["number of"],
    );
    refused_model(
        &file,
        |f| f.halts[0].halt = "ContextExceeded".into(),
        &["halt empty"],
    );
    let late = file
        .halts
        .iter()
        .position(|h| h.token.is_some())
        .expect("an id out of range");
    refused_model(
        &file,
        |f| f.halts[late].token = f.halts[late].token.map(|(p, id)| (p + 1, id)),
        &["position"],
    );
}

#[test]
fn an_altered_edit_is_named() {
    let file = model("dense_static");
    let only = |i: usize| ModelFile {
        runs: vec![],
        halts: vec![],
        edits: vec![file.edits[i].clone()],
        ..file.clone()
    };
    let accepted = file
        .edits
        .iter()
        .position(|e| e.commitment.is_some())
        .expect("an accepted edit");
    let other = file
        .edits
        .iter()
        .position(|e| e.commitment.is_none())
        .expect("a refused edit");
    let name = &file.edits[accepted].name;
    refused_model(&only(accepted), |f| f.edits[0].commitment = None, &[name]);
    refused_model(
        &only(accepted),
        |f| f.edits[0].commitment = Some([0; 32]),
        &[name, "commitment"],
    );
    let name = &file.edits[other].name;
    refused_model(
        &only(other),
        |f| f.edits[0].commitment = Some([0; 32]),
        &[name],
    );
}

#[test]
fn an_altered_value_of_the_toy_is_named() {
    let File::Toy(file) = read("toy.json") else {
        panic!("toy.json is of level toy")
    };
    let toy = |change: &dyn Fn(&mut kat::file::ToyFile), names: &[&str]| {
        let mut file = file.clone();
        change(&mut file);
        refused(&File::Toy(file), names);
    };
    toy(
        &|f| f.logits[1].logits[47] ^= 1,
        &["logits one id", "index 47"],
    );
    toy(
        &|f| f.logits[1].logits.push(0),
        &["logits one id", "index 48"],
    );
    toy(
        &|f| {
            f.logits[1].logits.pop();
        },
        &["logits one id", "index 47"],
    );
    toy(
        &|f| f.tokens[0].tokens[9] ^= 1,
        &["tokens published", "index 9"],
    );
    toy(
        &|f| f.halts[0].halt = "ContextExceeded".into(),
        &["halt empty"],
    );
    toy(&|f| f.calls[0].gas += 1, &["call published", "gas"]);
    toy(
        &|f| f.calls[0].result = Err("OutOfGas".into()),
        &["call published"],
    );
    toy(&|f| f.calls[0].input[11] ^= 1, &["call published"]);
}

/// A copy of the set in a folder of this process.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("kat-{}-{name}", std::process::id()));
        for file in kat::set::list(&set()).unwrap() {
            let to = dir.join(&file);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(set().join(&file), to).unwrap();
        }
        Self(dir)
    }

    fn replace(&self, file: &str, from: &str, to: &str) {
        let text = fs::read_to_string(self.0.join(file)).unwrap();
        assert!(text.contains(from), "{file} holds {from}");
        fs::write(self.0.join(file), text.replacen(from, to, 1)).unwrap();
    }

    fn failures(&self) -> Vec<Outcome> {
        let levels = |level: &str| matches!(level, "toy" | "legacy");
        let targets = [Target::Reference];
        let all = kat::verify::run_levels(&self.0, &root(), &targets, &levels).unwrap();
        all.into_iter()
            .filter(|o| o.result == Verdict::Fail)
            .collect()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What the system does not remove by itself.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn the_index_notices_every_byte() {
    let copy = Copy::new("bytes");
    assert_eq!(copy.failures(), []);
    // White space changes no answer, but it changes the file.
    copy.replace("toy.json", "\n", "\n\n");
    let failures = copy.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert_eq!(
        (&*failures[0].file, &*failures[0].target),
        ("toy.json", "index")
    );
    assert!(failures[0].detail.contains("keccak256"), "{failures:?}");
}

#[test]
fn an_altered_answer_on_disk_is_named_twice() {
    let copy = Copy::new("answer");
    copy.replace("toy.json", "[4,28,21,", "[4,28,22,");
    copy.replace(
        "legacy/toy_packed.json",
        "000000020000000400",
        "000000020000000500",
    );
    let failures = copy.failures();
    for (file, target, detail) in [
        ("toy.json", "index", "keccak256"),
        (
            "toy.json",
            "reference",
            "tokens published, tokens, index 2: expected 22, found 21",
        ),
        ("legacy/toy_packed.json", "index", "keccak256"),
        ("legacy/toy_packed.json", "reference", "(published)"),
    ] {
        let named =
            |o: &&Outcome| o.file == file && o.target == target && o.detail.contains(detail);
        assert_eq!(
            failures.iter().filter(named).count(),
            1,
            "{file} {target}: {failures:#?}"
        );
    }
}

#[test]
fn an_altered_index_is_named() {
    for (name, from, to, detail) in [
        (
            "digest",
            "\"toy.json\",\"level\":\"toy\",\"cases\":",
            "\"toy.json\",\"level\":\"toy\",\"cases\":9",
            "cases",
        ),
        (
            "level",
            "\"toy.json\",\"level\":\"toy\"",
            "\"toy.json\",\"level\":\"legacy\"",
            "refused",
        ),
        ("missing", "\"toy.json\"", "\"toys.json\"", ""),
        ("syntax", "{", "[", "JSON"),
    ] {
        let copy = Copy::new(name);
        copy.replace("index.json", from, to);
        let failures = copy.failures();
        assert!(!failures.is_empty(), "{name}");
        assert!(
            failures.iter().any(|o| o.detail.contains(detail)),
            "{name}: {failures:?}"
        );
    }
    // What the index says of a file, one member at a time; the file itself has the digest that the index states.
    let entry = |copy: &Copy| {
        let text = fs::read_to_string(copy.0.join("index.json")).unwrap();
        let line = text.lines().find(|l| l.contains("\"toy.json\"")).unwrap();
        line.trim_end_matches(',').to_owned()
    };
    let copy = Copy::new("length");
    copy.replace(
        "index.json",
        &entry(&copy),
        &entry(&copy).replace("\"bytes\":", "\"bytes\":1"),
    );
    let failures = copy.failures();
    assert_eq!(failures.len(), 1, "{failures:?}");
    assert!(
        failures[0].detail.contains("bytes: expected 1"),
        "{failures:?}"
    );
    let copy = Copy::new("kind");
    let kind = entry(&copy).replace("\"level\":\"toy\"", "\"level\":\"op\"");
    copy.replace("index.json", &entry(&copy), &kind);
    let targets = [Target::Reference];
    let all = kat::verify::run_levels(&copy.0, &root(), &targets, &|level| level == "op").unwrap();
    let level = |o: &&Outcome| o.detail.contains("the level is toy, the index says op");
    assert_eq!(all.iter().filter(level).count(), 1, "{all:?}");
    // A refused file has a line for the target too.
    let copy = Copy::new("refused");
    copy.replace("toy.json", "{", "[");
    let failures = copy.failures();
    let refused = |o: &&Outcome| o.target == "reference" && o.detail.contains("refused");
    assert_eq!(failures.iter().filter(refused).count(), 1, "{failures:?}");
    let copy = Copy::new("stray");
    fs::write(copy.0.join("ops/stray.json"), "{}").unwrap();
    fs::remove_file(copy.0.join("toy.json")).unwrap();
    let failures = copy.failures();
    let named: Vec<&str> = failures.iter().map(|o| &*o.file).collect();
    assert_eq!(named, ["ops/stray.json", "toy.json"], "{failures:?}");
}

/// Files that a set or a model names and that must not be read.
#[cfg(unix)]
#[test]
fn links_and_what_is_no_file() {
    use std::os::unix::fs::symlink;
    let copy = Copy::new("links");
    let toy = copy.0.join("toy.json");
    let why = |copy: &Copy| {
        let failures = copy.failures();
        assert_eq!(failures.len(), 1, "{failures:?}");
        failures[0].detail.clone()
    };
    // A link inside the set is as good as the file.
    fs::rename(&toy, copy.0.join("legacy/toy.json")).unwrap();
    symlink("legacy/toy.json", &toy).unwrap();
    assert!(why(&copy).contains("not listed"));
    fs::remove_file(copy.0.join("legacy/toy.json")).unwrap();
    assert!(why(&copy).contains("toy.json"), "a link to nothing");
    for outside in [set().join("toy.json"), "/dev/zero".into()] {
        fs::remove_file(&toy).unwrap();
        symlink(outside, &toy).unwrap();
        assert!(why(&copy).contains("outside of"));
    }
    fs::remove_file(&toy).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(&toy).unwrap();
    assert!(why(&copy).contains("not a regular file"));
    drop(socket);
    fs::remove_file(&toy).unwrap();
    fs::create_dir(&toy).unwrap();
    assert!(why(&copy).contains("not a regular file"));
    fs::remove_dir(&toy).unwrap();
    fs::copy(set().join("toy.json"), &toy).unwrap();
    // Two links to a folder above them are two files, not 2^40 paths.
    symlink("..", copy.0.join("ops/a")).unwrap();
    symlink("..", copy.0.join("ops/b")).unwrap();
    let failures = copy.failures();
    let named: Vec<&str> = failures.iter().map(|o| &*o.file).collect();
    assert_eq!(named, ["ops/a", "ops/b"], "{failures:?}");
    // The blob of a model.
    symlink(root().join("Cargo.toml"), copy.0.join("blob")).unwrap();
    let read = |path: &str| kat::set::read_below(&copy.0, path, 1 << 24);
    assert!(matches!(
        read("blob"),
        Err(kat::set::SetError::Outside { .. })
    ));
    assert!(matches!(read("ops"), Err(kat::set::SetError::Io { .. })));
    assert!(read("toy.json").is_ok());
}

#[test]
fn an_altered_price_of_a_packed_call_is_named() {
    let text = fs::read_to_string(set().join("legacy/toy_packed.json")).unwrap();
    let verify = |text: &str| kat::legacy::verify(text.as_bytes(), &ReferenceTarget);
    assert!(verify(&text).is_ok());
    let why = verify(&text.replacen("\"Gas\":", "\"Gas\":1", 1)).unwrap_err();
    assert!(why.contains("Gas: expected 1"), "{why}");
}
