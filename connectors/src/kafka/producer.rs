//! The port [`Producer`] on librdkafka: records go out as they are made, their outcome is heard at a flush.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::config::KafkaConfig;
use super::error::{failed, failed_as, kind};
use super::ffi::{self, Client, Delivery, Failure, Topic, code};
use super::topics;
use super::wire::OffsetClient;
use crate::names;
use crate::ports::{
    Acknowledged, CommittedOffset, GroupMetadata, PortError, PortErrorKind, PortResult, Producer,
    ProducerOptions, TopicSlot,
};
use crate::producer_state::{self, ProducerState};
use crate::wire::{NewRecord, TopicPartition};

/// How long one call waits for the coordinator before it says so; the next call goes on waiting.
const INIT_WAIT: Duration = Duration::from_secs(5);

/// How long a flush looks away from losses and errors.
const FLUSH_SLICE: Duration = Duration::from_millis(20);

/// How long an abort waits for what was sent, at the most.
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// How long a full buffer is left alone before it is tried again.
const ROOM_SLICE: Duration = Duration::from_millis(1);

/// What a batch of one record takes besides key, value and headers, at the least.
const BATCH_OVERHEAD: usize = 68;

struct Target {
    topic: Topic,
    name: Arc<str>,
    partitions: i32,
    /// What a batch may hold; none when it is not known, or when compression decides.
    max_bytes: Option<usize>,
    /// Per partition: was it written since its offset was last told?
    written: Vec<bool>,
}

pub(super) struct KafkaProducer {
    targets: Vec<Target>,
    client: Arc<Client>,
    config: Arc<KafkaConfig>,
    transactional_id: Option<String>,
    state: ProducerState,
    /// Partitions whose offsets have to be told.
    written: Vec<(usize, i32)>,
    /// A request to end a transaction was sent twice, or a record was lost.
    tainted: bool,
    /// Commits offsets outside of transactions.
    offsets: OffsetClient,
}

impl KafkaProducer {
    pub(super) fn new(
        client: Arc<Client>,
        config: Arc<KafkaConfig>,
        options: &ProducerOptions,
    ) -> Self {
        let transactional_id = options.transactional_id.clone();
        let state = ProducerState::new(transactional_id.as_deref());
        Self {
            targets: Vec::new(),
            client,
            offsets: OffsetClient::new(&config, &options.client_id),
            config,
            transactional_id,
            state,
            written: Vec::new(),
            tainted: false,
        }
    }

    /// Fails unless the producer is in one of these states.
    fn expect(&self, attempt: &str, states: &[ProducerState]) -> PortResult<()> {
        self.state.expect(states, attempt, self.transactional_id.as_deref())
    }

    fn who(&self) -> String {
        producer_state::who(self.transactional_id.as_deref())
    }

    /// What a failed call means, for its caller and for the calls to come. `unknown`: it may have taken effect.
    fn heed(&mut self, attempt: &str, failure: Failure, unknown: bool) -> PortError {
        let fatal = self.client.fatal();
        let failure = self.client.explain(failure);
        let attempt = format!("{attempt} with {}", self.who());
        if fatal.is_some() || failure.fatal {
            self.state = ProducerState::Over;
            let failure = fatal.unwrap_or(failure);
            let kind = match kind(failure.code) {
                PortErrorKind::Fenced => PortErrorKind::Fenced,
                PortErrorKind::Fatal if is_authorization(failure.code) => PortErrorKind::Fatal,
                _ => PortErrorKind::Unknown,
            };
            return failed_as(kind, attempt, failure);
        }
        let kind = match kind(failure.code) {
            // The member is not current; the transactional id still is.
            PortErrorKind::Fenced if self.state == ProducerState::Open => PortErrorKind::Fenced,
            _ if failure.abort => PortErrorKind::Abortable,
            PortErrorKind::Retriable if unknown => PortErrorKind::Unknown,
            _ if failure.retriable && unknown => PortErrorKind::Unknown,
            _ if failure.retriable => PortErrorKind::Retriable,
            kind => kind,
        };
        match kind {
            PortErrorKind::Retriable => {}
            PortErrorKind::Unknown => self.state = ProducerState::Over,
            _ if self.state == ProducerState::Open => self.state = ProducerState::Failed,
            _ => {}
        }
        failed_as(kind, attempt, failure)
    }

