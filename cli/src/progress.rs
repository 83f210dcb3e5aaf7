//! Progress on standard error: bars on a terminal, plain lines elsewhere, nothing beside `--json`.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const BAR: &str = "{msg} [{wide_bar}] {human_pos}/{human_len} {eta}";
const BYTES: &str = "{msg} [{wide_bar}] {bytes}/{total_bytes}";
const SPINNER: &str = "{spinner} {elapsed} {wide_msg}";
/// Work shorter than this shows no plain lines.
const SHORT: Duration = Duration::from_secs(2);

/// How a command shows its progress.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Not at all.
    Hidden,
    /// Bars.
    Terminal,
    /// Lines.
    Plain,
}

impl Progress {
    /// Hidden under `--json`, plain where standard error is not a terminal.
    pub(crate) fn new(json: bool) -> Self {
        if json {
            Self::Hidden
        } else if std::io::stderr().is_terminal() {
            Self::Terminal
        } else {
            Self::Plain
        }
    }

    /// One line on standard error, unless hidden.
    pub(crate) fn note(self, text: &str) {
        if self != Self::Hidden {
            // Nobody may read standard error; then there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "{text}");
        }
    }

    /// As [`Progress::note`], on a terminal only.
    pub(crate) fn terminal_note(self, text: &str) {
        if self == Self::Terminal {
            self.note(text);
        }
    }

    /// A bar that counts `total` items.
    pub(crate) fn items(self, label: &str, total: u64) -> Bar {
        self.bar(label, total, BAR, SHORT)
    }

    /// A bar that counts the `total` steps of a stage, which is told even when it is short.
    pub(crate) fn stage(self, label: &str, total: u64) -> Bar {
        let bar = self.bar(label, total, BAR, Duration::ZERO);
        if self == Self::Plain {
            self.note(&format!("{label}: 0/{total}"));
        }
        bar
    }

    /// A bar that counts `total` bytes.
    pub(crate) fn bytes(self, label: &str, total: u64) -> Bar {
        self.bar(label, total, BYTES, SHORT)
    }

    /// A spinner, for work of unknown length.
    pub(crate) fn spinner(self, label: &str) -> ProgressBar {
        let bar = self.styled(label, None, SPINNER);
        if self == Self::Terminal {
            bar.enable_steady_tick(Duration::from_millis(120));
        }
        bar
    }

    fn bar(self, label: &str, total: u64, template: &str, quiet: Duration) -> Bar {
        Bar {
            progress: self,
            bar: self.styled(label, Some(total), template),
            label: label.to_string(),
            total,
            done: 0,
            told: 0,
            start: Instant::now(),
            quiet,
            bytes: template == BYTES,
        }
    }

    fn styled(self, label: &str, total: Option<u64>, template: &str) -> ProgressBar {
        let target = if self == Self::Terminal {
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

/// A count that grows to its total.
pub(crate) struct Bar {
    progress: Progress,
    bar: ProgressBar,
    label: String,
    total: u64,
    done: u64,
    /// Tenths of the total that the last plain line told.
    told: u64,
    start: Instant,
    quiet: Duration,
    bytes: bool,
}

impl Bar {
    /// Counts `n` more.
    pub(crate) fn inc(&mut self, n: u64) {
        self.bar.inc(n);
        self.done = self.done.saturating_add(n);
        let tenths = tenths(self.done, self.total);
        if self.progress == Progress::Plain
            && tenths > self.told
            && self.start.elapsed() >= self.quiet
        {
            self.told = tenths;
            let line = if self.bytes {
                format!("{}: {} %", self.label, 10 * tenths)
            } else {
                format!("{}: {}/{}", self.label, self.done, self.total)
            };
            self.progress.note(&line);
        }
    }

    /// One line above the bar.
    pub(crate) fn note(&self, text: &str) {
        self.bar.suspend(|| self.progress.note(text));
    }

    /// What writes a line above the bar, from any thread.
    pub(crate) fn teller(&self) -> impl Fn(&str) + Send + 'static {
        let (bar, progress) = (self.bar.clone(), self.progress);
        move |text| bar.suspend(|| progress.note(text))
    }

    /// Takes the bar away.
    pub(crate) fn finish_and_clear(&self) {
        self.bar.finish_and_clear();
    }
}

fn tenths(done: u64, total: u64) -> u64 {
    (u128::from(done.min(total)) * 10 / u128::from(total.max(1))) as u64
}

#[cfg(test)]
mod tests {
    use super::tenths;

    #[test]
    fn tenths_end_at_ten() {
        assert_eq!([tenths(0, 0), tenths(0, 7), tenths(7, 7)], [0, 0, 10]);
        assert_eq!(tenths(u64::MAX, u64::MAX), 10);
        assert_eq!((tenths(1, 24), tenths(3, 24)), (0, 1));
    }
}
