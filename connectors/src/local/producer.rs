//! The port [`Producer`] over an engine: one batch per partition, handed over when it is full or at
//! a flush.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::Duration;

use super::coordinator::Owner;
use super::engine::{Engine, TopicView};
use super::fault::{Call, Fault};
use crate::batch::{RecordBatch, Records};
use crate::names;
use crate::ports::{
    Acknowledged, CommittedOffset, GroupMetadata, PortError, PortErrorKind, PortResult, Producer,
    ProducerOptions, TopicSlot,
};
use crate::producer_state::ProducerState;
use crate::wire::{NewRecord, TopicPartition};

/// A batch is handed over when its encoded form is this large: large enough that work per batch
/// does not count, small enough that seeking into one is cheap.
const BATCH_BYTES: usize = 256 * 1024;
/// All batches are handed over when they are this large together: topics with many partitions.
const BUFFERED_BYTES_MAX: usize = 16 * 1024 * 1024;

/// What is buffered for one partition.
#[derive(Debug)]
struct Buffer {
    tp: TopicPartition,
    batch: RecordBatch,
}

#[derive(Debug)]
struct Target {
    view: TopicView,
    buffers: Vec<Buffer>,
}

/// An end that arrives once more: [`Fault::ArrivesAgainBefore`].
#[derive(Debug)]
struct Echo {
    calls: u32,
    commit: bool,
}

#[derive(Debug)]
pub(crate) struct LocalProducer<E> {
    engine: Arc<E>,
    state: ProducerState,
    transactional_id: Option<String>,
    timeout: Duration,
    owner: Option<Owner>,
    targets: Vec<Target>,
    /// Buffers that are not empty.
    filled: Vec<(usize, usize)>,
    /// Bytes of keys, values and headers in all of them.
    buffered: usize,
    acknowledged: Acknowledged,
    echo: Option<Echo>,
    tainted: bool,
}

impl<E: Engine> LocalProducer<E> {
    pub(crate) fn new(engine: Arc<E>, options: &ProducerOptions) -> Self {
        let state = ProducerState::new(options.transactional_id.as_deref());
        Self {
            engine,
            state,
            transactional_id: options.transactional_id.clone(),
            timeout: options.transaction_timeout,
            owner: None,
            targets: Vec::new(),
            filled: Vec::new(),
            buffered: 0,
            acknowledged: Acknowledged::new(),
            echo: None,
            tainted: false,
        }
    }

    /// Fails unless the producer is in one of these states.
    fn expect(&self, attempt: &str, states: &[ProducerState]) -> PortResult<()> {
        self.state.expect(states, attempt, self.transactional_id.as_deref())
    }

    /// Remembers what an error means for the calls to come.
    fn heed<T>(&mut self, result: PortResult<T>) -> PortResult<T> {
        let Err(error) = &result else {
            return result;
        };
        if error.kind() == PortErrorKind::Unknown {
            self.tainted = true;
        }
        if self.state != ProducerState::Plain {
            match error.kind() {
                PortErrorKind::Retriable => {}
                PortErrorKind::Unknown => self.state = ProducerState::Over,
                PortErrorKind::Fenced if self.is_owner_fenced() => self.state = ProducerState::Over,
                _ if self.state == ProducerState::Open => self.state = ProducerState::Failed,
                _ => {}
            }
        }
        result
    }

    /// Is it the transactional id that is fenced, not the group's member?
    fn is_owner_fenced(&self) -> bool {
        let owner = self.owner.as_ref();
        let check = |o| self.engine.check(o).map_err(|e| e.kind());
        owner.is_none_or(|o| check(o) == Err(PortErrorKind::Fenced))
    }

    fn owner(&self) -> Option<&Owner> {
        self.owner.as_ref()
    }

    /// Lets the end that is still under way arrive when its turn has come; nobody hears the answer.
    fn hear_echo(&mut self) {
        let Some(echo) = &mut self.echo else {
            return;
        };
        echo.calls = echo.calls.saturating_sub(1);
        if echo.calls > 0 {
            return;
        }
        if let (Some(owner), Some(echo)) = (&self.owner, self.echo.take()) {
            self.engine.end(owner, echo.commit).ok();
        }
    }

