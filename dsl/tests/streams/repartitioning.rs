//! Repartition topics: when they are made, and what goes through them.

use thalweg::{
    Partitions, Repartitioned, SentRecord, StreamsBuilder, TaskConfig, TestDriver, Topic,
    TopologyError,
};

use crate::support::{pipe, read, start, text};

fn topics(builder: &StreamsBuilder) -> Vec<String> {
    builder.build().unwrap().internal_topics().keys().map(ToString::to_string).collect()
}

#[test]
fn only_a_changed_key_asks_for_a_topic() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in"));
    stream.keys_may_move().group_by_key_via("unmoved").count("a");
    stream.map_values(|_, v| v.clone()).group_by_key().count("b");
    stream.select_key(|k, _| k.clone()).group_by_key_via("moved").count("c");
    let merged = stream.merge(&stream.select_key(|k, _| k.clone()));
    merged.group_by_key_via("merged").count("d");
    assert_eq!(topics(&builder), ["merged-repartition", "moved-repartition"]);
}

#[test]
fn a_named_grouping_has_one_topic_for_all_its_aggregations() {
    let builder = StreamsBuilder::new();
    let grouped = builder.stream(&text("in")).group_by("by-value", |_, v| v.clone());
    grouped.count("counts").to(&Topic::<String, Option<i64>>::new("counts-out"));
    grouped.reduce("highest", |longest, v| longest.clone().max(v.clone()));
    assert_eq!(topics(&builder), ["by-value-repartition"]);
}

#[test]
fn records_with_a_null_key_are_left_out_and_not_counted_as_dropped() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).repartition("mine").to(&text("out"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=1@1", "=2@2", "c=@3"]);
    assert_eq!(read(&driver, "app-mine-repartition"), ["a=1@1", "c=@3"]);
    assert_eq!(read(&driver, "out"), ["a=1@1", "c=@3"]);
    assert_eq!(driver.dropped_records(), 0);
}

#[test]
fn equal_keys_meet_in_one_partition() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).select_key(|_, v| v.clone()).repartition("by-value").to(&text("o"));
    let topology = builder.build().unwrap();
    let driver = TestDriver::builder(&topology, TaskConfig::new("app")).default_partitions(4);
    let mut driver = driver.start().unwrap();
    for partition in 0..4 {
        let record = |v: &str| (Some(v.to_owned()), Some(v.to_owned()));
        for value in ["x", "y", "z"] {
            let (key, value) = record(value);
            driver.input(&text("in")).partition(partition).pipe(key, value, 1).unwrap();
        }
    }
    let sent = driver.read_raw("app-by-value-repartition");
    for value in ["x", "y", "z"] {
        let with_key = |s: &&SentRecord| s.key.as_deref() == Some(value.as_bytes());
        let mut partitions: Vec<_> = sent.iter().filter(with_key).map(|s| s.partition).collect();
        assert_eq!(partitions.len(), 4);
        partitions.dedup();
        assert_eq!(partitions.len(), 1);
    }
}

#[test]
fn partition_count_and_partitioner_can_be_chosen() {
    let builder = StreamsBuilder::new();
    let wide = Repartitioned::named("wide").partitions(8).partitioner(
        |topic, _, value: &Option<String>, n| {
            assert_eq!((topic, n), ("app-wide-repartition", 8));
            value.as_ref().map_or(0, |v| v.len() as i32)
        },
    );
    builder.stream(&text("in")).repartition(wide);
    let topology = builder.build().unwrap();
    assert_eq!(topology.internal_topics()["wide-repartition"].partitions, Some(8));
    let mut driver = TestDriver::new(&topology, TaskConfig::new("app")).unwrap();
    pipe(&mut driver, "in", &["a=12345@1", "b=123@1"]);
    let sent = driver.read_raw("app-wide-repartition");
    assert_eq!(sent.iter().map(|s| s.partition).collect::<Vec<_>>(), [5, 3]);
}

#[test]
fn a_partitioner_can_send_a_copy_to_each_or_drop_the_record() {
    let builder = StreamsBuilder::new();
    let options = Repartitioned::named("all").partitions(3).try_partitioner(
        |_, _, value: &Option<String>, n| {
            Ok(if value.is_some() { Partitions::Only((0..n).collect()) } else { Partitions::Drop })
        },
    );
    builder.stream(&text("in")).repartition(options);
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=1@1", "b=@2"]);
    assert_eq!(driver.read_raw("app-all-repartition").len(), 3);
}

#[test]
fn no_partitions_is_a_mistake() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).repartition(Repartitioned::named("none").partitions(0));
    let error = builder.build().unwrap_err();
    assert!(matches!(error.errors(), [TopologyError::IllegalArgument(_)]), "{error}");
}
