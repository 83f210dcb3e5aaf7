//! `blue blob`: from a file through a server into another store, with sources that lie, a full disk and kill -9.

mod common;

use common::running::Running;
use common::{blue, error_of, json_of, run, text_of};
use int_engine::commitment::commitment;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const BLOB: &[u8] = include_bytes!("../../models/default/blue-tiny.blob");

fn name() -> String {
    commitment(BLOB).to_string()
}

fn hex() -> String {
    name()[2..].to_string()
}

/// A store in `dir` with the blob.
fn stocked(dir: &Path) -> PathBuf {
    let (file, store) = (dir.join("model.blob"), dir.join("store"));
    fs::write(&file, BLOB).unwrap();
    let done = json_of(
        blue(["blob", "import", "--json", "--store"])
            .arg(&store)
            .arg(&file),
    );
    assert_eq!(done["commitment"], name());
    store
}

/// `blue blob serve` until it is dropped.
fn serve(store: &Path) -> Running {
    let fixed = ["blob", "serve", "--json", "--quiet", "--listen"];
    let more = ["127.0.0.1:0", "--store", store.to_str().unwrap()];
    Running::start(&[&fixed[..], &more].concat())
}

/// Who asks is told, and a source that lacks a blob is nothing to warn of.
#[test]
fn requests_are_logged_with_who_asks() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let args = ["blob", "serve", "--json", "--listen", "127.0.0.1:0"];
    let more = ["--store", store.to_str().unwrap()];
    let mut server = Running::start(&[&args[..], &more].concat());
    let address = server.text("address");
    let log = BufReader::new(server.child.stderr.take().unwrap());
    let absent = format!("{address}/{}.blob", "0".repeat(64));
    let asked = ureq::get(&absent).call();
    assert!(
        matches!(asked, Err(ureq::Error::StatusCode(404))),
        "{asked:?}"
    );
    ureq::get(format!("{address}/")).call().unwrap();
    let posted = ureq::post(format!("{address}/")).send_empty();
    assert!(posted.is_err(), "{posted:?}");
    let lines: Vec<_> = log.lines().take(3).map(Result::unwrap).collect();
    server.child.kill().unwrap();
    for (line, level, status) in [
        (&lines[0], "INFO", "status=404"),
        (&lines[1], "INFO", "status=200"),
        (&lines[2], "WARN", "status=405"),
    ] {
        let right = line.contains(level) && line.contains(status);
        assert!(right && line.contains("peer=\"127.0.0.1:"), "{line}");
    }
}

fn fetch(store: &Path, from: &[&str]) -> Command {
    let mut command = blue(["blob", "fetch", "--stall", "60", "--tries", "2"]);
    command.arg(name()).arg("--store").arg(store);
    for from in from {
        command.args(["--from", from]);
    }
    command
}

#[test]
fn from_a_file_to_another_machine() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let server = serve(&store);
    let other = dir.path().join("other");
    let text = text_of(&mut fetch(&other, &[&server.text("address")]));
    assert!(text.contains("2.0 MiB, fetched"), "{text}");
    let row = text.lines().last().unwrap();
    assert!(
        row.contains(&server.text("address")) && row.contains("34"),
        "{text}"
    );
    assert_eq!(
        fs::read(other.join(format!("{}.blob", hex()))).unwrap(),
        BLOB
    );
    let again = text_of(&mut fetch(&other, &[&server.text("address")]));
    assert!(again.contains("was there already"), "{again}");
    // A folder is a source too, with what it offers over HTTP.
    let third = dir.path().join("third");
    let told = json_of(fetch(&third, &[other.to_str().unwrap()]).arg("--json"));
    assert_eq!(
        (&told["published"], &told["kept"]),
        (&true.into(), &0.into())
    );
    assert_eq!(told["fetched"], BLOB.len());
    assert_eq!(told["sources"][0]["chunks"], 34);
    let file = Path::new(told["file"].as_str().unwrap());
    assert_eq!(fs::read(file).unwrap(), BLOB);
    // What came out loads.
    let verified = text_of(blue(["verify", "--commitment", &name()]).arg(file));
    assert!(verified.contains("verified"), "{verified}");

    let listed = json_of(blue(["blob", "list", "--json", "--store"]).arg(&third));
    let expected =
        serde_json::json!([{"commitment": name(), "len": BLOB.len(), "state": "published"}]);
    assert_eq!(listed, expected);
    let listed = text_of(blue(["blob", "list", "--store"]).arg(&third));
    assert!(
        listed.contains(&name()) && listed.contains("published"),
        "{listed}"
    );
    let remove = || {
        let mut command = blue(["blob", "remove", &name(), "--store"]);
        command.arg(&third);
        command
    };
    assert_eq!(text_of(&mut remove()), format!("removed {}\n", name()));
    assert!(error_of(&mut remove(), 2).contains("is not in the store"));
    assert_eq!(
        text_of(blue(["blob", "list", "--store"]).arg(&third))
            .lines()
            .count(),
        1
    );
}

