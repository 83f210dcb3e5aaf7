//! Servers that stall, lie, break off or never end: each is found in time and named, and another one finishes the blob.

mod common;

use blue_node::fetch::{
    FetchError, HttpSource, Options, Report, Source, SourceError, Trouble, fetch,
};
use blue_node::store::Store;
use common::http::{Act, Hostile, hostile, serve, stocked};
use common::{BLOB, commitment, options, published, quiet};
use std::num::{NonZeroU32, NonZeroUsize};
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
        Act::Loop => *error == E::Elsewhere,
        Act::ClosedAtOnce | Act::EndlessHeader | Act::Garbage => {
            matches!(error, E::Io(_))
        }
        Act::Honest | Act::OtherBytes => false,
    }
}

/// Whether only time shows it, so that a test has to wait.
fn takes_time(act: Act) -> bool {
    matches!(act, Act::Silent | Act::Trickle | Act::HalfThenSilent)
}

/// Times after which these acts, and nothing else that the tests do, are given up.
fn impatient(act: Act) -> Options {
    let stall = match act {
        // No byte comes, however long one waits.
        Act::Silent => Duration::from_millis(300),
        // The first half, or a byte before the limit, has to be through.
        _ => Duration::from_secs(3),
    };
    let least_rate = match act {
        Act::Trickle => 1 << 40,
        _ => 1 << 10,
    };
    Options {
        stall,
        least_rate,
        tries: NonZeroU32::new(2).unwrap(),
        ..options()
    }
}

/// The leaves are known before, so that chunks are all that a server is asked for.
fn proved(store: &Store) {
    let slot = store.slot(commitment()).unwrap();
    slot.open(common::tree(), true, NonZeroUsize::MIN, &mut |_, _| {})
        .unwrap();
}

fn check(act: Act, chunks_only: bool) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    let bad = hostile(act, chunks_only);
    let mut alone = options();
    if takes_time(act) {
        alone = impatient(act);
        if chunks_only {
            proved(&store);
        }
    }
    let sources = [at(&bad.address)];
    let error = fetch(&store, commitment(), &sources, &alone, &mut quiet()).unwrap_err();
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
    let least = if passes { alone.tries.get() } else { 1 };
    assert!(report.fault_count >= least.into(), "{error}");
    assert_eq!(error.only_other_bytes(), act == Act::OtherBytes);
    let text = error.to_string();
    assert!(text.contains(&bad.address), "{text}");
    assert!(!text.contains('\u{1b}'), "{text:?}");

    // With a good server beside it the blob arrives, whole, and before anything has stalled for long.
    let home = tempfile::tempdir().unwrap();
    let good = serve(stocked(home.path()));
    let start = Instant::now();
    let both = [at(&bad.address), at(&good.address)];
    let report: Report = fetch(&store, commitment(), &both, &options(), &mut quiet()).unwrap();
    assert!(start.elapsed() < options().stall, "{act:?}");
    assert_eq!(published(&store).as_deref(), Some(BLOB), "{act:?}");
    assert!(report.sources[1].faults.is_empty(), "{act:?}: {report:?}");
    let given: u64 = report.sources.iter().map(|s| s.bytes).sum();
    assert_eq!(report.kept + given, BLOB.len() as u64);
}

/// All acts, those that take time beside the others.
fn check_all(chunks_only: bool) {
    let (slow, quick): (Vec<Act>, Vec<Act>) = ACTS.iter().partition(|act| takes_time(**act));
    assert_eq!(slow.len(), 3);
    std::thread::scope(|scope| {
        for acts in slow.chunks(1).chain(quick.chunks(7)) {
            scope.spawn(move || acts.iter().for_each(|&act| check(act, chunks_only)));
        }
    });
}

#[test]
fn servers_that_never_answer_well() {
    check_all(false);
}

#[test]
fn servers_that_change_after_the_proof() {
    check_all(true);
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
    // Silent ones must be given up before others may have all that they hold; the good one has more tries than a slow
    // machine lets it fail.
    let many = Options {
        stall: Duration::from_secs(2),
        least_rate: 1 << 20,
        tries: NonZeroU32::new(30).unwrap(),
        ..options()
    };
    let report = fetch(&store, commitment(), &sources, &many, &mut quiet()).unwrap();
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
    let start = Instant::now();
    let sources = [at(&slow.address), at(&quick.address)];
    let report = fetch(&store, commitment(), &sources, &options(), &mut quiet()).unwrap();
    assert!(start.elapsed() < options().stall);
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
