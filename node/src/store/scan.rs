//! Which chunks of a file are those of a tree.

use super::layout::chunk_range;
use int_engine::commitment::{CHUNK, Tree, leaf_hash};
use int_engine::read::{ReadAt, read_exact};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

/// Chunks that a thread takes at a time.
const RUN: u64 = 16;

/// For each chunk of `tree` whether `source` holds it. What cannot be read is not held. `progress(done, total)` counts bytes.
pub(super) fn held(
    source: &impl ReadAt,
    tree: &Tree,
    threads: NonZeroUsize,
    progress: &mut dyn FnMut(u64, u64),
) -> Vec<bool> {
    let (count, total) = (tree.leaves().len() as u64, tree.total_len());
    let next = AtomicU64::new(0);
    // Unwritten places read as zeros, faster than they are hashed.
    let zeros = leaf_hash(&[0; CHUNK]);
    let work = |tell: &mut dyn FnMut(u64, bool, u64)| {
        let mut buffer = vec![0; CHUNK];
        loop {
            let first = next.fetch_add(RUN, Ordering::Relaxed);
            if first >= count {
                return;
            }
            for index in first..count.min(first + RUN) {
                let range = chunk_range(total, index).unwrap_or(0..0);
                let chunk = &mut buffer[..(range.end - range.start) as usize];
                let whole = read_exact(source, chunk, range.start).is_ok();
                let hash = if chunk.len() == CHUNK && chunk.iter().all(|&b| b == 0) {
                    zeros
                } else {
                    leaf_hash(chunk)
                };
                let right = whole && tree.leaves().get(index as usize) == Some(&hash);
                tell(index, right, range.end - range.start);
            }
        }
    };
    let mut held = vec![false; tree.leaves().len()];
    let mut done = 0;
    let mut note = |index: u64, right: bool, len: u64| {
        if let Some(place) = held.get_mut(index as usize) {
            *place = right;
        }
        done += len;
        progress(done, total);
    };
    thread::scope(|scope| {
        let (send, results) = mpsc::sync_channel(4 * RUN as usize);
        let wanted = (threads.get() as u64).min(count.div_ceil(RUN));
        let mut started = 0;
        for _ in 0..wanted {
            let (send, work) = (send.clone(), &work);
            let builder = thread::Builder::new().name("blue-scan".into());
            let thread = builder.spawn_scoped(scope, move || {
                work(&mut |index, right, len| {
                    // The receiver lives as long as this scope.
                    let _ = send.send((index, right, len));
                });
            });
            started += u32::from(thread.is_ok());
        }
        drop(send);
        if started == 0 {
            work(&mut note);
        }
        for (index, right, len) in results {
            note(index, right, len);
        }
    });
    held
}

/// The chunks of `tree` that the first bytes of `source` are not, read with all threads at the speed of the hash.
pub(super) fn damaged(
    source: &impl ReadAt,
    tree: &Tree,
    threads: NonZeroUsize,
    progress: &mut (dyn FnMut(u64, u64) + Send),
) -> Vec<u64> {
    let mut done = 0;
    let read = Tree::read(source, tree.total_len(), threads, |n| {
        done += n;
        progress(done, tree.total_len());
    });
    let held = match read {
        Ok(read) => (read.leaves().iter().zip(tree.leaves()))
            .map(|(a, b)| a == b)
            .collect(),
        // Chunk by chunk, to name those that cannot be read.
        Err(_) => held(source, tree, threads, progress),
    };
    missing(&held)
}

/// The indices that are not held.
pub(super) fn missing(held: &[bool]) -> Vec<u64> {
    (0..)
        .zip(held)
        .filter_map(|(i, held)| (!held).then_some(i))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    const BLOB: &[u8] = include_bytes!("../../../models/default/blue-tiny.blob");

    fn tree() -> Tree {
        Tree::read(BLOB, BLOB.len() as u64, NonZeroUsize::MIN, |_| {}).unwrap()
    }

    /// Cannot be read in one place.
    struct Unreadable(u64);

    impl ReadAt for Unreadable {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            if (offset..offset + buffer.len() as u64).contains(&self.0) {
                return Err(io::Error::other("bad sector"));
            }
            BLOB.read_at(buffer, offset)
        }
    }

    /// A part of the blob in memory.
    struct Part(Vec<u8>);

    impl ReadAt for Part {
        fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            self.0.read_at(buffer, offset)
        }
    }

    #[test]
    fn both_ways_name_the_same_chunks() {
        let tree = tree();
        let count = tree.leaves().len() as u64;
        for threads in [1, 3] {
            let threads = NonZeroUsize::new(threads).unwrap();
            for index in 0..count {
                let range = chunk_range(tree.total_len(), index).unwrap();
                let mut part = BLOB.to_vec();
                part[range.start as usize] ^= 0x80;
                let part = Part(part);
                assert_eq!(damaged(&part, &tree, threads, &mut |_, _| {}), [index]);
                let held = held(&part, &tree, threads, &mut |_, _| {});
                assert_eq!(missing(&held), [index]);
                let broken = Unreadable(range.end - 1);
                assert_eq!(damaged(&broken, &tree, threads, &mut |_, _| {}), [index]);
            }
            let short = Part(BLOB[..1024 + 3 * CHUNK + 5].to_vec());
            let all: Vec<u64> = (4..count).collect();
            assert_eq!(damaged(&short, &tree, threads, &mut |_, _| {}), all);
        }
    }

    #[test]
    fn progress_ends_at_the_total() {
        let mut last = (0, 0);
        let two = NonZeroUsize::new(2).unwrap();
        let held = held(&Part(BLOB.to_vec()), &tree(), two, &mut |done, total| {
            assert!(done > last.0);
            last = (done, total);
        });
        assert!(held.iter().all(|&h| h));
        assert_eq!(last, (BLOB.len() as u64, BLOB.len() as u64));
    }

    #[test]
    fn zeros_are_held_where_zeros_belong() {
        let zeros = Part(vec![0; 1024 + 2 * CHUNK + 7]);
        let len = zeros.0.len() as u64;
        let tree = Tree::read(&zeros, len, NonZeroUsize::MIN, |_| {}).unwrap();
        let held = held(&zeros, &tree, NonZeroUsize::MIN, &mut |_, _| {});
        assert_eq!(held, [true; 4]);
    }
}
