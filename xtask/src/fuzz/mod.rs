//! Fuzz targets, each for a fixed time, with a table of what they did.

mod base64;
mod calls;
mod seeds;

use crate::child;
use anyhow::{Context, Result, bail, ensure};
use std::collections::VecDeque;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The compiler that cargo-fuzz needs.
const TOOLCHAIN: &str = "+nightly";
/// The platform that cargo-fuzz builds for, named in its output folder.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// Most bytes of a failing input that is printed.
const MAX_PRINTED: usize = 16 << 10;

/// One fuzz target and its bounds.
struct Target {
    name: &'static str,
    /// Most bytes of an input.
    max_len: u32,
    /// Seconds after which one input counts as a hang.
    timeout: u32,
}

/// Every target, the slowest to start first.
const TARGETS: &[Target] = &[
    Target {
        name: "blob",
        max_len: 16384,
        timeout: 20,
    },
    Target {
        name: "safetensors",
        max_len: 8192,
        timeout: 20,
    },
    Target {
        name: "gguf",
        max_len: 8192,
        timeout: 20,
    },
    Target {
        name: "tokenizer",
        max_len: 16384,
        timeout: 60,
    },
    Target {
        name: "vectors",
        max_len: 16384,
        timeout: 60,
    },
    Target {
        name: "precompile",
        max_len: 16384,
        timeout: 60,
    },
    Target {
        name: "differential",
        max_len: 512,
        timeout: 60,
    },
];

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Time of each target
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Targets that run at the same time
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    jobs: u16,
    /// Seed of libFuzzer's choices; 0 draws one
    #[arg(long, default_value_t = 1)]
    seed: u32,
    /// Run the one target named on this input alone: a file, or base64 as a failure prints it
    #[arg(long, value_name = "FILE|BASE64")]
    replay: Option<String>,
    /// Write the committed seeds anew instead, for a changed format
    #[arg(long)]
    write_seeds: bool,
    /// Targets, all if none is named
    targets: Vec<String>,
}

/// What one target did.
#[derive(Default, Debug, PartialEq, Eq)]
struct Figures {
    executions: u64,
    per_second: u64,
    corpus: u64,
    coverage: u64,
    features: u64,
}

struct Running<'a> {
    target: &'a Target,
    child: Child,
    start: Instant,
    log: PathBuf,
    artifacts: PathBuf,
}

struct Finished<'a> {
    target: &'a Target,
    seconds: u64,
    figures: Figures,
    crashes: Vec<PathBuf>,
    /// The end of the log where something is wrong.
    trouble: Option<String>,
}

/// Builds every target once, runs the chosen ones, prints the table.
pub(crate) fn run(options: &Options) -> Result<()> {
    if options.write_seeds {
        return seeds::write_all();
    }
    let chosen = choose(&options.targets)?;
    let root = child::root();
    if let Some(input) = &options.replay {
        return replay(&root, &chosen, input);
    }
    build(&root)?;
    let mut waiting: VecDeque<&Target> = chosen.into();
    let (mut running, mut finished) = (Vec::new(), Vec::new());
    while !waiting.is_empty() || !running.is_empty() {
        while running.len() < usize::from(options.jobs) {
            let Some(target) = waiting.pop_front() else {
                break;
            };
            running.push(start(&root, target, options)?);
        }
        std::thread::sleep(Duration::from_millis(200));
        let mut left = Vec::new();
        for mut one in running {
            match one.child.try_wait()? {
                None => left.push(one),
                Some(status) => finished.push(one.finish(status.success())?),
            }
        }
        running = left;
    }
    report(&finished)
}

fn choose(names: &[String]) -> Result<Vec<&'static Target>> {
    if names.is_empty() {
        return Ok(TARGETS.iter().collect());
    }
    let known = || {
        TARGETS
            .iter()
            .map(|t| t.name)
            .collect::<Vec<_>>()
            .join(", ")
    };
    names
        .iter()
        .map(|name| {
            let found = TARGETS.iter().find(|t| t.name == name);
            found.with_context(|| format!("no fuzz target `{name}`; there are {}", known()))
        })
        .collect()
}

/// The output folder of cargo-fuzz and of the runs.
fn work(root: &Path) -> PathBuf {
    root.join("target/fuzz")
}

