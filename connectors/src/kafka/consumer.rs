//! The port [`Consumer`] on librdkafka: partitions that are assigned one by one, a queue for each.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::config::KafkaConfig;
use super::error::{failed, is_passing, kind};
use super::ffi::{self, At, Client, Failure, Item, OffsetsAsked, PartitionAnswer, Queue};
use super::topics;
use super::watch::{Fate, Known, Watch};
use super::wire::OffsetClient;
use crate::batch::RecordBatch;
use crate::ports::{
    CommittedOffset, Consumer, ConsumerOptions, Fetched, Isolation, PortError, PortErrorKind,
    PortResult,
};
use crate::wire::{Offset, Timestamp, TopicPartition};

/// What a partition may give in its turn even when many others wait: less would cost more per run than per record.
const RECORDS_MIN: usize = 64;

/// Where one partition is read.
struct Cursor {
    tp: TopicPartition,
    queue: Queue,
    position: Offset,
    /// Its queue is not read: it fills up to its limit, and then librdkafka fetches no more.
    paused: bool,
    /// Why it cannot be read; said again at each poll.
    failure: Option<(PortErrorKind, String)>,
}

pub(super) struct KafkaConsumer {
    client: Arc<Client>,
    isolation: Isolation,
    timeout: Duration,
    /// How many partitions a topic has, of those that were asked about.
    partitions: BTreeMap<Arc<str>, i32>,
    /// The identities of the topics that are read.
    ids: BTreeMap<Arc<str>, String>,
    watch: Watch,
    cursors: Vec<Cursor>,
    /// The cursor whose turn it is.
    turn: usize,
    /// What a queue gave, kept for its room.
    found: Vec<Item>,
    /// Reads what groups have committed.
    committed: OffsetClient,
    /// Where partitions end, asked and not answered yet.
    ends: Option<OffsetsAsked>,
}

impl KafkaConsumer {
    pub(super) fn new(
        client: Arc<Client>,
        config: &KafkaConfig,
        options: &ConsumerOptions,
    ) -> Self {
        Self {
            client,
            isolation: options.isolation,
            timeout: topics::patience(config.request_timeout),
            committed: OffsetClient::new(config, &options.client_id),
            partitions: BTreeMap::new(),
            ids: BTreeMap::new(),
            watch: Watch::default(),
            cursors: Vec::new(),
            turn: 0,
            found: Vec::new(),
            ends: None,
        }
    }

