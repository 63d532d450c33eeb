//! Counting, reducing and folding streams.

use thalweg::{LocalState, Materialized, StreamsBuilder, Topic};

use crate::support::{Cache, counts, numbers, pipe, start, text, texts};

#[test]
fn s17_nulls_are_left_out_of_a_count_and_counted_as_dropped() {
    let (input, totals) = (text("in"), numbers("out"));
    let builder = StreamsBuilder::new();
    builder.stream(&input).group_by_key().count("counts").to(&totals);
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&totals);
    let records = [("k", "a", 1), ("k", "", 2), ("", "x", 3), ("k", "b", 4), ("k", "c", 0)];
    pipe(&mut driver, &input, &records);
    assert_eq!(counts(&mut out), ["k=1@1", "k=2@4", "k=3@4"]);
    assert_eq!(driver.dropped_records(), 2);
}

#[test]
fn count_goes_on_where_it_was_after_a_restart_with_or_without_its_local_state() {
    for state in [LocalState::Kept, LocalState::Lost] {
        let (input, totals) = (text("in"), numbers("out"));
        let builder = StreamsBuilder::new();
        builder.stream(&input).group_by("by-word", |_, v| v.clone()).count("counts").to(&totals);
        let mut driver = start(&builder, Cache::On);
        let mut out = driver.output(&totals);
        pipe(&mut driver, &input, &[("k", "a", 7), ("k", "b", 2)]);
        driver.restart(state).unwrap();
        pipe(&mut driver, &input, &[("k", "a", 3)]);
        assert_eq!(counts(&mut out), ["a=1@7", "b=1@2", "a=2@7"], "{state:?}");
    }
}

#[test]
fn reduce_starts_with_the_first_value_and_deletes_when_the_result_is_null() {
    let (input, output) = (text("in"), text("out"));
    let builder = StreamsBuilder::new();
    let joined = builder.stream(&input).group_by_key().reduce("joined", |row, value| {
        let value = value.clone().filter(|v| v != "stop")?;
        Some(format!("{}{value}", row.as_deref().unwrap_or_default()))
    });
    joined.to(&output);
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&output);
    pipe(&mut driver, &input, &[("k", "a", 5), ("k", "b", 3), ("k", "stop", 4), ("k", "c", 1)]);
    assert_eq!(texts(&mut out), ["k=a@5", "k=ab@5", "k=@5", "k=c@1"]);
}

#[test]
fn fold_to_none_deletes_the_row_and_the_next_value_starts_anew() {
    let (input, output) = (numbers("in"), numbers("out"));
    let builder = StreamsBuilder::new();
    builder
        .stream(&input)
        .group_by_key()
        .aggregate(
            "open",
            || Some(100_i64),
            |_, amount, open| {
                *open = open.map(|n| n + amount.unwrap_or(0)).filter(|n| *n != 0);
            },
        )
        .to(&output);
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&output);
    for (amount, time) in [(1, 1), (-101, 2), (5, 3)] {
        driver.input(&input).pipe("k".to_owned(), amount, time).unwrap();
    }
    assert_eq!(counts(&mut out), ["k=101@1", "k=@2", "k=105@3"]);
    let rows = driver.dump::<String, i64>("open").unwrap();
    assert_eq!(rows.iter().map(|r| r.value).collect::<Vec<_>>(), [105]);
}

#[test]
fn failed_fold_leaves_the_row_as_it_was() {
    let (input, output) = (text("in"), text("out"));
    let builder = StreamsBuilder::new();
    builder
        .stream(&input)
        .group_by_key()
        .try_aggregate(
            "rows",
            || Ok(String::new()),
            |_, value, row| {
                row.push_str(value.as_deref().unwrap_or_default());
                if row.contains('!') { Err("no shouting".into()) } else { Ok(()) }
            },
        )
        .to_stream()
        .to(&output);
    let mut config = thalweg::TaskConfig::new("app");
    config.on_processing_error = thalweg::OnError::Continue;
    config.cache_max_bytes = 0;
    let mut driver = thalweg::TestDriver::new(&builder.build().unwrap(), config).unwrap();
    let mut out = driver.output(&output);
    pipe(&mut driver, &input, &[("k", "a", 1), ("k", "!", 2), ("k", "b", 3)]);
    assert_eq!(texts(&mut out), ["k=a@1", "k=ab@3"]);
    assert_eq!(driver.dropped_records(), 1);
}

#[test]
fn changelog_holds_the_row_with_its_time() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    let _ = builder.stream(&input).group_by_key().count("counts");
    let mut driver = start(&builder, Cache::Off);
    pipe(&mut driver, &input, &[("k", "a", 7), ("k", "b", 2)]);
    let log = driver.read_raw("app-counts-changelog");
    let log: Vec<_> = log.iter().map(|r| (r.key.clone(), r.value.clone(), r.timestamp.0)).collect();
    let row = |n: i64| (Some(b"k".to_vec()), Some(n.to_be_bytes().to_vec()), 7);
    assert_eq!(log, [row(1), row(2)]);
}

#[test]
fn store_without_a_changelog_writes_none_and_starts_empty_elsewhere() {
    let (input, totals) = (text("in"), numbers("out"));
    let builder = StreamsBuilder::new();
    let store = Materialized::named("counts").in_memory().without_changelog();
    builder.stream(&input).group_by_key().count(store).to(&totals);
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&totals);
    pipe(&mut driver, &input, &[("k", "a", 1)]);
    driver.restart(LocalState::Lost).unwrap();
    pipe(&mut driver, &input, &[("k", "b", 2)]);
    assert_eq!(counts(&mut out), ["k=1@1", "k=1@2"]);
    assert!(driver.topics().iter().all(|t| !t.contains("changelog")), "{:?}", driver.topics());
}

/// A number that counts in another type than `i64`.
#[derive(Clone, Debug, PartialEq)]
struct Tally(i64);

thalweg::datum!(Tally);

impl From<i64> for Tally {
    fn from(n: i64) -> Self {
        Self(n)
    }
}

impl From<Tally> for i64 {
    fn from(tally: Tally) -> Self {
        tally.0
    }
}

#[derive(Clone)]
struct TallySerde;

impl thalweg::Serde<Tally> for TallySerde {
    fn write(
        &self,
        tally: &Tally,
        out: &mut Vec<u8>,
    ) -> Result<thalweg::Field, thalweg::SerdeError> {
        thalweg::I64Be.write(&tally.0, out)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Tally, thalweg::SerdeError> {
        thalweg::I64Be.read(bytes).map(Tally)
    }
}

#[test]
fn count_in_a_type_of_the_users_own() {
    let input = text("in");
    let output = Topic::<String, Tally>::with("out", thalweg::Utf8, TallySerde);
    let builder = StreamsBuilder::new();
    let store = Materialized::with("tallies", thalweg::Utf8, TallySerde);
    builder.stream(&input).group_by_key().count_as::<Tally>(store).to(&output);
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&output);
    pipe(&mut driver, &input, &[("k", "a", 1), ("k", "b", 2)]);
    let key = || "k".to_owned();
    assert_eq!(out.read_pairs().unwrap(), [(key(), Tally(1)), (key(), Tally(2))]);
}