fn build(root: &Path) -> Result<()> {
    let works = |args: &[&str]| {
        let output = Command::new("cargo").arg(TOOLCHAIN).args(args).output();
        output.is_ok_and(|o| o.status.success())
    };
    ensure!(
        works(&["--version"]),
        "no nightly compiler; install it with `rustup toolchain install nightly --profile minimal`"
    );
    ensure!(
        works(&["fuzz", "--version"]),
        "no cargo-fuzz; install it with `cargo install cargo-fuzz --locked`"
    );
    let status = Command::new("cargo")
        .args([TOOLCHAIN, "fuzz", "build", "--fuzz-dir", "fuzz"])
        // The default, 1, leaves the processors idle at the end of the build.
        .args(["--codegen-units", "16"])
        .args(["--target", PLATFORM, "--target-dir"])
        .arg(work(root))
        .current_dir(root)
        .status()?;
    ensure!(status.success(), "the fuzz targets do not build");
    Ok(())
}

/// The program of a target, with the bounds of one input.
fn program(root: &Path, target: &Target) -> Command {
    let mut command = Command::new(work(root).join(PLATFORM).join("release").join(target.name));
    command
        .arg(format!("-timeout={}", target.timeout))
        .args(["-rss_limit_mb=2048", "-malloc_limit_mb=1024"])
        .current_dir(root);
    command
}

/// Runs one target on one input; fails as the target does.
fn replay(root: &Path, chosen: &[&Target], input: &str) -> Result<()> {
    let &[target] = chosen else {
        bail!("name the one target of the input");
    };
    let mut file = PathBuf::from(input);
    // Base64 can be too long for a path, which is then no file.
    if !file.is_file() {
        let bytes = base64::decode(input.trim());
        let bytes = bytes.context("the input is neither a file nor base64")?;
        let folder = work(root).join("replay");
        fs::create_dir_all(&folder)?;
        file = folder.join(target.name);
        fs::write(&file, bytes)?;
    }
    let file = file.canonicalize()?;
    build(root)?;
    let status = program(root, target).arg(&file).status()?;
    ensure!(
        status.success(),
        "{} fails on {}",
        target.name,
        file.display()
    );
    Ok(())
}

fn start<'a>(root: &Path, target: &'a Target, options: &Options) -> Result<Running<'a>> {
    let (seconds, seed) = (options.seconds, options.seed);
    let work = work(root);
    let corpus = work.join("corpus").join(target.name);
    let artifacts = work.join("artifacts").join(target.name);
    for folder in [&corpus, &artifacts] {
        fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    for old in fs::read_dir(&artifacts)? {
        fs::remove_file(old?.path())?;
    }
    let log = work.join(format!("{}.log", target.name));
    let mut command = program(root, target);
    command
        .arg(&corpus)
        .args(
            ["seeds", "regressions"]
                .map(|kind| root.join("fuzz").join(kind).join(target.name))
                .iter()
                .filter(|folder| folder.is_dir()),
        )
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .arg(format!("-max_total_time={seconds}"))
        .arg(format!("-seed={seed}"))
        .arg(format!("-max_len={}", target.max_len))
        .arg("-print_final_stats=1");
    let dictionary = root
        .join("fuzz/dictionaries")
        .join(format!("{}.dict", target.name));
    if dictionary.exists() {
        command.arg(format!("-dict={}", dictionary.display()));
    }
    eprintln!("fuzzing {} for {seconds} s, seed {seed}", target.name);
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(fs::File::create(&log)?)
        .spawn()
        .with_context(|| format!("{command:?}"))?;
    Ok(Running {
        target,
        child,
        start: Instant::now(),
        log,
        artifacts,
    })
}

/// A run that is given up, because another could not start, does not go on alone.
impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Both fail where the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'a> Running<'a> {
    fn finish(&self, success: bool) -> Result<Finished<'a>> {
        let log = String::from_utf8_lossy(&fs::read(&self.log)?).into_owned();
        let figures = figures(&log);
        let mut crashes = Vec::new();
        for file in fs::read_dir(&self.artifacts)? {
            let path = file?.path();
            // A slow input is reported as well, and is no failure.
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if !name.starts_with("slow-unit") {
                crashes.push(path);
            }
        }
        crashes.sort();
        let ok = success && figures.executions > 0 && crashes.is_empty();
        Ok(Finished {
            target: self.target,
            seconds: self.start.elapsed().as_secs(),
            figures,
            crashes,
            trouble: (!ok).then(|| tail(&log, 120)),
        })
    }
}

fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// The figures that libFuzzer prints: its final statistics, and the last line of progress with a corpus.
fn figures(log: &str) -> Figures {
    let number = |text: &str| {
        let digits: String = text
            .trim_start()
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().unwrap_or(0)
    };
    let after = |line: &str, key: &str| line.split_once(key).map_or(0, |(_, rest)| number(rest));
    let last = |key: &str| log.lines().rfind(|line| line.contains(key)).unwrap_or("");
    let progress = last(" corp: ");
    Figures {
        executions: after(last("stat::number_of_executed_units:"), "units:"),
        per_second: after(last("stat::average_exec_per_sec:"), "sec:"),
        corpus: after(progress, " corp: "),
        coverage: after(progress, " cov: "),
        features: after(progress, " ft: "),
    }
}

/// How to run a failing input again, from the text alone where it is at most [`MAX_PRINTED`] bytes.
fn input_line(target: &Target, crash: &Path, bytes: &[u8]) -> String {
    let input = if bytes.len() > MAX_PRINTED {
        crash.display().to_string()
    } else {
        base64::encode(bytes)
    };
    format!(
        "input: {}, {} bytes; run again:\ncargo xtask fuzz {} --replay '{input}'",
        crash.display(),
        bytes.len(),
        target.name
    )
}

fn report(finished: &[Finished<'_>]) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "\n| target | seconds | executions | per second | corpus | coverage (edges / features) | crashes |\n|---|---|---|---|---|---|---|"
    )?;
    for f in finished {
        let g = &f.figures;
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} / {} | {} |",
            f.target.name,
            f.seconds,
            g.executions,
            g.per_second,
            g.corpus,
            g.coverage,
            g.features,
            f.crashes.len()
        )?;
    }
    let mut failed = 0;
    for f in finished {
        if let Some(log) = &f.trouble {
            failed += 1;
            writeln!(out, "\n{} failed; its log ends:\n{log}", f.target.name)?;
            for crash in &f.crashes {
                let bytes = fs::read(crash)?;
                writeln!(out, "\n{}", input_line(f.target, crash, &bytes))?;
            }
        }
    }
    if failed > 0 {
        bail!("{failed} fuzz targets failed");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_of_a_log() {
        let log = "\
#2\tINITED cov: 12 ft: 13 corp: 1/1b exec/s: 0 rss: 40Mb
#1024\tpulse  cov: 50 ft: 80 corp: 9/100b lim: 4 exec/s: 512 rss: 41Mb
#2048\tDONE   cov: 55 ft: 90 corp: 11/1234b lim: 4 exec/s: 682 rss: 41Mb
Done 2048 runs in 3 second(s)
stat::number_of_executed_units: 2048
stat::average_exec_per_sec:     682
stat::new_units_added:          10";
        let expected = Figures {
            executions: 2048,
            per_second: 682,
            corpus: 11,
            coverage: 55,
            features: 90,
        };
        assert_eq!(figures(log), expected);
        assert_eq!(figures("no figures"), Figures::default());
    }

    #[test]
    fn a_failing_input_is_run_again_from_the_log() {
        let crash = Path::new("/artifacts/crash-1");
        let line = input_line(&TARGETS[3], crash, b"\x00{\n");
        assert!(
            line.ends_with("cargo xtask fuzz tokenizer --replay 'AHsK'"),
            "{line}"
        );
        let line = input_line(&TARGETS[3], crash, &[7; MAX_PRINTED + 1]);
        assert!(line.ends_with("--replay '/artifacts/crash-1'"), "{line}");
    }

    #[test]
    fn targets_have_names_and_files() {
        assert!(choose(&["none".into()]).is_err());
        assert_eq!(choose(&[]).unwrap().len(), TARGETS.len());
        let root = child::root();
        let listed = fs::read_dir(root.join("fuzz/fuzz_targets")).unwrap();
        let mut files: Vec<String> = listed
            .map(|f| {
                f.unwrap()
                    .path()
                    .file_stem()
                    .unwrap()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        files.sort();
        let mut names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
        names.sort_unstable();
        assert_eq!(files, names);
        for name in names {
            assert!(
                root.join("fuzz/seeds").join(name).is_dir(),
                "no seeds of {name}"
            );
        }
    }
}
