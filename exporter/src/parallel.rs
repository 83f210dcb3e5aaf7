//! Threads over independent items: what is computed for an item never depends on the thread count.

use std::num::NonZeroUsize;
use std::sync::Mutex;

/// Runs `work` once for every item, on at most `threads` threads, the caller's included.
///
/// Each thread makes its own scratch value with `scratch`; items are handed out in order of demand, so `work`
/// must write only to what its item owns.
pub(crate) fn each<T, S>(
    threads: NonZeroUsize,
    items: impl Iterator<Item = T> + Send,
    scratch: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, T) + Sync,
) where
    T: Send,
{
    let queue = Mutex::new(items);
    let run = || {
        let mut own = scratch();
        loop {
            // A panic in another thread is re-raised by the scope; the queue itself stays consistent.
            let item = match queue.lock() {
                Ok(mut q) => q.next(),
                Err(_) => None,
            };
            match item {
                Some(item) => work(&mut own, item),
                None => break,
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.get() {
            scope.spawn(run);
        }
        run();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_worked_once_for_any_thread_count() {
        for threads in [1, 2, 5, 64] {
            let mut counts = [0u32; 37];
            each(
                NonZeroUsize::new(threads).unwrap(),
                counts.iter_mut(),
                || (),
                |(), c| *c += 1,
            );
            assert!(counts.iter().all(|&c| c == 1), "{threads} threads");
        }
    }
}
