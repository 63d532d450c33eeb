//! Topics made, input fed and output read with plain librdkafka: whoever judges must not share code with what is judged.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::Message;
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::ChaosResult;
use super::ledger::Entry;

/// Long enough for a broker on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(100);

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

/// Creates topics with so many partitions.
pub(super) fn create(bootstrap: &str, names: &[&str], partitions: i32) -> ChaosResult<()> {
    let admin: AdminClient<DefaultClientContext> = config(bootstrap).create()?;
    let topics: Vec<NewTopic<'_>> = names
        .iter()
        .map(|name| NewTopic::new(name, partitions, TopicReplication::Fixed(-1)))
        .collect();
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let created = futures::executor::block_on(admin.create_topics(&topics, &options))?;
    for topic in created {
        topic.map_err(|(name, code)| format!("topic `{name}` cannot be made: {code}"))?;
    }
    Ok(())
}

/// Puts records on a topic, as fast as it is told to.
pub(super) struct Feeder {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
}

impl Feeder {
    pub(super) fn new(bootstrap: &str, topic: &str) -> ChaosResult<Self> {
        let mut config = config(bootstrap);
        config.set("enable.idempotence", "true").set("linger.ms", "5");
        Ok(Self { producer: config.create()?, topic: topic.to_owned() })
    }

    pub(super) fn feed(&self, key: &str, value: &str) -> ChaosResult<()> {
        let mut record = BaseRecord::to(&self.topic).key(key).payload(value);
        let begun = Instant::now();
        loop {
            let full = KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull);
            match self.producer.send(record) {
                Ok(()) => return Ok(()),
                Err((error, back)) if error == full && begun.elapsed() < PATIENCE => {
                    record = back;
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err((error, _)) => return Err(error.into()),
            }
        }
    }

    /// Waits until all is acknowledged.
    pub(super) fn flush(&self) -> ChaosResult<()> {
        Ok(self.producer.flush(PATIENCE)?)
    }
}

/// Reads a topic over and over, each time from where it was.
pub(super) struct Reader {
    consumer: BaseConsumer,
}

impl Reader {
    /// From the beginning, committed records only.
    pub(super) fn new(bootstrap: &str, topic: &str, partitions: i32) -> ChaosResult<Self> {
        let mut config = config(bootstrap);
        config
            .set("group.id", "chaos-reader")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create()?;
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        Ok(Self { consumer })
    }

    /// Adds what comes until nothing has come for so long.
    pub(super) fn read(&self, quiet: Duration, into: &mut Vec<Entry>) -> ChaosResult<()> {
        let mut last = Instant::now();
        while last.elapsed() < quiet {
            if let Some(message) = self.consumer.poll(POLL) {
                let message = message?;
                let bytes = |part: Option<&[u8]>| part.unwrap_or_default().to_vec();
                into.push(Entry { key: bytes(message.key()), value: bytes(message.payload()) });
                last = Instant::now();
            }
        }
        Ok(())
    }
}
