//! Many callers of a development chain for a while: every answer is checked, memory stays, and a model that is loaded
//! meanwhile holds up nobody.

mod caller;
mod chain;

use crate::child::{build_blue, root};
use anyhow::{Context, Result, ensure};
use caller::{Caller, Kind, Tally};
use chain::{Node, Questions};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long, how many.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds
    #[arg(long, default_value = "60", value_parser = clap::value_parser!(u64).range(6..=86_400))]
    seconds: u64,
    /// Callers
    #[arg(long, default_value = "32", value_parser = clap::value_parser!(u32).range(1..=512))]
    callers: u32,
}

/// Memory that blocks and receipts of the run may take, and the allocator.
const GROWTH: u64 = 32 << 20;

/// Every caller calls until the end; in the middle a model is adopted.
pub(crate) fn run(options: &Options) -> Result<()> {
    let blue = build_blue()?;
    let folder = root().join("target/soak");
    match std::fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    std::fs::create_dir_all(&folder)?;
    let blobs = chain::blobs(&root(), &folder)?;
    let questions = Questions::of(&blobs)?;
    let node = Node::start(&blue, &folder, &blobs)?;
    println!(
        "{} callers for {} s on {}; models of {:?} bytes, the last adopted meanwhile",
        options.callers,
        options.seconds,
        node.url,
        blobs
            .iter()
            .map(|blob| blob.bytes.len())
            .collect::<Vec<_>>(),
    );
    let begun = Instant::now();
    let end = begun + Duration::from_secs(options.seconds);
    let served = AtomicU32::new(2);
    let stop = AtomicBool::new(false);
    let (tallies, watched) = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..options.callers)
            .map(|seed| {
                let caller = Caller::new(seed, &node, &questions, &served);
                let stop = &stop;
                scope.spawn(move || {
                    let done = caller.call_until(end, stop, begun);
                    // One wrong answer ends the run of all.
                    stop.store(
                        stop.load(Ordering::Relaxed) || done.is_err(),
                        Ordering::Relaxed,
                    );
                    done
                })
            })
            .collect();
        let watched = watch(&node, &blobs[2], &served, begun, options.seconds, &stop);
        let stopped = watched.is_err();
        stop.store(stop.load(Ordering::Relaxed) || stopped, Ordering::Relaxed);
        let tallies: Vec<_> = callers
            .into_iter()
            .map(|caller| {
                caller
                    .join()
                    .map_err(|_| anyhow::anyhow!("a caller panicked"))
            })
            .collect();
        (tallies, watched)
    });
    let mut total = Tally::default();
    for tally in tallies {
        total.add(tally??);
    }
    let watched = watched?;
    report(&total, &watched, options.callers)?;
    node.end()
}

/// What the run looked like from outside.
struct Watched {
    /// When the adopted model began to be fetched and loaded, and when it was ready.
    load: (Duration, Duration),
    /// Resident bytes of the process: after the model was ready and called, and at the end.
    memory: (u64, u64),
}

/// Adopts a model after a third of the time, and looks at the process's memory.
fn watch(
    node: &Node,
    blob: &chain::Blob,
    served: &AtomicU32,
    begun: Instant,
    seconds: u64,
    stop: &AtomicBool,
) -> Result<Watched> {
    let until = |part: u64| -> Result<()> {
        while begun.elapsed() < Duration::from_millis(seconds * 1000 * part / 6) {
            ensure!(!stop.load(Ordering::Relaxed), "a caller has ended early");
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    };
    until(2)?;
    node.propose(blob)?;
    let from = begun.elapsed();
    while !node.is_ready(blob)? {
        ensure!(
            begun.elapsed().as_secs() < seconds,
            "the model is not ready in time"
        );
        std::thread::sleep(Duration::from_millis(10));
    }
    let to = begun.elapsed();
    node.activate(blob)?;
    served.store(3, Ordering::Relaxed);
    until(4)?;
    let settled = node.resident_bytes()?;
    until(6)?;
    Ok(Watched {
        load: (from, to),
        memory: (settled, node.resident_bytes()?),
    })
}

fn report(total: &Tally, watched: &Watched, callers: u32) -> Result<()> {
    println!(
        "{:<28} {:>8} {:>9} {:>9} {:>9}",
        "call", "number", "median ms", "p99 ms", "most ms"
    );
    for kind in Kind::ALL {
        let times = total.times(kind);
        ensure!(!times.is_empty(), "no call of the kind: {}", kind.name());
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
        let (median, p99, most) = (at(50), at(99), at(100));
        println!(
            "{:<28} {:>8} {median:>9.1} {p99:>9.1} {most:>9.1}",
            kind.name(),
            times.len()
        );
    }
    let (from, to) = watched.load;
    let during = total.within(from, to);
    let across = total.across(from, to);
    println!(
        "a model was fetched and loaded in {:.2} s: meanwhile {during} calls began and ended, {across} took as long as that",
        (to - from).as_secs_f64()
    );
    ensure!(
        during >= callers as usize / 2,
        "calls waited for the load of another model"
    );
    let (settled, last) = watched.memory;
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    println!(
        "resident memory {:.1} MiB after two thirds, {:.1} MiB at the end",
        mib(settled),
        mib(last)
    );
    ensure!(last <= settled + GROWTH, "memory grows");
    println!("every answer right, no error but those asked for");
    Ok(())
}

/// Resident bytes of a process.
fn resident(process: u32) -> Result<u64> {
    let path = format!("/proc/{process}/status");
    let text = std::fs::read_to_string(Path::new(&path)).context(path)?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("no resident size")? << 10)
}
