//! Progress on standard error: only on a terminal, never beside `--json`.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const BAR: &str = "{msg:22} [{bar:32}] {human_pos}/{human_len} {eta}";
const BYTES: &str = "{msg:22} [{bar:32}] {bytes}/{total_bytes} {bytes_per_sec}";
const SPINNER: &str = "{spinner} {msg} {elapsed}";

/// Where bars of a command go.
#[derive(Clone, Copy)]
pub(crate) struct Progress {
    visible: bool,
}

impl Progress {
    /// Hidden under `--json` and where standard error is not a terminal.
    pub(crate) fn new(json: bool) -> Self {
        Self {
            visible: !json && std::io::stderr().is_terminal(),
        }
    }

    /// A bar that counts `total` items.
    pub(crate) fn items(self, label: &str, total: u64) -> ProgressBar {
        self.styled(label, Some(total), BAR)
    }

    /// A bar that counts `total` bytes.
    pub(crate) fn bytes(self, label: &str, total: u64) -> ProgressBar {
        self.styled(label, Some(total), BYTES)
    }

    /// A spinner, for work of unknown length.
    pub(crate) fn spinner(self, label: &str) -> ProgressBar {
        let bar = self.styled(label, None, SPINNER);
        if self.visible {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        bar
    }

    fn styled(self, label: &str, total: Option<u64>, template: &str) -> ProgressBar {
        let target = if self.visible {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(total, target);
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.set_message(label.to_string());
        bar
    }
}
