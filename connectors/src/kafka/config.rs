//! What every connection to a cluster is told.

use std::collections::BTreeMap;
use std::time::Duration;

/// How to reach a cluster, and how long to wait for what.
#[derive(Clone, PartialEq, Eq, Debug)]
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
    /// How often a member says that it lives. Default 500 ms: changes of the group are heard of with a heartbeat.
    pub heartbeat_interval: Duration,
    /// How long a group waits for its members when it shares work anew. Default 60 s.
    pub rebalance_timeout: Duration,
    /// How long a request may take. Default 30 s, as in Kafka's clients.
    pub request_timeout: Duration,
}

impl KafkaConfig {
    /// The defaults for brokers named `host:port[,host:port…]`.
    pub fn new(bootstrap: &str) -> Self {
        Self {
            bootstrap: bootstrap.split(',').map(|b| b.trim().to_owned()).collect(),
            consumer: BTreeMap::new(),
            producer: BTreeMap::new(),
            session_timeout: Duration::from_secs(6),
            heartbeat_interval: Duration::from_millis(500),
            rebalance_timeout: Duration::from_secs(60),
            request_timeout: Duration::from_secs(30),
        }
    }
}
