//! The word count over a real text: exact, also when it is killed again and again.

use thalweg::Topic;

use crate::support::kills::{Victim, assert_no_warnings, parts};
use crate::support::random::seed;
use crate::support::text::{counted_by_the_shell, end_of_lines, sources_of_rocksdb};
use crate::support::{
    Counts, Place, Program, assert_same, folded, increasing, word_results, word_totals,
};

/// So much that 20 processes do about half of it before they are killed.
const KILLED_BYTES: usize = 12 << 20;

/// Where the program counts, a text of at most so many bytes, and what the shell counts in it.
fn place_and_text(options: &[&str], bytes_max: usize) -> (Place, Vec<u8>, Counts) {
    let place = Place::new(Program::WordCount, options);
    let mut text = sources_of_rocksdb();
    if text.len() > bytes_max {
        text.truncate(end_of_lines(&text, bytes_max));
    }
    let counts = counted_by_the_shell(&place.append("text", &text));
    (place, text, counts)
}

/// What the changelog says that the store holds.
fn stored(place: &Place) -> Counts {
    let rows = folded(place, "word-count-word-counts-changelog").into_iter();
    rows.map(|(word, count)| (word, i64::from_be_bytes(count.try_into().unwrap()))).collect()
}

#[test]
fn words_of_a_real_text_are_counted_as_the_shell_counts_them() {
    let (place, text, expected) = place_and_text(&["--guarantee", "exactly_once"], usize::MAX);
    assert!(text.len() >= 10 << 20, "{} bytes", text.len());
    let run = ["run", "--until-end", "--input", "text", "--output", "results"];
    let ended = place.run(&run);
    let (words, seconds) = (expected.values().sum::<i64>(), ended.took.as_secs_f64());
    println!(
        "{words} words, {} different, {} bytes in {seconds:.1} s: {:.0} words/s",
        expected.len(),
        text.len(),
        words as f64 / seconds
    );
    assert_same(&word_results(&place), &expected);
    assert_same(&increasing(word_totals(&place)), &expected);
    assert_same(&stored(&place), &expected);
    assert_no_warnings([&ended]);
}

#[test]
fn word_count_that_is_killed_20_times_under_exactly_once_is_exact() {
    // Consumed repartition records are deleted all the time.
    let purge = ["--set", "repartition.purge.interval.ms=100"];
    let (place, text, expected) = place_and_text(&purge, KILLED_BYTES);
    let victim = Victim { place: &place, guarantee: "exactly_once", parts: parts(&text) };
    let lives = victim.live(seed(0x7ead_0001));
    assert_same(&increasing(word_totals(&place)), &expected);
    assert_same(&stored(&place), &expected);
    assert_same(&word_results(&place), &expected);
    let lines = place.read(&Topic::<(), Vec<u8>>::new("lines")).into_iter();
    let fed: Vec<u8> = lines.flat_map(|line| [line.value, b"\n".to_vec()].concat()).collect();
    let ends_of_lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(ends_of_lines(&fed), ends_of_lines(&text), "lines that were fed");
    lives.assert_no_warnings();
}

#[test]
fn word_count_that_is_killed_20_times_under_at_least_once_loses_nothing() {
    let (place, text, expected) =
        place_and_text(&["--set", "commit.interval.ms=100"], KILLED_BYTES);
    let victim = Victim { place: &place, guarantee: "at_least_once", parts: parts(&text) };
    let lives = victim.live(seed(0x7ead_0002));
    let found: Counts = word_totals(&place).into_iter().map(|(word, n, _)| (word, n)).collect();
    let less = expected.iter().filter(|(word, count)| found.get(*word).is_none_or(|f| f < *count));
    let less: Vec<_> = less.take(20).collect();
    assert!(less.is_empty(), "{less:?}");
    assert_eq!(found.len(), expected.len(), "words that are not in the text");
    let more = found.values().sum::<i64>() - expected.values().sum::<i64>();
    println!("{more} words were counted again after the kills");
    lives.assert_no_warnings();
}
