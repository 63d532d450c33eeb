//! Sinks: topics by value, by name and by record.

use thalweg::{Produced, StreamsBuilder, Topic};

use crate::support::{pipe, read, start, text};

#[test]
fn a_topic_takes_values_with_and_without_null() {
    let builder = StreamsBuilder::new();
    let strict = Topic::<String, String>::new("strict");
    builder.stream(&strict).to(&text("loose"));
    builder.stream(&text("in")).to(&strict);
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=1@1"]);
    assert_eq!(read(&driver, "strict"), ["a=1@1"]);
    assert_eq!(read(&driver, "loose"), ["a=1@1"]);
}

#[test]
fn the_record_can_choose_its_topic() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).to_dynamic(|key, _, context| {
        let from = context.metadata.as_ref().map_or("?", |m| &m.topic);
        format!("{from}-{}", key.as_deref().unwrap_or("none"))
    });
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=1@1", "b=2@2", "=3@3"]);
    let topics = ["in-a", "in-b", "in-none"].map(|t| read(&driver, t));
    assert_eq!(topics, [["a=1@1"], ["b=2@2"], ["=3@3"]]);
}

#[test]
fn a_record_without_a_topic_is_an_error() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).to(Produced::try_dynamic(|_, _, _| Ok(None)));
    let mut driver = start(&builder);
    let result = driver.input(&text("in")).pipe(None, None, 1).err().unwrap();
    assert_eq!(
        std::error::Error::source(&result).unwrap().to_string(),
        "the topic extractor of sink `KSTREAM-SINK-0000000001` gave no topic"
    );
}

#[test]
fn the_partition_can_be_chosen() {
    let builder = StreamsBuilder::new();
    let out = text("out");
    let produced = Produced::to(&out)
        .partitioner(|_, _, value: &Option<String>, _| value.as_ref().map_or(0, |_| 2));
    builder.stream(&text("in")).to(produced);
    let topology = builder.build().unwrap();
    let driver = thalweg::TestDriver::builder(&topology, thalweg::TaskConfig::new("app"));
    let mut driver = driver.partitions("out", 3).start().unwrap();
    pipe(&mut driver, "in", &["a=1@1", "a=@2"]);
    let sent = driver.read_raw("out");
    assert_eq!(sent.iter().map(|s| s.partition).collect::<Vec<_>>(), [2, 0]);
}

#[test]
fn an_output_that_is_also_an_input_comes_back() {
    let builder = StreamsBuilder::new();
    let loops = builder.stream(&text("in")).filter(|_, v| v.as_ref().is_some_and(|v| v.len() < 3));
    loops.map_values(|_, v| v.as_ref().map(|v| format!("{v}x"))).to(&text("in"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=x@1"]);
    assert_eq!(read(&driver, "in"), ["a=x@1", "a=xx@1", "a=xxx@1"]);
}
