//! Nobody is there: at the start, or for a while.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::own_broker::OwnBroker;
use crate::support::process::DEADLINE;
use crate::support::text::{counted_by_the_shell, end_of_lines, sources_of_rocksdb};
use crate::support::{Place, Program, assert_same, increasing, word_results, word_totals};

/// Of the text, for each of its three parts.
const BYTES: usize = 200_000;

/// How long a question to brokers takes that nobody answers. The next one begins half a second after the warning: who waits for it
/// ends later than that.
const QUESTION: Duration = Duration::from_secs(5);

/// An application whose broker does not exist.
fn without_a_broker(options: &[&str]) -> (Place, String) {
    // Free a moment ago.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let mut place = Place::new(Program::WordCount, options);
    place.broker = Some(format!("kafka://{address}"));
    (place, address)
}

#[test]
fn no_broker_at_the_start_is_tried_again_and_then_named() {
    let little = ["--set", "request.timeout.ms=500", "--set", "task.timeout.ms=2000"];
    let (place, address) = without_a_broker(&little);
    let ended = place.start(&["run"]).end();
    let said = ended.log.join("\n");
    assert_eq!(ended.status.code(), Some(1), "{said}");
    let warnings = ended.warnings();
    assert!(warnings.iter().any(|line| line.contains("trying again")), "{said}");
    let error = said.split("error: ").nth(1).expect("it says why it ended");
    let parts = ["no broker answers; is the cluster up", &address, "Connection refused"];
    assert!(parts.iter().all(|part| error.contains(part)), "{said}");
    assert!(ended.took < Duration::from_secs(20), "{:?}", ended.took);
}

#[test]
fn the_first_signal_ends_a_start_that_waits_for_a_broker() {
    let started = [Signal::TERM, Signal::INT].map(|signal| {
        let (place, _) = without_a_broker(&[]);
        (signal, place.start(&["run"]), place)
    });
    for (signal, mut process, _place) in started {
        process.wait_for_line("trying again");
        let asked = Instant::now();
        process.signal(signal);
        let ended = process.end();
        assert!(asked.elapsed() < QUESTION, "{:?}", asked.elapsed());
        let said = ended.log.join("\n");
        assert_eq!(ended.status.code(), Some(0), "{said}");
        assert!(said.contains("stopping: nothing has begun yet"), "{said}");
    }
}

#[test]
fn a_broker_that_comes_late_goes_and_comes_back_costs_nothing_but_time() {
    let broker = OwnBroker::take();
    let mut place = Place::new(Program::WordCount, &[]);
    place.broker = Some(format!("kafka://{}", broker.address()));
    let text = sources_of_rocksdb();
    let ends = [1, 2, 3].map(|part| end_of_lines(&text, part * BYTES));
    place.append("text", &text[..ends[0]]);
    broker.kill();
    let mut process = place.start(&["run", "--input", "text"]);
    process.wait_for_line("trying again");
    broker.start();
    let before = process.wait_for(|numbers| numbers.processed > 1000 && numbers.commits > 0);

    place.append("text", &text[ends[0]..ends[1]]);
    process.wait_for(|numbers| numbers.commits > before.commits);
    broker.kill();
    place.append("text", &text[ends[1]..ends[2]]);
    process.watch_until(Instant::now() + Duration::from_secs(2));
    broker.start();
    let back = process.numbers().unwrap();
    process.wait_for(|numbers| numbers.commits > back.commits + 1);
    process.stop_and_kill(DEADLINE).succeeded();

    let to_the_end = ["run", "--until-end", "--input", "text", "--output", "results"];
    place.run(&to_the_end);
    let expected = counted_by_the_shell(&place.path().join("text"));
    assert_same(&word_results(&place), &expected);
    assert_same(&increasing(word_totals(&place)), &expected);
}