    /// Waits until everything sent is stored; fails when something is lost.
    fn flush_all(&mut self) -> PortResult<()> {
        let mut until = None;
        while !self.client.flush(FLUSH_SLICE) {
            let now = Instant::now();
            // Records time out by themselves before; a socket that hangs may take as long again.
            let patience = self.config.delivery_timeout * 2;
            if now >= *until.get_or_insert(now + patience) {
                let failure = Failure { code: code::TIMED_OUT, ..silence(patience) };
                return Err(self.heed("flush", failure, true));
            }
        }
        if let Some(failure) = self.client.fatal() {
            return Err(self.heed("flush", failure, true));
        }
        match self.client.take_lost() {
            Some(lost) => Err(self.heed_loss(lost)),
            None if self.client.zero_refused() => {
                self.state = ProducerState::Over;
                Err(PortError::new(
                    PortErrorKind::Fatal,
                    "this build of librdkafka cannot send a record of timestamp 0",
                ))
            }
            None => Ok(()),
        }
    }

    fn heed_loss(&mut self, lost: Delivery) -> PortError {
        let Delivery { topic, partition, bytes, failure } = lost;
        if matches!(failure.code, code::PURGED_IN_QUEUE | code::PURGED_IN_FLIGHT)
            && let Some(cause) = self.given_up()
        {
            return cause;
        }
        let kind = match (self.state, kind(failure.code)) {
            // It would be refused again.
            (ProducerState::Open, PortErrorKind::Refused) => PortErrorKind::Refused,
            (ProducerState::Open | ProducerState::Failed, _) => PortErrorKind::Abortable,
            (_, PortErrorKind::Retriable) => PortErrorKind::Unknown,
            (_, kind) => kind,
        };
        // A refused record leaves a hole in the sequence of its partition, over which the next transaction would fall.
        self.tainted = true;
        // The record is gone: no later flush may say that all went well.
        self.state = match self.state {
            ProducerState::Open | ProducerState::Failed => ProducerState::Failed,
            _ => ProducerState::Over,
        };
        let mut what = format!("a record of {bytes} bytes for {topic}-{partition} was not stored");
        if matches!(failure.code, code::MESSAGE_TOO_LARGE | code::RECORD_LIST_TOO_LARGE) {
            what += ": it, or the batch that it was in, is larger than max.message.bytes of the topic allows; raise that, write smaller \
                     records, or set producer.batch.size to less";
        }
        PortError::new(kind, what).caused_by(failure)
    }

    /// Why librdkafka has given up the open transaction, and thrown away what was to be sent in it.
    fn given_up(&mut self) -> Option<PortError> {
        if self.state != ProducerState::Open {
            return None;
        }
        // It refuses to begin another one, and says why; nothing else comes of it.
        let cause = self.client.begin_transaction().err().filter(|failure| failure.abort)?;
        (self.tainted, self.state) = (true, ProducerState::Failed);
        let kind = match is_authorization(cause.code) {
            // It would be refused again.
            true => PortErrorKind::Fatal,
            false => PortErrorKind::Abortable,
        };
        let refused = self.client.take_refused().map_or(String::new(), |why| format!(" ({why})"));
        Some(failed_as(kind, format!("write with {}{refused}", self.who()), cause))
    }

    /// Tells the offsets of what was written since they were last told.
    fn take_acknowledged(&mut self) -> Acknowledged {
        let mut acknowledged = Acknowledged::new();
        for (index, partition) in self.written.drain(..) {
            let target = &mut self.targets[index];
            target.written[partition as usize] = false;
            // A record that was stored twice and told apart by its number has no offset.
            if let Some(next) = target.topic.take_acknowledged(partition) {
                acknowledged.insert(TopicPartition::new(Arc::clone(&target.name), partition), next);
            }
        }
        acknowledged
    }

    /// Sends a record for which there was no room, as soon as there is.
    #[cold]
    fn send_when_there_is_room(
        &mut self,
        index: usize,
        partition: i32,
        record: &NewRecord<'_>,
    ) -> Result<(), ffi::Code> {
        let until = Instant::now() + self.config.delivery_timeout * 2;
        loop {
            self.client.flush(ROOM_SLICE);
            match self.targets[index].topic.send(partition, record) {
                Err(code::QUEUE_FULL) if Instant::now() < until => {}
                sent => return sent,
            }
        }
    }

