//! An application in this process: passes its input on, counts it by minutes, and by value through a repartition topic.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use thalweg::{I64Be, Materialized, StreamsBuilder, TimeWindows, Topic, Topology, Utf8};
use thalweg_connectors::{
    Admin, CommittedOffset, ConsumerOptions, HeadersRef, Isolation, NewRecord, NewTopic, Offset,
    ProducerOptions, SharedBackend, SystemClock, Timestamp, TopicInfo, TopicPartition, open_with,
};
use thalweg_processor::{
    Guarantee, MetricsSnapshot, RunError, RuntimeConfig, StartError, StateConfig, StateEngine,
    Streams, StreamsSpec, TaskConfig,
};

use crate::broker;

/// Nothing that is waited for takes as long on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// An application with topics of its own.
pub(crate) struct App {
    bootstrap: String,
    pub(crate) id: String,
    pub(crate) partitions: i32,
    /// For the clients, by Kafka's names.
    pub(crate) settings: BTreeMap<String, String>,
    state: Option<TempDir>,
}

impl App {
    /// One that has no topics yet, on the broker of all tests.
    pub(crate) fn new(name: &str) -> Self {
        Self::on(broker::address(), name)
    }

    /// The same on another broker.
    pub(crate) fn on(bootstrap: &str, name: &str) -> Self {
        let (bootstrap, id) = (bootstrap.to_owned(), format!("{name}-{}", std::process::id()));
        let settings = BTreeMap::new();
        let mut app = Self { bootstrap, id, partitions: 2, settings, state: None };
        app.lose_state();
        app
    }

    /// One whose topics are there.
    pub(crate) fn with_topics(name: &str) -> Self {
        let app = Self::new(name);
        app.create_all(&[]);
        app
    }

    /// Goes on on another machine.
    pub(crate) fn lose_state(&mut self) {
        self.state = Some(tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap());
    }

    pub(crate) fn input(&self) -> String {
        format!("{}-in", self.id)
    }

    pub(crate) fn echo(&self) -> String {
        format!("{}-echo", self.id)
    }

    pub(crate) fn counts(&self) -> String {
        format!("{}-out", self.id)
    }

    pub(crate) fn repartition(&self) -> String {
        format!("{}-by-value-repartition", self.id)
    }

    pub(crate) fn changelog(&self) -> String {
        format!("{}-counts-changelog", self.id)
    }

    pub(crate) fn windowed_changelog(&self) -> String {
        format!("{}-by-minute-changelog", self.id)
    }

    fn topology(&self) -> Topology {
        let builder = StreamsBuilder::new();
        let input = builder.stream(&Topic::<String, String>::new(self.input().as_str()));
        input.to(&Topic::<String, String>::new(self.echo().as_str()));
        let minutes = TimeWindows::of_size(Duration::from_secs(60)).grace(Duration::from_secs(10));
        input.group_by_key().windowed_by(minutes).count("by-minute");
        input
            .group_by("by-value", |_, value| value.clone())
            .count(Materialized::with("counts", Utf8, I64Be))
            .to_stream()
            .to(&Topic::<String, Option<i64>>::new(self.counts().as_str()));
        builder.build().unwrap()
    }

    pub(crate) fn backend(&self) -> SharedBackend {
        let url = format!("kafka://{}", self.bootstrap);
        open_with(&url, Arc::new(SystemClock::new()), &self.settings).unwrap()
    }

    pub(crate) fn admin(&self) -> Box<dyn Admin> {
        self.backend().admin().unwrap()
    }

    pub(crate) fn create(&self, topic: &str, partitions: i32, config: &[(&str, &str)]) {
        let config = config.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let topic = NewTopic { name: topic.to_owned(), partitions, config: config.collect() };
        self.admin().create(&[topic]).unwrap();
    }

    /// Makes input and outputs.
    pub(crate) fn create_all(&self, of_echo: &[(&str, &str)]) {
        self.create(&self.input(), self.partitions, &[]);
        self.create(&self.echo(), self.partitions, of_echo);
        self.create(&self.counts(), self.partitions, &[]);
    }

    pub(crate) fn delete(&self, topic: &str) {
        self.admin().delete(&[topic]).unwrap();
    }

    pub(crate) fn describe(&self, topic: &str) -> Option<TopicInfo> {
        self.admin().describe(&[topic]).unwrap().remove(topic)
    }

    /// The settings of a topic, as the broker has them.
    pub(crate) fn settings_of(&self, topic: &str) -> BTreeMap<String, String> {
        self.admin().settings(&[topic]).unwrap().remove(topic).unwrap()
    }

