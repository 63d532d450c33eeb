//! What the driver's topics hold, and the producer that fills them.

use std::collections::BTreeMap;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use indexmap::IndexMap;
use thalweg_connectors::{
    Acknowledged, CommittedOffset, Fetched, GroupMetadata, Headers, NewRecord, Offset, PortError,
    PortErrorKind, PortResult, Producer, RecordBatch, Timestamp, TopicPartition, TopicSlot,
};

/// A record in a topic, as it was sent.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SentRecord {
    /// Its partition.
    pub partition: i32,
    /// Its place there, from 0; -1 for a record that was never committed.
    pub offset: Offset,
    /// The key's bytes.
    pub key: Option<Vec<u8>>,
    /// The value's bytes.
    pub value: Option<Vec<u8>>,
    /// The timestamp; [`Timestamp::NONE`] when it was left to the backend.
    pub timestamp: Timestamp,
    /// The headers.
    pub headers: Headers,
    /// What a backend would have made of a missing timestamp.
    stamped: Timestamp,
}

impl SentRecord {
    pub(super) fn new(partition: i32, record: &NewRecord<'_>, now: Timestamp) -> Self {
        Self {
            partition,
            offset: Offset(-1),
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            timestamp: record.timestamp,
            headers: record.headers.to_owned(),
            stamped: if record.timestamp == Timestamp::NONE { now } else { record.timestamp },
        }
    }

    /// The record as a consumer reads it.
    pub(super) fn as_new(&self, timestamp: Timestamp) -> NewRecord<'_> {
        NewRecord {
            key: self.key.as_deref(),
            value: self.value.as_deref(),
            timestamp,
            headers: self.headers.as_ref(),
        }
    }

    /// Its time, once appended.
    pub(super) fn stamped(&self) -> Timestamp {
        self.stamped
    }
}

#[derive(Default)]
struct TopicLog {
    /// All records, in the order they were appended.
    records: Vec<SentRecord>,
    /// Per partition, where in `records` its own lie.
    partitions: Vec<Vec<usize>>,
    /// How many records there were before the step that is under way, or that failed.
    before: usize,
}

/// All topics.
#[derive(Default)]
pub(super) struct Log {
    topics: IndexMap<Arc<str>, TopicLog>,
    /// Sent, not committed: topic and record.
    pending: Vec<(usize, SentRecord)>,
    pub(super) committed: BTreeMap<TopicPartition, CommittedOffset>,
    pub(super) now: Timestamp,
    /// The last step failed: what it did is kept apart.
    failed: bool,
}

/// The driver, its producer and its readers share the topics.
pub(super) type SharedLog = Arc<Mutex<Log>>;

