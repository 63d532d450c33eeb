//! The typed ends of a test: records in, records out.

use std::marker::PhantomData;

use thalweg_connectors::{
    Field, Headers, NewRecord, PortError, PortErrorKind, SerdeError, Timestamp, Topic,
    partition_for,
};

use super::TestDriver;
use super::log::{SentRecord, SharedLog, lock};
use crate::error::TaskError;
use crate::record::Record;

/// Puts records on one topic: [`TestDriver::input`].
pub struct TestInput<'d, K, V> {
    driver: &'d mut TestDriver,
    topic: Topic<K, V>,
    partition: Option<i32>,
}

impl<'d, K: 'static, V: 'static> TestInput<'d, K, V> {
    pub(super) fn new(driver: &'d mut TestDriver, topic: Topic<K, V>) -> Self {
        Self { driver, topic, partition: None }
    }

    /// Sends what follows to this partition; without it the key decides, as with Kafka's default partitioner, and records
    /// without a key go to partition 0.
    #[must_use]
    pub fn partition(mut self, partition: i32) -> Self {
        self.partition = Some(partition);
        self
    }

    /// Puts a record on the topic and lets the topology handle it to the very end.
    ///
    /// # Errors
    /// Whatever the topology reports; a topic that it does not read.
    pub fn pipe(
        &mut self,
        key: impl Into<K>,
        value: impl Into<V>,
        timestamp: impl Into<Timestamp>,
    ) -> Result<&mut Self, TaskError> {
        self.pipe_record(&Record::new(key.into(), value.into(), timestamp))
    }

    /// As [`pipe`](Self::pipe), with headers.
    ///
    /// # Errors
    /// As for [`pipe`](Self::pipe).
    pub fn pipe_record(&mut self, record: &Record<K, V>) -> Result<&mut Self, TaskError> {
        let serde = self.topic.key_serde();
        let key = self.bytes("key", |out| serde.write(&record.key, out))?;
        let value =
            self.bytes("value", |out| self.topic.value_serde().write(&record.value, out))?;
        let partition = self.partition.unwrap_or_else(|| {
            let partitions = self.driver.partitions_of(self.topic.name()).unwrap_or(1);
            key.as_deref().map_or(0, |key| partition_for(serde.partition_key(key), partitions))
        });
        let raw = NewRecord {
            key: key.as_deref(),
            value: value.as_deref(),
            timestamp: record.timestamp,
            headers: record.headers.as_ref(),
        };
        let name = self.topic.name().clone();
        self.driver.pipe_raw(&name, partition, &raw)?;
        Ok(self)
    }

    fn bytes(
        &self,
        field: &str,
        write: impl FnOnce(&mut Vec<u8>) -> Result<Field, SerdeError>,
    ) -> Result<Option<Vec<u8>>, TaskError> {
        let mut out = Vec::new();
        match write(&mut out) {
            Ok(Field::Bytes) => Ok(Some(out)),
            Ok(Field::Null) => Ok(None),
            Err(e) => {
                let message =
                    format!("cannot write the {field} of a test record for {:?}", self.topic);
                let error = PortError::new(PortErrorKind::Refused, message);
                Err(error.caused_by(e).into())
            }
        }
    }
}

/// Reads one topic from its first record on: [`TestDriver::output`]. It may live as long as the test likes; records that the
/// topology sends later are seen by later reads.
pub struct TestOutput<K, V> {
    log: SharedLog,
    topic: Topic<K, V>,
    next: usize,
    types: PhantomData<fn() -> (K, V)>,
}

impl<K: 'static, V: 'static> TestOutput<K, V> {
    pub(super) fn new(log: SharedLog, topic: Topic<K, V>) -> Self {
        Self { log, topic, next: 0, types: PhantomData }
    }

    /// The next record; `None` when there is none yet. A record that cannot be read is passed.
    ///
    /// # Errors
    /// When key or value is not of the topic's types: a tombstone, say, where the value is not an `Option`.
    pub fn read_record(&mut self) -> Result<Option<Record<K, V>>, SerdeError> {
        let log = lock(&self.log);
        let Some(sent) = log.visible(self.topic.name()).get(self.next) else {
            return Ok(None);
        };
        self.next += 1;
        decode(&self.topic, sent).map(Some)
    }

    /// All records from here on.
    ///
    /// # Errors
    /// As for [`read_record`](Self::read_record).
    pub fn read_all(&mut self) -> Result<Vec<Record<K, V>>, SerdeError> {
        let mut records = Vec::new();
        while let Some(record) = self.read_record()? {
            records.push(record);
        }
        Ok(records)
    }

    /// All records from here on, as keys and values: what most tests compare.
    ///
    /// # Errors
    /// As for [`read_record`](Self::read_record).
    pub fn read_pairs(&mut self) -> Result<Vec<(K, V)>, SerdeError> {
        let records = self.read_all()?;
        Ok(records.into_iter().map(|r| (r.key, r.value)).collect())
    }

    /// How many records wait to be read.
    pub fn waiting(&self) -> usize {
        let held = lock(&self.log).visible(self.topic.name()).len();
        held.saturating_sub(self.next)
    }

    /// Is nothing left to read? The usual last line of a test.
    pub fn is_empty(&self) -> bool {
        self.waiting() == 0
    }
}

fn decode<K: 'static, V: 'static>(
    topic: &Topic<K, V>,
    sent: &SentRecord,
) -> Result<Record<K, V>, SerdeError> {
    Ok(Record {
        key: topic.key_serde().read(sent.key.as_deref())?,
        value: topic.value_serde().read(sent.value.as_deref())?,
        timestamp: sent.timestamp,
        headers: Headers::clone(&sent.headers),
    })
}
