//! Replays: the same range gives the same records in the same order, and nothing of the live application is touched.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use thalweg::Windowed;
use thalweg::feed::read_all;
use thalweg_connectors::{CommittedOffset, ConsumerOptions, Isolation, TopicPartition};

use crate::support::kills::assert_no_warnings;
use crate::support::random::seed;
use crate::support::text::{lines, sources_of_rocksdb, time, views};
use crate::support::{Place, Program, Raw, content, raw};
use crate::windows::{counted, per_minute};

/// In the middle of the views, where a window begins.
const FROM_MS: i64 = 1_700_000_220_000;

/// A topic: its name, all its records, and what the groups have committed.
type LiveTopic = (String, Vec<Raw>, Vec<BTreeMap<TopicPartition, CommittedOffset>>);

/// All of a log that is not a replay's.
fn live_log(place: &Place) -> Vec<LiveTopic> {
    let log = place.open();
    let topics = log.admin().unwrap().list().unwrap();
    let live = topics.into_iter().filter(|topic| !topic.name.contains("-replay-"));
    let client_id = "test".to_owned();
    let options = ConsumerOptions { isolation: Isolation::ReadCommitted, client_id };
    let mut consumer = log.consumer(&options).unwrap();
    let input = place.path().join("input").canonicalize().unwrap();
    let groups = ["page-views".to_owned(), format!("page-views-input-{}", input.display())];
    live.map(|topic| {
        let records = read_all(&*log, &raw(&topic.name)).unwrap();
        let partitions = (0..topic.partitions).map(|p| TopicPartition::new(topic.name.as_str(), p));
        let partitions: Vec<_> = partitions.collect();
        let committed = groups.each_ref().map(|g| consumer.committed(g, &partitions).unwrap());
        (topic.name, records, committed.to_vec())
    })
    .collect()
}

/// All files below a directory.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => _ = found.insert(path.clone(), std::fs::read(&path).unwrap()),
        }
    }
    found
}

/// The output of a run: all of it, or only that of windows which begin at or after a time.
fn output(place: &Place, suffix: &str, from_ms: i64) -> Vec<Raw> {
    let topic = per_minute(suffix);
    let records = read_all(&*place.open(), &raw(topic.name())).unwrap();
    let start = |record: &Raw| {
        let key: Windowed<String> = topic.key_serde().read(record.key.as_deref()).unwrap();
        key.window.start_ms
    };
    records.into_iter().filter(|record| start(record) >= from_ms).collect()
}

fn assert_same_content(found: &[Raw], expected: &[Raw]) {
    let pairs = found.iter().map(content).zip(expected.iter().map(content)).enumerate();
    for (n, (found, expected)) in pairs {
        assert_eq!(found, expected, "record {n}");
    }
    assert_eq!(found.len(), expected.len());
}

#[test]
fn replays_of_a_windowed_count_repeat_the_original_run_and_touch_nothing_of_it() {
    let options = ["--guarantee", "exactly_once", "--set", "statestore.cache.max.bytes=0"];
    let place = Place::new(Program::PageViews, &options);
    let views = views(seed(0x7ead_0004), 200_000);
    let (expected, late) = counted(&views);
    println!("{} views, {late} of them too late, {} rows", views.len(), expected.len());
    place.append("input", lines(&views).as_bytes());
    let original = place.run(&["run", "--until-end", "--workers", "2", "--input", "input"]);
    let (log, state) = (live_log(&place), files(&place.path().join("state/page-views")));
    assert_eq!(log.len(), 3, "input, output and a changelog");

    let from = time(FROM_MS).to_string();
    let replay = |name| ["replay", "--from", &from, "--as", name];
    let one = place.run(&replay("one"));
    let two = place.run(&replay("two"));
    // Killed in the middle, and begun anew under the same name.
    let mut process = place.start(&replay("three"));
    process.wait_for(|numbers| numbers.commits > 0);
    let killed = process.kill();
    let three = place.run(&[&replay("three")[..], &["--replace"]].concat());

    let all = i64::MIN;
    let first = output(&place, "-replay-one", all);
    let read = views.iter().filter(|view| view.at_ms >= FROM_MS).count();
    println!("{} records of a replay; {read} views are not older than its start", first.len());
    assert!(first.len() > read / 2);
    assert_same_content(&output(&place, "-replay-two", all), &first);
    assert_same_content(&output(&place, "-replay-three", all), &first);

    let since = output(&place, "-replay-one", FROM_MS);
    assert!(since.len() > read / 2);
    assert_same_content(&since, &output(&place, "", FROM_MS));

    assert!(live_log(&place) == log, "a replay wrote to the live application's topics");
    assert!(files(&place.path().join("state/page-views")) == state, "a replay touched live state");
    assert_no_warnings([&original, &one, &two, &killed, &three]);
}

#[test]
fn replays_of_a_word_count_are_the_same_through_a_repartition_topic_too() {
    let place = Place::new(Program::WordCount, &["--guarantee", "exactly_once"]);
    let mut text = sources_of_rocksdb();
    text.truncate(1 << 20);
    place.append("input", &text);
    let original = place.run(&["run", "--until-end", "--input", "input", "--output", "results"]);
    let [one, two] = ["one", "two"]
        .map(|name| place.run(&["replay", "--from", "beginning", "--as", name, "--workers", "2"]));
    let totals = |suffix: &str| place.read(&raw(&format!("word-totals{suffix}")));
    let (first, second) = (totals("-replay-one"), totals("-replay-two"));
    assert_same_content(&second, &first);
    let last = |records: &[Raw]| -> BTreeMap<_, _> {
        records.iter().map(|record| (record.key.clone(), record.value.clone())).collect()
    };
    assert!(last(&first) == last(&totals("")), "a replay came to other results");
    assert!(first.len() > 50_000, "{}", first.len());
    assert_no_warnings([&original, &one, &two]);
}
