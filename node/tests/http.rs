//! Servers that stall, lie, break off or never end: each is found in time and named, and another one finishes the blob.

mod common;

use blue_node::fetch::{FetchError, HttpSource, Report, Source, SourceError, Trouble, fetch};
use blue_node::store::Store;
use common::http::{Act, Hostile, hostile, serve, serve_within, stocked};
use common::{BLOB, commitment, options, published, quiet};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

fn at(address: &str) -> Arc<dyn Source> {
    Arc::new(HttpSource::new(address).unwrap())
}

const ACTS: [Act; 23] = [
    Act::Silent,
    Act::Trickle,
    Act::HalfThenSilent,
    Act::HalfThenClosed,
    Act::HalfWithoutLength,
    Act::HalfChunked,
    Act::ClosedAtOnce,
    Act::Status(404),
    Act::Status(403),
    Act::Status(416),
    Act::Status(429),
    Act::Status(500),
    Act::Loop,
    Act::IgnoresRanges,
    Act::NoContentRange,
    Act::OtherContentRange,
    Act::LongerLength,
    Act::MoreWithoutLength,
    Act::EndlessChunks,
    Act::EndlessHeader,
    Act::Encoded,
    Act::Garbage,
    Act::OtherBytes,
];

/// Whether this is what is said about a server that does so.
fn fits(act: Act, trouble: &Trouble, whole_chunks: bool) -> bool {
    use SourceError as E;
    let Trouble::Source(error) = trouble else {
        return match act {
            Act::OtherBytes if whole_chunks => *trouble == Trouble::OtherBytes,
            Act::OtherBytes => *trouble == Trouble::NoBlob,
            _ => false,
        };
    };
    match act {
        Act::Silent => matches!(error, E::Stalled { got: 0, .. }),
        Act::Trickle => matches!(error, E::Stalled { got: 1.., .. }),
        Act::HalfThenSilent => {
            matches!(error, E::Stalled { got, asked, .. } if *got == asked / 2)
        }
        Act::HalfThenClosed | Act::HalfWithoutLength | Act::HalfChunked => {
            matches!(error, E::Fewer { got, asked } if *got == asked / 2)
        }
        Act::Status(404) => *error == E::Absent,
        Act::Status(status) => *error == E::Status(status),
        Act::IgnoresRanges => *error == E::NoRanges,
        Act::NoContentRange | Act::OtherContentRange => *error == E::OtherRange,
        Act::LongerLength | Act::MoreWithoutLength | Act::EndlessChunks => {
            matches!(error, E::More(_))
        }
        Act::Encoded => *error == E::Encoded,
        Act::ClosedAtOnce | Act::Loop | Act::EndlessHeader | Act::Garbage => {
            matches!(error, E::Io(_))
        }
        Act::Honest | Act::OtherBytes => false,
    }
}

fn alone(store: &Store, server: &Hostile) -> FetchError {
    fetch(
        store,
        commitment(),
        &[at(&server.address)],
        &options(),
        &mut quiet(),
    )
    .unwrap_err()
}

fn check(act: Act, chunks_only: bool) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let bad = hostile(act, chunks_only);
    let start = Instant::now();
    let error = alone(&store, &bad);
    assert!(start.elapsed() < Duration::from_secs(15), "{act:?}");
    assert!(!store.contains(commitment()).unwrap());
    let FetchError::Exhausted {
        sources, missing, ..
    } = &error
    else {
        panic!("{act:?}: {error}");
    };
    assert_eq!(missing.is_some(), chunks_only, "{act:?}: {error}");
    let report = &sources[0];
    assert!(report.given_up && report.name == bad.address, "{error}");
    for fault in &report.faults {
        assert!(fits(act, &fault.trouble, chunks_only), "{act:?}: {fault}");
        assert_eq!(fault.chunk.is_some(), chunks_only, "{act:?}: {fault}");
    }
    let passes = report.faults[0].trouble.may_pass();
    assert!(report.fault_count >= if passes { 3 } else { 1 }, "{error}");
    assert_eq!(error.only_other_bytes(), act == Act::OtherBytes);
    let text = error.to_string();
    assert!(text.contains(&bad.address), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");

    // With a good server beside it the blob arrives, whole and soon.
    let home = tempfile::tempdir().unwrap();
    let good = serve(stocked(home.path()));
    let start = Instant::now();
    let both = [at(&bad.address), at(&good.address)];
    let report: Report = fetch(&store, commitment(), &both, &options(), &mut quiet()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(15), "{act:?}");
    assert_eq!(published(&store).as_deref(), Some(BLOB), "{act:?}");
    assert!(report.sources[1].faults.is_empty(), "{act:?}: {report:?}");
    let given: u64 = report.sources.iter().map(|s| s.bytes).sum();
    assert_eq!(report.kept + given, BLOB.len() as u64);
}

