//! The server: published names alone, and connections that end when too little moves.

mod common;

use blue_node::serve::Limits;
use common::http::{Served, serve, serve_within, stocked};
use common::{BLOB, commitment};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

/// For what a slow machine may take.
const LONG: Duration = Duration::from_secs(600);

fn connect(served: &Served) -> TcpStream {
    let stream = TcpStream::connect(served.address.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream
}

/// Status line in lower case, headers and body of one request.
fn try_ask(served: &Served, request: &str) -> io::Result<(String, Vec<u8>)> {
    let mut stream = connect(served);
    write!(stream, "{request}\r\nHost: x\r\nConnection: close\r\n\r\n")?;
    let mut answer = vec![];
    stream.read_to_end(&mut answer)?;
    let end = answer.windows(4).position(|w| w == b"\r\n\r\n");
    let end = end.ok_or(ErrorKind::UnexpectedEof)?;
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    Ok((head.to_lowercase(), answer[end + 4..].to_vec()))
}

fn ask(served: &Served, request: &str) -> (String, Vec<u8>) {
    try_ask(served, request).unwrap()
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
    let get = |path: &str| ask(&served, &format!("GET {path} HTTP/1.1"));

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
    let (head, body) = ask(&served, &ranged);
    assert!(head.starts_with("http/1.1 206"), "{head}");
    assert!(head.contains(&format!("content-range: bytes 1000-1099/{}", BLOB.len())));
    assert_eq!(body, &BLOB[1000..1100]);
    let beyond = format!("GET /{hex}.blob HTTP/1.1\r\nRange: bytes=99999999-");
    assert!(ask(&served, &beyond).0.starts_with("http/1.1 416"));
    let (head, body) = ask(&served, &format!("HEAD /{hex}.blob HTTP/1.1"));
    assert!(head.contains(&format!("content-length: {}", BLOB.len())));
    assert!(body.is_empty());
    let (head, _) = ask(&served, &format!("POST /{hex}.blob HTTP/1.1"));
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

/// A server with so many places, and these limits.
fn limited(home: &std::path::Path, places: usize, idle: Duration, least_rate: u64) -> Served {
    let limits = Limits {
        connections: NonZeroUsize::new(places).unwrap(),
        idle,
        least_rate,
    };
    serve_within(stocked(home), limits)
}

/// Asks for the list until a place is free and a slow machine is quick enough for the limits.
fn until_served(served: &Served) {
    let start = Instant::now();
    while !try_ask(served, "GET / HTTP/1.1").is_ok_and(|(head, _)| head.contains(" 200 ")) {
        assert!(start.elapsed() < LONG, "no place became free");
    }
}

/// So many requests for the blob: more than the system's buffers hold of the answers.
const MANY: usize = 40;

fn many_requests() -> String {
    let hex = &commitment().to_string()[2..];
    format!("GET /{hex}.blob HTTP/1.1\r\nHost: x\r\n\r\n").repeat(MANY)
}

/// What is still in the buffers of a connection that the server has closed.
fn rest(mut stream: &TcpStream) -> usize {
    let mut bytes = vec![];
    let end = stream.read_to_end(&mut bytes);
    let told = end.err().map(|e| e.kind());
    assert!(
        !matches!(told, Some(ErrorKind::WouldBlock | ErrorKind::TimedOut)),
        "the connection is open"
    );
    bytes.len()
}

#[test]
fn connections_are_bounded() {
    let home = tempfile::tempdir().unwrap();
    let served = limited(home.path(), 2, LONG, 1);
    let silent = [connect(&served), connect(&served)];
    let mut third = connect(&served);
    third
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .unwrap();
    // Both places are taken.
    let soon = Duration::from_millis(200);
    third.set_read_timeout(Some(soon)).unwrap();
    let waiting = third.read(&mut [0]).unwrap_err().kind();
    assert!(matches!(
        waiting,
        ErrorKind::WouldBlock | ErrorKind::TimedOut
    ));
    // One becomes free.
    drop(silent);
    third.set_read_timeout(Some(LONG)).unwrap();
    let mut answer = [0; 12];
    third.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}

#[test]
fn silent_connections_are_closed() {
    let home = tempfile::tempdir().unwrap();
    let idle = Duration::from_millis(300);
    let served = limited(home.path(), 1, idle, 1);
    let start = Instant::now();
    let silent = connect(&served);
    assert_eq!(rest(&silent), 0);
    assert!(start.elapsed() >= idle);
    // One that takes nothing of what it asked for.
    let mut deaf = connect(&served);
    // A slow machine may have closed it already.
    let _ = deaf.write_all(many_requests().as_bytes());
    until_served(&served);
    assert!(rest(&deaf) < MANY * BLOB.len());
}

#[test]
fn connections_that_trickle_are_closed() {
    let home = tempfile::tempdir().unwrap();
    let idle = Duration::from_millis(600);
    // A megabyte a second: a byte every 10 ms is far below it, and never idle.
    let served = limited(home.path(), 1, idle, 1 << 20);
    let pause = || std::thread::sleep(Duration::from_millis(10));
    let start = Instant::now();
    let mut request = connect(&served);
    request.write_all(b"GET / HTTP/1.1\r\nX: ").unwrap();
    while request.write_all(b"x").is_ok() {
        assert!(start.elapsed() < LONG, "a request that trickles is read on");
        pause();
    }
    assert!(start.elapsed() >= idle);
    // An answer that is taken byte by byte.
    let mut answer = connect(&served);
    let _ = answer.write_all(many_requests().as_bytes());
    let stop = std::sync::atomic::AtomicBool::new(false);
    let taken = std::thread::scope(|scope| {
        let taker = scope.spawn(|| {
            let mut taken = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                match (&answer).read(&mut [0]) {
                    Ok(n @ 1..) => taken += n,
                    _ => break,
                }
                pause();
            }
            taken
        });
        until_served(&served);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        taker.join().unwrap()
    });
    assert!(taken + rest(&answer) < MANY * BLOB.len());
}

#[test]
fn a_slow_reader_is_served_to_its_end() {
    let home = tempfile::tempdir().unwrap();
    let served = limited(home.path(), 1, LONG, 1);
    let hex = &commitment().to_string()[2..];
    let mut slow = connect(&served);
    let request = format!("GET /{hex}.leaves HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    for piece in request.as_bytes().chunks(16) {
        slow.write_all(piece).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut answer = vec![];
    slow.read_to_end(&mut answer).unwrap();
    assert!(answer.ends_with(&common::leaves()));
}
