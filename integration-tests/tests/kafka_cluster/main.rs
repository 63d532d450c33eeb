//! The applications on a real Apache Kafka of three brokers, of which one is always away for a while, and what several processes of
//! an application say of themselves.
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

use std::sync::{Mutex, MutexGuard, PoisonError};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};

mod bounces;
#[path = "../../../connectors/tests/kafka/broker.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod brokers;
mod metrics;
mod page;
#[path = "../restart/support/mod.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod support;
#[path = "../kafka/world.rs"]
#[allow(dead_code, reason = "other test programs use the rest")]
mod world;

/// The cluster of these tests: started once, stopped when they are over.
mod broker {
    use std::sync::OnceLock;

    /// Its addresses.
    pub(crate) fn address() -> &'static str {
        static ADDRESS: OnceLock<String> = OnceLock::new();
        ADDRESS.get_or_init(|| crate::brokers::start(3))
    }
}

/// Checks how many copies there are of the application's own topics: a repartition topic and a changelog.
fn assert_copies(id: &str, expected: usize) {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", broker::address());
    let client: BaseConsumer = config.create().unwrap();
    let metadata = client.fetch_metadata(None, world::PATIENCE).unwrap();
    for kind in ["repartition", "changelog"] {
        let is_own = |name: &str| name.starts_with(id) && name.ends_with(kind);
        let topic = metadata.topics().iter().find(|topic| is_own(topic.name())).unwrap();
        let copies: Vec<usize> = topic.partitions().iter().map(|p| p.replicas().len()).collect();
        assert!(!copies.is_empty(), "{kind}");
        assert!(copies.iter().all(|copies| *copies == expected), "{kind}: {copies:?}");
    }
}

/// Waits until no other test of this program runs: one of them takes brokers away.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
