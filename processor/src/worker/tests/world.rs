//! A broker, a clock and a disk; workers come and go.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use thalweg_connectors::{
    Backend, Clock, ConsumerOptions, HeadersRef, Isolation, ManualClock, MemBroker, NewRecord,
    NewTopic, Offset, ProducerOptions, Timestamp, TopicPartition, partition_for,
};
use thalweg_state::{
    Direction, Engine, EngineCursor, FamilyIx, KeyRange, MemEngine, StateError, WriteOps,
};
use thalweg_txn::Guarantee;

use crate::runtime::{Engines, Needs, RunError, RuntimeConfig, StreamsSpec, surroundings};
use crate::topology::{TaskId, Topology};
use crate::worker::{Cycle, Surroundings, Worker};
use crate::{StartError, TaskConfig};

pub(crate) const APP: &str = "app";

/// Exactly-once on one worker, small steps, no waiting.
pub(crate) fn config() -> RuntimeConfig {
    let mut config = RuntimeConfig::new(TaskConfig::new(APP));
    config.guarantee = Guarantee::ExactlyOnce;
    config.poll_timeout = Duration::ZERO;
    config.task.cache_max_bytes = 0;
    config
}

/// What survives a crash: an image per task.
#[derive(Clone, Default)]
pub(crate) struct Disk(Arc<Mutex<BTreeMap<TaskId, MemEngine>>>);

impl Disk {
    /// Loses everything, as a new machine does.
    pub(crate) fn wipe(&self) {
        self.0.lock().unwrap().clear();
    }

    /// Goes back to an earlier image.
    pub(crate) fn restore(&self, image: BTreeMap<TaskId, MemEngine>) {
        *self.0.lock().unwrap() = image;
    }

    pub(crate) fn image(&self) -> BTreeMap<TaskId, MemEngine> {
        self.0.lock().unwrap().clone()
    }
}

impl Engines for Disk {
    fn open(&self, task: TaskId, _: &Needs<'_>) -> Result<Box<dyn Engine>, StateError> {
        let live = self.0.lock().unwrap().entry(task).or_default().clone();
        Ok(Box::new(DiskEngine { task, live, disk: self.clone() }))
    }

    fn discard(&self, task: TaskId) -> Result<(), StateError> {
        self.0.lock().unwrap().remove(&task);
        Ok(())
    }

    fn instance_id(&self) -> &str {
        "instance"
    }
}

/// Writes through to the disk.
struct DiskEngine {
    task: TaskId,
    live: MemEngine,
    disk: Disk,
}

impl Engine for DiskEngine {
    fn family(&mut self, name: &str) -> Result<FamilyIx, StateError> {
        self.disk.0.lock().unwrap().entry(self.task).or_default().family(name)?;
        self.live.family(name)
    }

    fn get(&self, family: FamilyIx, key: &[u8], value: &mut Vec<u8>) -> Result<bool, StateError> {
        self.live.get(family, key, value)
    }

    fn iterate<'a>(
        &'a self,
        family: FamilyIx,
        range: &KeyRange,
        direction: Direction,
    ) -> Result<Box<dyn EngineCursor + 'a>, StateError> {
        self.live.iterate(family, range, direction)
    }

    fn write(&mut self, ops: &WriteOps<'_>) -> Result<(), StateError> {
        self.disk.0.lock().unwrap().entry(self.task).or_default().write(ops)?;
        self.live.write(ops)
    }

    fn flush(&mut self) -> Result<(), StateError> {
        Ok(())
    }

    fn approximate_entries(&self, family: FamilyIx) -> Result<u64, StateError> {
        self.live.approximate_entries(family)
    }
}

/// Everything around the workers.
pub(crate) struct World {
    pub(crate) broker: MemBroker,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) disk: Disk,
}

