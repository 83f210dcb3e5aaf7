//! kill -9 at random moments of downloading and publishing, and disks that are full: in processes of their own.
//!
//! This program starts itself again as `fetch STORE ADDRESS RESERVE SLOW`, which tells on standard output where it stands.

mod common;

use blue_node::fetch::{FetchError, HttpSource, Options, Progress, Source, fetch};
use blue_node::store::{Publishing, State, Store, StoreError, Verdict};
use common::http::{serve, stocked};
use common::{BLOB, commitment, names, options, published, tree};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
#[cfg(target_os = "linux")]
use std::process::Output;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

const KILLS: u32 = 120;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().collect();
    if let [_, mode, store, address, reserve, slow] = &args[..]
        && mode == "fetch"
    {
        return child(store, address, reserve == "true", slow);
    }
    // Every test of the file, whatever filter is given: there is no harness that knows their names.
    let start = Instant::now();
    let tests: &[(&str, fn())] = &[
        ("kills", kills),
        #[cfg(target_os = "linux")]
        ("a_full_disk", a_full_disk),
        ("two_processes", two_processes),
    ];
    for (name, test) in tests {
        test();
        println!("test {name} ... ok");
    }
    let (count, seconds) = (tests.len(), start.elapsed().as_secs_f64());
    println!(
        "\ntest result: ok. {count} passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in {seconds:.2}s\n"
    );
    ExitCode::SUCCESS
}

/// One line for where a fetch stands.
fn place(step: Progress) -> &'static str {
    match step {
        Progress::Proving => "proving",
        Progress::Checking(..) => "checking",
        Progress::Fetching(..) => "fetching",
        Progress::Publishing(Publishing::Syncing) => "syncing",
        Progress::Publishing(Publishing::Hashing(..)) => "hashing",
        Progress::Publishing(Publishing::Naming) => "naming",
        Progress::Publishing(Publishing::Named) => "named",
    }
}

