//! The word count over a real text, by one instance and by three: what the shell counts.

use crate::broker;
use crate::support::process::DEADLINE;
use crate::support::text::{counted_by_the_shell, end_of_lines, sources_of_rocksdb};
use crate::support::{Place, Process, Program, assert_same, increasing, word_results, word_totals};

const PARTITIONS: &str = "6";
/// Of the text, for each half of the test.
const BYTES: usize = 4 << 20;

fn create(topics: &[&str]) {
    for topic in topics {
        let address = broker::address();
        let options = ["--bootstrap-server", address, "--create", "--topic", topic];
        let options = [&options[..], &["--partitions", PARTITIONS]].concat();
        broker::run("org.apache.kafka.tools.TopicCommand", &options, "");
    }
}

/// The first and the second part of a text, cut between two lines.
fn halves() -> (Vec<u8>, Vec<u8>) {
    let mut text = sources_of_rocksdb();
    text.truncate(end_of_lines(&text, 2 * BYTES));
    let second = text.split_off(end_of_lines(&text, BYTES));
    (text, second)
}

#[test]
fn words_are_counted_as_the_shell_counts_them_by_one_instance_and_by_three() {
    create(&["lines", "word-totals"]);
    let mut place = Place::new(Program::WordCount, &["--workers", "2"]);
    place.broker = Some(format!("kafka://{}", broker::address()));
    let (first, second) = halves();
    let expected = counted_by_the_shell(&place.append("text", &first));
    let to_the_end = ["run", "--until-end", "--input", "text", "--output", "results"];
    let ended = place.run(&to_the_end);
    println!("one instance: {:.1} s", ended.took.as_secs_f64());
    assert_same(&word_results(&place), &expected);
    assert_same(&increasing(word_totals(&place)), &expected);

    let expected = counted_by_the_shell(&place.append("text", &second));
    let mut instances: Vec<Process> = ["a", "b", "c"]
        .map(|name| match name {
            "a" => place.start_in("state-a", &["run", "--input", "text"]),
            _ => place.start_in(&format!("state-{name}"), &["run"]),
        })
        .into();
    // Each of them gets something to do.
    for instance in &mut instances {
        instance.wait_for(|numbers| numbers.processed > 1000 && numbers.commits > 0);
    }
    for instance in instances {
        instance.stop_and_kill(DEADLINE).succeeded();
    }
    place.run(&to_the_end);
    assert_same(&word_results(&place), &expected);
    assert_same(&increasing(word_totals(&place)), &expected);
}
