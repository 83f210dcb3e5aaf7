//! The first thing to get: record and leaves that give the commitment. They prove every later byte.

use super::board::Board;
use super::report::{Fault, FetchError, Trouble};
use super::source::SourceError;
use super::{Progress, tick};
use crate::store::{What, stated_len};
use int_engine::commitment::{FIRST_CHUNK, Tree, chunk_count, leaf_hash};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread;

/// Bytes of leaves in one request.
const LEAVES_PIECE: u64 = 1 << 20;

/// Proved leaves, and the record where it is right too.
pub(super) struct Proof {
    pub(super) tree: Tree,
    pub(super) source: usize,
    pub(super) record: Option<Vec<u8>>,
}

/// Asks all sources at once and returns the first proof.
pub(super) fn prove(
    board: &Arc<Board>,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Proof, FetchError> {
    let (send, proofs) = mpsc::sync_channel(1);
    let mut refused = None;
    for source in 0..board.sources.len() {
        let (board, send) = (board.clone(), send.clone());
        let thread = thread::Builder::new()
            .name("blue-prove".into())
            .spawn(move || ask(&board, source, &send));
        refused = thread.err().or(refused);
    }
    drop(send);
    loop {
        match proofs.recv_timeout(super::TICK) {
            Ok(proof) => return Ok(proof),
            Err(RecvTimeoutError::Timeout) => tick(progress, Progress::Proving)?,
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    Err(match refused {
        Some(error) => FetchError::Threads(error),
        None => FetchError::Exhausted {
            commitment: board.commitment,
            missing: None,
            sources: board.reports(),
        },
    })
}

fn ask(board: &Board, source: usize, send: &SyncSender<Proof>) {
    while !board.is_proved() {
        let Some(round) = board.turn(source) else {
            return;
        };
        let fault = match record_and_leaves(board, source) {
            Ok(Some((tree, record))) => {
                let right = tree.leaves().first() == Some(&leaf_hash(&record));
                if !right {
                    let trouble = Trouble::OtherBytes;
                    let chunk = Some(0);
                    board.fault(source, round, Fault { chunk, trouble });
                }
                if board.prove() {
                    // The receiver has one place, for the one proof.
                    let _ = send.send(Proof {
                        tree,
                        source,
                        record: right.then_some(record),
                    });
                }
                return;
            }
            Ok(None) => return,
            Err(trouble) => trouble,
        };
        if board.is_proved() && fault.may_pass() {
            return;
        }
        board.fault(
            source,
            round,
            Fault {
                chunk: None,
                trouble: fault,
            },
        );
    }
}

/// A tree of the commitment and the bytes of chunk 0, which may be others; `None` when it has no leaves, or they are not
/// wanted any more.
fn record_and_leaves(board: &Board, source: usize) -> Result<Option<(Tree, Vec<u8>)>, Trouble> {
    let mut record = Vec::with_capacity(FIRST_CHUNK);
    gather(
        board,
        source,
        What::Blob,
        0,
        FIRST_CHUNK as u64,
        &mut record,
    )?;
    let stated = stated_len(&record).ok_or(Trouble::NoBlob)?;
    let most = board.options.max_blob_len;
    if stated > most {
        return Err(Trouble::TooLong { stated, most });
    }
    if stated <= FIRST_CHUNK as u64 {
        return Err(Trouble::NoBlob);
    }
    let total = chunk_count(stated).saturating_mul(32);
    // Grows with what arrives.
    let mut bytes = Vec::new();
    let mut at = 0;
    while at < total {
        if board.is_proved() {
            return Ok(None);
        }
        let len = (total - at).min(LEAVES_PIECE);
        match gather(board, source, What::Leaves, at, len, &mut bytes) {
            Err(Trouble::Source(SourceError::Absent)) => {
                board.no_leaves(source);
                return Ok(None);
            }
            other => other?,
        }
        at += len;
    }
    let (leaves, _) = bytes.as_chunks::<32>();
    let tree = Tree::from_leaves(stated, leaves.to_vec()).ok_or(Trouble::OtherLeaves)?;
    if tree.commitment() != board.commitment {
        return Err(Trouble::OtherLeaves);
    }
    Ok(Some((tree, record)))
}

/// Appends exactly these bytes of a file.
fn gather(
    board: &Board,
    source: usize,
    what: What,
    at: u64,
    len: u64,
    bytes: &mut Vec<u8>,
) -> Result<(), Trouble> {
    let (mut got, mut over) = (0, false);
    board.ask(source, what, at..at + len, &mut |piece| {
        over = piece.len() as u64 > len - got;
        if over || bytes.try_reserve(piece.len()).is_err() {
            return ControlFlow::Break(());
        }
        got += piece.len() as u64;
        bytes.extend_from_slice(piece);
        ControlFlow::Continue(())
    })?;
    if over {
        return Err(SourceError::More(len).into());
    }
    if got < len {
        return Err(SourceError::Fewer { got, asked: len }.into());
    }
    Ok(())
}
