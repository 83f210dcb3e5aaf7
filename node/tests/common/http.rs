//! Servers: the one of this crate, and one that answers as a test says.

use super::{BLOB, leaves};
use blue_node::serve::Limits;
use blue_node::store::Store;
use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

/// The server of this crate over a store, until it is dropped.
pub struct Served {
    pub address: String,
    _runtime: tokio::runtime::Runtime,
}

pub fn serve(store: Store) -> Served {
    serve_within(store, Limits::default())
}

pub fn serve_within(store: Store, limits: Limits) -> Served {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let listener = runtime
        .block_on(tokio::net::TcpListener::bind("127.0.0.1:0"))
        .unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    runtime.spawn(async move {
        let store = Arc::new(store);
        blue_node::serve::serve(listener, store, &limits, std::future::pending()).await
    });
    Served {
        address,
        _runtime: runtime,
    }
}

/// A store with the blob.
pub fn stocked(dir: &std::path::Path) -> Store {
    let blob = dir.join("source.blob");
    std::fs::write(&blob, BLOB).unwrap();
    let store = Store::open(dir.join("store")).unwrap();
    store
        .import(&blob, None, std::num::NonZeroUsize::MIN, &mut |_| {})
        .unwrap();
    store
}

/// What a server does with a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    Honest,
    Silent,
    Trickle,
    HalfThenSilent,
    HalfThenClosed,
    HalfWithoutLength,
    HalfChunked,
    ClosedAtOnce,
    Status(u16),
    Loop,
    IgnoresRanges,
    NoContentRange,
    OtherContentRange,
    LongerLength,
    MoreWithoutLength,
    EndlessChunks,
    EndlessHeader,
    Encoded,
    Garbage,
    OtherBytes,
}

/// A server that is honest for record and leaves, or not even for these.
pub struct Hostile {
    pub address: String,
    pub served: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    local: SocketAddr,
}

impl Drop for Hostile {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the one that accepts.
        let _ = TcpStream::connect(self.local);
    }
}

/// `act` for every request, or for those of chunks alone.
pub fn hostile(act: Act, chunks_only: bool) -> Hostile {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let local = listener.local_addr().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let served = Arc::new(AtomicU64::new(0));
    let (stopped, counted) = (stop.clone(), served.clone());
    thread::spawn(move || {
        for stream in listener.incoming() {
            if stopped.load(Ordering::SeqCst) {
                return;
            }
            let (stop, served) = (stopped.clone(), counted.clone());
            thread::spawn(move || {
                // The client goes away when it has seen enough.
                let _ = talk(&stream.unwrap(), act, chunks_only, &stop, &served);
            });
        }
    });
    Hostile {
        address: format!("http://{local}"),
        served,
        stop,
        local,
    }
}

fn request(reader: &mut impl BufRead) -> io::Result<Option<(String, Range<usize>)>> {
    let (mut path, mut range) = (String::new(), 0..usize::MAX);
    for n in 0.. {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end().to_lowercase();
        if n == 0 {
            path = line.split(' ').nth(1).unwrap_or_default().to_string();
        }
        if let Some(text) = line.strip_prefix("range: bytes=") {
            let (start, end) = text.split_once('-').unwrap();
            range = start.parse().unwrap()..end.parse::<usize>().unwrap() + 1;
        }
        if line.is_empty() {
            break;
        }
    }
    Ok(Some((path, range)))
}