    #[cold]
    fn refuse(&self, topic: TopicSlot, partition: i32, bytes: usize) -> PortError {
        match self.targets.get(topic.0 as usize) {
            None => PortError::new(
                PortErrorKind::Refused,
                format!("slot {} is not one of this producer's topics", topic.0),
            ),
            Some(t) if !(0..t.partitions).contains(&partition) => {
                names::no_such_partition(&t.name, partition, t.partitions)
            }
            Some(t) => names::too_large(bytes, &t.name, partition, t.max_bytes.unwrap_or_default()),
        }
    }

    #[cold]
    fn send_failed(&mut self, index: usize, partition: i32, bytes: usize, error: i32) -> PortError {
        let name = Arc::clone(&self.targets[index].name);
        if error == code::MESSAGE_TOO_LARGE {
            return PortError::new(
                PortErrorKind::Refused,
                format!(
                    "a record of {bytes} bytes for {name}-{partition} is too large: \
                     max.request.size of the producer is {}",
                    self.config.max_request_size()
                ),
            );
        }
        // librdkafka has seen the transaction fail before we asked.
        let abort = error == code::STATE && self.state == ProducerState::Open;
        let text = ffi::describe(error);
        let failure = Failure { code: error, text, fatal: false, retriable: false, abort };
        self.heed(&format!("send to {name}-{partition}"), failure, false)
    }

    fn end(&mut self, commit: bool) -> PortResult<()> {
        let (attempt, timeout) =
            (if commit { "commit" } else { "abort" }, self.config.request_timeout);
        let before = self.client.ends_sent();
        let ended = if commit {
            self.client.commit_transaction(timeout)
        } else {
            self.client.abort_transaction(timeout)
        };
        self.tainted |= self.client.ends_sent().wrapping_sub(before) > 1;
        match ended {
            Ok(()) => {
                self.state = ProducerState::Ready;
                Ok(())
            }
            Err(failure) => Err(self.heed(attempt, failure, true)),
        }
    }

    /// Lets what was sent arrive before it is aborted. Without that, the coordinator may hear of the end of a transaction of which
    /// it has not heard yet, and refuses it, which ends the producer.
    fn settle(&mut self) {
        let until = Instant::now() + SETTLE_MAX.min(self.config.request_timeout);
        while !self.client.flush(FLUSH_SLICE) && self.client.fatal().is_none() {
            if self.client.take_lost().is_some() || Instant::now() >= until {
                return;
            }
        }
    }

    fn max_bytes(&self, topic: &str) -> PortResult<Option<usize>> {
        if self.config.compresses() {
            return Ok(None);
        }
        let timeout = topics::patience(self.config.request_timeout);
        // Who may write may not have the right to ask; then the broker refuses what is too large.
        let settings = topics::settings(&self.client, &[topic], timeout).unwrap_or_default();
        let limit = settings.get(topic).and_then(|known| known.get("max.message.bytes"));
        let Some(limit) = limit.and_then(|text| text.parse::<usize>().ok()) else {
            return Ok(None);
        };
        let batch = self.config.batch_size();
        if limit < batch {
            return Err(PortError::new(
                PortErrorKind::Refused,
                format!(
                    "max.message.bytes of topic {topic:?} is {limit}, and a batch may have {batch} \
                     bytes: set producer.batch.size to {limit} or less, or raise the topic's limit"
                ),
            ));
        }
        Ok(Some(limit))
    }
}

/// Nothing was heard for too long.
fn silence(waited: Duration) -> Failure {
    let text = format!("no answer within {} s", waited.as_secs());
    Failure { code: code::TIMED_OUT, text, fatal: false, retriable: true, abort: false }
}

const fn is_authorization(code: ffi::Code) -> bool {
    matches!(
        code,
        code::TOPIC_AUTHORIZATION
            | code::GROUP_AUTHORIZATION
            | code::CLUSTER_AUTHORIZATION
            | code::TRANSACTIONAL_ID_AUTHORIZATION
    )
}

impl Producer for KafkaProducer {
    fn init_transactions(&mut self) -> PortResult<()> {
        self.expect("initialize transactions", &[ProducerState::New])?;
        let wait = INIT_WAIT.min(self.config.request_timeout);
        match self.client.init_transactions(wait) {
            Ok(()) => {
                self.client.hear(Duration::ZERO);
                self.client.hiccup().store(false, Ordering::SeqCst);
                self.state = ProducerState::Ready;
                Ok(())
            }
            Err(failure) => Err(self.heed("initialize transactions", failure, false)),
        }
    }