    /// Hands over all that is buffered.
    fn hand_over_all(&mut self) -> PortResult<()> {
        let filled = mem::take(&mut self.filled);
        self.hand_over(&filled)
    }

    /// Hands over one batch that is full, or all when many are nearly so.
    fn hand_over_full(&mut self, full: (usize, usize)) -> PortResult<()> {
        if self.buffered >= BUFFERED_BYTES_MAX {
            return self.hand_over_all();
        }
        self.filled.retain(|filled| *filled != full);
        self.hand_over(&[full])
    }

    fn hand_over(&mut self, filled: &[(usize, usize)]) -> PortResult<()> {
        if filled.is_empty() {
            return Ok(());
        }
        self.hear_echo();
        let mut batches = Vec::with_capacity(filled.len());
        for &(topic, partition) in filled {
            let buffer = &mut self.targets[topic].buffers[partition];
            let empty = RecordBatch::with_room_of(&buffer.batch);
            self.buffered = self.buffered.saturating_sub(buffer.batch.byte_len());
            batches.push((buffer.tp.clone(), mem::replace(&mut buffer.batch, empty)));
        }
        match self.engine.append(self.owner(), batches) {
            Ok(went) => {
                self.acknowledged.extend(went);
                Ok(())
            }
            Err(error) => {
                // The records are gone: no later flush may say that all went well.
                if self.state == ProducerState::Plain {
                    self.state = ProducerState::Over;
                }
                Err(error)
            }
        }
    }

    fn clear(&mut self) {
        for (topic, partition) in self.filled.drain(..) {
            self.targets[topic].buffers[partition].batch = RecordBatch::new();
        }
        self.buffered = 0;
        self.acknowledged.clear();
    }

    fn flush_planned(&mut self) -> PortResult<()> {
        match self.engine.shared().faults.next(Call::Flush) {
            None => self.hand_over_all(),
            Some(fault) => Err(fault.strike(Call::Flush, || self.hand_over_all())),
        }
    }

    fn end(&mut self, commit: bool) -> PortResult<Acknowledged> {
        let call = if commit { Call::Commit } else { Call::Abort };
        let owner = self.owner.clone();
        let owner = owner.expect("a transaction is open only with an owner");
        self.hear_echo();
        let engine = Arc::clone(&self.engine);
        match engine.shared().faults.next(call) {
            None => engine.end(&owner, commit),
            Some(Fault::TakesEffectAfter(delay)) => {
                self.tainted = true;
                engine.end_later(&owner, commit, delay).map(|()| Acknowledged::new())
            }
            Some(Fault::ArrivesAgainBefore(calls)) => {
                self.tainted = true;
                self.echo = Some(Echo { calls, commit });
                engine.end(&owner, commit)
            }
            Some(fault) => Err(fault.strike(call, || engine.end(&owner, commit))),
        }
    }

    fn call<T>(
        &mut self,
        call: Call,
        work: impl FnOnce(&mut Self) -> PortResult<T>,
    ) -> PortResult<T> {
        let engine = Arc::clone(&self.engine);
        let result = engine.shared().faults.around(call, || work(self));
        self.heed(result)
    }

    /// Fails when a record cannot go there.
    fn refuse(&self, topic: TopicSlot, partition: i32, bytes: usize) -> PortError {
        let Some(target) = self.targets.get(topic.0 as usize) else {
            return PortError::new(
                PortErrorKind::Refused,
                format!("slot {} is not one of this producer's topics", topic.0),
            );
        };
        let view = &target.view;
        if !(0..view.partitions).contains(&partition) {
            return names::no_such_partition(&view.name, partition, view.partitions);
        }
        names::too_large(bytes, &view.name, partition, view.max_message_bytes)
    }
}