pub(super) fn lock(log: &SharedLog) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Log {
    /// Makes a topic, or gives it more partitions.
    pub(super) fn create(&mut self, name: &Arc<str>, partitions: i32) {
        let topic = self.topics.entry(Arc::clone(name)).or_default();
        let wanted = usize::try_from(partitions).unwrap_or(1).max(1);
        if topic.partitions.len() < wanted {
            topic.partitions.resize(wanted, Vec::new());
        }
    }

    pub(super) fn partitions(&self, name: &str) -> Option<i32> {
        self.topics.get(name).map(|t| t.partitions.len() as i32)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<str>> {
        self.topics.keys()
    }

    /// Appends a record that counts at once: a test's input.
    pub(super) fn append(&mut self, topic: &str, record: SentRecord) {
        if let Some(index) = self.topics.get_index_of(topic) {
            self.append_at(index, record);
        }
    }

    fn append_at(&mut self, topic: usize, mut record: SentRecord) -> (TopicPartition, Offset) {
        let (name, log) = self.topics.get_index_mut(topic).expect("topics are never removed");
        let partition = &mut log.partitions[record.partition as usize];
        record.offset = Offset(partition.len() as i64);
        let next = Offset(record.offset.0 + 1);
        partition.push(log.records.len());
        let tp = TopicPartition::new(Arc::clone(name), record.partition);
        log.records.push(record);
        (tp, next)
    }

    /// The records of one partition from an offset on, as a fetch hands them out; `None` when there are none.
    pub(super) fn fetch(&self, tp: &TopicPartition, from: Offset) -> Option<Fetched> {
        let mut batch = RecordBatch::new();
        self.each(tp, from, |record| {
            batch.push(&record.as_new(record.stamped));
        });
        batch.set_base(from);
        let next = batch.next_offset();
        (next > from).then(|| Fetched { partition: tp.clone(), records: Box::new(batch), next })
    }

    /// Visits the records of one partition from an offset on.
    pub(super) fn each<'a>(
        &'a self,
        tp: &TopicPartition,
        from: Offset,
        mut visit: impl FnMut(&'a SentRecord),
    ) {
        let Some(topic) = self.topics.get(&tp.topic) else {
            return;
        };
        let places = topic.partitions.get(tp.partition as usize);
        let from = usize::try_from(from.0).unwrap_or(0);
        for place in places.into_iter().flatten().skip(from) {
            visit(&topic.records[*place]);
        }
    }

    /// The offset after the last record of a partition.
    pub(super) fn end(&self, tp: &TopicPartition) -> Offset {
        let topic = self.topics.get(&tp.topic);
        let partition = topic.and_then(|t| t.partitions.get(tp.partition as usize));
        Offset(partition.map_or(0, |places| places.len() as i64))
    }

    /// What a topic holds, without what a failed step did.
    pub(super) fn visible(&self, topic: &str) -> &[SentRecord] {
        let Some(log) = self.topics.get(topic) else {
            return &[];
        };
        let end = if self.failed { log.before } else { log.records.len() };
        &log.records[..end]
    }

    /// A step begins.
    pub(super) fn begin_step(&mut self) {
        self.failed = false;
        self.pending.clear();
        for topic in self.topics.values_mut() {
            topic.before = topic.records.len();
        }
    }

    pub(super) fn fail_step(&mut self) {
        self.failed = true;
    }

    /// What the failed step sent to a topic: in commits before the failure, and in the one that failed.
    pub(super) fn of_failed_step(&self, topic: &str) -> Vec<SentRecord> {
        let Some((index, _, log)) = self.topics.get_full(topic).filter(|_| self.failed) else {
            return Vec::new();
        };
        let aborted = self.pending.iter().filter(|(topic, _)| *topic == index);
        let committed = log.records[log.before..].iter();
        committed.chain(aborted.map(|(_, record)| record)).cloned().collect()
    }
}

/// Appends to the topics of the driver; makes those that are not there.
pub(super) struct Recorder {
    log: SharedLog,
    default_partitions: i32,
    offsets: BTreeMap<TopicPartition, CommittedOffset>,
}

impl Recorder {
    pub(super) fn new(log: SharedLog, default_partitions: i32) -> Self {
        Self { log, default_partitions, offsets: BTreeMap::new() }
    }
}

impl Producer for Recorder {
    fn init_transactions(&mut self) -> PortResult<()> {
        Ok(())
    }

    fn begin(&mut self) -> PortResult<()> {
        Ok(())
    }

    fn topic(&mut self, name: &str) -> PortResult<(TopicSlot, i32)> {
        let mut log = lock(&self.log);
        if log.partitions(name).is_none() {
            log.create(&name.into(), self.default_partitions);
        }
        let (index, _, topic) = log.topics.get_full(name).expect("it was made above");
        Ok((TopicSlot(index as u32), topic.partitions.len() as i32))
    }

    fn send(&mut self, topic: TopicSlot, partition: i32, record: &NewRecord<'_>) -> PortResult<()> {
        let mut log = lock(&self.log);
        let known = log.topics.get_index(topic.0 as usize);
        let partitions = known.map_or(0, |(_, t)| t.partitions.len() as i32);
        if !(0..partitions).contains(&partition) {
            let name = known.map_or("?", |(name, _)| name);
            return Err(PortError::new(
                PortErrorKind::UnknownTopic,
                format!("topic `{name}` has no partition {partition}, only {partitions}"),
            ));
        }
        let record = SentRecord::new(partition, record, log.now);
        log.pending.push((topic.0 as usize, record));
        Ok(())
    }

    fn flush(&mut self) -> PortResult<Acknowledged> {
        Ok(Acknowledged::new())
    }

    fn send_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        _group: &GroupMetadata,
    ) -> PortResult<()> {
        self.offsets.clone_from(offsets);
        Ok(())
    }

    fn commit(&mut self) -> PortResult<Acknowledged> {
        let mut log = lock(&self.log);
        let pending = mem::take(&mut log.pending);
        log.committed.append(&mut self.offsets);
        let appended = pending.into_iter().map(|(topic, record)| log.append_at(topic, record));
        Ok(appended.collect())
    }

    fn abort(&mut self) -> PortResult<()> {
        // What was sent stays pending, so that a test can look at it; the next step forgets it.
        self.offsets.clear();
        Ok(())
    }

    fn commit_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        _group: &GroupMetadata,
    ) -> PortResult<()> {
        lock(&self.log).committed.extend(offsets.clone());
        Ok(())
    }
}
