//! The broker of these tests: started once, stopped when they are over.
//!
//! `THALWEG_TEST_KAFKA` names one that runs already, as `host:port`; it has to be one that `integration-tests/kafka.sh` started,
//! with `--fast-groups`.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Where the script lies.
pub(crate) fn script() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../integration-tests/kafka.sh")
}

/// The broker's address.
pub(crate) fn address() -> &'static str {
    static ADDRESS: OnceLock<String> = OnceLock::new();
    ADDRESS.get_or_init(|| std::env::var("THALWEG_TEST_KAFKA").unwrap_or_else(|_| start(1)))
}

/// Runs one of Kafka's tools, with something on its standard input; gives what it prints.
pub(crate) fn run(class: &str, arguments: &[&str], input: &str) -> String {
    let mut tool = Command::new(script());
    tool.arg("run").arg(class).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut tool = tool.spawn().unwrap();
    std::io::Write::write_all(&mut tool.stdin.take().unwrap(), input.as_bytes()).unwrap();
    let output = tool.wait_with_output().unwrap();
    assert!(output.status.success(), "{class} failed");
    String::from_utf8(output.stdout).unwrap()
}

fn is_free(port: u16) -> bool {
    TcpListener::bind(("127.0.0.1", port)).is_ok()
}

/// Starts so many brokers, which are stopped when this process has ended; gives their addresses.
pub(crate) fn start(brokers: u16) -> String {
    start_with(brokers, |_| String::new())
}

/// The same, with more settings: those that `extra` gives for the first port. The 100 ports from 200 above it on are free for more
/// listeners.
pub(crate) fn start_with(brokers: u16, extra: impl Fn(u16) -> String) -> String {
    let candidates = (20_000..31_000).step_by(400).map(|p| p + (std::process::id() % 90) as u16);
    let shifts = (0..brokers).flat_map(|n| [n, n + 100]);
    let all_free = |p: &u16| shifts.clone().all(|shift| is_free(p + shift));
    let port = candidates.into_iter().find(all_free).expect("some ports are free");
    let (extra, port) = (extra(port), port.to_string());
    let started = Command::new(script())
        .env("KAFKA_EXTRA", extra)
        .args(["start", "--fast-groups", "--fresh", "--port", &port])
        .args(["--brokers", &brokers.to_string()])
        .output()
        .expect("bash runs");
    let said = String::from_utf8_lossy(&started.stderr);
    assert!(
        started.status.success(),
        "no broker for these tests: they need a JRE 17 or newer and Maven \
         (Debian: apt-get install default-jre-headless maven)\n{said}"
    );
    // Tests have no end of their own: another process waits for ours, and stops the broker.
    let guard = "(trap '' INT HUP; while kill -0 $1 2>/dev/null; do sleep 0.5; done; $2 stop --wipe --port $3) &";
    let pid = std::process::id().to_string();
    let detached = Command::new("setsid")
        .args(["bash", "-c", guard, "guard", &pid])
        .arg(script())
        .arg(&port)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    assert!(detached.unwrap().success());
    String::from_utf8(started.stdout).unwrap().trim().to_owned()
}
