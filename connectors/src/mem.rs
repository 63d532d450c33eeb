//! `mem://`: partitions, transactions and groups as a Kafka broker has them, in the memory of one
//! process.
//!
//! Tests, benchmarks and quick starts run on it. Nothing survives the process.

mod engine;
mod partition;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::clock::SystemClock;
use crate::local::{
    Engine, FaultPlan, LocalAdmin, LocalConsumer, LocalMembership, LocalProducer, fresh_id, lock,
};
use crate::ports::{
    Admin, Backend, Clock, Consumer, ConsumerOptions, Membership, MembershipOptions, PortResult,
    Producer, ProducerOptions,
};
use engine::MemEngine;

/// A broker in memory; clones share it.
///
/// ```
/// use std::{collections::BTreeMap, time::Duration};
/// use thalweg_connectors::*;
///
/// let broker = MemBroker::new();
/// let topic = NewTopic { name: "lines".into(), partitions: 1, config: BTreeMap::new() };
/// broker.admin()?.create(&[topic])?;
///
/// let mut producer = broker.producer(&ProducerOptions {
///     transactional_id: None,
///     transaction_timeout: Duration::from_secs(60),
///     client_id: "writer".into(),
/// })?;
/// let (lines, _) = producer.topic("lines")?;
/// let record = NewRecord {
///     key: None,
///     value: Some(b"hello"),
///     timestamp: Timestamp(5),
///     headers: HeadersRef::EMPTY,
/// };
/// producer.send(lines, 0, &record)?;
/// producer.flush()?;
///
/// let mut consumer = broker.consumer(&ConsumerOptions {
///     isolation: Isolation::ReadCommitted,
///     client_id: "reader".into(),
/// })?;
/// consumer.assign(&[(TopicPartition::new("lines", 0), Offset(0))])?;
/// let mut fetched = Vec::new();
/// consumer.poll(Duration::ZERO, 100, &mut fetched)?;
/// assert_eq!(fetched[0].records.get(0).value, Some(&b"hello"[..]));
/// # Ok::<(), PortError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MemBroker(Arc<MemEngine>);

/// Brokers by name; they live as long as the process.
static NAMED: Mutex<BTreeMap<String, MemBroker>> = Mutex::new(BTreeMap::new());

impl MemBroker {
    /// A broker of its own, on the machine's clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(SystemClock::new()))
    }

    /// A broker of its own, on this clock: it stamps records and times transactions out.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        Self(Arc::new(MemEngine::new(clock, "mem".to_owned())))
    }

    /// The broker of that name: the same one for the whole process, on the clock of who asked
    /// first.
    pub fn named(name: &str, clock: Arc<dyn Clock>) -> Self {
        let mut named = lock(&NAMED);
        let make = || {
            let instance = format!("mem-{}", fresh_id());
            Self(Arc::new(MemEngine::new(clock, instance)))
        };
        named.entry(name.to_owned()).or_insert_with(make).clone()
    }

    /// Lets calls fail as planned, from now on; replaces the plan before.
    pub fn set_faults(&self, plan: FaultPlan) {
        self.0.shared().faults.set(plan);
    }

    /// How many planned faults have not struck yet.
    pub fn faults_left(&self) -> usize {
        self.0.shared().faults.left()
    }

    /// Removes a member from its group as if its session had timed out: others get its shares, and
    /// it is fenced. Tells whether it was a member.
    pub fn expel(&self, group: &str, member: &str) -> bool {
        self.0.shared().expel(group, member)
    }
}

impl Default for MemBroker {
    fn default() -> Self {
        Self::new()
    }
}

impl Backend for MemBroker {
    fn scheme(&self) -> &'static str {
        "mem"
    }

    fn supports_transactions(&self) -> bool {
        true
    }

    fn promise(&self) -> &'static str {
        "lives in memory: nothing survives the process"
    }

    fn consumer(&self, options: &ConsumerOptions) -> PortResult<Box<dyn Consumer>> {
        let engine = Arc::clone(&self.0);
        Ok(Box::new(LocalConsumer::new(engine, options.isolation)))
    }

    fn producer(&self, options: &ProducerOptions) -> PortResult<Box<dyn Producer>> {
        Ok(Box::new(LocalProducer::new(Arc::clone(&self.0), options)))
    }

    fn admin(&self) -> PortResult<Box<dyn Admin>> {
        Ok(Box::new(LocalAdmin::new(Arc::clone(&self.0))))
    }

    fn membership(&self, options: &MembershipOptions) -> PortResult<Box<dyn Membership>> {
        let member = LocalMembership::join(self.0.shared(), options)?;
        Ok(Box::new(member))
    }
}
