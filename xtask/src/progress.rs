//! Progress on standard error: a bar on a terminal, a line for each tenth elsewhere, nothing beside `--json`.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Mutex;

/// A count that grows to its total, from any thread.
pub(crate) struct Progress {
    bar: ProgressBar,
    label: &'static str,
    total: u64,
    /// Whether lines are printed instead of the bar.
    lines: bool,
    /// Count so far, and tenths of the total already told.
    state: Mutex<(u64, u64)>,
}

impl Progress {
    /// Shows nothing when `hidden`.
    pub(crate) fn new(label: &'static str, total: u64, hidden: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal && !hidden {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        if let Ok(style) =
            ProgressStyle::with_template("{prefix} [{wide_bar}] {human_pos}/{human_len} {eta}")
        {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_prefix(label);
        Self {
            bar,
            label,
            total,
            lines: !terminal && !hidden,
            state: Mutex::default(),
        }
    }

    /// Counts `n` more.
    pub(crate) fn inc(&self, n: u64) {
        self.bar.inc(n);
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        state.0 += n;
        let tenths = state.0.min(self.total) * 10 / self.total.max(1);
        if self.lines && tenths > state.1 {
            state.1 = tenths;
            eprintln!("{}: {}/{}", self.label, state.0, self.total);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
