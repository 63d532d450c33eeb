//! An application with one worker on a private `mem://` broker. The calling thread feeds its input and drains its output, and
//! lets the broker forget what both sides are through with, so that memory does not grow with the run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{
    Admin, Backend, Consumer, ConsumerOptions, Fetched, Isolation, MemBroker, NewTopic, Offset,
    Producer, ProducerOptions, SystemClock, TopicPartition, TopicSlot,
};
use thalweg_processor::{
    RuntimeConfig, StateConfig, StateEngine, Streams, StreamsSpec, StreamsState, TaskConfig,
    Topology,
};

use super::BenchResult;
use super::driver::DriverOptions;
use super::input::Input;
use super::workload::{Names, StoreChoice};

const INPUT: &str = Names::LOCAL.input;
const OUTPUT: &str = Names::LOCAL.output;

/// Records that are put on the input topic at once.
const BATCH: usize = 4096;

/// How far the input may be ahead of the worker.
const LEAD: usize = 16 * BATCH;

/// How long the feeder waits for the worker at a time.
const PATIENCE: Duration = Duration::from_millis(1);

pub(super) struct Bench {
    admin: Box<dyn Admin>,
    feeder: Box<dyn Producer>,
    input: TopicSlot,
    drain: Box<dyn Consumer>,
    fetched: Vec<Fetched>,
    /// Outputs read.
    out: u64,
    streams: Streams,
}

impl Bench {
    /// Starts the application and waits until it runs.
    pub(super) fn start(
        topology: &Topology,
        options: &DriverOptions,
        directory: Option<PathBuf>,
    ) -> BenchResult<Self> {
        let broker = MemBroker::new();
        let mut admin = broker.admin()?;
        let topics = [INPUT, OUTPUT].map(|name| NewTopic {
            name: name.to_owned(),
            partitions: 1,
            config: BTreeMap::new(),
        });
        admin.create(&topics)?;
        let mut feeder = feeder(&broker)?;
        let (input, _) = feeder.topic(INPUT)?;
        let mut bench = Self {
            admin,
            feeder,
            input,
            drain: drain(&broker)?,
            fetched: Vec::new(),
            out: 0,
            streams: start(topology, options, directory, broker)?,
        };
        while bench.streams.state() != StreamsState::Running {
            bench.check()?;
            bench.read_outputs(PATIENCE)?;
        }
        Ok(bench)
    }

    /// Sends so many records through the application, and ends it; returns how many outputs were read.
    pub(super) fn run(mut self, input: &Input, records: usize) -> BenchResult<u64> {
        let mut fed = 0;
        while self.processed() < records {
            if fed < records && fed - self.processed() < LEAD {
                let to = records.min(fed + BATCH);
                for index in fed..to {
                    self.feeder.send(self.input, 0, &input.record(index))?;
                }
                self.feeder.flush()?;
                fed = to;
                self.read_outputs(Duration::ZERO)?;
            } else {
                self.check()?;
                self.read_outputs(PATIENCE)?;
                let processed = self.processed();
                self.forget(INPUT, processed as i64)?;
            }
        }
        self.streams.stop();
        while !self.streams.is_finished() {
            self.read_outputs(PATIENCE)?;
        }
        self.read_outputs(Duration::ZERO)?;
        self.streams.join()?;
        Ok(self.out)
    }

    fn processed(&self) -> usize {
        self.streams.metrics().snapshot().records_processed as usize
    }

    /// Fails when the application has ended by itself.
    fn check(&self) -> BenchResult<()> {
        match self.streams.is_finished() {
            true => Err("the worker has ended before the input".into()),
            false => Ok(()),
        }
    }

    fn read_outputs(&mut self, timeout: Duration) -> BenchResult<()> {
        let mut timeout = timeout;
        loop {
            self.drain.poll(timeout, usize::MAX, &mut self.fetched)?;
            let Some(last) = self.fetched.last() else {
                return Ok(());
            };
            let next = last.next.0;
            for run in self.fetched.drain(..) {
                let written =
                    (0..run.records.len()).filter(|i| run.records.get(*i).value.is_some());
                self.out += written.count() as u64;
            }
            self.forget(OUTPUT, next)?;
            timeout = Duration::ZERO;
        }
    }

    fn forget(&mut self, topic: &str, before: i64) -> BenchResult<()> {
        let before = BTreeMap::from([(TopicPartition::new(topic, 0), Offset(before))]);
        Ok(self.admin.delete_records(&before)?)
    }
}

fn start(
    topology: &Topology,
    options: &DriverOptions,
    directory: Option<PathBuf>,
    broker: MemBroker,
) -> BenchResult<Streams> {
    let mut task = TaskConfig::new("bench");
    task.cache_max_bytes = options.cache_bytes;
    let mut config = RuntimeConfig::new(task);
    config.guarantee = options.guarantee;
    let engine = match options.store {
        StoreChoice::Memory => StateEngine::Memory,
        StoreChoice::Rocksdb => StateEngine::Disk,
    };
    config.state = StateConfig { directory, engine };
    Ok(Streams::start(StreamsSpec {
        topology: topology.clone(),
        backend: Arc::new(broker),
        clock: Arc::new(SystemClock::new()),
        config: Arc::new(config),
    })?)
}

fn feeder(broker: &MemBroker) -> BenchResult<Box<dyn Producer>> {
    Ok(broker.producer(&ProducerOptions {
        transactional_id: None,
        transaction_timeout: Duration::from_secs(60),
        client_id: "feeder".to_owned(),
    })?)
}

fn drain(broker: &MemBroker) -> BenchResult<Box<dyn Consumer>> {
    let options =
        ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "drain".to_owned() };
    let mut consumer = broker.consumer(&options)?;
    consumer.assign(&[(TopicPartition::new(OUTPUT, 0), Offset(0))])?;
    Ok(consumer)
}