impl World {
    /// A world with these topics.
    pub(crate) fn new(topics: &[(&str, i32)]) -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(1_000_000)));
        let broker = MemBroker::with_clock(Arc::clone(&clock) as Arc<_>);
        let topic = |(name, partitions): &(&str, i32)| NewTopic {
            name: (*name).to_owned(),
            partitions: *partitions,
            config: BTreeMap::new(),
        };
        let topics: Vec<NewTopic> = topics.iter().map(topic).collect();
        broker.admin().unwrap().create(&topics).unwrap();
        Self { broker, clock, disk: Disk::default() }
    }

    /// A world in which words can be counted; each word is its own key.
    pub(crate) fn of_lines(partitions: i32, words: &[&str]) -> Self {
        let world = Self::new(&[("lines", partitions), ("totals", partitions)]);
        let records: Vec<_> = (0..).zip(words).map(|(at, word)| (*word, *word, at)).collect();
        world.write("lines", &records);
        world
    }

    /// Appends records of key, value and time, partitioned by key.
    pub(crate) fn write(&self, topic: &str, records: &[(&str, &str, i64)]) {
        let mut producer = self
            .broker
            .producer(&ProducerOptions {
                transactional_id: None,
                transaction_timeout: Duration::from_secs(60),
                client_id: "writer".to_owned(),
            })
            .unwrap();
        let (slot, partitions) = producer.topic(topic).unwrap();
        for (key, value, at) in records {
            let record = NewRecord {
                key: Some(key.as_bytes()),
                value: Some(value.as_bytes()),
                timestamp: Timestamp(*at),
                headers: HeadersRef::EMPTY,
            };
            let partition = partition_for(key.as_bytes(), partitions);
            producer.send(slot, partition, &record).unwrap();
        }
        producer.flush().unwrap();
    }

    /// All committed records of a topic, partition after partition: key, value, time.
    pub(crate) fn read(&self, topic: &str) -> Vec<(String, Vec<u8>, i64)> {
        let options =
            ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "reader".to_owned() };
        let mut consumer = self.broker.consumer(&options).unwrap();
        let info = self.broker.admin().unwrap().describe(&[topic]).unwrap().remove(topic).unwrap();
        let mut records = Vec::new();
        for partition in 0..info.partitions {
            let tp = TopicPartition::new(topic, partition);
            let start = consumer.beginning_offsets(std::slice::from_ref(&tp)).unwrap()[&tp];
            consumer.assign(&[(tp.clone(), start)]).unwrap();
            let mut fetched = Vec::new();
            consumer.poll(Duration::ZERO, usize::MAX, &mut fetched).unwrap();
            for run in fetched {
                for record in (0..run.records.len()).map(|i| run.records.get(i)) {
                    let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                    records.push((key, record.value.unwrap().to_vec(), record.timestamp.0));
                }
            }
            consumer.unassign(&[tp]).unwrap();
        }
        records
    }

    /// The bytes of the committed records of a topic's first partition, and whether they have that header.
    pub(crate) fn sizes(&self, topic: &str, header: &str) -> Vec<(usize, bool)> {
        let mut consumer = self.consumer();
        consumer.assign(&[(TopicPartition::new(topic, 0), Offset(0))]).unwrap();
        let mut fetched = Vec::new();
        consumer.poll(Duration::ZERO, usize::MAX, &mut fetched).unwrap();
        let records =
            fetched.iter().flat_map(|run| (0..run.records.len()).map(|i| run.records.get(i)));
        let size = |record: thalweg_connectors::RecordRef<'_>| {
            let fields = [record.key, record.value].into_iter().flatten().map(<[u8]>::len);
            let has_header = record.headers.iter().any(|(name, _)| name == header);
            (fields.sum::<usize>() + record.headers.packed().len(), has_header)
        };
        records.map(size).collect()
    }

    /// All committed counts of `totals`, partition after partition.
    pub(crate) fn totals(&self) -> Vec<(String, i64)> {
        let number = |bytes: &[u8]| i64::from_be_bytes(*bytes.first_chunk().unwrap());
        self.read("totals").into_iter().map(|(word, count, _)| (word, number(&count))).collect()
    }

    /// All committed texts of a topic.
    pub(crate) fn texts(&self, topic: &str) -> Vec<(String, String)> {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        self.read(topic).into_iter().map(|(key, value, _)| (key, text(value))).collect()
    }

    /// Somebody who reads what is committed.
    pub(crate) fn consumer(&self) -> Box<dyn thalweg_connectors::Consumer> {
        let options =
            ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "reader".to_owned() };
        self.broker.consumer(&options).unwrap()
    }

    /// The end of a partition, open transactions included.
    pub(crate) fn end(&self, topic: &str, partition: i32) -> Offset {
        let options =
            ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "reader".to_owned() };
        let tp = TopicPartition::new(topic, partition);
        let mut consumer = self.broker.consumer(&options).unwrap();
        let all = std::slice::from_ref(&tp);
        consumer.end_offsets(all, Isolation::ReadUncommitted).unwrap()[&tp]
    }

    /// Prepares a run.
    pub(crate) fn prepare(
        &self,
        topology: &Topology,
        config: &RuntimeConfig,
    ) -> Result<Surroundings, StartError> {
        let spec = StreamsSpec {
            topology: topology.clone(),
            backend: Arc::new(self.broker.clone()),
            clock: Arc::clone(&self.clock) as Arc<dyn Clock>,
            config: Arc::new(config.clone()),
        };
        surroundings(spec, |_| Ok(Arc::new(self.disk.clone())))
    }

    /// A worker of a run of its own.
    pub(crate) fn worker(&self, topology: &Topology, config: &RuntimeConfig) -> Worker {
        Worker::new(self.prepare(topology, config).unwrap(), 0).unwrap()
    }

    /// Runs until nothing is left to do, commit included.
    ///
    /// # Errors
    /// The first failure that ends a worker.
    pub(crate) fn settle(&self, workers: &mut [&mut Worker]) -> Result<(), RunError> {
        let mut quiet = 0;
        for _ in 0..10_000 {
            let mut idle = true;
            for worker in &mut *workers {
                idle &= worker.run_once()? != Cycle::Worked;
            }
            quiet = if idle { quiet + 1 } else { 0 };
            if quiet > 2 {
                return Ok(());
            }
            if idle {
                self.clock.advance(Duration::from_millis(100));
            }
        }
        panic!("the workers do not come to rest");
    }
}

/// How often each word has come so far, at each of its places.
pub(crate) fn running_counts(words: &[&str]) -> Vec<(String, i64)> {
    let so_far = |at: usize| words[..=at].iter().filter(|word| **word == words[at]).count();
    (0..words.len()).map(|at| (words[at].to_owned(), so_far(at) as i64)).collect()
}

/// The same, word by word.
pub(crate) fn by_word(mut counts: Vec<(String, i64)>) -> Vec<(String, i64)> {
    counts.sort();
    counts
}
