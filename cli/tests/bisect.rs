//! Traces and the search for the first operation that differs, with a fault that was planted.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use common::{blue, error_of, json_of, run, text_of};
use serde_json::Value;
use tempfile::TempDir;

const IDS: &str = "1,7,13,99,4";

/// The reference with another tie rule in one operation of one layer, as a program that writes a trace.
struct Tampered {
    folder: PathBuf,
    program: PathBuf,
}

fn replace_once(text: &str, from: &str, to: &str) -> String {
    assert_eq!(
        text.matches(from).count(),
        1,
        "the reference has changed: {from}"
    );
    text.replace(from, to)
}

/// Half up in place of half away from zero where layer 1 rounds its rotated keys.
fn plant(source: &str) -> String {
    let from = "rotate_head(k, cos_sin, c.qk_norm, r3, b, &mut k_seen)";
    let to = "if TAMPERED.get() { half_up(k, cos_sin, c.qk_norm, r3, b, &mut k_seen) } else { \
              rotate_head(k, cos_sin, c.qk_norm, r3, b, &mut k_seen) }";
    let source = replace_once(source, from, to);
    let from = "let mut probe = |op: &'static str, values: &[i64]| probe(Some(i), op, values);";
    let source = replace_once(&source, from, &format!("TAMPERED.set(i == 1); {from}"));
    let start = source.find("fn rotate_head(").expect("rotate_head");
    let end = start + source[start..].find("\n}\n").expect("its end") + 3;
    let altered = replace_once(&source[start..end], "fn rotate_head(", "fn half_up(");
    let altered = replace_once(&altered, "rdbpot(v, r3)", "((v + ((1 << r3) >> 1)) >> r3)");
    format!("{source}\n{altered}\n{PROGRAM}")
}

/// Another writer of spec 7.10, without a library: BLOB IDS.
const PROGRAM: &str = r#"
thread_local!(static TAMPERED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) });
fn main() {
    let args: Vec<String> = std::env::args().collect();
    let blob = std::fs::read(&args[1]).unwrap();
    let model = Model::from_blob(&blob).unwrap();
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let commitment = hex(&commitment(&blob));
    println!("{{\"machine\":\"\",\"target\":\"theirs\",\"prompt\":[{}],\"commitment\":\"{commitment}\",\"schema\":\"blue-trace-1\"}}", args[2]);
    let mut cache = model.new_cache();
    for (position, id) in args[2].split(',').enumerate() {
        let mut probe = |layer: Option<usize>, op: &'static str, values: &[i64]| {
            let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let layer = layer.map_or("null".to_string(), |l| l.to_string());
            println!("{{ \"op\": \"{op}\", \"layer\": {layer}, \"position\": {position}, \"digest\": \"{}\", \"count\": {}, \"values\": {values:?} }}", hex(&keccak256(&bytes)), values.len());
        };
        let x = model.step_probed(&mut cache, id.parse().unwrap(), &mut probe);
        model.logits_probed(&x, &mut probe);
    }
}
"#;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the repository")
}

fn blob() -> PathBuf {
    root().join("models/default/blue-tiny.blob")
}

fn tampered() -> &'static Tampered {
    static BUILT: OnceLock<Tampered> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tampered-reference");
        let at = |path: &str| folder.join(path);
        let own = root().join("int-engine/reference/src/lib.rs");
        let source = plant(&fs::read_to_string(own).expect("the reference"));
        // Where the source finds its tables.
        fs::create_dir_all(at("reference/src")).expect("a folder");
        fs::create_dir_all(at("tables")).expect("a folder");
        for table in fs::read_dir(root().join("int-engine/tables")).expect("tables") {
            let table = table.expect("a table");
            fs::copy(table.path(), at("tables").join(table.file_name())).expect("a copy");
        }
        fs::write(at("reference/src/lib.rs"), source).expect("the source");
        let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
        let built = Command::new(rustc)
            .args(["--edition=2024", "-Copt-level=1", "--cap-lints=allow", "-o"])
            .args([at("theirs"), at("reference/src/lib.rs")])
            .output()
            .expect("rustc runs");
        assert!(
            built.status.success(),
            "{}",
            String::from_utf8_lossy(&built.stderr)
        );
        Tampered {
            program: at("theirs"),
            folder,
        }
    })
}