/// Fetches, and sleeps `slow` milliseconds at every step of publishing and a quarter of that after every chunk; `held`
/// instead waits at the first step until standard input ends.
fn child(store: &str, address: &str, reserve: bool, slow: &str) -> ExitCode {
    let mut held = slow == "held";
    let slow: u64 = if held { 0 } else { slow.parse().unwrap() };
    let source: Arc<dyn Source> = Arc::new(HttpSource::new(address).unwrap());
    let options = Options {
        reserve,
        ..options()
    };
    let done = Store::open(store).map_err(FetchError::from).and_then(|s| {
        fetch(&s, commitment(), &[source], &options, &mut |step| {
            println!("{}", place(step));
            std::io::stdout().flush().unwrap();
            if std::mem::take(&mut held) {
                std::io::copy(&mut std::io::stdin(), &mut std::io::sink()).unwrap();
            }
            let quarters = match step {
                Progress::Checking(..) => 0,
                Progress::Fetching(..) => 1,
                _ => 4,
            };
            std::thread::sleep(Duration::from_micros(250 * slow * quarters));
            ControlFlow::Continue(())
        })
    });
    match done {
        Ok(report) => {
            println!("published, kept {}", report.kept);
            ExitCode::SUCCESS
        }
        Err(FetchError::Store(StoreError::NoSpace { needed, .. })) => {
            println!("no space for {needed}");
            ExitCode::from(28)
        }
        Err(FetchError::Store(StoreError::Locked { .. })) => {
            println!("locked");
            ExitCode::from(11)
        }
        Err(error) => {
            println!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn me(store: &Path, address: &str, reserve: bool, slow: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .arg("fetch")
        .arg(store)
        .args([address, &reserve.to_string(), slow]);
    command
}

/// A small generator; the moments of the kills need no better one.
fn random(state: &mut u64) -> u64 {
    *state = state
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

/// The chunks of the partial blob that are on the disk.
fn held(store: &Store) -> u64 {
    let slot = store.slot(commitment()).unwrap();
    let Some(known) = slot.known().unwrap() else {
        return 0;
    };
    assert_eq!(known, tree());
    let partial = slot.open(known, true, NonZeroUsize::MIN, &mut |_, _| {});
    partial.unwrap().held().iter().filter(|h| **h).count() as u64
}

/// Where kills have to land.
const PLACES: [&str; 5] = ["fetching", "syncing", "hashing", "naming", "named"];

/// Whether kills have landed everywhere.
fn enough(landed: &BTreeMap<String, u32>) -> bool {
    let at = |place: &str| landed.get(place).copied().unwrap_or_default();
    landed.values().sum::<u32>() >= KILLS
        && PLACES.iter().all(|place| at(place) >= 3)
        && at("fetching") >= 10
        && PLACES[1..].iter().map(|place| at(place)).sum::<u32>() >= 20
}

fn kills() {
    let home = tempfile::tempdir().unwrap();
    let served = serve(stocked(home.path()));
    let dir = home.path().join("killed");
    let (mut seed, mut landed, mut ended) = (1, BTreeMap::<String, u32>::new(), 0);
    let mut before = 0;
    while !enough(&landed) {
        assert!(
            ended + landed.values().sum::<u32>() < 20 * KILLS,
            "kills landed nowhere but {landed:?}"
        );
        // A machine on which kills come too late needs children that take longer.
        let slow = random(&mut seed) % (16 + u64::from(ended) / 4);
        let mut child = me(&dir, &served.address, true, &slow.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (tell, told) = mpsc::channel();
        let out = child.stdout.take().unwrap();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(out).lines().map_while(Result::ok) {
                tell.send(line).unwrap();
            }
        });
        // Soon after the child has told this place, some for so many times, or at once.
        let place = PLACES.get(random(&mut seed) as usize % (PLACES.len() + 1));
        let mut times = match place {
            Some(&("fetching" | "hashing")) => 1 + random(&mut seed) % 4,
            Some(_) => 1,
            None => 0,
        };
        let mut last = "starting".to_string();
        while times > 0 {
            let Ok(line) = told.recv() else {
                break;
            };
            // Places before the last two may not come so often.
            let over = line == "naming" && place != Some(&"named");
            times = match Some(&&line[..]) == place {
                _ if over => 0,
                told => times - u64::from(told),
            };
            last = line;
        }
        std::thread::sleep(Duration::from_micros(
            random(&mut seed) % (1000 * slow + 8000) / 4,
        ));
        // SIGKILL.
        child.kill().unwrap();
        let status = child.wait().unwrap();
        reader.join().unwrap();
        let place = told.try_iter().last().unwrap_or(last);
        if status.success() {
            ended += 1;
        } else {
            assert_eq!(status.code(), None, "it was to be killed: {place}");
            *landed.entry(place.clone()).or_default() += 1;
        }

        let store = Store::open(&dir).unwrap();
        match published(&store) {
            Some(bytes) => {
                assert!(bytes == BLOB, "after a kill in {place}");
                assert!(
                    status.success()
                        || ["naming", "named", "published"]
                            .iter()
                            .any(|p| place.starts_with(p)),
                    "{place}"
                );
                let checked = store.scrub(NonZeroUsize::MIN, &mut |_, _| {}).unwrap();
                assert_eq!(checked[0].verdict, Verdict::Right);
                assert!(store.remove(commitment()).unwrap());
                assert_eq!(names(&dir), ["damaged", "lock", "partial"]);
                before = 0;
            }
            None => {
                assert_ne!(place, "named");
                let now = held(&store);
                assert!(now >= before, "{before} chunks, then {now}, after {place}");
                before = now;
                assert!(
                    store
                        .list()
                        .unwrap()
                        .iter()
                        .all(|e| e.state == State::Partial)
                );
            }
        }
    }
    let status = me(&dir, &served.address, true, "0")
        .output()
        .unwrap()
        .status;
    assert!(status.success());
    let store = Store::open(&dir).unwrap();
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    println!("kills landed in {landed:?}; {ended} children ended before theirs");
}

/// Runs `script` as root of a mount namespace of its own, in a folder over which it may mount.
#[cfg(target_os = "linux")]
fn unshared(script: &str, dir: &Path, address: &str) -> Output {
    Command::new("unshare")
        .args(["-rm", "sh", "-euc", script, "sh"])
        .arg(dir)
        .arg(std::env::current_exe().unwrap())
        .arg(address)
        .output()
        .expect("unshare of util-linux")
}

#[cfg(target_os = "linux")]
fn a_full_disk() {
    let home = tempfile::tempdir().unwrap();
    let served = serve(stocked(home.path()));
    let disk = home.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    // The blob has 2.1 MB. First the space is asked for at once; then the disk fills up while chunks arrive; then it is
    // larger.
    let script = r#"
        mount -t tmpfs -o size=1200k none "$1"
        run() { "$2" fetch "$1/store" "$3" "$4" 0 || echo "exit $?"; }
        run "$1" "$2" "$3" true | tail -n 2
        ls "$1/store"/*.blob 2>/dev/null && echo "a blob was published"
        run "$1" "$2" "$3" false | tail -n 2
        ls "$1/store"/*.blob 2>/dev/null && echo "a blob was published"
        run "$1" "$2" "$3" false | tail -n 2
        mount -o remount,size=8m "$1"
        run "$1" "$2" "$3" true | tail -n 1
        cat "$1/store"/*.blob > "$1/../copy"
    "#;
    let output = unshared(script, &disk, &served.address);
    let text = String::from_utf8(output.stdout).unwrap();
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.status.success() && error.is_empty(),
        "{text}\n{error}"
    );
    let lines: Vec<&str> = text.lines().collect();
    let full = [
        format!("no space for {}", BLOB.len()),
        "exit 28".to_string(),
    ];
    assert_eq!(lines[..6], [&full[..], &full[..], &full[..]].concat());
    let kept: u64 = lines[6]
        .strip_prefix("published, kept ")
        .unwrap()
        .parse()
        .unwrap();
    // Most of what fitted was kept over the failures.
    assert!((600_000..1_300_000).contains(&kept), "{kept}");
    assert_eq!(lines.len(), 7);
    assert_eq!(std::fs::read(home.path().join("copy")).unwrap(), BLOB);
    println!("a disk of 1200 KiB: {kept} bytes were kept");
}

fn two_processes() {
    let home = tempfile::tempdir().unwrap();
    let served = serve(stocked(home.path()));
    let dir = home.path().join("shared");
    let store = Store::open(&dir).unwrap();
    let second = me(&dir, &served.address, true, "0").output().unwrap();
    assert_eq!(second.status.code(), Some(11));
    assert_eq!(second.stdout, b"locked\n");
    drop(store);
    // Both at once: one of them gets it, the other is told so.
    let first = me(&dir, &served.address, true, "held")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let mut first = first.unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(first.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let second = me(&dir, &served.address, true, "0").output().unwrap();
    assert_eq!(second.status.code(), Some(11));
    drop(first.stdin.take());
    std::io::copy(&mut out, &mut std::io::sink()).unwrap();
    assert!(first.wait().unwrap().success());
    let reader = Store::open_read_only(&dir).unwrap();
    assert_eq!(published(&reader).as_deref(), Some(BLOB));
}