    fn begin(&mut self) -> PortResult<()> {
        self.expect("begin a transaction", &[ProducerState::Ready])?;
        self.client.hear(Duration::ZERO);
        self.take_acknowledged();
        self.client.take_lost();
        match self.client.begin_transaction() {
            Ok(()) => {
                self.state = ProducerState::Open;
                Ok(())
            }
            Err(failure) => Err(self.heed("begin a transaction", failure, false)),
        }
    }

    fn topic(&mut self, name: &str) -> PortResult<(TopicSlot, i32)> {
        if let Some(at) = self.targets.iter().position(|t| &*t.name == name) {
            return Ok((TopicSlot(at as u32), self.targets[at].partitions));
        }
        let timeout = topics::patience(self.config.request_timeout);
        let found = topics::describe(&self.client, &[name], timeout)?.pop();
        let Some(found) = found else {
            return Err(topics::unknown(&self.client, name, timeout));
        };
        let max_bytes = self.max_bytes(name)?;
        let topic = Topic::new(&self.client, name, found.partitions)
            .map_err(|f| failed(format!("write to topic {name:?}"), f))?;
        self.targets.push(Target {
            topic,
            name: name.into(),
            partitions: found.partitions,
            max_bytes,
            written: vec![false; found.partitions as usize],
        });
        Ok((TopicSlot(self.targets.len() as u32 - 1), found.partitions))
    }

    fn send(&mut self, topic: TopicSlot, partition: i32, record: &NewRecord<'_>) -> PortResult<()> {
        if !matches!(self.state, ProducerState::Open | ProducerState::Plain) {
            self.expect("send a record", &[ProducerState::Open, ProducerState::Plain])?;
        }
        let bytes = record.payload_len();
        let index = topic.0 as usize;
        let target = self.targets.get_mut(index).filter(|t| {
            (0..t.partitions).contains(&partition)
                && t.max_bytes.is_none_or(|max| bytes + BATCH_OVERHEAD <= max)
        });
        let Some(target) = target else {
            return Err(self.refuse(topic, partition, bytes));
        };
        let written = &mut target.written[partition as usize];
        if !*written {
            *written = true;
            self.written.push((index, partition));
        }
        let sent = match target.topic.send(partition, record) {
            Err(code::QUEUE_FULL) => self.send_when_there_is_room(index, partition, record),
            sent => sent,
        };
        sent.map_err(|error| self.send_failed(index, partition, bytes, error))
    }

    fn flush(&mut self) -> PortResult<Acknowledged> {
        self.expect("flush", &[ProducerState::Open, ProducerState::Plain])?;
        self.flush_all()?;
        match self.state {
            ProducerState::Plain => Ok(self.take_acknowledged()),
            _ => Ok(Acknowledged::new()),
        }
    }

    fn send_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        self.expect("send offsets", &[ProducerState::Open])?;
        if offsets.is_empty() {
            return Ok(());
        }
        let offsets =
            offsets.iter().map(|(tp, c)| (&*tp.topic, tp.partition, c.offset, &*c.metadata));
        let who = (&*group.group, group.generation, &*group.member);
        let sent = self.client.send_offsets(offsets, who, self.config.request_timeout);
        sent.map_err(|f| self.heed(&format!("send offsets of group {:?}", group.group), f, true))
    }

    fn commit(&mut self) -> PortResult<Acknowledged> {
        self.expect("commit", &[ProducerState::Open])?;
        self.flush_all()?;
        self.end(true)?;
        Ok(self.take_acknowledged())
    }

    fn abort(&mut self) -> PortResult<()> {
        self.expect("abort", &[ProducerState::Open, ProducerState::Failed])?;
        if self.state == ProducerState::Open {
            self.settle();
        }
        self.end(false)?;
        self.client.hear(Duration::ZERO);
        self.take_acknowledged();
        self.client.take_lost();
        Ok(())
    }

    fn commit_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        self.offsets.commit(offsets, group)
    }

    fn is_tainted(&mut self) -> bool {
        self.client.hear(Duration::ZERO);
        self.tainted || self.client.hiccup().load(Ordering::SeqCst)
    }
}
