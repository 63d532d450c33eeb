//! What the tests of the contract share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::*;

/// A backend under test, with the clock it runs on.
pub(crate) struct Bench {
    pub(crate) backend: SharedBackend,
    pub(crate) clock: Arc<ManualClock>,
    /// Plans faults, and removes a member from its group.
    pub(crate) control: Box<dyn Control>,
    /// Keeps what the backend needs, such as a directory.
    pub(crate) _keep: Option<tempfile::TempDir>,
}

/// What only tests can do to a backend.
pub(crate) trait Control {
    fn set_faults(&self, plan: FaultPlan);
    fn faults_left(&self) -> usize;
    fn expel(&self, group: &str, member: &str) -> bool;
}

macro_rules! control {
    ($($broker:ty),+) => {$(
        impl Control for $broker {
            fn set_faults(&self, plan: FaultPlan) {
                Self::set_faults(self, plan);
            }

            fn faults_left(&self) -> usize {
                Self::faults_left(self)
            }

            fn expel(&self, group: &str, member: &str) -> bool {
                Self::expel(self, group, member)
            }
        }
    )+};
}

control!(MemBroker, LogBroker);

pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000);
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// What is left of a fetched record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Read {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) headers: Headers,
}

pub(crate) fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

pub(crate) fn text(value: &str) -> NewRecord<'_> {
    NewRecord {
        key: None,
        value: Some(value.as_bytes()),
        timestamp: Timestamp(1),
        headers: HeadersRef::EMPTY,
    }
}

pub(crate) fn at(value: &str, timestamp: i64) -> NewRecord<'_> {
    NewRecord { timestamp: Timestamp(timestamp), ..text(value) }
}

pub(crate) fn offsets(topic: &str, next: i64) -> BTreeMap<TopicPartition, CommittedOffset> {
    let committed = CommittedOffset { offset: Offset(next), metadata: format!("at {next}") };
    [(tp(topic, 0), committed)].into()
}

/// A group without members.
pub(crate) fn nobody(group: &str) -> GroupMetadata {
    GroupMetadata { group: group.into(), member: String::new(), generation: -1 }
}

impl Bench {
    /// A bench around a broker.
    pub(crate) fn new<B>(broker: B, clock: Arc<ManualClock>) -> Self
    where
        B: Backend + Control + Clone + 'static,
    {
        Self { backend: Arc::new(broker.clone()), clock, control: Box::new(broker), _keep: None }
    }

    pub(crate) fn create_with(&self, topic: &str, partitions: i32, config: &[(&str, &str)]) {
        let config = config.iter().map(|(k, v)| ((*k).into(), (*v).into()));
        let topic = NewTopic { name: topic.into(), partitions, config: config.collect() };
        self.backend.admin().unwrap().create(&[topic]).unwrap();
    }

    pub(crate) fn create(&self, topic: &str, partitions: i32) {
        self.create_with(topic, partitions, &[]);
    }

    pub(crate) fn plain(&self) -> Box<dyn Producer> {
        let options = ProducerOptions {
            transactional_id: None,
            transaction_timeout: TIMEOUT,
            client_id: "plain".into(),
        };
        self.backend.producer(&options).unwrap()
    }

    pub(crate) fn uninitialized(&self, id: &str) -> Box<dyn Producer> {
        let options = ProducerOptions {
            transactional_id: Some(id.into()),
            transaction_timeout: TIMEOUT,
            client_id: id.into(),
        };
        self.backend.producer(&options).unwrap()
    }

    pub(crate) fn transactional(&self, id: &str) -> Box<dyn Producer> {
        let mut producer = self.uninitialized(id);
        producer.init_transactions().unwrap();
        producer
    }

    pub(crate) fn consumer(&self, isolation: Isolation) -> Box<dyn Consumer> {
        let options = ConsumerOptions { isolation, client_id: "reader".into() };
        self.backend.consumer(&options).unwrap()
    }

    pub(crate) fn member(&self, group: &str, shares: &[Share]) -> Box<dyn Membership> {
        self.join(group, shares).unwrap()
    }

    pub(crate) fn join(&self, group: &str, shares: &[Share]) -> PortResult<Box<dyn Membership>> {
        self.backend.membership(&MembershipOptions {
            group: group.into(),
            client_id: "worker".into(),
            shares: shares.to_vec(),
            topics: BTreeMap::new(),
        })
    }

    /// Sends values to partition 0, outside a transaction.
    pub(crate) fn produce(&self, topic: &str, values: &[&str]) {
        let mut producer = self.plain();
        send(producer.as_mut(), topic, values);
        producer.flush().unwrap();
    }

    /// All committed values of partition 0.
    pub(crate) fn values(&self, topic: &str) -> Vec<String> {
        let reads = self.read(topic, 0, Offset(0));
        reads.into_iter().filter_map(|r| r.value).collect()
    }

    /// All committed records from an offset on.
    pub(crate) fn read(&self, topic: &str, partition: i32, from: Offset) -> Vec<Read> {
        let mut consumer = self.consumer(Isolation::ReadCommitted);
        consumer.assign(&[(tp(topic, partition), from)]).unwrap();
        drain(consumer.as_mut()).0
    }

    pub(crate) fn committed(
        &self,
        group: &str,
        topic: &str,
    ) -> PortResult<Option<CommittedOffset>> {
        let mut consumer = self.consumer(Isolation::ReadCommitted);
        let committed = consumer.committed(group, &[tp(topic, 0)])?;
        Ok(committed.into_values().next())
    }

    pub(crate) fn end(&self, topic: &str, isolation: Isolation) -> Offset {
        let mut consumer = self.consumer(isolation);
        consumer.end_offsets(&[tp(topic, 0)], isolation).unwrap()[&tp(topic, 0)]
    }
}

pub(crate) fn send(producer: &mut dyn Producer, topic: &str, values: &[&str]) {
    let (slot, _) = producer.topic(topic).unwrap();
    for value in values {
        producer.send(slot, 0, &text(value)).unwrap();
    }
}

/// Reads all that is there; also the position after it, per partition.
pub(crate) fn drain(consumer: &mut dyn Consumer) -> (Vec<Read>, BTreeMap<TopicPartition, Offset>) {
    let (mut reads, mut positions) = (Vec::new(), BTreeMap::new());
    loop {
        let mut fetched = Vec::new();
        consumer.poll(Duration::ZERO, 1000, &mut fetched).unwrap();
        if fetched.is_empty() {
            return (reads, positions);
        }
        for run in fetched {
            reads.extend((0..run.records.len()).map(|i| owned(&run.records.get(i))));
            let before = positions.insert(run.partition.clone(), run.next);
            assert!(before < Some(run.next), "the position moves on");
        }
    }
}

fn owned(record: &RecordRef<'_>) -> Read {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    Read {
        offset: record.offset.0,
        timestamp: record.timestamp.0,
        key: record.key.map(text),
        value: record.value.map(text),
        headers: record.headers.to_owned(),
    }
}

/// The kind of an error.
pub(crate) fn kind<T>(result: PortResult<T>) -> PortErrorKind {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(e) => e.kind(),
    }
}

/// The text of an error.
pub(crate) fn message<T>(result: PortResult<T>) -> String {
    match result {
        Ok(_) => panic!("an error was expected"),
        Err(e) => e.to_string(),
    }
}
