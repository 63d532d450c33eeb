#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thalweg_connectors::{
    Field, Headers, HeadersRef, I64Be, NewRecord, Serde, SerdeError, Timestamp, Topic,
};

use super::{LocalState, TestDriver};
use crate::{
    BoxError, ErrorClass, Handle, InternalTopic, OnError, Processor, ProcessorContext, Punctuation,
    PunctuationType, Record, SinkDef, SourceDef, Store, TaskConfig, TimestampExtractor, TopicRef,
    Topology, TopologyBuilder, supply,
};

type Context<'a, 'c> = ProcessorContext<'a, 'c, String, i64>;

/// Sums values per key; fails on a negative one; tells all sums each second of wall-clock time when asked to.
struct Sum {
    sums: Handle<String, i64>,
    ticks: bool,
}

impl Processor for Sum {
    type KIn = String;
    type VIn = i64;
    type KOut = String;
    type VOut = i64;

    fn init(&mut self, context: &mut Context<'_, '_>) -> Result<(), BoxError> {
        if self.ticks {
            context.schedule(PunctuationType::WallClockTime, Duration::from_secs(1))?;
        }
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut Context<'_, '_>,
        record: Record<String, i64>,
    ) -> Result<(), BoxError> {
        let sum = context.store(&self.sums).get(&record.key)?.unwrap_or(0) + record.value;
        context.store(&self.sums).put(&record.key, &sum)?;
        context.forward(record.clone().with_value(sum))?;
        if record.value < 0 {
            return Err("negative".into());
        }
        Ok(())
    }

    fn punctuate(
        &mut self,
        context: &mut Context<'_, '_>,
        punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        let all = context.store(&self.sums).all()?.collect::<Result<Vec<_>, _>>()?;
        for (key, sum) in all {
            context.forward(Record::new(key, sum.value, punctuation.now))?;
        }
        Ok(())
    }
}

fn input() -> Topic<String, i64> {
    Topic::new("in")
}

fn output() -> Topic<String, i64> {
    Topic::new("out")
}

fn sums() -> Store<String, i64> {
    Store::key_value("sums")
}

fn sink(builder: &mut TopologyBuilder, name: &str, topic: TopicRef, parent: &str) {
    let typed = Topic::<String, i64>::new(Arc::clone(topic.name()));
    let (topic, supplier) = SinkDef::<String, i64>::fixed(topic, Arc::new(typed)).build();
    builder.add_sink(name, topic, supplier, &[parent]).unwrap();
}

fn sum_behind(builder: &mut TopologyBuilder, source: &str, store: Store<String, i64>, ticks: bool) {
    let declared = store.clone();
    let supplier = supply(move |setup| Ok(Sum { sums: setup.store(&declared)?, ticks }));
    builder.add_processor("sum", supplier, &[source]).unwrap();
    let def = crate::StoreDecl::def(&store).clone();
    builder.add_store(def, &["sum"]).unwrap();
    sink(builder, "sink", TopicRef::External("out".into()), "sum");
}

fn summing(store: Store<String, i64>, ticks: bool) -> Topology {
    let mut builder = TopologyBuilder::new();
    builder.add_source("source", SourceDef::typed(&input())).unwrap();
    sum_behind(&mut builder, "source", store, ticks);
    builder.build().unwrap()
}

/// in -> repartition topic -> sum -> out
fn repartitioned(partitions: Option<i32>) -> Topology {
    let mut builder = TopologyBuilder::new();
    builder.add_source("source", SourceDef::typed(&input())).unwrap();
    let hop = TopicRef::Internal("hop-repartition".into());
    sink(&mut builder, "hop-sink", hop.clone(), "source");
    builder.add_internal_topic("hop-repartition", InternalTopic { partitions }).unwrap();
    let serdes = (Arc::clone(input().key_serde()), Arc::clone(input().value_serde()));
    let def = SourceDef::new(vec![hop], serdes, TimestampExtractor::Default, None);
    builder.add_source("hop-source", def).unwrap();
    sum_behind(&mut builder, "hop-source", sums(), false);
    builder.build().unwrap()
}

fn pairs(driver: &TestDriver) -> Vec<(String, i64)> {
    driver.output(&output()).read_pairs().unwrap()
}

fn of(pairs: &[(&str, i64)]) -> Vec<(String, i64)> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect()
}

