//! What the tests share: topics, drivers, and records written short.

use std::time::Duration;

use thalweg::{
    Headers, I64Be, Record, StreamsBuilder, TaskConfig, TestDriver, TestOutput, TimeWindow,
    TimeWindowedSerde, Topic, Utf8, Windowed,
};

/// Keys and values of text; both may be null.
pub(crate) type Text = Topic<Option<String>, Option<String>>;

/// A topic of text.
pub(crate) fn text(name: &str) -> Text {
    Topic::new(name)
}

/// A topic of numbers by text; both may be null.
pub(crate) fn numbers(name: &str) -> Topic<Option<String>, Option<i64>> {
    Topic::new(name)
}

/// A topic of numbers by text and window.
pub(crate) fn windowed(name: &str, size_ms: u64) -> Topic<Windowed<String>, Option<i64>> {
    let serde = TimeWindowedSerde::new(Utf8, ms(size_ms));
    Topic::with(name, serde, thalweg::Nullable::new(I64Be))
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Is there a record cache?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cache {
    Off,
    On,
}

/// Builds and starts a topology.
pub(crate) fn start(builder: &StreamsBuilder, cache: Cache) -> TestDriver {
    let mut config = TaskConfig::new("app");
    if cache == Cache::Off {
        config.cache_max_bytes = 0;
    }
    TestDriver::new(&builder.build().unwrap(), config).unwrap()
}

/// Key, value and time; an empty text is a null.
pub(crate) fn pipe(driver: &mut TestDriver, topic: &Text, records: &[(&str, &str, i64)]) {
    let some = |s: &str| (!s.is_empty()).then(|| s.to_owned());
    for (key, value, time) in records {
        driver.input(topic).pipe(some(key), some(value), *time).unwrap();
    }
}

/// One record with headers.
pub(crate) fn pipe_with(
    driver: &mut TestDriver,
    topic: &Text,
    (key, value, time): (&str, &str, i64),
    headers: &Headers,
) {
    let record = Record::new(Some(key.to_owned()), Some(value.to_owned()), time);
    driver.input(topic).pipe_record(&record.with_headers(headers.clone())).unwrap();
}

/// What came out: key, value and time; a null is an empty text.
pub(crate) fn texts(output: &mut TestOutput<Option<String>, Option<String>>) -> Vec<String> {
    let text = |s: Option<String>| s.unwrap_or_default();
    let records = output.read_all().unwrap().into_iter();
    records.map(|r| format!("{}={}@{}", text(r.key), text(r.value), r.timestamp.0)).collect()
}

/// As [`texts`], of numbers.
pub(crate) fn counts(output: &mut TestOutput<Option<String>, Option<i64>>) -> Vec<String> {
    let number = |n: Option<i64>| n.map(|n| n.to_string()).unwrap_or_default();
    let records = output.read_all().unwrap().into_iter();
    records
        .map(|r| format!("{}={}@{}", r.key.unwrap_or_default(), number(r.value), r.timestamp.0))
        .collect()
}

/// As [`counts`], by window.
pub(crate) fn window_counts(output: &mut TestOutput<Windowed<String>, Option<i64>>) -> Vec<String> {
    let number = |n: Option<i64>| n.map(|n| n.to_string()).unwrap_or_default();
    let records = output.read_all().unwrap().into_iter();
    records
        .map(|Record { key: Windowed { key, window }, value, timestamp, .. }| {
            let TimeWindow { start_ms, end_ms } = window;
            format!("{key}[{start_ms},{end_ms})={}@{}", number(value), timestamp.0)
        })
        .collect()
}
