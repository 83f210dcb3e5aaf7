//! How quiet the machine was while a sample was taken.

use std::fs;
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Largest share of all processors that other processes may use during an undisturbed sample.
const OTHERS: f64 = 0.03;
/// Largest share of the processors' time that the hypervisor may take.
const STEAL: f64 = 0.02;
/// Largest share of a sample's time that a thread of the contender may wait for a processor.
const DELAY: f64 = 0.02;
/// Ticks by which a difference of the system's counters may be wrong without anybody having run.
const TICKS: f64 = 3.0;

/// What others did to a sample, as shares.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Noise {
    /// Processor time of other processes, of all processors' time.
    pub others: f64,
    /// Time that the hypervisor took, of all processors' time.
    pub steal: f64,
    /// Time that the contender's threads waited for a processor, of the sample's time.
    pub delay: f64,
    /// Whether a share is larger than its limit.
    pub disturbed: bool,
}

/// The system's counters at a moment. Systems without them count as quiet.
pub struct Counters {
    at: Instant,
    /// Of all processors, in ticks: busy, idle, stolen.
    system: Option<[u64; 3]>,
    /// Of the contenders, in ticks.
    own: u64,
    /// Nanoseconds that threads of this process waited for a processor.
    delay: u64,
}

impl Counters {
    /// Reads them; `peers` are processes that belong to the contenders besides this one.
    #[must_use]
    pub fn now(peers: &[u32]) -> Self {
        let own = peers
            .iter()
            .map(|pid| process_ticks(&pid.to_string()))
            .sum::<u64>()
            + process_ticks("self");
        Self {
            at: Instant::now(),
            system: fs::read_to_string("/proc/stat")
                .ok()
                .and_then(|text| system_ticks(&text)),
            own,
            delay: delay(),
        }
    }

    /// What happened from `self` to `later`.
    #[must_use]
    pub fn noise_until(&self, later: &Self) -> Noise {
        let seconds = (later.at - self.at).as_secs_f64().max(1e-9);
        let delay = later.delay.saturating_sub(self.delay) as f64 * 1e-9 / seconds;
        let (Some(before), Some(after)) = (self.system, later.system) else {
            return Noise::default();
        };
        let [busy, idle, steal] =
            std::array::from_fn(|i| after[i].saturating_sub(before[i]) as f64);
        let all = (busy + idle + steal).max(1.0);
        let others = (busy - later.own.saturating_sub(self.own) as f64).max(0.0);
        let disturbed =
            others > (OTHERS * all).max(TICKS) || steal > (STEAL * all).max(TICKS) || delay > DELAY;
        Noise {
            others: others / all,
            steal: steal / all,
            delay,
            disturbed,
        }
    }
}

/// Busy, idle and stolen ticks of the first line of `/proc/stat`.
fn system_ticks(text: &str) -> Option<[u64; 3]> {
    let mut words = text.lines().next()?.split_whitespace();
    if words.next()? != "cpu" {
        return None;
    }
    let n: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
    // user nice system idle iowait irq softirq steal; guests are part of user.
    match n[..] {
        [user, nice, system, idle, iowait, irq, softirq, steal, ..] => {
            Some([user + nice + system + irq + softirq, idle + iowait, steal])
        }
        _ => None,
    }
}

/// User and system ticks of a process.
fn process_ticks(pid: &str) -> u64 {
    let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return 0;
    };
    // The name, in parentheses, may hold anything.
    let Some((_, rest)) = text.rsplit_once(") ") else {
        return 0;
    };
    rest.split(' ')
        .skip(11)
        .take(2)
        .filter_map(|w| w.parse::<u64>().ok())
        .sum()
}

/// Nanoseconds that the threads of this process have waited for a processor.
fn delay() -> u64 {
    let Ok(threads) = fs::read_dir("/proc/self/task") else {
        return 0;
    };
    threads
        .flatten()
        .filter_map(|thread| fs::read_to_string(thread.path().join("schedstat")).ok())
        .filter_map(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok())
        .sum()
}

/// The system's load averages over 1, 5 and 15 minutes.
#[must_use]
pub fn load_average() -> Option<[f64; 3]> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    let mut words = text.split_whitespace().map(|w| w.parse().ok());
    Some([words.next()??, words.next()??, words.next()??])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_split() {
        let text = "cpu  10 2 3 100 5 1 1 7 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
        assert_eq!(system_ticks(text), Some([17, 105, 7]));
        assert_eq!(system_ticks(""), None);
        assert_eq!(system_ticks("intr 1 2 3"), None);
    }

    #[test]
    fn others_and_waiting_disturb() {
        let at = Instant::now();
        let before = Counters {
            at,
            system: Some([0, 0, 0]),
            own: 0,
            delay: 0,
        };
        let after = |busy, idle, own, delay| Counters {
            at: at + std::time::Duration::from_secs(1),
            system: Some([busy, idle, 0]),
            own,
            delay,
        };
        let noise = |later: Counters| before.noise_until(&later);
        assert!(!noise(after(199, 1, 197, 0)).disturbed);
        assert!(noise(after(150, 50, 100, 0)).disturbed);
        assert!(noise(after(200, 0, 200, 30_000_000)).disturbed);
        assert_eq!(noise(after(150, 50, 100, 0)).others, 0.25);
    }
}
