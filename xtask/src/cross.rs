//! Other machines under emulation: one Rust for arm64 and s390x, and the consensus crates' tests there.

use crate::child;
use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Where the toolchain lies.
#[derive(clap::Args, Clone)]
#[group(skip)]
pub(crate) struct Options {
    /// Folder of the toolchain and its builds (default: target/cross)
    #[arg(long)]
    dir: Option<PathBuf>,
}

/// How the tests run.
#[derive(clap::Args)]
pub(crate) struct Tests {
    #[command(flatten)]
    toolchain: Options,
    /// All tests on every machine; without it, those beside the code alone elsewhere than on arm64
    #[arg(long)]
    all: bool,
}

/// A machine that qemu's user mode stands for.
pub(crate) struct Machine {
    /// As tables name it.
    pub(crate) name: &'static str,
    triple: &'static str,
    /// Prefix of the cross tools and the folder of their libraries below /usr.
    gnu: &'static str,
    qemu: &'static str,
    /// What `BLUE_EXPECT_TARGET` says to tests/target.rs of int-engine.
    expect: &'static str,
    /// Byte order and machine number of its executables: `e_ident[EI_DATA]` and `e_machine` of ELF.
    elf: (u8, u16),
}

/// Little-endian with NEON, and big-endian with the portable kernels alone.
pub(crate) static MACHINES: [Machine; 2] = [
    Machine {
        name: "arm64",
        triple: "aarch64-unknown-linux-gnu",
        gnu: "aarch64-linux-gnu",
        qemu: "qemu-aarch64-static",
        expect: "aarch64 little",
        elf: (1, 183),
    },
    Machine {
        name: "s390x",
        triple: "s390x-unknown-linux-gnu",
        gnu: "s390x-linux-gnu",
        qemu: "qemu-s390x-static",
        expect: "s390x big",
        elf: (2, 22),
    },
];

/// The consensus crates, and the known answers.
const PACKAGES: [&str; 3] = ["int-reference", "int-engine", "kat"];

/// A Rust that compiles for every machine.
pub(crate) struct Toolchain {
    dir: PathBuf,
}

impl Toolchain {
    /// Sets up what is missing, and proves that programs for each machine run.
    pub(crate) fn set_up(options: &Options) -> Result<Self> {
        let dir = options.dir.clone();
        let dir = dir.unwrap_or_else(|| child::root().join("target/cross"));
        fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
        let dir = dir.canonicalize()?;
        let script = child::root().join("xtask/scripts/cross-toolchain.sh");
        let status = Command::new("bash").arg(script).arg(&dir).status()?;
        ensure!(status.success(), "the cross toolchain could not be set up");
        Ok(Self { dir })
    }

    /// `cargo TASK ... --target` with the toolchain's compiler, the machine's linker and its emulator.
    pub(crate) fn cargo(&self, machine: &Machine, task: &str) -> Command {
        let mut command = cargo(task);
        let variable = machine.triple.replace('-', "_").to_uppercase();
        command
            .args(["--release", "--target", machine.triple])
            // Flags for this machine's processor mean nothing to another.
            .env_remove("RUSTFLAGS")
            .env_remove("CARGO_ENCODED_RUSTFLAGS")
            .env_remove("RUSTC_WRAPPER")
            .env("RUSTC", self.dir.join("rust/rustc"))
            .env("CARGO_TARGET_DIR", self.dir.join("build"))
            .env("CARGO_PROFILE_RELEASE_DEBUG", "none")
            .env(
                format!("CARGO_TARGET_{variable}_LINKER"),
                format!("{}-gcc", machine.gnu),
            )
            .env(
                format!("CARGO_TARGET_{variable}_RUNNER"),
                format!("{} -L /usr/{}", machine.qemu, machine.gnu),
            )
            .env("BLUE_EXPECT_TARGET", machine.expect);
        command
    }
}

impl Machine {
    /// Runs an executable of the machine.
    pub(crate) fn run(&self, executable: &Path) -> Result<Command> {
        let header = fs::read(executable)?;
        let word = |at: usize| match header.get(at..at + 2) {
            Some(&[a, b]) if self.elf.0 == 1 => u16::from_le_bytes([a, b]),
            Some(&[a, b]) => u16::from_be_bytes([a, b]),
            _ => 0,
        };
        ensure!(
            header.starts_with(b"\x7fELF")
                && header.get(5) == Some(&self.elf.0)
                && word(18) == self.elf.1,
            "{} is no program for {}",
            executable.display(),
            self.name
        );
        let mut command = Command::new(self.qemu);
        command.args(["-L", &format!("/usr/{}", self.gnu)]);
        command.arg(executable);
        Ok(command)
    }
}

