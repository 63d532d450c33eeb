//! The smallest application that has everything: one task that counts words, with a store, a
//! changelog, an output and input offsets. Its process can end at any point; its disk stays.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod wrap;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{
    Backend, Clock, CommittedOffset, Consumer, ConsumerOptions, HeadersRef, Isolation, ManualClock,
    MemBroker, Membership, MembershipOptions, NewRecord, NewTopic, Offset, PortErrorKind, Producer,
    ProducerOptions, Share, Timestamp, TopicPartition, TopicSlot,
};
use thalweg_txn::{
    CommitPlan, Committed, Committer, ErrorClass, Guarantee, OffsetMetadata, PersistError,
    TxnError, transactional_id,
};

use wrap::Hooked;
pub(crate) use wrap::Plain;

pub(crate) const GROUP: &str = "app";
pub(crate) const INPUT: [&str; 10] = ["a", "b", "a", "c", "a", "b", "b", "a", "c", "a"];
pub(crate) const TRANSACTION_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) fn lines() -> TopicPartition {
    TopicPartition::new("lines", 0)
}

pub(crate) fn changelog() -> TopicPartition {
    TopicPartition::new("app-counts-changelog", 0)
}

pub(crate) fn totals() -> TopicPartition {
    TopicPartition::new("totals", 0)
}

/// A broker that holds the input, on a clock that only tests move.
pub(crate) struct World {
    pub(crate) broker: MemBroker,
    pub(crate) clock: Arc<ManualClock>,
}

impl World {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::new(Timestamp(0)));
        let broker = MemBroker::with_clock(Arc::clone(&clock) as Arc<_>);
        let topic = |tp: TopicPartition| NewTopic {
            name: tp.topic.to_string(),
            partitions: 1,
            config: BTreeMap::new(),
        };
        let topics = [lines(), changelog(), totals()].map(topic);
        broker.admin().unwrap().create(&topics).unwrap();
        let world = Self { broker, clock };
        let mut producer = world.producer(None);
        let (slot, _) = producer.topic("lines").unwrap();
        for (i, word) in (0..).zip(INPUT) {
            let record = record(word.as_bytes(), b"", Timestamp(i));
            producer.send(slot, 0, &record).unwrap();
        }
        producer.flush().unwrap();
        world
    }

    pub(crate) fn producer(&self, transactional_id: Option<String>) -> Box<dyn Producer> {
        let options = ProducerOptions {
            transactional_id,
            transaction_timeout: TRANSACTION_TIMEOUT,
            client_id: "producer".to_owned(),
        };
        self.broker.producer(&options).unwrap()
    }

    fn consumer(&self) -> Box<dyn Consumer> {
        let options = ConsumerOptions {
            isolation: Isolation::ReadCommitted,
            client_id: "consumer".to_owned(),
        };
        self.broker.consumer(&options).unwrap()
    }

    fn high_watermark(&self, tp: &TopicPartition) -> Offset {
        let ends =
            self.consumer().end_offsets(std::slice::from_ref(tp), Isolation::ReadUncommitted);
        ends.unwrap()[tp]
    }

    /// Reads committed records from an offset to the high watermark; a transaction that is in the
    /// way has to time out first. Tells the position after them, too.
    pub(crate) fn read(&self, tp: &TopicPartition, from: Offset) -> (Vec<(String, i64)>, Offset) {
        let (end, mut position) = (self.high_watermark(tp), from);
        let (mut consumer, mut records) = (self.consumer(), Vec::new());
        consumer.assign(&[(tp.clone(), from)]).unwrap();
        while position < end {
            let mut fetched = Vec::new();
            consumer.poll(Duration::ZERO, 100, &mut fetched).unwrap();
            if fetched.is_empty() {
                self.wait();
            }
            for run in fetched {
                for i in 0..run.records.len() {
                    let record = run.records.get(i);
                    let key = String::from_utf8(record.key.unwrap().to_vec()).unwrap();
                    let value = record.value.unwrap().first_chunk().copied();
                    records.push((key, value.map_or(0, i64::from_be_bytes)));
                }
                position = run.next;
            }
        }
        (records, position)
    }

    /// Lets time pass; panics when nothing can be waited for any more.
    pub(crate) fn wait(&self) {
        self.clock.advance(Duration::from_secs(10));
        let waited = self.clock.elapsed();
        assert!(waited <= TRANSACTION_TIMEOUT * 3, "waits for ever");
    }

    pub(crate) fn committed(&self) -> Option<CommittedOffset> {
        loop {
            match self.consumer().committed(GROUP, &[lines()]) {
                Ok(offsets) => return offsets.get(&lines()).cloned(),
                Err(error) => assert_eq!(error.kind(), PortErrorKind::Retriable),
            }
            self.wait();
        }
    }

    /// Is nothing in the way of readers?
    pub(crate) fn is_stable(&self) -> bool {
        let all = [lines(), changelog(), totals()];
        let ends = |isolation| self.consumer().end_offsets(&all, isolation).unwrap();
        ends(Isolation::ReadCommitted) == ends(Isolation::ReadUncommitted)
    }
}

