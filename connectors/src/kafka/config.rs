//! What every connection to a cluster is told.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::ports::{ConsumerOptions, Isolation, ProducerOptions};

/// Settings for librdkafka, by its names.
pub(super) type Given = BTreeMap<String, String>;

/// How to reach a cluster, and how long to wait for what.
#[derive(Clone, PartialEq, Eq)]
pub struct KafkaConfig {
    /// `host:port` of some brokers, as in `bootstrap.servers`.
    pub bootstrap: Vec<String>,
    /// Settings for librdkafka's consumers, by their Kafka names.
    pub consumer: BTreeMap<String, String>,
    /// Settings for librdkafka's producers, by their Kafka names.
    pub producer: BTreeMap<String, String>,
    /// A member that is silent for so long is taken out of its group. Default 6 s: failures are found quickly, and heartbeats do
    /// not depend on how long a record takes.
    pub session_timeout: Duration,
    /// How often a member says that it lives. Default 200 ms: changes of the group are heard of with a heartbeat, and while the
    /// members hear of one, one after the other, those that have heard cannot commit.
    pub heartbeat_interval: Duration,
    /// How long a group waits for its members when it shares work anew. Default 60 s.
    pub rebalance_timeout: Duration,
    /// How long a request may take. Default 30 s, as in Kafka's clients.
    pub request_timeout: Duration,
    /// How long a record may take to be stored, repeated attempts included. Default 2 minutes, as in Kafka's clients.
    pub delivery_timeout: Duration,
    /// How many copies a topic gets that is created. Default -1: as many as the cluster gives by default.
    pub replication_factor: i16,
}

impl KafkaConfig {
    /// The defaults for brokers named `host:port[,host:port…]`.
    pub fn new(bootstrap: &str) -> Self {
        Self {
            bootstrap: bootstrap.split(',').map(|b| b.trim().to_owned()).collect(),
            consumer: BTreeMap::new(),
            producer: BTreeMap::new(),
            session_timeout: Duration::from_secs(6),
            heartbeat_interval: Duration::from_millis(200),
            rebalance_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(30),
            delivery_timeout: Duration::from_secs(120),
            replication_factor: -1,
        }
    }

    /// For a consumer. The user's settings win over ours, but not over what the ports promise.
    pub(super) fn for_consumer(&self, options: &ConsumerOptions) -> Given {
        let isolation = match options.isolation {
            Isolation::ReadCommitted => "read_committed",
            Isolation::ReadUncommitted => "read_uncommitted",
        };
        let mut given = merge(&CONSUMER_DEFAULTS, &self.consumer);
        // librdkafka does not assign without a group. It asks for its coordinator and nothing more, so any name is good.
        given.entry("group.id".to_owned()).or_insert_with(|| options.client_id.clone());
        self.add_common(&mut given, &options.client_id);
        add(&mut given, &CONSUMER_FIXED);
        add(&mut given, &[("isolation.level", isolation)]);
        given
    }

    /// For a producer.
    pub(super) fn for_producer(&self, options: &ProducerOptions) -> Given {
        let mut given = merge(&PRODUCER_DEFAULTS, &self.producer);
        self.add_common(&mut given, &options.client_id);
        add(&mut given, &PRODUCER_FIXED);
        let mut delivery = self.delivery_timeout.as_millis();
        if let Some(id) = &options.transactional_id {
            let timeout = options.transaction_timeout.as_millis();
            // A record that is stored after its transaction has timed out is of no use.
            delivery = delivery.min(timeout);
            // Librdkafka may wait for ever to hear where the group's coordinator has gone: it asks again only when a connection
            // comes or goes. Those on which nothing moves are closed in time to save the transaction.
            given
                .entry("connections.max.idle.ms".to_owned())
                .or_insert_with(|| (timeout / 2).to_string());
            add(
                &mut given,
                &[("transactional.id", id), ("transaction.timeout.ms", &timeout.to_string())],
            );
        }
        add(&mut given, &[("message.timeout.ms", &delivery.to_string())]);
        given
    }

