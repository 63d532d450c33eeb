//! The record cache: one update per key and commit, with the time and headers of the latest record.

use std::collections::BTreeMap;

use thalweg::{
    BoxError, FixedKeyContext, FixedKeyProcessor, FixedKeyRecord, KStream, Materialized, Stores,
    StreamsBuilder, TaskConfig, TestDriver, TimeWindows,
};

use crate::support::{
    Cache, Text, counts, ms, numbers, pipe, start, text, texts, window_counts, windowed,
};

/// The words of each value, one record each: several updates within one commit.
fn words(builder: &StreamsBuilder, input: &Text) -> KStream<Option<String>, String> {
    builder.stream(input).flat_map_values(|_, line| {
        let words = line.iter().flat_map(|l| l.split(' '));
        words.map(str::to_owned).collect::<Vec<_>>()
    })
}

#[test]
fn updates_of_a_key_within_a_commit_become_one_result_and_one_changelog_record() {
    let cases: [(Cache, bool, &[&str]); 3] = [
        (Cache::On, true, &["a=3@5", "b=1@3", "a=5@5"]),
        (Cache::On, false, &["a=1@5", "a=2@5", "a=3@5", "b=1@3", "a=4@5", "a=5@5"]),
        (Cache::Off, true, &["a=1@5", "a=2@5", "a=3@5", "b=1@3", "a=4@5", "a=5@5"]),
    ];
    for (cache, cached_store, expected) in cases {
        let input = text("in");
        let builder = StreamsBuilder::new();
        let store = Materialized::named("counts");
        let store = if cached_store { store } else { store.without_cache() };
        words(&builder, &input).group_by_key().count(store).to(&numbers("out"));
        let mut driver = start(&builder, cache);
        let mut out = driver.output(&numbers("out"));
        pipe(&mut driver, &input, &[("a", "x y z", 5), ("b", "q", 3), ("a", "w v", 4)]);
        assert_eq!(counts(&mut out), expected, "{cache:?}, cached store: {cached_store}");
        assert_eq!(driver.read_raw("app-counts-changelog").len(), expected.len());
    }
}

#[test]
fn windowed_updates_wait_in_the_cache_per_window() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    let windows = TimeWindows::of_size(ms(10)).advance_by(ms(5)).grace(ms(100));
    words(&builder, &input).group_by_key().windowed_by(windows).count("w").to(&windowed("out", 10));
    let mut driver = start(&builder, Cache::On);
    let mut out = driver.output(&windowed("out", 10));
    pipe(&mut driver, &input, &[("a", "x y", 7), ("a", "z", 12)]);
    let expected = ["a[0,10)=2@7", "a[5,15)=2@7", "a[5,15)=3@12", "a[10,20)=1@12"];
    assert_eq!(window_counts(&mut out), expected);
}

/// Forwards a record for each number in a text, at that time.
struct Times;

impl FixedKeyProcessor for Times {
    type Key = Option<String>;
    type VIn = Option<String>;
    type VOut = Option<String>;

    fn process(
        &mut self,
        context: &mut FixedKeyContext<'_, '_, '_, Option<String>, Option<String>>,
        record: FixedKeyRecord<Option<String>, Option<String>>,
    ) -> Result<(), BoxError> {
        for time in record.value.iter().flat_map(|times| times.split(' ')) {
            let mut at_time = record.clone();
            at_time.timestamp.0 = time.parse()?;
            context.forward(at_time)?;
        }
        Ok(())
    }
}

#[test]
fn windows_that_leave_the_store_before_the_commit_are_sent_and_logged_all_the_same() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    builder
        .stream(&input)
        .process_values(Stores::none(), |_| Ok(Times))
        .group_by_key()
        .windowed_by(TimeWindows::of_size(ms(10)).no_grace())
        .count("w")
        .to(&windowed("out", 10));
    let mut driver = start(&builder, Cache::On);
    let mut out = driver.output(&windowed("out", 10));
    pipe(&mut driver, &input, &[("a", "3", 0), ("a", "4 5 25 900000", 0)]);
    let expected = ["a[0,10)=1@3", "a[0,10)=3@5", "a[20,30)=1@25", "a[900000,900010)=1@900000"];
    assert_eq!(window_counts(&mut out), expected);
    assert_eq!(driver.read_raw("app-w-changelog").len(), expected.len());
}

