//! One bar after another, for work that tells how far each step is.

use blue_node::fetch::Progress as Fetching;
use blue_node::store::{Importing, Publishing};

use crate::progress::{Bar, Progress};

/// The bar of the step that is being done.
pub(super) struct Bars {
    progress: Progress,
    now: Option<(&'static str, Bar, u64)>,
}

impl Bars {
    pub(super) fn new(progress: Progress) -> Self {
        Self {
            progress,
            now: None,
        }
    }

    /// `done` bytes of `total` in the step `label`.
    pub(super) fn bytes(&mut self, label: &'static str, done: u64, total: u64) {
        if self.now.as_ref().is_none_or(|(now, ..)| *now != label) {
            self.clear();
            self.now = Some((label, self.progress.bytes(label, total), 0));
        }
        if let Some((_, bar, told)) = &mut self.now {
            bar.inc(done.saturating_sub(*told));
            *told = done.max(*told);
        }
    }

    pub(super) fn fetching(&mut self, step: Fetching) {
        match step {
            Fetching::Proving => {}
            Fetching::Checking(done, total) => self.bytes("checking", done, total),
            Fetching::Fetching(done, total) => self.bytes("fetching", done, total),
            Fetching::Publishing(step) => self.publishing(step),
        }
    }

    pub(super) fn importing(&mut self, step: Importing) {
        match step {
            Importing::Hashing(done, total) => self.bytes("hashing", done, total),
            Importing::Checking(done, total) => self.bytes("checking", done, total),
            Importing::Copying(done, total) => self.bytes("copying", done, total),
            Importing::Publishing(step) => self.publishing(step),
        }
    }

    fn publishing(&mut self, step: Publishing) {
        if let Publishing::Hashing(done, total) = step {
            self.bytes("reading back", done, total);
        }
    }

    /// Takes the bar away.
    pub(super) fn clear(&mut self) {
        if let Some((_, bar, _)) = self.now.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
    }
}