    /// For a client that manages topics.
    pub(super) fn for_admin(&self) -> Given {
        let mut given = merge(&[], &BTreeMap::new());
        self.add_common(&mut given, "thalweg-admin");
        given
    }

    fn add_common(&self, given: &mut Given, client_id: &str) {
        let bootstrap = self.bootstrap.join(",");
        add(given, &[("bootstrap.servers", &bootstrap), ("client.id", client_id)]);
        add(given, &COMMON_FIXED);
    }

    /// Does the producer compress?
    pub(super) fn compresses(&self) -> bool {
        let kind = ["compression.type", "compression.codec"].map(|name| self.producer.get(name));
        kind.into_iter().flatten().any(|kind| kind != "none")
    }

    /// How large a batch may become.
    pub(super) fn batch_size(&self) -> usize {
        let size = self.producer.get("batch.size").and_then(|text| text.parse().ok());
        size.unwrap_or(1_000_000)
    }

    /// How large a record may be, as far as the producer is concerned.
    pub(super) fn max_request_size(&self) -> &str {
        self.producer.get("message.max.bytes").map_or(MAX_REQUEST_SIZE, String::as_str)
    }
}

/// Values may be secret: only names are shown.
impl fmt::Debug for KafkaConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaConfig")
            .field("bootstrap", &self.bootstrap)
            .field("consumer", &self.consumer.keys().collect::<Vec<_>>())
            .field("producer", &self.producer.keys().collect::<Vec<_>>())
            .finish_non_exhaustive()
    }
}

type Table<'a> = [(&'a str, &'a str)];

/// As Kafka's Java producer has it.
const MAX_REQUEST_SIZE: &str = "1048576";

/// What every client is told and a user may change.
const COMMON_DEFAULTS: [(&str, &str); 3] = [
    ("reconnect.backoff.max.ms", "1000"), // a broker that is back is used soon
    ("socket.nagle.disable", "true"),     // small requests, such as commits, go at once
    ("topic.metadata.refresh.fast.interval.ms", "50"),
];

/// What every client is told.
const COMMON_FIXED: [(&str, &str); 2] = [
    ("log_level", "6"), // broken connections have to be heard of
    ("log.connection.close", "true"),
];

/// What a consumer is told and a user may change.
const CONSUMER_DEFAULTS: [(&str, &str); 5] = [
    // Librdkafka's second of pause when enough is queued starves a fast reader.
    ("fetch.queue.backoff.ms", "2"),
    ("fetch.error.backoff.ms", "100"),
    // A partition that is newly assigned waits for the fetch that is under way.
    ("fetch.wait.max.ms", "20"),
    // Per partition: what is fetched ahead.
    ("queued.min.messages", "10000"),
    ("queued.max.messages.kbytes", "4096"),
];

/// What a consumer is told: the core chooses positions and commits them.
const CONSUMER_FIXED: [(&str, &str); 5] = [
    ("enable.auto.commit", "false"),
    ("enable.auto.offset.store", "false"),
    ("enable.partition.eof", "true"),
    ("auto.offset.reset", "error"),
    ("allow.auto.create.topics", "false"),
];

/// What a producer is told and a user may change.
const PRODUCER_DEFAULTS: [(&str, &str); 6] = [
    ("enable.idempotence", "true"),
    ("linger.ms", "5"),
    // Right after a commit the broker asks to come again; the default of 100 ms would be spent in every transaction.
    ("retry.backoff.ms", "8"),
    ("message.max.bytes", MAX_REQUEST_SIZE),
    ("queue.buffering.max.messages", "200000"),
    // As much as `buffer.memory` of the Java client.
    ("queue.buffering.max.kbytes", "32768"),
];

/// What a producer is told: only losses are reported, see `ffi`.
const PRODUCER_FIXED: [(&str, &str); 1] = [("delivery.report.only.error", "true")];

fn merge(defaults: &Table<'_>, user: &BTreeMap<String, String>) -> Given {
    let mut given = Given::new();
    add(&mut given, &COMMON_DEFAULTS);
    add(&mut given, defaults);
    given.extend(user.clone());
    given
}

fn add(given: &mut Given, table: &Table<'_>) {
    given.extend(table.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
}
