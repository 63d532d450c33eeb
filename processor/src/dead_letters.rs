//! Dead letters: source records that could not be decoded, processed or sent, on a topic of their own, in the format of Kafka
//! Streams: key and value as they were read, and headers that say what went wrong, and where.
//!
//! They are sent inside the open transaction: a dead letter and the offset behind its record are committed together.

use std::error::Error;
use std::mem;
use std::sync::Arc;

use thalweg_connectors::{NewRecord, RecordRef, Timestamp, partition_for};

use crate::collector::{Collector, ResolvedTopic};
use crate::config::TaskConfig;
use crate::context::Shared;
use crate::error::{BoxError, NodeError, NodeErrorKind, NodeResult, TaskError};

const STACK_TRACE: &str = "__streams.errors.stacktrace";

/// Why a record became a dead letter: the value of `__streams.errors.exception`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    Deserialization,
    Processing,
    Production,
}

impl Failure {
    fn name(self) -> &'static str {
        match self {
            Self::Deserialization => "thalweg.DeserializationError",
            Self::Processing => "thalweg.ProcessingError",
            Self::Production => "thalweg.ProductionError",
        }
    }
}

/// A source record's bytes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct RawRecord {
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
}

impl RawRecord {
    fn set(&mut self, key: Option<&[u8]>, value: Option<&[u8]>) {
        replace(&mut self.key, key);
        replace(&mut self.value, value);
    }

    /// Takes over what another holds, into the memory that is there.
    pub(crate) fn copy(&mut self, other: &Self) {
        self.set(other.key.as_deref(), other.value.as_deref());
    }
}

/// The bytes of a source record, noted with [`Context::note_source`](crate::Context::note_source) beside a record that a node keeps
/// back, so that a dead letter behind [`Context::forward_from`](crate::Context::forward_from) has them. Empty at first, and for a
/// record that came back with the state after a restart: its dead letter has neither key nor value, as in Kafka Streams.
#[derive(Debug, Default)]
pub struct SourceBytes(Option<Box<RawRecord>>);

impl SourceBytes {
    /// Takes over the bytes of the record under way, into the memory that is there.
    pub(crate) fn note(&mut self, letters: Option<&DeadLetters>) {
        if let Some(letters) = letters {
            self.0.get_or_insert_default().copy(&letters.raw);
        }
    }
}

fn replace(old: &mut Option<Vec<u8>>, new: Option<&[u8]>) {
    match (old, new) {
        (Some(old), Some(new)) => {
            old.clear();
            old.extend_from_slice(new);
        }
        (old, new) => *old = new.map(<[u8]>::to_vec),
    }
}

/// Where dead letters of a task go, and the bytes of the record under way.
#[derive(Debug)]
pub(crate) struct DeadLetters {
    topic: ResolvedTopic,
    pub(crate) raw: RawRecord,
}

impl DeadLetters {
    /// Those that the configuration asks for.
    pub(crate) fn of(
        config: &TaskConfig,
        output: &mut Collector,
    ) -> Result<Option<Box<Self>>, TaskError> {
        let Some(name) = &config.dead_letter_topic else { return Ok(None) };
        let name: Arc<str> = format!("{name}{}", config.output_suffix).into();
        let topic = output.topic(&name)?;
        Ok(Some(Box::new(Self { topic, raw: RawRecord::default() })))
    }
}

impl Shared {
    /// Keeps the bytes of the record under way, if somebody may want them.
    #[inline(always)]
    pub(crate) fn keep_raw(&mut self, record: &RecordRef<'_>) {
        if let Some(letters) = &mut self.dead_letters {
            letters.raw.set(record.key, record.value);
        }
    }

    /// Makes these the bytes of the source record under way; none in a punctuation.
    pub(crate) fn set_raw(&mut self, raw: Option<&RawRecord>) {
        if let Some(letters) = &mut self.dead_letters {
            match raw {
                Some(raw) => letters.raw.copy(raw),
                None => letters.raw.set(None, None),
            }
        }
    }

    /// Exchanges the bytes of the source record under way for those that were noted; none were: for none.
    pub(crate) fn swap_raw(&mut self, noted: &mut SourceBytes) {
        if let Some(letters) = &mut self.dead_letters {
            mem::swap(&mut letters.raw, noted.0.get_or_insert_default());
        }
    }

    /// Sends the source record under way to the topic of dead letters, if there is one. A letter that the topic refuses, too large as
    /// it may be, goes without its stack trace; one that is refused even so is logged and lost, and the handler's word holds.
    #[cold]
    pub(crate) fn send_dead_letter(
        &self,
        output: &mut Collector,
        node: &Arc<str>,
        failure: Failure,
        error: &(dyn Error + 'static),
    ) -> NodeResult {
        let Some(letters) = &self.dead_letters else { return Ok(()) };
        if self.config.output_from.is_some_and(|from| self.timestamp < from) {
            return Ok(());
        }
        let (message, trace) = (error.to_string(), trace(error));
        let told = [failure.name(), &message];
        let Some(_) = self.send_letter(output, letters, told, Some(&trace))? else { return Ok(()) };
        let Some(refused) = self.send_letter(output, letters, told, None)? else { return Ok(()) };
        self.log_lost_letter(&mut output.drops, node, &refused);
        Ok(())
    }

    /// Sends a letter; tells why its topic refuses it.
    fn send_letter(
        &self,
        output: &mut Collector,
        DeadLetters { topic, raw }: &DeadLetters,
        [failure, message]: [&str; 2],
        trace: Option<&str>,
    ) -> NodeResult<Option<BoxError>> {
        let source = self.origin.as_ref();
        let partition = source.map_or(-1, |tp| tp.partition).to_string();
        let offset = source.map_or(-1, |_| self.offset.0).to_string();
        let told: [(&str, Option<&str>); 6] = [
            ("__streams.errors.exception", Some(failure)),
            ("__streams.errors.message", Some(message)),
            (STACK_TRACE, trace),
            ("__streams.errors.topic", source.map(|tp| &*tp.topic)),
            ("__streams.errors.partition", Some(&partition)),
            ("__streams.errors.offset", Some(&offset)),
        ];
        let told = told.iter().filter(|told| trace.is_some() || told.0 != STACK_TRACE);
        let told = told.map(|(name, value)| (*name, value.map(str::as_bytes)));
        let headers = thalweg_connectors::Headers::collect(self.headers.iter().chain(told));
        let key = raw.key.as_deref();
        let record = NewRecord {
            key,
            value: raw.value.as_deref(),
            timestamp: self.timestamp.max(Timestamp(0)),
            headers: headers.as_ref(),
        };
        let partition = match key {
            Some(key) => partition_for(key, topic.partitions),
            None => self.task.partition % topic.partitions,
        };
        let sent = output.send_output(topic.slot, partition, &record);
        match sent.map_err(NodeError::into_kind) {
            Ok(()) => Ok(None),
            Err(NodeErrorKind::User(refused) | NodeErrorKind::Answered(refused)) => {
                Ok(Some(refused))
            }
            Err(NodeErrorKind::Failed(error)) => Err(NodeError::failed(error)),
        }
    }
}

/// An error and what caused it, a line each.
fn trace(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}\ncaused by: {error}");
        cause = error.source();
    }
    text
}