#[test]
fn a_record_is_handled_to_the_end_and_its_store_is_readable() {
    let mut driver = TestDriver::new(&summing(sums(), false), TaskConfig::new("app")).unwrap();
    let mut read = driver.output(&output());
    driver.input(&input()).pipe("a", 1, 10).unwrap().pipe("b", 5, 7).unwrap();
    assert_eq!(read.waiting(), 2);
    driver.input(&input()).pipe("a", 2, 12).unwrap();
    let expected: Vec<_> = [("a", 1, 10), ("b", 5, 7), ("a", 3, 12)]
        .map(|(key, value, time)| Record::new(key.to_owned(), value, time))
        .into();
    assert_eq!(read.read_all().unwrap(), expected);
    assert!(read.is_empty());
    assert_eq!(driver.stream_time(), Timestamp(12));
    let stored = driver.store(&sums()).unwrap().view().get(&"a".to_owned());
    assert_eq!(stored.unwrap(), Some(3));
    let dump = driver.dump::<String, i64>("sums").unwrap();
    let dump: Vec<_> = dump.into_iter().map(|e| (e.key, e.value)).collect();
    assert_eq!(dump, of(&[("a", 3), ("b", 5)]));
}

#[test]
fn headers_reach_the_output_and_the_changelog_is_readable() {
    let mut driver = TestDriver::new(&summing(sums(), false), TaskConfig::new("app")).unwrap();
    let headers = Headers::new().with("traceparent", Some(b"00-1"));
    let record = Record::new("a".to_owned(), 1, 10).with_headers(headers.clone());
    driver.input(&input()).pipe_record(&record).unwrap();
    assert_eq!(driver.read_raw("out")[0].headers, headers);
    let changelog = driver.read_raw("app-sums-changelog");
    let found: Vec<_> = changelog.iter().map(|r| (r.key.as_deref(), r.offset.0)).collect();
    assert_eq!(found, [(Some(&b"a"[..]), 0)]);
}

#[test]
fn what_a_repartition_topic_takes_comes_back_as_new_records() {
    let mut driver = TestDriver::new(&repartitioned(None), TaskConfig::new("app")).unwrap();
    driver.input(&input()).pipe("a", 1, 10).unwrap().pipe("a", 2, 11).unwrap();
    assert_eq!(pairs(&driver), of(&[("a", 1), ("a", 3)]));
    let hop: Vec<_> = driver.read_raw("app-hop-repartition").iter().map(|r| r.offset.0).collect();
    assert_eq!(hop, [0, 1]);
}

#[test]
fn several_partitions_have_a_task_and_a_store_each() {
    let builder = TestDriver::builder(&repartitioned(Some(3)), TaskConfig::new("app"));
    let mut driver = builder.partitions("in", 2).partitions("out", 4).start().unwrap();
    let keys = ["a", "b", "c", "d", "e"];
    for (i, key) in keys.iter().enumerate() {
        let mut input_topic = driver.input(&input()).partition(i as i32 % 2);
        input_topic.pipe(*key, 1, 10).unwrap();
    }
    assert_eq!(pairs(&driver), of(&keys.map(|key| (key, 1))));
    let entries = driver.dump_raw("sums").unwrap();
    assert_eq!(entries.len(), keys.len());
    for entry in entries {
        let of_key = thalweg_connectors::partition_for(&entry.key, 3);
        assert_eq!(entry.partition, of_key);
        let held = driver.store_in(of_key, &sums()).unwrap().view().approximate_len();
        assert!(held.unwrap() > 0);
    }
}

#[test]
fn the_clock_moves_only_when_told_and_a_missed_tick_runs_once() {
    let builder = TestDriver::builder(&summing(sums(), true), TaskConfig::new("app"));
    let mut driver = builder.wall_clock(5_000).start().unwrap();
    driver.input(&input()).pipe("a", 1, 10).unwrap();
    driver.advance_wall_clock(Duration::from_millis(999)).unwrap();
    assert_eq!(driver.read_raw("out").len(), 1);
    driver.advance_wall_clock(Duration::from_millis(2_501)).unwrap();
    let mut read = driver.output(&output());
    let times: Vec<_> = read.read_all().unwrap().iter().map(|r| r.timestamp.0).collect();
    assert_eq!(times, [10, 8_500]);
    assert_eq!(driver.wall_clock(), Timestamp(8_500));
}

#[test]
fn what_a_failed_step_sent_is_kept_apart() {
    let mut driver = TestDriver::new(&repartitioned(None), TaskConfig::new("app")).unwrap();
    driver.input(&input()).pipe("a", 1, 10).unwrap();
    let error = driver.input(&input()).pipe("a", -5, 11).map(drop).unwrap_err();
    assert_eq!(error.class(), ErrorClass::User);
    assert_eq!(pairs(&driver), of(&[("a", 1)]));
    let failed = driver.read_failed_step("out");
    let values: Vec<_> = failed.iter().map(|r| r.value.as_deref()).collect();
    assert_eq!(values, [Some(&(-4i64).to_be_bytes()[..])]);
    assert_eq!(driver.read_failed_step("app-hop-repartition").len(), 1, "its commit counted");
    let next = driver.input(&input()).pipe("a", 1, 12).map(drop).unwrap_err();
    assert!(next.to_string().contains("cannot go on"), "{next}");
}

