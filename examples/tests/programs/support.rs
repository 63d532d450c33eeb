//! Programs in directories of their own.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

/// A directory in which programs run.
pub(crate) struct Place(tempfile::TempDir);

/// How a program ended.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(self.0.path()).stdin(Stdio::null());
        // What the surroundings say of configuration or logging is not the test's.
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THALWEG_") || name == "RUST_LOG" {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs a program to its end.
    pub(crate) fn run(&self, program: &str, arguments: &[&str]) -> Ended {
        let output = self.command(program, arguments).output().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Runs a program to its end, which has to be a good one, and gives its results.
    pub(crate) fn results(&self, program: &str, arguments: &[&str]) -> String {
        let ended = self.run(program, arguments);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stdout
    }

    /// Starts a program, and waits until it is running.
    pub(crate) fn start(&self, program: &str, arguments: &[&str]) -> Running {
        let mut command = self.command(program, arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let mut running = Running { child, stderr, log: String::new() };
        running.wait_for("to=\"running\"");
        running
    }
}

/// A program that runs; killed when it is dropped.
pub(crate) struct Running {
    child: Child,
    stderr: BufReader<ChildStderr>,
    log: String,
}

impl Running {
    /// Waits until a line of its log contains the text.
    pub(crate) fn wait_for(&mut self, text: &str) {
        while !self.log.contains(text) {
            let read = self.stderr.read_line(&mut self.log).unwrap();
            assert_ne!(read, 0, "it ended before it logged {text:?}:\n{}", self.log);
        }
    }

    /// What it has logged so far.
    pub(crate) fn log(&self) -> &str {
        &self.log
    }

    /// Gives it text.
    pub(crate) fn type_in(&mut self, text: &str) {
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Waits for its end; gives the rest of its log too.
    pub(crate) fn end(mut self) -> (ExitStatus, String) {
        self.stderr.read_to_string(&mut self.log).unwrap();
        let status = self.child.wait().unwrap();
        (status, std::mem::take(&mut self.log))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
