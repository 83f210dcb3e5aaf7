//! One connection to one source.

use super::board::Board;
use super::report::{Fault, Trouble};
use super::source::SourceError;
use crate::store::{What, chunk_range};
use int_engine::commitment::{CHUNK, Tree, leaf_hash};
use std::ops::{ControlFlow, Range};
use std::sync::mpsc::SyncSender;

/// A chunk whose hash is right.
pub(super) struct Chunk {
    pub(super) index: u64,
    pub(super) bytes: Vec<u8>,
}

/// Gets chunks as long as there are any and the source is not given up.
pub(super) fn work(board: &Board, tree: &Tree, source: usize, send: &SyncSender<Chunk>) {
    while let Some((run, round)) = board.claim(source) {
        let fault = get(board, tree, source, run.chunks.clone(), send);
        board.settle(source, &run, round, fault);
    }
}

/// Gets a run of chunks; every chunk is hashed before the next begins.
fn get(
    board: &Board,
    tree: &Tree,
    source: usize,
    chunks: Range<u64>,
    send: &SyncSender<Chunk>,
) -> Option<Fault> {
    let place = |index| chunk_range(tree.total_len(), index).unwrap_or(0..0);
    let last = chunks.end.saturating_sub(1);
    let range = place(chunks.start).start..place(last).end;
    let mut next = chunks.start;
    let mut buffer = Vec::with_capacity(CHUNK);
    let (mut over, mut lie, mut enough) = (false, false, false);
    let answer = board.ask(source, What::Blob, range.clone(), &mut |mut piece| {
        while !piece.is_empty() {
            if next == chunks.end {
                over = true;
                return ControlFlow::Break(());
            }
            let span = place(next);
            let len = (span.end - span.start) as usize;
            let (now, later) = piece.split_at(piece.len().min(len - buffer.len()));
            buffer.extend_from_slice(now);
            piece = later;
            if buffer.len() < len {
                continue;
            }
            if tree.leaves().get(next as usize) != Some(&leaf_hash(&buffer)) {
                lie = true;
                return ControlFlow::Break(());
            }
            let bytes = std::mem::replace(&mut buffer, Vec::with_capacity(CHUNK));
            let chunk = Chunk { index: next, bytes };
            if board.got(source, next, len as u64) && send.send(chunk).is_err() {
                enough = true;
                return ControlFlow::Break(());
            }
            next += 1;
            if next < chunks.end && !board.is_wanted(next..chunks.end) {
                enough = true;
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    });
    let trouble = match answer {
        _ if enough => return None,
        _ if lie => Trouble::OtherBytes,
        _ if over => SourceError::More(range.end - range.start).into(),
        Err(trouble) => trouble,
        Ok(()) if next < chunks.end => SourceError::Fewer {
            got: place(next).start - range.start + buffer.len() as u64,
            asked: range.end - range.start,
        }
        .into(),
        Ok(()) => return None,
    };
    let chunk = Some(next.min(last));
    Some(Fault { chunk, trouble })
}