    pub(crate) fn start(&self) -> Result<Streams, StartError> {
        let mut task = TaskConfig::new(self.id.as_str());
        task.cache_max_bytes = 0;
        let mut config = RuntimeConfig::new(task);
        config.guarantee = Guarantee::ExactlyOnce;
        let directory = self.state.as_ref().map(|folder| folder.path().to_owned());
        config.state = StateConfig { directory, engine: StateEngine::Disk };
        Streams::start(StreamsSpec {
            topology: self.topology(),
            backend: self.backend(),
            clock: Arc::new(SystemClock::new()),
            config: Arc::new(config),
        })
    }

    /// The transactional id of its only worker.
    pub(crate) fn transactional_id(&self) -> String {
        let folder = self.state.as_ref().unwrap().path().join(&self.id);
        let instance = std::fs::read_to_string(folder.join(".instance")).unwrap();
        thalweg_txn::transactional_id(&self.id, instance.trim(), 0)
    }

    /// Feeds values to the input's first partition, each with a key of one byte.
    pub(crate) fn feed(&self, values: &[&str]) {
        let options = ProducerOptions {
            transactional_id: None,
            transaction_timeout: PATIENCE,
            client_id: "feeder".to_owned(),
        };
        let mut producer = self.backend().producer(&options).unwrap();
        let (slot, _) = producer.topic(&self.input()).unwrap();
        for value in values {
            let record = NewRecord {
                key: Some(b"k"),
                value: Some(value.as_bytes()),
                timestamp: Timestamp(1),
                headers: HeadersRef::EMPTY,
            };
            producer.send(slot, 0, &record).unwrap();
        }
        producer.flush().unwrap();
    }

    /// Waits until so many of the input have been passed on, and all of what came of them is committed.
    pub(crate) fn await_echoed(&self, streams: &Streams, count: usize) {
        until("all that was fed is processed and committed", || {
            let numbers = streams.metrics().snapshot();
            assert!(!streams.is_finished(), "it has ended: {numbers:?}");
            self.read(&self.counts()).len() == count && lag(&numbers) == 0
        });
        assert_eq!(self.read(&self.echo()).len(), count);
    }

    /// Runs over what is fed, and stops.
    pub(crate) fn run_over(&self, values: &[&str], count: usize) {
        let streams = self.start().unwrap();
        self.feed(values);
        self.await_echoed(&streams, count);
        streams.stop();
        assert!(streams.join().unwrap().committed);
    }

    /// All committed values of a topic, partition after partition.
    pub(crate) fn read(&self, topic: &str) -> Vec<Vec<u8>> {
        let mut consumer = self.consumer();
        let all = (0..self.partitions).map(|partition| TopicPartition::new(topic, partition));
        let all: Vec<_> = all.collect();
        let ends = consumer.end_offsets(&all, Isolation::ReadCommitted).unwrap();
        let starts = all.iter().map(|tp| (tp.clone(), Offset(0))).collect::<Vec<_>>();
        consumer.assign(&starts).unwrap();
        let (mut positions, mut values) = (BTreeMap::new(), Vec::new());
        while all.iter().any(|tp| positions.get(tp).unwrap_or(&Offset(0)) < &ends[tp]) {
            let mut fetched = Vec::new();
            consumer.poll(Duration::from_millis(50), 1000, &mut fetched).unwrap();
            for run in fetched {
                let records = (0..run.records.len()).map(|i| run.records.get(i));
                values.extend(records.map(|record| record.value.unwrap_or_default().to_vec()));
                positions.insert(run.partition, run.next);
            }
        }
        values
    }

    /// What the application has committed of its input's first partition.
    pub(crate) fn committed(&self) -> Option<CommittedOffset> {
        let input = TopicPartition::new(self.input(), 0);
        self.consumer().committed(&self.id, &[input]).unwrap().into_values().next()
    }

    fn consumer(&self) -> Box<dyn thalweg_connectors::Consumer> {
        let (isolation, client_id) = (Isolation::ReadCommitted, "reader".to_owned());
        self.backend().consumer(&ConsumerOptions { isolation, client_id }).unwrap()
    }
}

/// What is not processed yet; what is not known yet counts, too.
fn lag(numbers: &MetricsSnapshot) -> u64 {
    numbers.partitions.values().map(|partition| partition.lag.unwrap_or(1)).sum()
}

/// Waits until it is so.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < PATIENCE, "after {PATIENCE:?} it is not so that {what}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Waits until it has ended by itself; why.
pub(crate) fn end_of(streams: Streams) -> RunError {
    until("it has ended", || streams.is_finished());
    streams.join().expect_err("it has failed")
}

/// An error and its causes.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Fails unless all parts are in the text.
#[track_caller]
pub(crate) fn assert_says(text: &str, parts: &[&str]) {
    let missing: Vec<_> = parts.iter().filter(|part| !text.contains(**part)).collect();
    assert!(missing.is_empty(), "{missing:?} is not in: {text}");
}