    /// Checks that partitions are there.
    fn check<'a>(
        &mut self,
        partitions: impl Iterator<Item = &'a TopicPartition> + Clone,
    ) -> PortResult<()> {
        let is_known = |known: &BTreeMap<Arc<str>, i32>, tp: &TopicPartition| {
            known.get(&tp.topic).is_some_and(|count| (0..*count).contains(&tp.partition))
        };
        let unknown = partitions.clone().filter(|tp| !is_known(&self.partitions, tp));
        let mut names: Vec<_> = unknown.map(|tp| &*tp.topic).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            return Ok(());
        }
        let found = topics::describe(&self.client, &names, self.timeout)?;
        for topic in found {
            let name: Arc<str> = topic.name.into();
            self.partitions.insert(Arc::clone(&name), topic.partitions);
            // The identity that counts is that of the first look: what was read since is that topic's.
            self.ids.entry(name).or_insert(topic.id);
        }
        for tp in partitions {
            match self.partitions.get(&tp.topic) {
                Some(count) => topics::check_partition(tp, *count)?,
                None => return Err(topics::unknown(&self.client, &tp.topic, self.timeout)),
            }
        }
        Ok(())
    }

    /// Reads what is there, a fair share of each partition first.
    fn fetch_available(&mut self, max_records: usize, out: &mut Vec<Fetched>) -> PortResult<()> {
        let reading = self.cursors.iter().filter(|c| !c.paused).count();
        let fair = max_records.div_ceil(reading.max(1)).max(RECORDS_MIN);
        let mut left = max_records.max(1);
        let start = out.len();
        loop {
            let before = out.len();
            for _ in 0..self.cursors.len() {
                self.turn = (self.turn + 1) % self.cursors.len();
                let known = out.len();
                let fetched = self.fetch_one(self.turn, fair.min(left), out);
                let records = out[known..].iter().map(|f| f.records.len()).sum();
                left = left.saturating_sub(records);
                match fetched {
                    // What was read comes first; the failure comes again with the next call.
                    Err(_) if out.len() > start => return Ok(()),
                    Err(error) => return Err(error),
                    Ok(()) if left == 0 => return Ok(()),
                    Ok(()) => {}
                }
            }
            if out.len() == before {
                return Ok(());
            }
        }
    }

    fn fetch_one(&mut self, index: usize, max: usize, out: &mut Vec<Fetched>) -> PortResult<()> {
        let cursor = &mut self.cursors[index];
        if cursor.paused {
            return Ok(());
        }
        if let Some((kind, message)) = &cursor.failure {
            return Err(PortError::new(*kind, message.clone()));
        }
        cursor.queue.take(max, cursor.position, &mut self.found);
        let mut failure = None;
        for item in self.found.drain(..) {
            match item {
                Item::Records(batch) => {
                    cursor.position = batch.next();
                    out.push(fetched(cursor, Box::new(batch)));
                }
                // Markers and aborted records have been passed.
                Item::End(end) if end > cursor.position => {
                    cursor.position = end;
                    out.push(fetched(cursor, Box::new(RecordBatch::new())));
                }
                Item::End(_) => {}
                Item::Failed(f) if is_passing(f.code) => {
                    tracing::debug!(partition = %cursor.tp, "a fetch failed, another follows: {f}");
                }
                Item::Failed(f) => failure = Some(f),
            }
        }
        failure.map_or(Ok(()), |f| self.fail(index, f))
    }

    /// Remembers why a partition cannot be read any more.
    fn fail(&mut self, index: usize, failure: Failure) -> PortResult<()> {
        let (tp, position) = (self.cursors[index].tp.clone(), self.cursors[index].position);
        let kind = kind(failure.code);
        let message = match kind {
            PortErrorKind::OffsetOutOfRange => self.out_of_range(&tp, position),
            PortErrorKind::UnknownTopic => {
                self.partitions.remove(&tp.topic);
                let one = std::iter::once(&tp);
                let gone = self.check(one).err().map(|e| e.to_string());
                gone.unwrap_or_else(|| format!("{tp} was not there when it was read"))
            }
            _ => failed(format!("read {tp} at offset {position}: {failure}"), failure).to_string(),
        };
        self.cursors[index].failure = Some((kind, message.clone()));
        Err(PortError::new(kind, message))
    }

    /// Makes the partitions of topics that are not what they were fail.
    fn look_after_topics(&mut self) {
        let known = Known { ids: &self.ids, partitions: &self.partitions };
        for (name, fate) in self.watch.look(&self.client, &known, self.timeout) {
            let before = self.partitions.remove(&*name).unwrap_or(0);
            let message = match fate {
                Fate::Gone => format!(
                    "topic {name:?} was deleted while it was read: make it again and reset the application, or stop reading it"
                ),
                Fate::MadeAnew => format!(
                    "topic {name:?} was deleted and made anew while it was read: \
                     what was read so far is not in it; stop and reset the application"
                ),
                Fate::Grown(now) => format!(
                    "topic {name:?} has {now} partitions now and had {before} when it was first read: nobody reads the new ones, and \
                     keys may lie in others than before; stop all instances of the application and start them again"
                ),
            };
            let kind = match fate {
                Fate::Gone | Fate::MadeAnew => PortErrorKind::UnknownTopic,
                Fate::Grown(_) => PortErrorKind::Fatal,
            };
            let cursors = self.cursors.iter_mut().filter(|c| *c.tp.topic == *name);
            cursors.for_each(|c| c.failure = Some((kind, message.clone())));
        }
    }

    fn out_of_range(&self, tp: &TopicPartition, offset: Offset) -> String {
        let at = |at| {
            let asked = std::iter::once((tp, at));
            let answers = ffi::list_offsets(&self.client, asked, self.isolation, self.timeout);
            answers.ok()?.first().map(|a| a.offset)
        };
        match (at(At::Start), at(At::End)) {
            (Some(start), Some(end)) => {
                format!("offset {offset} of {tp} is out of range: it holds {start} to {end}")
            }
            _ => format!("offset {offset} of {tp} is out of range"),
        }
    }

    fn remove(&mut self, partitions: &[&TopicPartition]) -> PortResult<()> {
        let ours = |c: &Cursor| partitions.contains(&&c.tp);
        let read: Vec<_> =
            self.cursors.iter().filter(|c| ours(c) && c.position.0 >= 0).map(|c| &c.tp).collect();
        if !read.is_empty() {
            self.client.unassign(&read).map_err(|f| failed("stop reading partitions", f))?;
        }
        // What was fetched and not read would stay in memory as long as the client.
        self.cursors.iter_mut().filter(|c| ours(c)).for_each(|c| c.queue.discard());
        self.cursors.retain(|c| !ours(c));
        // A topic that is read no more may be another one when it is read again.
        let (cursors, topics) = (&self.cursors, &mut self.partitions);
        self.ids.retain(|name, _| cursors.iter().any(|c| c.tp.topic == *name));
        topics.retain(|name, _| self.ids.contains_key(name));
        Ok(())
    }

    fn offsets(
        &mut self,
        partitions: &[TopicPartition],
        at: At,
        isolation: Isolation,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        self.check(partitions.iter())?;
        self.ask(partitions.iter().map(|tp| (tp, at)), isolation)
    }

    /// Asks for offsets; partitions that have none are left out.
    fn ask<'a>(
        &mut self,
        asked: impl ExactSizeIterator<Item = (&'a TopicPartition, At)>,
        isolation: Isolation,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        if asked.len() == 0 {
            return Ok(BTreeMap::new());
        }
        let answers = ffi::list_offsets(&self.client, asked, isolation, self.timeout)
            .map_err(|f| failed("ask for offsets", f))?;
        self.take(answers)
    }

    fn take(
        &mut self,
        answers: Vec<PartitionAnswer>,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        let mut offsets = BTreeMap::new();
        for answer in answers {
            self.heed(&answer)?;
            if answer.offset >= 0 {
                offsets.insert(answer.partition, Offset(answer.offset));
            }
        }
        Ok(offsets)
    }

    fn heed(&mut self, answer: &PartitionAnswer) -> PortResult<()> {
        if answer.code == 0 {
            return Ok(());
        }
        let kind = kind(answer.code);
        if kind == PortErrorKind::UnknownTopic {
            self.partitions.remove(&answer.partition.topic);
        }
        let message = format!(
            "cannot ask for an offset of {}: {}",
            answer.partition,
            ffi::describe(answer.code)
        );
        Err(PortError::new(kind, message))
    }
}

