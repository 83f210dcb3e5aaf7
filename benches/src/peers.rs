//! Other engines as processes that answer requests: `benches/peers/README.md` has the protocol.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::Error;

/// A program of another engine and the model file it is measured on.
#[derive(Clone, Debug)]
pub struct Peer {
    /// What tables call it: one of [`crate::figures::PEERS`].
    pub name: String,
    /// `llama.cpp` or `candle`, as the program calls itself.
    pub engine: String,
    /// The program.
    pub program: PathBuf,
    /// Its arguments beside those of every peer.
    pub args: Vec<String>,
    /// The model.
    pub model: PathBuf,
}

/// A running program.
pub struct Running {
    name: String,
    child: Child,
    pipes: RefCell<(ChildStdin, BufReader<ChildStdout>)>,
    /// The line with which it began.
    head: Value,
}

impl Peer {
    /// Says whether program and model are there.
    ///
    /// # Errors
    /// [`Error::Peer`] names what is missing.
    pub fn check(&self) -> Result<(), Error> {
        for (what, path) in [("program", &self.program), ("model", &self.model)] {
            if !path.is_file() {
                return Err(Error::Peer {
                    name: self.name.clone(),
                    reason: format!("the {what} {} is missing", path.display()),
                });
            }
        }
        Ok(())
    }

    /// Starts the program and waits until its model is loaded.
    ///
    /// # Errors
    /// [`Error::Peer`] when it cannot be started, calls itself something else, or says nothing.
    pub fn start(&self, threads: usize, max_context: usize) -> Result<Running, Error> {
        let failed = |reason: String| Error::Peer {
            name: self.name.clone(),
            reason,
        };
        self.check()?;
        let mut child = Command::new(&self.program)
            .arg("--model")
            .arg(&self.model)
            .args(["--threads", &threads.to_string()])
            .args(["--max-context", &max_context.to_string()])
            .args(&self.args)
            .arg("--serve")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| failed(format!("{} does not start: {e}", self.program.display())))?;
        let (Some(stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(failed("it has no pipes".into()));
        };
        let mut running = Running {
            name: self.name.clone(),
            child,
            pipes: RefCell::new((stdin, BufReader::new(stdout))),
            head: Value::Null,
        };
        running.head = running.answer()?;
        match running.head["engine"].as_str() {
            Some(engine) if engine == self.engine => Ok(running),
            other => Err(failed(format!(
                "it calls itself {}",
                other.unwrap_or("nothing")
            ))),
        }
    }
}

impl Running {
    /// The process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Version and build as the program tells them.
    #[must_use]
    pub fn version(&self) -> String {
        let of = |key: &str| self.head[key].as_str().unwrap_or("?").to_owned();
        format!("{}; {}", of("version"), of("build"))
    }

    /// The engine's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sends a request, `prefill TOKENS` or `decode CONTEXT TOKENS`; the seconds it took by the program's clock.
    ///
    /// # Errors
    /// [`Error::Peer`] when the program ends, refuses, or answers without a time.
    pub fn request(&self, request: &str) -> Result<f64, Error> {
        let sent = writeln!(self.pipes.borrow_mut().0, "{request}");
        sent.map_err(|e| self.failed(format!("{request}: {e}")))?;
        let answer = self.answer()?;
        let seconds = answer["seconds"]
            .as_f64()
            .filter(|s| s.is_finite() && *s > 0.0);
        seconds.ok_or_else(|| self.failed(format!("{request}: it answers {answer}")))
    }

    fn failed(&self, reason: String) -> Error {
        Error::Peer {
            name: self.name.clone(),
            reason,
        }
    }

    fn answer(&self) -> Result<Value, Error> {
        let mut line = String::new();
        let read = self.pipes.borrow_mut().1.read_line(&mut line);
        match read {
            Ok(0) => Err(self.failed("it ended without an answer".into())),
            Ok(_) => serde_json::from_str(&line)
                .map_err(|_| self.failed(format!("it says {}", line.trim()))),
            Err(e) => Err(self.failed(e.to_string())),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It ends with its input; a program that does not is ended. Nothing is left to be told about either.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(program: &str) -> Peer {
        let file = PathBuf::from(file!())
            .canonicalize()
            .or_else(|_| std::env::current_exe());
        Peer {
            name: "llama.cpp, native".into(),
            engine: "llama.cpp".into(),
            program: program.into(),
            args: vec!["--repack".into(), "on".into()],
            model: file.unwrap(),
        }
    }

    fn reason(result: Result<Running, Error>) -> String {
        result.err().expect("no such peer").to_string()
    }

    #[test]
    fn what_is_missing_is_named() {
        assert!(reason(peer("/no/such/program").start(1, 64)).contains("/no/such/program"));
        let mut no_model = peer("/bin/sh");
        no_model.model = "/no/such/model".into();
        assert!(reason(no_model.start(1, 64)).contains("/no/such/model"));
    }

    #[cfg(unix)]
    #[test]
    fn answers_are_read_and_defects_told() {
        use std::os::unix::fs::PermissionsExt;
        let folder = std::env::temp_dir().join(format!("blue-bench-peer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let script = |name: &str, body: &str| {
            let path = folder.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            peer(path.to_str().unwrap()).start(2, 64)
        };
        let good = script(
            "good",
            r#"[ "$7 $8 $9" = "--repack on --serve" ] || exit 1
echo '{"engine":"llama.cpp","version":"1","build":"b"}'
while read kind a b; do if [ "$kind" = prefill ]; then echo '{"seconds":0.5}'; else echo '{"error":"no"}'; fi; done"#,
        )
        .unwrap();
        assert_eq!(good.version(), "1; b");
        assert_eq!(good.request("prefill 8").unwrap(), 0.5);
        assert!(
            good.request("decode 0 8")
                .unwrap_err()
                .to_string()
                .contains("no")
        );
        drop(good);
        let other = script("other", r#"echo '{"engine":"candle"}'"#);
        assert!(reason(other).contains("candle"));
        assert!(reason(script("silent", "exit 0")).contains("ended"));
        assert!(reason(script("chatty", "echo hello")).contains("hello"));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