#[test]
fn servers_that_never_answer_well() {
    std::thread::scope(|scope| {
        for acts in ACTS.chunks(6) {
            scope.spawn(|| acts.iter().for_each(|&act| check(act, false)));
        }
    });
}

#[test]
fn servers_that_change_after_the_proof() {
    std::thread::scope(|scope| {
        for acts in ACTS.chunks(6) {
            scope.spawn(|| acts.iter().for_each(|&act| check(act, true)));
        }
    });
}

#[test]
fn all_hostile_servers_at_once_do_not_keep_a_good_one_from_finishing() {
    let bad: Vec<Hostile> = (ACTS.iter()).map(|&act| hostile(act, true)).collect();
    let home = tempfile::tempdir().unwrap();
    let good = serve(stocked(home.path()));
    let mut sources: Vec<_> = bad.iter().map(|server| at(&server.address)).collect();
    sources.push(at(&good.address));
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let report = fetch(&store, commitment(), &sources, &options(), &mut quiet()).unwrap();
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    assert!(report.sources.last().unwrap().chunks > 0);
    let liar = (ACTS.iter())
        .position(|&act| act == Act::OtherBytes)
        .unwrap();
    assert!(report.sources[liar].chunks == 0 || report.sources[liar].chunks == 1);
}

#[test]
fn nobody_listens() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", port.local_addr().unwrap());
    drop(port);
    let error = fetch(
        &store,
        commitment(),
        &[at(&address)],
        &options(),
        &mut quiet(),
    );
    let error = error.unwrap_err();
    assert!(error.to_string().contains(&address), "{error}");
    let FetchError::Exhausted { sources, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(sources[0].fault_count, 3);
    assert!(matches!(
        sources[0].faults[0].trouble,
        Trouble::Source(SourceError::Io(_))
    ));
}

#[test]
fn a_slow_server_is_relieved_of_what_it_holds() {
    // It is honest, but its limit is far away: patience alone decides.
    let slow = hostile(Act::Trickle, true);
    let quick = hostile(Act::Honest, true);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let patient = blue_node::fetch::Options {
        stall: Duration::from_secs(20),
        ..options()
    };
    let start = Instant::now();
    let sources = [at(&slow.address), at(&quick.address)];
    let report = fetch(&store, commitment(), &sources, &patient, &mut quiet()).unwrap();
    assert!(start.elapsed() < Duration::from_secs(15));
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    assert!(report.sources[1].chunks >= 33);
    assert_eq!(report.sources[0].fault_count, 0);
}

#[test]
fn one_server_alone_is_asked_for_every_byte_once() {
    let server = hostile(Act::Honest, false);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    fetch(
        &store,
        commitment(),
        &[at(&server.address)],
        &options(),
        &mut quiet(),
    )
    .unwrap();
    assert_eq!(published(&store).as_deref(), Some(BLOB));
    assert_eq!(server.served.load(Ordering::Relaxed), BLOB.len() as u64);
}