#[test]
fn last_result_of_each_window_is_the_same_with_and_without_a_cache() {
    let size = TimeWindows::of_size(ms(10));
    for windows in [size.no_grace(), size.grace(ms(20)), size.advance_by(ms(5)).grace(ms(7))] {
        let last = |cache| {
            let input = text("in");
            let builder = StreamsBuilder::new();
            builder
                .stream(&input)
                .process_values(Stores::none(), |_| Ok(Times))
                .group_by_key()
                .windowed_by(windows)
                .count("w")
                .to(&windowed("out", 10));
            let mut driver = start(&builder, cache);
            let mut out = driver.output(&windowed("out", 10));
            // Each line is one commit; the later ones leave windows of their own behind.
            let lines =
                ["3 4 5", "5 12 9 25 14 900000", "900001 899995 1800000 1799999 5", "3600000"];
            pipe(&mut driver, &input, &lines.map(|times| ("a", times, 0)));
            let results = window_counts(&mut out).into_iter();
            let results =
                results.map(|r| r.split_once('=').map(|(w, n)| (w.to_owned(), n.to_owned())));
            results.flatten().collect::<BTreeMap<_, _>>()
        };
        let (with, without) = (last(Cache::On), last(Cache::Off));
        assert_eq!(with, without, "{windows:?}");
        assert!(with.len() > 5, "{with:?}");
    }
}

#[test]
fn row_that_comes_and_goes_within_a_commit_leaves_no_trace() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    words(&builder, &input)
        .group_by_key()
        .aggregate(
            "rows",
            || Some(String::new()),
            |_, word, row| {
                *row = row.take().filter(|_| word != "stop").map(|row| row + word);
            },
        )
        .to(&text("out"));
    let mut driver = start(&builder, Cache::On);
    let mut out = driver.output(&text("out"));
    pipe(&mut driver, &input, &[("a", "x stop", 1), ("a", "y", 2), ("a", "stop", 3)]);
    assert_eq!(texts(&mut out), ["a=y@2", "a=@3"]);
    assert_eq!(driver.read_raw("app-rows-changelog").len(), 2);
}

#[test]
fn old_rows_that_leave_the_cache_are_those_that_left_it_before() {
    // a word's count moves between groups: the old group is that of the last flush, not of the last update
    for (cache, expected) in [
        (Cache::On, &["2=1@1", "2=0@2", "4=1@2"][..]),
        (Cache::Off, &["0=@1", "1=1@1", "1=0@1", "2=1@1", "2=0@2", "3=1@2", "3=0@2", "4=1@2"][..]),
    ] {
        let input = text("in");
        let builder = StreamsBuilder::new();
        words(&builder, &input)
            .group_by_key()
            .count("c1")
            .group_by("by-count", |word, n| (n.to_string(), word.clone()))
            .count("c2")
            .to(&numbers("out"));
        let mut driver = start(&builder, cache);
        let mut out = driver.output(&numbers("out"));
        pipe(&mut driver, &input, &[("a", "x y", 1), ("a", "x y", 2)]);
        assert_eq!(counts(&mut out), expected, "{cache:?}");
    }
}

#[test]
fn full_cache_sends_its_updates_before_the_commit() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    let words = words(&builder, &input).select_key(|_, word| word.clone());
    words.group_by_key_via("by-word").count("counts").to(&numbers("out"));
    let mut config = TaskConfig::new("app");
    config.cache_max_bytes = 1;
    let mut driver = TestDriver::new(&builder.build().unwrap(), config).unwrap();
    let mut out = driver.output(&numbers("out"));
    pipe(&mut driver, &input, &[("a", "x y x", 1)]);
    assert_eq!(counts(&mut out), ["x=1@1", "y=1@1", "x=2@1"]);
}

#[test]
fn cached_rows_of_a_filter_and_of_a_source_are_sent_at_the_commit() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    builder
        .table(&input, "rows")
        .filter_into("kept", |_, v: &String| v != "drop")
        .map_values_into("mapped", |_, v| v.to_uppercase())
        .to(&text("out"));
    let mut driver = start(&builder, Cache::On);
    let mut out = driver.output(&text("out"));
    let records = [("a", "x", 1), ("a", "drop", 2), ("b", "drop", 3), ("a", "y", 4), ("a", "", 5)];
    pipe(&mut driver, &input, &records);
    assert_eq!(texts(&mut out), ["a=X@1", "a=@2", "a=Y@4", "a=@5"]);
}