/// Cargo on the workspace, with the lock file as it is.
pub(crate) fn cargo(task: &str) -> Command {
    let mut command = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args([task, "--locked"]).current_dir(child::root());
    command
}

/// Runs a `cargo build` and returns the one executable that it names.
pub(crate) fn executable(build: &mut Command) -> Result<PathBuf> {
    let output = build
        .args(["--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{build:?}"))?;
    ensure!(output.status.success(), "{build:?} failed");
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line)?;
        if let Some(path) = message["executable"].as_str() {
            return Ok(PathBuf::from(path));
        }
    }
    bail!("{build:?} named no executable")
}

/// Sets up the toolchain and runs the tests of the consensus crates on every machine.
pub(crate) fn run(options: &Tests) -> Result<()> {
    let toolchain = Toolchain::set_up(&options.toolchain)?;
    let mut lines = Vec::new();
    for machine in &MACHINES {
        let start = Instant::now();
        prove_target(&toolchain, machine)?;
        let mut tests = toolchain.cargo(machine, "test");
        for package in PACKAGES {
            tests.args(["--package", package]);
        }
        // Documentation tests are built for this machine alone.
        tests.args(["--lib", "--bins", "--no-fail-fast"]);
        // Elsewhere the known answers of `kat` hold what whole programs of tests do.
        if options.all || machine.name == MACHINES[0].name {
            tests.arg("--tests");
        } else {
            eprintln!("cross: {} leaves tests/ to --all", machine.name);
        }
        let output = tests.stderr(Stdio::inherit()).output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        let (passed, failed) = counts(&text);
        let seconds = start.elapsed().as_secs();
        lines.push(format!(
            "{:<6} {:<16} {passed:>5} passed {failed:>3} failed {seconds:>5} s",
            machine.name, machine.expect
        ));
        if !output.status.success() {
            eprint!("{text}");
            bail!(
                "the tests of {} fail on {}",
                PACKAGES.join(", "),
                machine.name
            );
        }
        ensure!(passed > 0, "no test ran on {}", machine.name);
        eprintln!("cross: {}", lines[lines.len() - 1]);
    }
    println!("{}", PACKAGES.join(", "));
    lines.iter().for_each(|line| println!("{line}"));
    Ok(())
}

/// The test that knows its target runs there, and is not silently left out.
fn prove_target(toolchain: &Toolchain, machine: &Machine) -> Result<()> {
    let output = toolchain
        .cargo(machine, "test")
        .args(["--package", "int-engine", "--test", "target"])
        .stderr(Stdio::inherit())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success() && text.contains("the_target_is_the_one_asked_for ... ok"),
        "the tests do not run on {} ({}):\n{text}",
        machine.name,
        machine.expect
    );
    Ok(())
}

/// Tests passed and failed by the summary lines of a test run.
fn counts(text: &str) -> (usize, usize) {
    let count = |line: &str, what: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|w| w.trim_end_matches(';') == what);
        at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok())
            .unwrap_or(0)
    };
    text.lines()
        .filter(|line| line.starts_with("test result:"))
        .fold((0, 0), |(passed, failed), line| {
            (
                passed + count(line, "passed"),
                failed + count(line, "failed"),
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_counted() {
        let text = "running 3 tests\n\
            test result: ok. 99 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s\n\
            test result: FAILED. 4 passed; 2 failed; 0 ignored; 0 measured; 1 filtered out; finished in 1s\n";
        assert_eq!(counts(text), (103, 2));
        assert_eq!(counts("no summary"), (0, 0));
    }

    #[test]
    fn a_program_of_another_machine_is_refused() {
        let here = std::env::current_exe().unwrap();
        let native = match std::env::consts::ARCH {
            "aarch64" => Some("arm64"),
            "s390x" => Some("s390x"),
            _ => None,
        };
        for machine in &MACHINES {
            assert_eq!(
                machine.run(&here).is_ok(),
                native == Some(machine.name),
                "{}",
                machine.name
            );
        }
    }
}