#[test]
fn sources_that_offer_other_bytes_end_with_code_3() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let server = serve(&store);
    let liar = dir.path().join("liar");
    fs::create_dir(&liar).unwrap();
    let mut wrong = BLOB.to_vec();
    wrong[1_000_000] ^= 4;
    fs::write(liar.join(format!("{}.blob", hex())), wrong).unwrap();
    let leaves = format!("{}.leaves", hex());
    fs::copy(store.join(&leaves), liar.join(&leaves)).unwrap();
    let liar = liar.to_str().unwrap();
    let other = dir.path().join("other");
    let said = error_of(&mut fetch(&other, &[liar]), 3);
    assert!(
        said.contains("chunk 16: sends other bytes") && said.contains(liar),
        "{said}"
    );
    let listed = json_of(blue(["blob", "list", "--json", "--store"]).arg(&other));
    assert_eq!(listed[0]["state"], "partial");
    // As JSON, the result on standard output and the reason on standard error.
    let output = run(fetch(&other, &[liar]).arg("--json"));
    assert_eq!(output.status.code(), Some(3));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let fault = &told["sources"][0]["faults"][0];
    assert_eq!(
        (&told["published"], &fault["chunk"], &fault["kind"]),
        (&false.into(), &16.into(), &"other_bytes".into())
    );
    // Beside a good source a liar does no harm, and what had come is kept.
    let told = json_of(fetch(&other, &[liar, &server.text("address")]).arg("--json"));
    assert!(told["kept"].as_u64().unwrap() > 0);
    assert_eq!(fs::read(told["file"].as_str().unwrap()).unwrap(), BLOB);
    // A source that is silent about it is another matter.
    let empty = dir.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let fresh = dir.path().join("fresh");
    let said = error_of(
        &mut fetch(&fresh, &[empty.to_str().unwrap(), "http://127.0.0.1:9"]),
        1,
    );
    assert!(
        said.contains("has no such file") && said.contains("http://127.0.0.1:9"),
        "{said}"
    );
    for wrong in ["ftp://example.org", "no/such/folder", "http://"] {
        error_of(&mut fetch(&fresh, &[wrong]), 2);
    }
    error_of(
        blue(["blob", "fetch", "0x12", "--from", liar, "--store"]).arg(&fresh),
        2,
    );
    error_of(
        blue(["blob", "list", "--store"]).arg(dir.path().join("none")),
        2,
    );
}

#[test]
fn scrub_finds_a_bit_and_repairs_its_chunk() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let copy = dir.path().join("copy");
    json_of(fetch(&copy, &[store.to_str().unwrap()]).arg("--json"));
    let scrub = || {
        let mut command = blue(["blob", "scrub", "--store"]);
        command.arg(&copy);
        command
    };
    assert!(text_of(&mut scrub()).contains("right"));
    let file = copy.join(format!("{}.blob", hex()));
    let mut bytes = BLOB.to_vec();
    bytes[2_000_000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let output = run(&mut scrub());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        said.contains("damaged") && said.contains("chunks 31"),
        "{said}"
    );
    assert!(!file.exists());
    let told = json_of(scrub().args(["--json", "--from"]).arg(&store));
    assert_eq!(
        (&told["whole"], &told["blobs"][0]["state"]),
        (&true.into(), &"repaired".into())
    );
    assert_eq!(told["blobs"][0]["fetched"], 65536);
    assert_eq!(fs::read(&file).unwrap(), BLOB);
    // In one go.
    fs::write(&file, &BLOB[..500_000]).unwrap();
    let said = text_of(scrub().arg("--from").arg(&store));
    assert!(
        said.contains("repaired") && said.contains("chunks 8-33"),
        "{said}"
    );
    assert_eq!(fs::read(&file).unwrap(), BLOB);
}

