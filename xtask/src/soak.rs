//! Many callers of a development chain for a while: every answer is checked, memory stays, and a model that is loaded
//! meanwhile holds up nobody.

mod caller;
mod chain;
mod rpc;

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

/// Memory by which the allocator may grow.
const GROWTH: u64 = 16 << 20;
/// Memory that a transaction may leave behind: itself, its block, its receipt.
const GROWTH_PER_TRANSACTION: u64 = 8 << 10;

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
    report(&total, &watched, options)?;
    node.end()
}

/// What the run looked like from outside.
struct Watched {
    /// When the adopted model began to be fetched and loaded, and when it was ready.
    load: (Duration, Duration),
    /// A time after the model was ready and called.
    settled: Duration,
    /// Resident bytes of the process: then, and at the end.
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
    let settled = begun.elapsed();
    let before = node.resident_bytes()?;
    until(6)?;
    Ok(Watched {
        load: (from, to),
        settled,
        memory: (before, node.resident_bytes()?),
    })
}

fn report(total: &Tally, watched: &Watched, options: &Options) -> Result<()> {
    println!(
        "{:<28} {:>8} {:>9} {:>9} {:>9}",
        "call", "number", "median ms", "p99 ms", "most ms"
    );
    for kind in Kind::ALL {
        let times = total.times(|k| k == kind);
        ensure!(!times.is_empty(), "no call of the kind: {}", kind.name());
        let at = |part: usize| times[(times.len() - 1) * part / 100].as_secs_f64() * 1e3;
        let (median, p99, most) = (at(50), at(99), at(100));
        println!(
            "{:<28} {:>8} {median:>9.1} {p99:>9.1} {most:>9.1}",
            kind.name(),
            times.len()
        );
    }
    report_load(total, watched.load, options)?;
    report_memory(total, watched)?;
    println!("every answer right, no error but those asked for");
    Ok(())
}

/// While a model is loaded, calls of the others end at a rate of the same order, and few wait for it.
fn report_load(total: &Tally, (from, to): (Duration, Duration), options: &Options) -> Result<()> {
    let load = (to - from).as_secs_f64();
    let (during, otherwise) = total.ended(from, to);
    let rate = otherwise as f64 / (options.seconds as f64 - load).max(1.0);
    let across = total.across(from, to);
    println!(
        "a model was fetched and loaded in {load:.2} s: meanwhile {:.0} calls a second ended, otherwise {rate:.0}; {across} took as long as that",
        during as f64 / load,
    );
    // A fetch and a load take processors from the calls.
    let least = (rate * load / 4.0) as usize;
    ensure!(
        during >= least,
        "{during} calls ended while another model was loaded, must be {least} or more"
    );
    let times = total.times(|_| true);
    let long = to - from > times[(times.len() - 1) * 99 / 100];
    let most = options.callers as usize / 4;
    ensure!(
        !long || across <= most,
        "{across} calls waited for the load of another model, must be {most} at most"
    );
    Ok(())
}

fn report_memory(total: &Tally, watched: &Watched) -> Result<()> {
    let (settled, last) = watched.memory;
    let transactions = total.transactions_since(watched.settled);
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let most = settled + GROWTH + GROWTH_PER_TRANSACTION * transactions;
    println!(
        "resident memory {:.1} MiB after two thirds, {:.1} MiB at the end, {transactions} transactions later",
        mib(settled),
        mib(last)
    );
    ensure!(
        last <= most,
        "memory grows, must be {:.1} MiB at most",
        mib(most)
    );
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

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    const OPTIONS: Options = Options {
        seconds: 10,
        callers: 8,
    };
    const LOAD: (Duration, Duration) = (ms(4000), ms(5000));

    /// Eight callers, a call each 100 ms for ten seconds; `held` of them make one that lasts as long as the load.
    fn calls(held: u64) -> Tally {
        let mut all = vec![];
        for caller in 0..8 {
            let mut at = ms(1 + caller);
            while at < ms(10_000) {
                let waits = caller < held && at + ms(100) > LOAD.0 && at < LOAD.0;
                let took = if waits { ms(1200) } else { ms(100) };
                all.push((Kind::Generate, at, took));
                at += took;
            }
        }
        Tally(all)
    }

    #[test]
    fn calls_that_wait_for_a_load_are_told() {
        for held in 0..=2 {
            report_load(&calls(held), LOAD, &OPTIONS).unwrap();
        }
        let said = report_load(&calls(4), LOAD, &OPTIONS).unwrap_err();
        assert!(said.to_string().starts_with("4 calls waited"), "{said}");
        let said = report_load(&calls(8), LOAD, &OPTIONS).unwrap_err();
        assert!(said.to_string().starts_with("0 calls ended"), "{said}");
        // Of a load that is shorter than a call nothing can be said, and nothing is.
        report_load(&calls(0), (ms(4000), ms(4050)), &OPTIONS).unwrap();
    }

    #[test]
    fn memory_may_grow_by_what_transactions_leave() {
        let transactions =
            |n: u64| Tally((0..n).map(|i| (Kind::Transaction, ms(i), ms(1))).collect());
        let grown = |by| Watched {
            load: LOAD,
            settled: ms(1000),
            memory: (1 << 30, (1 << 30) + by),
        };
        let most = GROWTH + 500 * GROWTH_PER_TRANSACTION;
        assert!(report_memory(&transactions(1500), &grown(most)).is_ok());
        assert!(report_memory(&transactions(1499), &grown(most)).is_err());
        assert!(report_memory(&transactions(1500), &grown(most + 1)).is_err());
    }
}