fn record<'a>(key: &'a [u8], value: &'a [u8], timestamp: Timestamp) -> NewRecord<'a> {
    NewRecord { key: Some(key), value: Some(value), timestamp, headers: HeadersRef::EMPTY }
}

/// What outlives a process: the store's image, with the changelog position it contains.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) counts: BTreeMap<String, i64>,
    pub(crate) position: Offset,
}

impl Disk {
    /// Writes as one batch.
    fn write(&mut self, writes: impl IntoIterator<Item = (String, i64)>, position: Offset) {
        self.counts.extend(writes);
        self.position = position;
    }
}

/// A point inside the processing of a record.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Point {
    Overlay,
    Changelog,
    Output,
}

/// One process. Dropping it is a crash: nothing is said to anybody, except that its membership's
/// session ends.
pub(crate) struct Worker<'w> {
    world: &'w World,
    pub(crate) committer: Committer,
    pub(crate) producer: Box<dyn Producer>,
    pub(crate) membership: Box<dyn Membership>,
    slots: [TopicSlot; 2],
    overlay: BTreeMap<String, i64>,
    next: Offset,
    instance: &'static str,
}

impl<'w> Worker<'w> {
    /// Opens as a worker has to: producer first, then stable offsets, then the changelog up to its
    /// high watermark.
    pub(crate) fn open(
        world: &'w World,
        guarantee: Guarantee,
        instance: &'static str,
        disk: &mut Disk,
    ) -> Self {
        let (producer, slots) = ready_producer(world, guarantee, instance);
        let share = Share { group: 0, partition: 0 };
        let options = MembershipOptions {
            group: GROUP.to_owned(),
            client_id: instance.to_owned(),
            shares: vec![share],
            topics: BTreeMap::new(),
        };
        let mut membership = world.broker.membership(&options).unwrap();
        assert_eq!(membership.poll().unwrap().assigned, [share]);
        let next = world.committed().map_or(Offset(0), |c| c.offset);
        let (changes, position) = world.read(&changelog(), disk.position);
        disk.write(changes, position);
        Self {
            world,
            committer: Committer::new(guarantee),
            producer,
            membership,
            slots,
            overlay: BTreeMap::new(),
            next,
            instance,
        }
    }

    /// Replaces the producer, as the committer asked for.
    pub(crate) fn replace_producer(&mut self) {
        let guarantee = self.committer.guarantee();
        (self.producer, self.slots) = ready_producer(self.world, guarantee, self.instance);
        self.committer.producer_replaced().unwrap();
    }

    /// Calls something between offsets and the end of the transaction.
    pub(crate) fn hook_commit(&mut self, hook: impl FnMut() + Send + 'static) {
        let (unhooked, _) = ready_producer(self.world, Guarantee::AtLeastOnce, self.instance);
        let inner = std::mem::replace(&mut self.producer, unhooked);
        self.producer = Box::new(Hooked { inner, before_commit: Box::new(hook) });
    }

    fn write(&mut self, slot: TopicSlot, word: &str, count: i64) -> Result<(), TxnError> {
        let producer = &mut *self.producer;
        self.committer.before_write(producer)?;
        let value = count.to_be_bytes();
        producer
            .send(slot, 0, &record(word.as_bytes(), &value, Timestamp(self.next.0)))
            .map_err(|error| self.committer.send_failed(error))
    }

    /// Processes the next record, up to a point.
    pub(crate) fn process(&mut self, disk: &Disk, until: Point) -> Result<(), TxnError> {
        let word = INPUT[usize::try_from(self.next.0).unwrap()];
        let stored = self.overlay.get(word).or_else(|| disk.counts.get(word));
        let count = stored.copied().unwrap_or(0) + 1;
        self.overlay.insert(word.to_owned(), count);
        if until >= Point::Changelog {
            self.write(self.slots[0], word, count)?;
        }
        if until >= Point::Output {
            self.write(self.slots[1], word, count)?;
        }
        self.next = Offset(self.next.0 + 1);
        Ok(())
    }