fn fetched(cursor: &Cursor, records: Box<dyn crate::batch::Records>) -> Fetched {
    Fetched { partition: cursor.tp.clone(), records, next: cursor.position }
}

impl Consumer for KafkaConsumer {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> PortResult<()> {
        self.remove(&partitions.iter().map(|(tp, _)| tp).collect::<Vec<_>>())?;
        self.check(partitions.iter().map(|(tp, _)| tp))?;
        for (tp, position) in partitions {
            let queue = Queue::split(&self.client, &tp.topic, tp.partition)
                .map_err(|f| failed(format!("read {tp}"), f))?;
            // To librdkafka a negative offset is a place, such as the end.
            let failure = (position.0 < 0)
                .then(|| (PortErrorKind::OffsetOutOfRange, self.out_of_range(tp, *position)));
            let (tp, position) = (tp.clone(), *position);
            self.cursors.push(Cursor { tp, queue, position, paused: false, failure });
        }
        let readable: Vec<_> = partitions.iter().filter(|(_, o)| o.0 >= 0).cloned().collect();
        if readable.is_empty() {
            return Ok(());
        }
        self.client.assign(&readable).map_err(|f| failed("read partitions", f))
    }

    fn unassign(&mut self, partitions: &[TopicPartition]) -> PortResult<()> {
        self.remove(&partitions.iter().collect::<Vec<_>>())
    }

    fn set_paused(&mut self, partitions: &[TopicPartition], paused: bool) -> PortResult<()> {
        for cursor in &mut self.cursors {
            if partitions.contains(&cursor.tp) {
                cursor.paused = paused;
            }
        }
        Ok(())
    }

    fn poll(
        &mut self,
        timeout: Duration,
        max_records: usize,
        out: &mut Vec<Fetched>,
    ) -> PortResult<()> {
        if let Some(failure) = self.client.serve(Duration::ZERO)
            && !is_passing(failure.code)
        {
            return Err(failed("read", failure));
        }
        self.look_after_topics();
        let before = out.len();
        let mut until = None;
        loop {
            self.fetch_available(max_records, out)?;
            if out.len() > before || timeout.is_zero() {
                return Ok(());
            }
            let now = Instant::now();
            let until = *until.get_or_insert_with(|| now.checked_add(timeout));
            let left = until.map_or(timeout, |until| until.saturating_duration_since(now));
            if !self.client.wait(left) {
                return Ok(());
            }
        }
    }

    fn committed(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, CommittedOffset>> {
        self.committed.committed(group, partitions)
    }

    fn beginning_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        self.offsets(partitions, At::Start, Isolation::ReadUncommitted)
    }

    fn end_offsets(
        &mut self,
        partitions: &[TopicPartition],
        isolation: Isolation,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        self.offsets(partitions, At::End, isolation)
    }

    fn look_at_ends(
        &mut self,
        partitions: &[TopicPartition],
        isolation: Isolation,
    ) -> PortResult<Option<BTreeMap<TopicPartition, Offset>>> {
        let Some(asked) = &mut self.ends else {
            if partitions.is_empty() {
                return Ok(Some(BTreeMap::new()));
            }
            self.check(partitions.iter())?;
            let ends = partitions.iter().map(|tp| (tp, At::End));
            let asked = OffsetsAsked::new(&self.client, ends, isolation, self.timeout)
                .map_err(|f| failed("ask for offsets", f))?;
            self.ends = Some(asked);
            return Ok(None);
        };
        let Some(answer) = asked.answer() else { return Ok(None) };
        self.ends = None;
        self.take(answer.map_err(|f| failed("ask for offsets", f))?).map(Some)
    }

    fn offsets_for_times(
        &mut self,
        times: &[(TopicPartition, Timestamp)],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        self.check(times.iter().map(|(tp, _)| tp))?;
        let isolation = self.isolation;
        self.ask(times.iter().map(|(tp, time)| (tp, At::Time(time.0))), isolation)
    }
}
