//! The instances as processes.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use thalweg_processor::Guarantee;

use super::ChaosResult;

/// How long an instance may take to leave.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is shown of the log of an instance that ended by itself.
const SHOWN_LINES: usize = 30;

/// How instances are started.
#[derive(Clone, Debug)]
pub(super) struct Launch {
    pub(super) bootstrap: String,
    pub(super) application_id: String,
    pub(super) guarantee: Guarantee,
    pub(super) workers: usize,
    /// State directories and logs, one of each per instance.
    pub(super) folder: PathBuf,
}

/// Instances by number; a number keeps its state directory over restarts.
pub(super) struct Fleet {
    launch: Launch,
    running: Vec<Option<Child>>,
}

impl Fleet {
    pub(super) fn new(launch: Launch) -> Self {
        Self { launch, running: Vec::new() }
    }

    fn log(&self, number: usize) -> PathBuf {
        self.launch.folder.join(format!("instance-{number}.log"))
    }

    pub(super) fn start(&mut self, number: usize) -> ChaosResult<()> {
        let launch = &self.launch;
        let state = launch.folder.join(format!("state-{number}"));
        fs::create_dir_all(&state)?;
        let log = File::options().create(true).append(true).open(self.log(number))?;
        let child = Command::new(std::env::current_exe()?)
            .args(["instance", "--bootstrap", &launch.bootstrap])
            .args(["--application-id", &launch.application_id])
            .args(["--guarantee", launch.guarantee.as_str()])
            .args(["--workers", &launch.workers.to_string(), "--state-dir"])
            .arg(state)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        if self.running.len() <= number {
            self.running.resize_with(number + 1, || None);
        }
        self.running[number] = Some(child);
        Ok(())
    }

    /// Fails when an instance has ended by itself.
    pub(super) fn check(&mut self) -> ChaosResult<()> {
        for number in 0..self.running.len() {
            let Some(child) = &mut self.running[number] else { continue };
            if let Some(status) = child.try_wait()? {
                let log = tail(&self.log(number));
                return Err(format!("instance {number} ended by itself, {status}:\n{log}").into());
            }
        }
        Ok(())
    }

    fn pid(&self, number: usize) -> ChaosResult<Pid> {
        let child = self.running.get(number).and_then(Option::as_ref);
        let pid = child.and_then(|child| Pid::from_raw(child.id() as i32));
        pid.ok_or_else(|| format!("instance {number} does not run").into())
    }

    /// `kill -9`.
    pub(super) fn kill(&mut self, number: usize) -> ChaosResult<()> {
        kill_process(self.pid(number)?, Signal::KILL)?;
        if let Some(mut child) = self.running[number].take() {
            child.wait()?;
        }
        Ok(())
    }

    pub(super) fn freeze(&self, number: usize) -> ChaosResult<()> {
        Ok(kill_process(self.pid(number)?, Signal::STOP)?)
    }

    pub(super) fn thaw(&self, number: usize) -> ChaosResult<()> {
        Ok(kill_process(self.pid(number)?, Signal::CONT)?)
    }

    /// Asks an instance to leave, and waits for it.
    pub(super) fn leave(&mut self, number: usize) -> ChaosResult<()> {
        let Some(mut child) = self.running[number].take() else { return Ok(()) };
        drop(child.stdin.take());
        let begun = Instant::now();
        loop {
            match child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let log = tail(&self.log(number));
                    return Err(format!("instance {number} left with {status}:\n{log}").into());
                }
                None if begun.elapsed() > PATIENCE => {
                    child.kill()?;
                    child.wait()?;
                    let log = tail(&self.log(number));
                    return Err(format!("instance {number} does not leave:\n{log}").into());
                }
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    pub(super) fn leave_all(&mut self) -> ChaosResult<()> {
        (0..self.running.len()).try_for_each(|number| self.leave(number))
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for child in self.running.iter_mut().flatten() {
            // Whoever is gone already is fine.
            child.kill().ok();
            child.wait().ok();
        }
    }
}

/// The last lines of a log.
fn tail(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join("\n")
}
