//! Dead letters: source records that could not be decoded, processed or sent, on a topic of their own, in the format of Kafka
//! Streams: key and value as they were read, and headers that say what went wrong, and where.
//!
//! They are sent inside the open transaction: a dead letter and the offset behind its record are committed together.

use std::error::Error;
use std::sync::Arc;

use thalweg_connectors::{NewRecord, RecordRef, Timestamp, partition_for};

use crate::collector::{Collector, ResolvedTopic};
use crate::config::TaskConfig;
use crate::context::Shared;
use crate::error::{NodeResult, TaskError};

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

    /// Sends the source record under way to the topic of dead letters, if there is one.
    #[cold]
    pub(crate) fn send_dead_letter(
        &self,
        output: &mut Collector,
        failure: Failure,
        error: &(dyn Error + 'static),
    ) -> NodeResult {
        let Some(letters) = &self.dead_letters else { return Ok(()) };
        let DeadLetters { topic, raw } = &**letters;
        if self.config.output_from.is_some_and(|from| self.timestamp < from) {
            return Ok(());
        }
        let (message, trace) = (error.to_string(), trace(error));
        let source = self.origin.as_ref();
        let partition = source.map_or(-1, |tp| tp.partition).to_string();
        let offset = source.map_or(-1, |_| self.offset.0).to_string();
        let told: [(&str, Option<&str>); 6] = [
            ("__streams.errors.exception", Some(failure.name())),
            ("__streams.errors.message", Some(&message)),
            ("__streams.errors.stacktrace", Some(&trace)),
            ("__streams.errors.topic", source.map(|tp| &*tp.topic)),
            ("__streams.errors.partition", Some(&partition)),
            ("__streams.errors.offset", Some(&offset)),
        ];
        let told = told.iter().map(|(name, value)| (*name, value.map(str::as_bytes)));
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
        output.send(topic.slot, partition, &record)
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