    /// Writes an output without any input, as a punctuation does.
    pub(crate) fn punctuate(&mut self) -> Result<(), TxnError> {
        self.write(self.slots[1], "punctuated", 0)
    }

    pub(crate) fn plan(&self) -> CommitPlan {
        let mut plan = CommitPlan::new(self.membership.metadata());
        let time = Timestamp(self.next.0 - 1);
        plan.add(lines(), self.next, &OffsetMetadata::at(time));
        plan
    }

    pub(crate) fn commit(&mut self, disk: &mut Disk) -> Result<Committed, TxnError> {
        let plan = self.plan();
        let overlay = std::mem::take(&mut self.overlay);
        let committed = self.committer.commit(&mut *self.producer, &plan, &mut |permit| {
            let position = permit.position_of(&changelog()).unwrap_or(disk.position);
            disk.write(overlay.clone(), position);
            Ok(())
        })?;
        if committed == Committed::ReplaceProducer {
            self.replace_producer();
        }
        Ok(committed)
    }

    /// Commits, and the process ends before its state is persisted.
    pub(crate) fn commit_without_persisting(&mut self) -> Result<Committed, TxnError> {
        let plan = self.plan();
        self.committer.commit(&mut *self.producer, &plan, &mut |_| {
            Err(PersistError::new(ErrorClass::Abortable, "the process ends"))
        })
    }

    /// Processes up to `records` of the records left, and commits.
    pub(crate) fn cycle(&mut self, disk: &mut Disk, records: usize) -> Result<Committed, TxnError> {
        for _ in 0..records.min(INPUT.len() - usize::try_from(self.next.0).unwrap()) {
            self.process(disk, Point::Output)?;
        }
        self.commit(disk)
    }

    /// Goes on to the end of the input.
    pub(crate) fn drain(mut self, disk: &mut Disk) {
        while usize::try_from(self.next.0).unwrap() < INPUT.len() {
            let committed = self.cycle(disk, 3).unwrap();
            assert_eq!(committed, Committed::Done);
        }
    }
}

fn ready_producer(
    world: &World,
    guarantee: Guarantee,
    instance: &str,
) -> (Box<dyn Producer>, [TopicSlot; 2]) {
    let exactly_once = guarantee == Guarantee::ExactlyOnce;
    let id = exactly_once.then(|| transactional_id(GROUP, instance, 0));
    let mut producer = world.producer(id);
    while exactly_once && let Err(error) = producer.init_transactions() {
        assert_eq!(error.kind(), PortErrorKind::Retriable);
        world.wait();
    }
    let slots = [changelog(), totals()].map(|tp| producer.topic(&tp.topic).unwrap().0);
    (producer, slots)
}

/// What one process without any failure makes of the input.
pub(crate) fn expected() -> (Vec<(String, i64)>, BTreeMap<String, i64>) {
    let mut counts = BTreeMap::new();
    let outputs = INPUT.map(|word| {
        let count = counts.entry(word.to_owned()).or_insert(0);
        *count += 1;
        (word.to_owned(), *count)
    });
    (outputs.to_vec(), counts)
}

/// What holds under both guarantees once everything is drained.
fn assert_drained(world: &World, disk: &Disk) {
    let offset = world.committed().unwrap();
    assert_eq!(offset.offset, Offset(10));
    assert_eq!(OffsetMetadata::decode(&offset.metadata), Ok(OffsetMetadata::at(Timestamp(9))));
    let (changes, _) = world.read(&changelog(), Offset(0));
    let replayed: BTreeMap<String, i64> = changes.into_iter().collect();
    assert_eq!(disk.counts, replayed, "the store is its changelog");
    assert!(world.is_stable(), "no transaction is left open");
}

/// Outputs, store and offset are what a run without failure makes.
pub(crate) fn assert_exactly_once(world: &World, disk: &Disk) {
    let (outputs, counts) = expected();
    assert_eq!(world.read(&totals(), Offset(0)).0, outputs);
    assert_eq!(disk.counts, counts);
    assert_drained(world, disk);
}

/// Nothing is lost; counts may be higher.
pub(crate) fn assert_at_least_once(world: &World, disk: &Disk) {
    let (_, counts) = expected();
    let written: BTreeMap<String, i64> = world.read(&totals(), Offset(0)).0.into_iter().collect();
    for (word, count) in &counts {
        assert!(disk.counts[word] >= *count, "{word}: {disk:?}");
        assert!(written[word] >= *count, "{word}: {written:?}");
    }
    assert_drained(world, disk);
}
