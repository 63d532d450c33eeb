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
/// How many keys there are.
const KEYS: u64 = 1009;

fn config(bootstrap: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    config
}

/// Creates topics with so many partitions.
///
/// # Errors
/// When the cluster refuses.
pub fn create_topics(bootstrap: &str, names: &[&str], partitions: i32) -> ChaosResult<()> {
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
    // The broker hears of it a little later than whoever made it.
    let begun = Instant::now();
    for name in names {
        while admin.inner().fetch_metadata(Some(name), PATIENCE)?.topics()[0].error().is_some() {
            if begun.elapsed() > PATIENCE {
                return Err(format!("topic `{name}` does not show up").into());
            }
        }
    }
    Ok(())
}

/// Puts numbers on a topic, each on the partition that its remainder names.
pub struct Feeder {
    producer: ThreadedProducer<DefaultProducerContext>,
    topic: String,
    partitions: i32,
}

impl Feeder {
    /// A feeder of a topic that has so many partitions.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub fn new(bootstrap: &str, topic: &str, partitions: i32) -> ChaosResult<Self> {
        let mut config = config(bootstrap);
        config.set("enable.idempotence", "true").set("linger.ms", "5");
        Ok(Self { producer: config.create()?, topic: topic.to_owned(), partitions })
    }

    /// The partition of a number.
    pub fn partition(&self, number: u64) -> i32 {
        (number % self.partitions as u64) as i32
    }

    /// Hands a number to the producer, which sends it soon.
    ///
    /// # Errors
    /// When there is no room for it for too long.
    pub fn feed(&self, number: u64) -> ChaosResult<()> {
        let (key, value) = (format!("k{}", number % KEYS), number.to_string());
        let record = BaseRecord::to(&self.topic).key(&key).payload(&value);
        let mut record = record.partition(self.partition(number));
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
    ///
    /// # Errors
    /// When that takes too long.
    pub fn flush(&self) -> ChaosResult<()> {
        Ok(self.producer.flush(PATIENCE)?)
    }
}

/// Reads a topic over and over, each time from where it was.
pub struct Reader {
    consumer: BaseConsumer,
}

impl Reader {
    /// From the beginning, committed records only.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub fn new(bootstrap: &str, topic: &str, partitions: i32) -> ChaosResult<Self> {
        let mut config = config(bootstrap);
        config
            .set("group.id", "chaos-reader")
            .set("enable.auto.commit", "false")
            .set("fetch.wait.max.ms", "20")
            .set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create()?;
        let mut list = TopicPartitionList::new();
        for partition in 0..partitions {
            list.add_partition_offset(topic, partition, Offset::Beginning)?;
        }
        consumer.assign(&list)?;
        Ok(Self { consumer })
    }

    /// The next record, if one comes soon.
    ///
    /// # Errors
    /// When the topic cannot be read.
    pub fn next(&self) -> ChaosResult<Option<Entry>> {
        let message = match self.consumer.poll(POLL) {
            // A broker that ends or comes back: another one is asked.
            Some(Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::BrokerTransportFailure | RDKafkaErrorCode::AllBrokersDown,
            ))) => return Ok(None),
            other => other.transpose()?,
        };
        let Some(message) = message else { return Ok(None) };
        let bytes = |part: Option<&[u8]>| part.unwrap_or_default().to_vec();
        Ok(Some(Entry { key: bytes(message.key()), value: bytes(message.payload()) }))
    }

    /// Adds what comes until nothing has come for so long.
    ///
    /// # Errors
    /// When the topic cannot be read.
    pub fn read(&self, quiet: Duration, into: &mut Vec<Entry>) -> ChaosResult<()> {
        let mut last = Instant::now();
        while last.elapsed() < quiet {
            if let Some(entry) = self.next()? {
                into.push(entry);
                last = Instant::now();
            }
        }
        Ok(())
    }
}
