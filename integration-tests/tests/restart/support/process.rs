//! An application as a process of its own: started, watched, killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// A process that does not do what a test waits for is broken: far longer than any step takes on a busy machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(120);
/// How often numbers are asked for while a test waits for them.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);

/// What a process says of itself under `/metrics`.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Numbers {
    pub(crate) processed: u64,
    pub(crate) commits: u64,
    pub(crate) restored: u64,
}

/// A running application. Killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    log: Receiver<String>,
    /// What it has logged.
    seen: Vec<String>,
    started: Instant,
    address: Option<String>,
}

/// A process that is no more.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) log: Vec<String>,
    pub(crate) status: ExitStatus,
    pub(crate) took: Duration,
}

impl Process {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let started = Instant::now();
        let mut child = command.spawn().unwrap_or_else(|e| panic!("cannot start {command:?}: {e}"));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, log) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        Self { child, log, seen: Vec::new(), started, address: None }
    }

    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// Watches what it logs until a moment; a process that ends before is a failure.
    pub(crate) fn watch_until(&mut self, moment: Instant) {
        loop {
            match self.log.recv_timeout(moment.saturating_duration_since(Instant::now())) {
                Ok(line) => self.note(line),
                Err(RecvTimeoutError::Timeout) => return,
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("it ended:\n{}", self.seen.join("\n"))
                }
            }
        }
    }

    fn note(&mut self, line: String) {
        if line.contains("serving health and metrics") {
            self.address = line.split("address=").nth(1).map(|a| a.trim().to_owned());
        }
        self.seen.push(line);
    }

    /// What it answers, status and body, once it serves anything.
    pub(crate) fn get(&mut self, path: &str) -> Option<(u16, String)> {
        self.watch_until(Instant::now());
        get(self.address.as_deref()?, path)
    }

    /// Its numbers, once it serves them.
    pub(crate) fn numbers(&mut self) -> Option<Numbers> {
        let (_, text) = self.get("/metrics")?;
        let sum = |name: &str| -> u64 {
            let samples = text
                .lines()
                .filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{')));
            samples
                .map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() as u64)
                .sum()
        };
        Some(Numbers {
            processed: sum("thalweg_process_total"),
            commits: sum("thalweg_commit_total"),
            restored: sum("thalweg_restore_total"),
        })
    }

    /// Waits until its numbers are as wanted.
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&Numbers) -> bool) -> Numbers {
        let deadline = Instant::now() + DEADLINE;
        loop {
            let numbers = self.numbers();
            if let Some(numbers) = numbers.filter(|n| wanted(n)) {
                return numbers;
            }
            assert!(Instant::now() < deadline, "{numbers:?}, and:\n{}", self.seen.join("\n"));
            self.watch_until(Instant::now() + LOOK_INTERVAL);
        }
    }

    /// Waits until it logs a line that contains a text.
    pub(crate) fn wait_for_line(&mut self, text: &str) {
        let deadline = Instant::now() + DEADLINE;
        while !self.seen.iter().any(|line| line.contains(text)) {
            assert!(Instant::now() < deadline, "no {text:?} in:\n{}", self.seen.join("\n"));
            self.watch_until(Instant::now() + LOOK_INTERVAL);
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let id = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(id, signal).unwrap();
    }

    /// Kills it with SIGKILL, which no process can put off. It has to be alive.
    pub(crate) fn kill(mut self) -> Ended {
        let ended = self.child.try_wait().unwrap();
        assert!(ended.is_none(), "{ended:?} before it was killed:\n{}", self.seen.join("\n"));
        self.child.kill().unwrap();
        self.ended()
    }

    /// Asks it to stop, and kills it so much later, if it has not ended before.
    pub(crate) fn stop_and_kill(mut self, then: Duration) -> Ended {
        self.signal(rustix::process::Signal::TERM);
        let moment = Instant::now() + then;
        while let Ok(line) = self.log.recv_timeout(moment.saturating_duration_since(Instant::now()))
        {
            self.note(line);
        }
        self.child.kill().unwrap();
        self.ended()
    }

    /// Waits until it has ended by itself.
    pub(crate) fn end(mut self) -> Ended {
        let deadline = Instant::now() + DEADLINE;
        loop {
            match self.log.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(line) => self.note(line),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it does not end:\n{}", self.seen.join("\n"))
                }
            }
        }
        self.ended()
    }

    fn ended(&mut self) -> Ended {
        let status = self.child.wait().unwrap();
        let took = self.started.elapsed();
        self.seen.extend(self.log.iter());
        Ended { log: std::mem::take(&mut self.seen), status, took }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may be gone already.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

impl Ended {
    pub(crate) fn succeeded(self) -> Self {
        assert!(self.status.success(), "{}:\n{}", self.status, self.log.join("\n"));
        self
    }

    /// Sums a field over all lines of its log that contain a text.
    pub(crate) fn sum(&self, text: &str, field: &str) -> u64 {
        let field = format!(" {field}=");
        let lines = self.log.iter().filter(|line| line.contains(text));
        let values = lines.filter_map(|line| line.split(&field).nth(1)?.split(' ').next());
        values.map(|value| value.parse::<u64>().unwrap()).sum()
    }

    /// What it warned of.
    pub(crate) fn warnings(&self) -> Vec<&String> {
        let of_level = |line: &&String| line.contains(" WARN ") || line.contains(" ERROR ");
        self.log.iter().filter(of_level).collect()
    }
}

/// Status and body of an answer; nothing when the process does not answer (any more).
fn get(address: &str, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(DEADLINE)).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