/// The path of the trace of the tampered reference.
fn their_trace() -> PathBuf {
    static WRITTEN: OnceLock<PathBuf> = OnceLock::new();
    let write = || {
        let tampered = tampered();
        let out = Command::new(&tampered.program)
            .arg(blob())
            .arg(IDS)
            .output();
        let out = out.expect("the tampered reference runs");
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stderr)
        );
        let path = tampered.folder.join("their.trace");
        fs::write(&path, out.stdout).expect("their trace");
        path
    };
    WRITTEN.get_or_init(write).clone()
}

/// A run of bisect that finds a difference, as JSON.
fn found(args: &[&str]) -> Value {
    let output = run(blue(["kat", "bisect", "--json"]).args(args));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{args:?}: {stderr}");
    assert!(stderr.is_empty(), "{stderr}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn write_trace(path: &Path, more: &[&str]) {
    let mut command = blue(["kat", "trace", "--tokens", IDS, "-o"]);
    let output = run(command.arg(path).args(more));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(output.stdout.is_empty() && output.stderr.is_empty());
}

fn path(path: &Path) -> &str {
    path.to_str().expect("a name in UTF-8")
}

/// A wrong tie rule in one operation of one layer: the layer and the operation are named.
#[test]
fn a_planted_fault_is_found_with_its_layer_and_operation() {
    let theirs = their_trace();
    let theirs = path(&theirs);
    let folder = TempDir::new().expect("a folder");
    let mine = folder.path().join("my.trace");
    write_trace(&mine, &["--values"]);
    let mut before = None;
    for side in ["reference", "scalar", "scalar:3", "auto", path(&mine)] {
        let report = found(&[side, theirs]);
        let difference = &report["difference"];
        assert_eq!(difference["position"], 0, "{side}: {report}");
        assert_eq!(difference["layer"], 1, "{side}: {report}");
        assert_eq!(difference["op"], "k_rotate", "{side}: {report}");
        assert_eq!(difference["unseen"], 0);
        assert_eq!(report["last_agreed"]["op"], "q_rotate");
        // Away from zero against upwards: a negative value, one below.
        let value = |side: &str| difference["element"][side].as_i64().expect("an element");
        assert!(value("a") < 0 && value("a") + 1 == value("b"), "{report}");
        let agreed = report["agreed"].as_u64();
        assert_eq!(*before.get_or_insert(agreed), agreed);
    }
    let output = run(&mut blue(["kat", "bisect", "reference", theirs]));
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let line = "first difference: position 0, layer 1, op k_rotate; element ";
    assert!(text.contains(line), "{text}");
    assert_eq!(output.status.code(), Some(3));
    // The sides exchanged.
    let report = found(&[theirs, "reference"]);
    assert_eq!(report["difference"]["op"], "k_rotate");
}

/// A trace of some operations and of digests alone still names the first of them that differs.
#[test]
fn a_trace_with_parts_is_enough_to_narrow_the_fault() {
    let theirs = fs::read_to_string(their_trace()).expect("their trace");
    let kept = |line: &&str| {
        ["schema", "\"q\"", "k_rotate", "residual", "logits"]
            .iter()
            .any(|op| line.contains(op))
    };
    let folder = TempDir::new().expect("a folder");
    let parts = folder.path().join("parts.trace");
    let lines: Vec<String> = theirs
        .lines()
        .filter(kept)
        .map(|line| match line.split_once(", \"values\"") {
            Some((line, _)) => format!("{line} }}"),
            None => line.to_owned(),
        })
        .collect();
    fs::write(&parts, lines.join("\n")).expect("a file");
    let report = found(&[path(&parts), "auto"]);
    let difference = &report["difference"];
    assert!(
        difference["layer"] == 1 && difference["op"] == "k_rotate",
        "{report}"
    );
    assert_eq!(difference["element"], Value::Null);
    assert!(difference["unseen"].as_u64() > Some(0));
    assert_eq!(report["last_agreed"]["op"], "q");
    let output = run(&mut blue(["kat", "bisect", path(&parts), "auto"]));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("a side has digests only") && text.contains("the fault may be in one"),
        "{text}"
    );
}

