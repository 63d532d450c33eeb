//! What the tests share.

use thalweg::{Record, StreamsBuilder, TaskConfig, TestDriver, Topic};

/// Keys and values of text, both may be null.
pub(crate) type Text = Topic<Option<String>, Option<String>>;

/// A topic of text.
pub(crate) fn text(name: &str) -> Text {
    Topic::new(name)
}

/// The text, or null for an empty one.
pub(crate) fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Builds and starts a topology.
pub(crate) fn start(builder: &StreamsBuilder) -> TestDriver {
    TestDriver::new(&builder.build().unwrap(), TaskConfig::new("app")).unwrap()
}

/// Pipes records written `key=value@time`; an empty key or value is a null.
pub(crate) fn pipe(driver: &mut TestDriver, topic: &str, records: &[&str]) {
    for record in records {
        let (key, rest) = record.split_once('=').unwrap();
        let (value, time) = rest.split_once('@').unwrap();
        let record = Record::new(some(key), some(value), time.parse::<i64>().unwrap());
        driver.input(&text(topic)).pipe_record(&record).unwrap();
    }
}

/// What a topic holds, written `key=value@time`; a null is empty.
pub(crate) fn read(driver: &TestDriver, topic: &str) -> Vec<String> {
    let records = driver.output(&text(topic)).read_all().unwrap().into_iter();
    let written = |t: Option<String>| t.unwrap_or_default();
    records.map(|r| format!("{}={}@{}", written(r.key), written(r.value), r.timestamp.0)).collect()
}

/// Pipes records into a topology from `in` to `out`, and reads what came out.
pub(crate) fn run(builder: &StreamsBuilder, records: &[&str]) -> Vec<String> {
    let mut driver = start(builder);
    pipe(&mut driver, "in", records);
    read(&driver, "out")
}

/// The names of the nodes of a topology, in the order in which they were written.
pub(crate) fn nodes(builder: &StreamsBuilder) -> Vec<String> {
    builder.build().unwrap().nodes().map(|node| node.name.to_string()).collect()
}