#[test]
fn a_second_writer_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let lock = fs::File::open(store.join("lock")).unwrap();
    lock.lock().unwrap();
    let from = dir.path().to_str().unwrap();
    for command in [
        &mut fetch(&store, &[from]),
        blue(["blob", "scrub", "--store"]).arg(&store),
        blue(["blob", "remove", &name(), "--store"]).arg(&store),
        blue(["blob", "import", "--store"])
            .arg(&store)
            .arg(dir.path().join("model.blob")),
    ] {
        assert!(error_of(command, 1).contains("is written by another process"));
    }
    // Readers need no lock.
    assert!(text_of(blue(["blob", "list", "--store"]).arg(&store)).contains(&name()));
    serve(&store);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_of_this_machine() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    let disk = dir.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let script = r#"
        mount -t tmpfs -o size=1m none "$1"
        fetch() { "$2" blob fetch "$4" --store "$1/s" --from "$3" $5 2>&1 || echo "exit $?"; }
        fetch "$1" "$2" "$3" "$4" ""
        fetch "$1" "$2" "$3" "$4" --no-reserve
        ls "$1/s"/*.blob 2>/dev/null && echo "a blob was published"
        mount -o remount,size=8m "$1"
        fetch "$1" "$2" "$3" "$4" ""
        cp "$1/s"/*.blob "$1/../copy"
    "#;
    let output = Command::new("unshare")
        .args(["-rm", "sh", "-euc", script, "sh"])
        .arg(&disk)
        .arg(env!("CARGO_BIN_EXE_blue"))
        .arg(&store)
        .arg(name())
        .output()
        .expect("unshare of util-linux");
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && error.is_empty(),
        "{text}\n{error}"
    );
    assert_eq!(text.matches("error: no space for").count(), 2, "{text}");
    assert_eq!(text.matches("exit 1\n").count(), 2, "{text}");
    assert!(
        text.contains("in an earlier run") && !text.contains("was published"),
        "{text}"
    );
    assert_eq!(fs::read(dir.path().join("copy")).unwrap(), BLOB);
}

/// The real program, killed at moments spread over a whole run.
#[test]
fn a_killed_fetch_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = serve(&stocked(dir.path()));
    let store = dir.path().join("killed");
    let start = Instant::now();
    assert!(
        fetch(&store, &[&server.text("address")])
            .output()
            .unwrap()
            .status
            .success()
    );
    let mut whole = start.elapsed();
    let file = store.join(format!("{}.blob", hex()));
    let (mut killed, mut ended) = (0u32, 0);
    while killed < 20 {
        if file.exists() {
            assert!(fs::read(&file).unwrap() == BLOB, "after kill {killed}");
            text_of(blue(["blob", "remove", &name(), "--store"]).arg(&store));
        }
        let mut child = fetch(&store, &[&server.text("address")]);
        let mut child = child.stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(whole.mul_f64(f64::from(killed % 20 + 1) / 20.0));
        child.kill().unwrap();
        match child.wait().unwrap().code() {
            None => killed += 1,
            // The machine is faster than it was.
            Some(0) => {
                ended += 1;
                whole = whole.mul_f64(0.9);
            }
            other => panic!("{other:?}"),
        }
    }
    println!("{killed} killed, {ended} ended before");
    assert!(
        fetch(&store, &[&server.text("address")])
            .output()
            .unwrap()
            .status
            .success()
    );
    assert_eq!(fs::read(&file).unwrap(), BLOB);
}

#[test]
fn a_server_that_is_asked_to_end_as_soon_as_it_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let store = stocked(dir.path());
    for _ in 0..20 {
        serve(&store).end();
    }
}