/// The second implementation, which shares no code with this one.
#[test]
fn the_trace_of_the_oracle_agrees() {
    let folder = TempDir::new().expect("a folder");
    let trace = folder.path().join("oracle.trace");
    let oracle = Command::new("python3")
        .arg(root().join("kat/oracle"))
        .arg("trace")
        .arg(blob())
        .args(["--ids", "1,7", "-o"])
        .arg(&trace)
        .output()
        .expect("python3 runs");
    assert!(
        oracle.status.success(),
        "{}",
        String::from_utf8_lossy(&oracle.stderr)
    );
    for side in ["reference", "auto", "auto:2"] {
        let report = json_of(blue(["kat", "bisect", "--json", side]).arg(&trace));
        assert_eq!(report["difference"], Value::Null, "{side}");
        assert_eq!(
            (&report["b"]["target"], &report["only_a"]),
            (&"oracle".into(), &0.into())
        );
        // The head after each of the two positions, or after their one chunk.
        let missing = if side == "auto:2" { 5 } else { 0 };
        assert_eq!(report["only_b"], missing, "{side}");
    }
}

#[test]
fn equal_traces_have_no_difference() {
    let folder = TempDir::new().expect("a folder");
    let trace = folder.path().join("a.trace");
    write_trace(
        &trace,
        &["--backend", "scalar", "--chunk", "2", "--threads", "2"],
    );
    let report = json_of(blue(["kat", "bisect", "--json", "auto"]).arg(&trace));
    assert_eq!(report["difference"], Value::Null);
    assert_eq!(report["only_b"], 0);
    // The head after every position on one side, after every chunk on the other.
    assert_eq!(report["only_a"], 2 * 5);
    let text = text_of(blue(["kat", "bisect"]).arg(&trace).arg(&trace));
    assert!(
        text.contains("no difference: ") && !text.contains("only in"),
        "{text}"
    );
    // Standard output is the same trace.
    let out = text_of(&mut blue([
        "kat",
        "trace",
        "--ids",
        IDS,
        "--backend",
        "scalar",
        "--chunk",
        "2",
        "--threads",
        "2",
        "-o",
        "-",
    ]));
    assert_eq!(out, fs::read_to_string(&trace).expect("the trace"));
    json_of(&mut blue([
        "kat",
        "bisect",
        "--json",
        "reference",
        "auto:9",
        "--tokens",
        IDS,
    ]));
}

#[test]
fn what_cannot_be_compared_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    write_trace(&at("a"), &[]);
    let whole = fs::read_to_string(at("a")).expect("the trace");
    let header = whole.lines().next().expect("a header");
    let commitment = &header
        .split_once("\"commitment\":\"")
        .expect("a commitment")
        .1[..64];
    fs::write(at("model"), whole.replace(commitment, &"0".repeat(64))).expect("a file");
    fs::write(
        at("prompt"),
        whole.replace("[1,7,13,99,4]", "[1,7,12,99,4]"),
    )
    .expect("a file");
    fs::write(at("cut"), &whole[..whole.len() - 20]).expect("a file");
    fs::write(at("empty"), "").expect("a file");
    fs::write(at("header"), header).expect("a file");
    let refused = |a: &str, b: &str, says: &str| {
        let sides = [a, b].map(|side| match at(side) {
            file if file.exists() => path(&file).to_owned(),
            _ => side.to_owned(),
        });
        let stderr = error_of(blue(["kat", "bisect"]).args(sides), 2);
        assert!(stderr.contains(says), "{a} {b}: {stderr}");
    };
    refused("a", "model", "different models");
    refused("scalar", "model", "of another model");
    refused("a", "prompt", "different prompts: id 2 is 13 and 12");
    refused("a", "cut", "EOF");
    refused("a", "empty", "the file is empty");
    refused("a", "header", "no operation in common");
    refused("a", "nothing", "neither a file nor a backend");
    refused("a", "scalar:0", "neither a file nor a backend");
    refused("scalar", "auto", "two backends need a prompt");
    let dir = path(folder.path()).to_owned();
    refused("a", &dir, "not a regular file");
    let other = blue(["kat", "bisect", "scalar", path(&at("a")), "--tokens", "1"]).output();
    assert_eq!(other.expect("it runs").status.code(), Some(2));
    for tokens in ["", "4000000000", "1,x"] {
        let mut command = blue(["kat", "trace", "-o", "-", "--tokens", tokens]);
        error_of(&mut command, 2);
    }
    error_of(&mut blue(["kat", "trace", "-o", "/", "--tokens", "1"]), 2);
}
