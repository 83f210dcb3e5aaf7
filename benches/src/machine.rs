//! What the figures were measured on.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The machine and the build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The CPU's name for itself, with family, model and stepping.
    pub cpu: String,
    /// Processors that this process may use.
    pub cores: usize,
    /// Caches of the first processor, such as `L1d 48K`.
    pub caches: Vec<String>,
    /// Bytes of memory.
    pub memory: u64,
    /// Kernel release.
    pub kernel: String,
    /// The system's setting of transparent huge pages.
    pub huge_pages: String,
    /// Sets of kernels that this machine runs, the slowest first.
    pub kernel_sets: Vec<String>,
    /// The compiler.
    pub rustc: String,
    /// Target, and whether optimised.
    pub build: String,
    /// The commit of the working folder, where there is one.
    pub commit: String,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn here() -> Self {
        let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let of = |name: &str| {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))
                .map_or("?", str::trim)
        };
        let cpu = format!(
            "{}, family {} model {} stepping {}",
            of("model name"),
            of("cpu family"),
            // The line `model name` starts with `model` too, but has no colon after it.
            of("model"),
            of("stepping")
        );
        Self {
            cpu,
            cores: cores(),
            caches: caches()
                .into_iter()
                .map(|(name, size)| format!("{name} {}", size_text(size)))
                .collect(),
            memory: meminfo("MemTotal").unwrap_or(0),
            kernel: line("/proc/sys/kernel/osrelease"),
            huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled"),
            kernel_sets: int_engine::kernels::Kernels::all()
                .into_iter()
                .filter_map(|(name, kernels)| kernels.map(|_| name.to_owned()))
                .collect(),
            rustc: env!("BENCH_RUSTC").to_owned(),
            build: format!(
                "{}-{}, {}",
                std::env::consts::ARCH,
                std::env::consts::OS,
                if cfg!(debug_assertions) {
                    "debug"
                } else {
                    "release"
                }
            ),
            commit: commit(),
        }
    }

    /// Bytes of the largest cache of the first processor; 0 when unknown.
    #[must_use]
    pub fn largest_cache() -> usize {
        caches()
            .into_iter()
            .map(|(_, size)| size)
            .max()
            .unwrap_or(0)
    }

    /// Bytes of memory that are free for use.
    #[must_use]
    pub fn free_memory() -> Option<u64> {
        meminfo("MemAvailable")
    }

    /// A short name for file names: lower-case letters, digits and hyphens.
    #[must_use]
    pub fn slug(&self) -> String {
        let mut slug = String::new();
        for c in self.cpu.to_lowercase().replace("(r)", "").chars() {
            if c.is_ascii_alphanumeric() {
                slug.push(c);
            } else if !slug.ends_with('-') {
                slug.push('-');
            }
        }
        format!("{}-{}-cores", slug.trim_matches('-'), self.cores)
    }
}

/// Processors that this process may use.
#[must_use]
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

fn line(path: &str) -> String {
    fs::read_to_string(path).map_or("?".into(), |text| text.trim().to_owned())
}

/// A line of `/proc/meminfo` in bytes.
fn meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let rest = text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    rest.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()
        .map(|kib| kib << 10)
}

/// The data caches of the first processor and their bytes.
fn caches() -> Vec<(String, usize)> {
    (0..8)
        .filter_map(|i| {
            let folder = format!("/sys/devices/system/cpu/cpu0/cache/index{i}");
            let read = |name: &str| fs::read_to_string(format!("{folder}/{name}")).ok();
            let kind = match read("type")?.trim() {
                "Data" => "d",
                "Unified" => "",
                _ => return None,
            };
            let size = size_of(read("size")?.trim())?;
            Some((format!("L{}{kind}", read("level")?.trim()), size))
        })
        .collect()
}

/// `48K` in bytes.
fn size_of(text: &str) -> Option<usize> {
    let (number, unit) = text.split_at(
        text.find(|c: char| !c.is_ascii_digit())
            .unwrap_or(text.len()),
    );
    let shift = match unit {
        "" => 0,
        "K" => 10,
        "M" => 20,
        _ => return None,
    };
    number.parse::<usize>().ok()?.checked_shl(shift)
}

fn size_text(size: usize) -> String {
    if size.is_multiple_of(1 << 20) {
        format!("{} MiB", size >> 20)
    } else {
        format!("{} KiB", size >> 10)
    }
}

fn commit() -> String {
    let git = |args: &[&str]| {
        let output = Command::new("git").args(args).output().ok()?;
        output.status.success().then_some(())?;
        String::from_utf8(output.stdout).ok()
    };
    let Some(head) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "?".into();
    };
    let changed =
        git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|s| !s.is_empty());
    format!(
        "{}{}",
        head.trim(),
        if changed { " with changes" } else { "" }
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_name() {
        let machine = Machine::here();
        assert!(machine.cores >= 1 && machine.kernel_sets.contains(&"scalar".to_owned()));
        let slug = machine.slug();
        assert!(
            slug.chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'),
            "{slug}"
        );
    }

    #[test]
    fn sizes_are_read_and_written() {
        assert_eq!(size_of("48K"), Some(48 << 10));
        assert_eq!(size_of("2M"), Some(2 << 20));
        assert_eq!(size_of("3X"), None);
        assert_eq!(
            (size_text(48 << 10), size_text(300 << 20)),
            ("48 KiB".into(), "300 MiB".into())
        );
    }
}
