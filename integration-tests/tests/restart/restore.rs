//! A restart goes on from the state on disk: after a kill only the tail of a changelog is replayed.

use thalweg::Topic;
use thalweg_connectors::{ConsumerOptions, Isolation, TopicPartition};

use crate::support::kills::assert_no_warnings;
use crate::support::text::distinct_words;
use crate::support::{Place, Program, assert_same, increasing};

const KEYS: u64 = 1_000_000;

/// Offsets of a changelog, over all partitions.
fn changelog_length(place: &Place, topic: &str) -> u64 {
    let log = place.open();
    let partitions = log.admin().unwrap().describe(&[topic]).unwrap()[topic].partitions;
    let partitions: Vec<_> = (0..partitions).map(|p| TopicPartition::new(topic, p)).collect();
    let client_id = "test".to_owned();
    let options = ConsumerOptions { isolation: Isolation::ReadCommitted, client_id };
    let mut consumer = log.consumer(&options).unwrap();
    let ends = consumer.end_offsets(&partitions, Isolation::ReadCommitted).unwrap();
    ends.values().map(|end| end.0 as u64).sum()
}

#[test]
fn restart_after_a_kill_with_a_million_keys_replays_at_most_5_percent_of_the_changelog() {
    let place = Place::new(Program::WordCount, &["--guarantee", "exactly_once"]);
    let text = distinct_words(KEYS);
    place.append("text", text.as_bytes());
    let run = ["run", "--input", "text"];
    let to_the_end = [&run[..], &["--until-end", "--output", "results"]].concat();
    let filled = place.run(&to_the_end);
    println!("filled a store of {KEYS} keys in {:.1?}", filled.took);

    // The same words again, and killed in the middle of them.
    place.append("text", text.as_bytes());
    let mut process = place.start(&run);
    let numbers = process.wait_for(|numbers| numbers.processed > KEYS / 2 && numbers.commits > 1);
    let killed = process.kill();
    println!("killed: {numbers:?}");
    let length = changelog_length(&place, "word-count-word-counts-changelog");
    assert!(length > KEYS, "{length}");

    let mut process = place.start(&run);
    let numbers = process.wait_for(|numbers| numbers.processed > 0);
    println!(
        "restarted: the first record was processed after {:.0?}; {} of {length} offsets of the changelog were replayed",
        process.age(),
        numbers.restored
    );
    assert!(numbers.restored * 20 <= length, "{numbers:?} of {length}");
    let restarted = process.kill();

    let rest = place.run(&to_the_end);
    let totals = place.read(&Topic::<Vec<u8>, i64>::new("word-totals"));
    let found = increasing(totals.into_iter().map(|r| (r.key, r.value, r.offset)));
    let words = text.split_ascii_whitespace().map(|word| (word.as_bytes().to_vec(), 2));
    assert_same(&found, &words.collect());
    assert_no_warnings([&filled, &killed, &restarted, &rest]);
}
