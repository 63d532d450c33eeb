use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use rustix::process::Signal;

use crate::support::Place;
use crate::word_count::PROGRAM;

fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn health_and_metrics_are_served_while_it_runs() {
    let place = Place::new();
    place.file("text", "a b a\n");
    let arguments = ["run", "--http", "0", "--input", "text", "--set", "commit.interval.ms=50"];
    let mut running = place.start(PROGRAM, &arguments);
    let line = running.log().lines().find(|line| line.contains("serving health")).unwrap();
    let address = line.rsplit("address=").next().unwrap().trim().to_owned();
    running.wait_for("input appended");
    for path in ["/health/live", "/health/ready"] {
        let answer = get(&address, path);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.ends_with("\r\n\r\nrunning\n"), "{answer}");
    }
    let counted = "thalweg_process_total{application_id=\"word-count\"} 4\n";
    // Told as soon as the ends of the partitions are known.
    let lag =
        "thalweg_records_lag{application_id=\"word-count\",topic=\"lines\",partition=\"0\"} 0\n";
    let mut metrics = get(&address, "/metrics");
    for _ in 0..1000 {
        if metrics.contains(counted) && metrics.contains(lag) {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        metrics = get(&address, "/metrics");
    }
    assert!(metrics.contains(counted) && metrics.contains(lag), "{metrics}");
    running.signal(Signal::TERM);
    assert_eq!(running.end().0.code(), Some(0));
}

#[test]
fn an_address_that_is_taken_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ended = Place::new().run(PROGRAM, &["run", "--http", &address]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let message = format!("error: cannot serve `http.address` {address}\n  because: ");
    assert!(ended.stderr.contains(&message), "{}", ended.stderr);
}