fn talk(
    stream: &TcpStream,
    act: Act,
    chunks_only: bool,
    stop: &AtomicBool,
    served: &AtomicU64,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let leaves = leaves();
    while let Some((path, range)) = request(&mut reader)? {
        let (file, is_blob) = if path.ends_with(".leaves") {
            (&leaves[..], false)
        } else {
            (BLOB, true)
        };
        let act = if chunks_only && (!is_blob || range.end <= 1024) {
            Act::Honest
        } else {
            act
        };
        let range = range.start..range.end.min(file.len());
        let bytes = &file[range.clone()];
        if is_blob {
            served.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        answer(stream, act, file.len(), range, bytes, stop)?;
        if act != Act::Honest {
            return Ok(());
        }
    }
    Ok(())
}

fn answer(
    out: &TcpStream,
    act: Act,
    total: usize,
    range: Range<usize>,
    bytes: &[u8],
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut out = out;
    let hang = || {
        while !stop.load(Ordering::SeqCst) {
            thread::sleep(Duration::from_millis(10));
        }
    };
    let place = format!(
        "Content-Range: bytes {}-{}/{total}\r\n",
        range.start,
        range.end - 1
    );
    // Said by every act but honesty: a client must not send its next request into a closed connection.
    let close = match act {
        Act::Honest => "",
        _ => "Connection: close\r\n",
    };
    let partial = format!("HTTP/1.1 206 Partial Content\r\n{close}");
    let length = format!("Content-Length: {}\r\n", bytes.len());
    let right = format!("{partial}{place}{length}\r\n");
    let half = &bytes[..bytes.len() / 2];
    let stream = out;
    let chunk = |bytes: &[u8]| -> io::Result<()> {
        let mut out = stream;
        write!(out, "{:x}\r\n", bytes.len())?;
        out.write_all(bytes)?;
        out.write_all(b"\r\n")
    };
    match act {
        Act::Honest => {
            write!(out, "{right}")?;
            out.write_all(bytes)
        }
        Act::Silent => {
            hang();
            Ok(())
        }
        Act::Trickle => {
            write!(out, "{right}")?;
            for byte in bytes {
                if stop.load(Ordering::SeqCst) {
                    break;
                }
                out.write_all(&[*byte])?;
                thread::sleep(Duration::from_millis(50));
            }
            Ok(())
        }
        Act::HalfThenSilent => {
            write!(out, "{right}")?;
            out.write_all(half)?;
            hang();
            Ok(())
        }
        Act::HalfThenClosed => {
            write!(out, "{right}")?;
            out.write_all(half)
        }
        Act::HalfWithoutLength => {
            write!(out, "{partial}{place}\r\n")?;
            out.write_all(half)
        }
        Act::HalfChunked => {
            write!(out, "{partial}{place}Transfer-Encoding: chunked\r\n\r\n")?;
            chunk(half)?;
            out.write_all(b"0\r\n\r\n")
        }
        Act::ClosedAtOnce => Ok(()),
        Act::Status(status) => write!(
            out,
            "HTTP/1.1 {status} No\r\n{close}Content-Length: 4\r\n\r\nnope"
        ),
        Act::Loop => write!(
            out,
            "HTTP/1.1 302 Found\r\n{close}Location: /x.blob\r\nContent-Length: 0\r\n\r\n"
        ),
        Act::IgnoresRanges => {
            write!(
                out,
                "HTTP/1.1 200 OK\r\n{close}Content-Length: {total}\r\n\r\n"
            )?;
            out.write_all(bytes)
        }
        Act::NoContentRange => {
            write!(out, "{partial}{length}\r\n")?;
            out.write_all(bytes)
        }
        Act::OtherContentRange => {
            write!(
                out,
                "{partial}Content-Range: bytes 7-{}/{total}\r\n{length}\r\n",
                range.end
            )?;
            out.write_all(bytes)
        }
        Act::LongerLength => {
            let longer = bytes.len() + 1;
            write!(out, "{partial}{place}Content-Length: {longer}\r\n\r\n")?;
            out.write_all(bytes)?;
            out.write_all(b"x")
        }
        Act::MoreWithoutLength => {
            write!(out, "{partial}{place}\r\n")?;
            out.write_all(bytes)?;
            out.write_all(b"x")
        }
        Act::EndlessChunks => {
            write!(out, "{partial}{place}Transfer-Encoding: chunked\r\n\r\n")?;
            chunk(bytes)?;
            while !stop.load(Ordering::SeqCst) {
                chunk(&[0; 65536])?;
            }
            Ok(())
        }
        Act::EndlessHeader => {
            write!(out, "{partial}{place}")?;
            while !stop.load(Ordering::SeqCst) {
                write!(out, "X-Filler: {}\r\n", "x".repeat(1000))?;
            }
            Ok(())
        }
        Act::Encoded => {
            write!(
                out,
                "{partial}{place}{length}Content-Encoding: gzip\r\n\r\n"
            )?;
            out.write_all(bytes)
        }
        Act::Garbage => out.write_all(&BLOB[5000..9000]),
        Act::OtherBytes => {
            write!(out, "{right}")?;
            let other: Vec<u8> = bytes.iter().map(|b| b ^ 0x10).collect();
            out.write_all(&other)
        }
    }
}