#[test]
fn a_restart_goes_on_from_the_last_commit() {
    for (store, state) in [
        (sums(), LocalState::Kept),
        (sums(), LocalState::Lost),
        (sums().in_memory(), LocalState::Kept),
        (sums().cached(), LocalState::Lost),
    ] {
        let mut driver = TestDriver::new(&summing(store, false), TaskConfig::new("app")).unwrap();
        driver.input(&input()).pipe("a", 1, 10).unwrap();
        driver.restart(state).unwrap();
        assert_eq!(driver.stream_time(), Timestamp(10), "{state:?}");
        driver.input(&input()).pipe("a", 2, 9).unwrap();
        assert_eq!(driver.dump::<String, i64>("sums").unwrap()[0].value, 3, "{state:?}");
        assert_eq!(driver.read_raw("out").last().unwrap().offset.0, 1, "{state:?}");
    }
}

#[test]
fn a_failed_record_is_taken_up_again_after_a_restart() {
    let mut driver = TestDriver::new(&summing(sums(), false), TaskConfig::new("app")).unwrap();
    driver.input(&input()).pipe("a", 1, 10).unwrap();
    driver.input(&input()).pipe("a", -5, 11).map(drop).unwrap_err();
    let again = driver.restart(LocalState::Kept).unwrap_err();
    assert_eq!(again.class(), ErrorClass::User);
    assert_eq!(driver.dump::<String, i64>("sums").unwrap()[0].value, -4, "uncommitted");
    assert_eq!(driver.read_raw("app-sums-changelog").len(), 1);
}

#[test]
fn dropped_records_are_counted_over_restarts() {
    let mut config = TaskConfig::new("app");
    config.on_deserialization_error = OnError::Continue;
    let mut driver = TestDriver::new(&summing(sums(), false), config).unwrap();
    let bad = NewRecord {
        key: Some(b"a"),
        value: Some(b"short"),
        timestamp: Timestamp(1),
        headers: HeadersRef::EMPTY,
    };
    driver.pipe_raw("in", 0, &bad).unwrap();
    driver.restart(LocalState::Kept).unwrap();
    driver.pipe_raw("in", 0, &bad).unwrap();
    assert_eq!(driver.dropped_records(), 2);
    assert!(driver.output(&output()).is_empty());
}

#[test]
fn misuse_is_told_with_what_there_is() {
    let mut driver = TestDriver::new(&summing(sums(), false), TaskConfig::new("app")).unwrap();
    let wrong = Topic::<String, i64>::new("im");
    let error = driver.input(&wrong).pipe("a", 1, 1).map(drop).unwrap_err();
    assert_eq!(error.to_string(), "the topology does not read topic `im`; it reads in");
    let error = driver.input(&input()).partition(3).pipe("a", 1, 1).map(drop).unwrap_err();
    assert!(error.to_string().contains("no partition 3"), "{error}");
    let error = driver.store(&Store::<String, i64>::key_value("sum")).map(drop).unwrap_err();
    assert!(error.to_string().contains("`sum`"), "{error}");
    let error =
        driver.store(&Store::<String, i64, crate::TimestampedKeyValue>::timestamped("sums"));
    assert!(error.map(drop).unwrap_err().to_string().contains("timestamped"));
    assert!(driver.dump::<String, String>("sums").is_err());
    driver.close();
}

/// Numbers that count how often they are decoded.
struct Counted(Arc<AtomicUsize>);

impl Serde<i64> for Counted {
    fn write(&self, value: &i64, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        I64Be.write(value, out)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<i64, SerdeError> {
        self.0.fetch_add(1, Ordering::SeqCst);
        I64Be.read(bytes)
    }
}

#[test]
fn what_a_timestamp_extractor_was_given_is_not_decoded_again() {
    let decoded = Arc::new(AtomicUsize::new(0));
    let serdes = (Arc::clone(input().key_serde()), Arc::new(Counted(Arc::clone(&decoded))) as _);
    let by_value = |_: &String, value: &i64, _, _| Ok(Timestamp(*value));
    let extractor = TimestampExtractor::Custom(Arc::new(by_value));
    let topics = vec![TopicRef::External("in".into()), TopicRef::External("in2".into())];
    let mut builder = TopologyBuilder::new();
    builder.add_source("source", SourceDef::new(topics, serdes, extractor, None)).unwrap();
    sink(&mut builder, "sink", TopicRef::External("out".into()), "source");
    let topology = builder.build().unwrap();
    let mut driver = TestDriver::new(&topology, TaskConfig::new("app")).unwrap();
    for value in [5, 7, -1, 6] {
        driver.input(&input()).pipe("a", value, 0).unwrap();
        driver.input(&Topic::<String, i64>::new("in2")).pipe("a", value + 100, 0).unwrap();
    }
    let expected = [5, 105, 7, 107, 99, 6, 106];
    assert_eq!(pairs(&driver), of(&expected.map(|value| ("a", value))));
    assert_eq!(decoded.load(Ordering::SeqCst), 8, "once each, the dropped one included");
}