impl<E: Engine> Producer for LocalProducer<E> {
    fn init_transactions(&mut self) -> PortResult<()> {
        self.expect("initialize transactions", &[ProducerState::New])?;
        self.call(Call::Init, |producer| {
            let id = producer.transactional_id.as_deref().unwrap_or_default();
            producer.owner = Some(producer.engine.init(id, producer.timeout)?);
            producer.state = ProducerState::Ready;
            Ok(())
        })
    }

    fn begin(&mut self) -> PortResult<()> {
        self.expect("begin a transaction", &[ProducerState::Ready])?;
        self.call(Call::Begin, |producer| {
            producer.owner().map_or(Ok(()), |o| producer.engine.check(o))?;
            producer.clear();
            producer.state = ProducerState::Open;
            Ok(())
        })
    }

    fn topic(&mut self, name: &str) -> PortResult<(TopicSlot, i32)> {
        let view = self.engine.topic(name)?;
        let partitions = view.partitions;
        let known = self.targets.iter().position(|t| *t.view.name == *view.name);
        let slot = known.unwrap_or(self.targets.len());
        if known.is_none() {
            let buffer = |partition| Buffer {
                tp: TopicPartition::new(Arc::clone(&view.name), partition),
                batch: RecordBatch::new(),
            };
            let buffers = (0..partitions).map(buffer).collect();
            self.targets.push(Target { view, buffers });
        }
        Ok((TopicSlot(slot as u32), partitions))
    }

    fn send(&mut self, topic: TopicSlot, partition: i32, record: &NewRecord<'_>) -> PortResult<()> {
        if !matches!(self.state, ProducerState::Open | ProducerState::Plain) {
            self.expect("send a record", &[ProducerState::Open, ProducerState::Plain])?;
        }
        let bytes = record.payload_len();
        let target = self.targets.get_mut(topic.0 as usize);
        let buffer = target
            .filter(|t| bytes <= t.view.max_message_bytes)
            .and_then(|t| t.buffers.get_mut(usize::try_from(partition).ok()?));
        let Some(buffer) = buffer else {
            return Err(self.refuse(topic, partition, bytes));
        };
        if buffer.batch.is_empty() {
            self.filled.push((topic.0 as usize, partition as usize));
        }
        buffer.batch.push(record);
        self.buffered += bytes;
        if buffer.batch.encoded_len() >= BATCH_BYTES || self.buffered >= BUFFERED_BYTES_MAX {
            let handed_over = self.hand_over_full((topic.0 as usize, partition as usize));
            return self.heed(handed_over);
        }
        Ok(())
    }

    fn flush(&mut self) -> PortResult<Acknowledged> {
        self.expect("flush", &[ProducerState::Open, ProducerState::Plain])?;
        let flushed = self.flush_planned();
        self.heed(flushed)?;
        match self.state {
            ProducerState::Plain => Ok(mem::take(&mut self.acknowledged)),
            _ => Ok(Acknowledged::new()),
        }
    }

    fn send_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        self.expect("send offsets", &[ProducerState::Open])?;
        self.call(Call::SendOffsets, |producer| {
            producer.hear_echo();
            let owner = producer.owner();
            owner.map_or(Ok(()), |o| producer.engine.add_offsets(o, offsets, group))
        })
    }

    fn commit(&mut self) -> PortResult<Acknowledged> {
        self.expect("commit", &[ProducerState::Open])?;
        let flushed = self.flush_planned();
        self.heed(flushed)?;
        let ended = self.end(true);
        let went = self.heed(ended)?;
        self.acknowledged.extend(went);
        self.state = ProducerState::Ready;
        Ok(mem::take(&mut self.acknowledged))
    }

    fn abort(&mut self) -> PortResult<()> {
        self.expect("abort", &[ProducerState::Open, ProducerState::Failed])?;
        self.clear();
        let ended = self.end(false);
        self.heed(ended)?;
        self.state = ProducerState::Ready;
        Ok(())
    }

    fn commit_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        self.call(Call::CommitOffsets, |producer| producer.engine.commit_offsets(offsets, group))
    }

    fn is_tainted(&mut self) -> bool {
        self.tainted
    }
}