/// Status line, headers and body of one request.
fn ask(address: &str, request: &str) -> (String, Vec<u8>) {
    let mut stream = TcpStream::connect(address.trim_start_matches("http://")).unwrap();
    write!(stream, "{request}\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = vec![];
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    (head.to_lowercase(), answer[end + 4..].to_vec())
}

#[test]
fn only_published_names_are_served() {
    let home = tempfile::tempdir().unwrap();
    let store = stocked(home.path());
    let dir = store.dir().to_path_buf();
    std::fs::write(dir.join("secret"), "secret").unwrap();
    let other = format!("{}.blob", "ab".repeat(32));
    std::fs::write(dir.join("partial").join(&other), "unfinished").unwrap();
    std::fs::write(dir.join(format!("{}.leaves", "ab".repeat(32))), [0; 64]).unwrap();
    let served = serve(store);
    let hex = &commitment().to_string()[2..];
    let get = |path: &str| ask(&served.address, &format!("GET {path} HTTP/1.1"));

    let (head, body) = get(&format!("/{hex}.blob"));
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(head.contains("accept-ranges: bytes") && head.contains("immutable"));
    assert_eq!(body, BLOB);
    let (_, body) = get(&format!("/{hex}.leaves"));
    assert_eq!(body, common::leaves());
    let (head, body) = get("/");
    assert!(head.contains("application/json"), "{head}");
    let listed = format!("[{{\"commitment\":\"0x{hex}\",\"len\":{}}}]\n", BLOB.len());
    assert_eq!(String::from_utf8(body).unwrap(), listed);

    let ranged = format!("GET /{hex}.blob HTTP/1.1\r\nRange: bytes=1000-1099");
    let (head, body) = ask(&served.address, &ranged);
    assert!(head.starts_with("http/1.1 206"), "{head}");
    assert!(head.contains(&format!("content-range: bytes 1000-1099/{}", BLOB.len())));
    assert_eq!(body, &BLOB[1000..1100]);
    let beyond = format!("GET /{hex}.blob HTTP/1.1\r\nRange: bytes=99999999-");
    assert!(ask(&served.address, &beyond).0.starts_with("http/1.1 416"));
    let (head, body) = ask(&served.address, &format!("HEAD /{hex}.blob HTTP/1.1"));
    assert!(head.contains(&format!("content-length: {}", BLOB.len())));
    assert!(body.is_empty());
    let (head, _) = ask(&served.address, &format!("POST /{hex}.blob HTTP/1.1"));
    assert!(head.starts_with("http/1.1 405"), "{head}");

    for path in [
        "/secret".to_string(),
        "/lock".into(),
        "/partial/".into(),
        format!("/partial/{other}"),
        format!("/{other}"),
        format!("/{}.leaves", "ab".repeat(32)),
        format!("/{}.blob", hex.to_uppercase()),
        format!("/0x{hex}.blob"),
        format!("/{hex}"),
        "/../secret".into(),
        "/..%2fsecret".into(),
        format!("/%2e%2e/store/{hex}.blob"),
        format!("/{hex}.blob/"),
        format!("/{hex}.blob%00"),
        "//etc/passwd".into(),
        "/%ff".into(),
    ] {
        let (head, body) = get(&path);
        assert!(head.starts_with("http/1.1 4"), "{path}: {head}");
        assert!(!String::from_utf8_lossy(&body).contains("secret"), "{path}");
    }
}

#[test]
fn connections_are_bounded_and_silent_ones_are_closed() {
    let home = tempfile::tempdir().unwrap();
    let limits = blue_node::serve::Limits {
        connections: std::num::NonZeroUsize::new(2).unwrap(),
        idle: Duration::from_millis(400),
    };
    let served = serve_within(stocked(home.path()), limits);
    let host = served.address.trim_start_matches("http://");
    let connect = || TcpStream::connect(host).unwrap();
    // One says nothing, one asks for the blob and takes nothing of it; the system's buffers hold less than 20 blobs.
    let start = Instant::now();
    let mut silent = connect();
    let mut idle = connect();
    let hex = &commitment().to_string()[2..];
    let request = format!("GET /{hex}.blob HTTP/1.1\r\nHost: x\r\n\r\n").repeat(20);
    idle.write_all(request.as_bytes()).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    // Both places are taken: a third waits until one of them is closed.
    let (head, body) = ask(&served.address, &format!("GET /{hex}.blob HTTP/1.1"));
    assert!(head.starts_with("http/1.1 200") && body == BLOB);
    let waited = start.elapsed();
    assert!(waited >= Duration::from_millis(390), "{waited:?}");
    assert!(waited < Duration::from_secs(10), "{waited:?}");
    let mut rest = vec![];
    assert_eq!(silent.read_to_end(&mut rest).unwrap_or(0), 0);
    // What was in the buffers arrives, and not all 20 blobs.
    let _ = idle.read_to_end(&mut rest);
    assert!(rest.len() < 20 * BLOB.len());
    // A slow reader that keeps reading is served to its end.
    let mut slow = connect();
    let request = format!("GET /{hex}.leaves HTTP/1.1\r\nHost: x\r\nConnection: close\r\n");
    for piece in request.as_bytes().chunks(16) {
        slow.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
    slow.write_all(b"\r\n").unwrap();
    let mut answer = vec![];
    slow.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&common::leaves()));
}
