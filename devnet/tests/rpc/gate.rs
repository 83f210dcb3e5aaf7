//! Models for calls behind a gate: how many calls run at a time is seen while it is closed.

use int_engine::commitment::Commitment;
use precompile::memory::ModelSet;
use precompile::{Fault, Lookup, Models};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex};

#[derive(Default)]
pub(crate) struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    running: AtomicUsize,
    most: AtomicUsize,
}

impl Gate {
    pub(crate) fn close(&self) {
        *self.closed.lock().unwrap() = true;
    }

    pub(crate) fn open(&self) {
        *self.closed.lock().unwrap() = false;
        self.opened.notify_all();
    }

    /// Calls that wait at the gate.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::SeqCst)
    }

    /// The most that there were at a time.
    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::SeqCst)
    }

    fn pass(&self) {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        let closed = self.closed.lock().unwrap();
        drop(self.opened.wait_while(closed, |closed| *closed).unwrap());
        self.running.fetch_sub(1, Ordering::SeqCst);
    }
}

pub(crate) struct Gated(pub(crate) ModelSet, pub(crate) Arc<Gate>);

impl Models for Gated {
    fn model(&self, commitment: Commitment) -> Result<Lookup, Fault> {
        self.1.pass();
        self.0.model(commitment)
    }
}
