//! Reads what is committed, to the end that is there when the reading begins.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{
    Backend, ConsumerOptions, Fetched, Headers, Isolation, Offset, RecordRef, SerdeError,
    Timestamp, Topic, TopicPartition,
};

use super::FeedError;

const POLL_TIMEOUT: Duration = Duration::from_millis(100);
const POLL_RECORDS: usize = 10_000;

/// A record that was read.
#[derive(Clone, PartialEq, Debug)]
#[non_exhaustive]
pub struct Received<K, V> {
    /// The partition it lies in.
    pub partition: i32,
    /// Its offset.
    pub offset: Offset,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Its headers.
    pub headers: Headers,
    /// Its key.
    pub key: K,
    /// Its value.
    pub value: V,
}

/// Reads all committed records of a topic: partition by partition, each in the order of its offsets.
///
/// # Errors
/// When the topic is not there, a record cannot be decoded, or the backend fails.
pub fn read_all<K: 'static, V: 'static>(
    backend: &dyn Backend,
    topic: &Topic<K, V>,
) -> Result<Vec<Received<K, V>>, FeedError> {
    let mut all = Vec::new();
    read_committed(backend, topic.name(), |partition, record| {
        let at = |field| decode_error(field, topic.name(), partition, record.offset);
        all.push(Received {
            partition,
            offset: record.offset,
            timestamp: record.timestamp,
            headers: record.headers.to_owned(),
            key: topic.key_serde().read(record.key).map_err(at("key"))?,
            value: topic.value_serde().read(record.value).map_err(at("value"))?,
        });
        Ok(())
    })?;
    all.sort_by_key(|r| (r.partition, r.offset));
    Ok(all)
}

/// Reads the latest committed value of every key of a topic, in the order of the keys' bytes. A key whose latest value is null
/// is left out. Records with a null key are one row, the first.
///
/// # Errors
/// When the topic is not there, a record cannot be decoded, or the backend fails.
pub fn read_table<K: 'static, V: 'static>(
    backend: &dyn Backend,
    topic: &Topic<K, V>,
) -> Result<Vec<(K, V)>, FeedError> {
    struct Latest {
        value: Vec<u8>,
        partition: i32,
        offset: Offset,
    }
    let mut of_null: Option<Latest> = None;
    let mut of_keys: HashMap<Box<[u8]>, Latest> = HashMap::new();
    read_committed(backend, topic.name(), |partition, record| {
        let there = match record.key {
            Some(key) => of_keys.get_mut(key),
            None => of_null.as_mut(),
        };
        match (record.value, there, record.key) {
            (None, _, Some(key)) => {
                of_keys.remove(key);
            }
            (None, _, None) => of_null = None,
            (Some(value), Some(there), _) => {
                there.value.clear();
                there.value.extend_from_slice(value);
                (there.partition, there.offset) = (partition, record.offset);
            }
            (Some(value), None, key) => {
                let row = Latest { value: value.to_vec(), partition, offset: record.offset };
                match key {
                    Some(key) => {
                        of_keys.insert(key.into(), row);
                    }
                    None => of_null = Some(row),
                }
            }
        }
        Ok(())
    })?;
    let mut rows: Vec<_> = of_keys.into_iter().map(|(key, row)| (Some(key), row)).collect();
    rows.extend(of_null.map(|row| (None, row)));
    rows.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    rows.into_iter()
        .map(|(key, row)| {
            let at = |field| decode_error(field, topic.name(), row.partition, row.offset);
            Ok((
                topic.key_serde().read(key.as_deref()).map_err(at("key"))?,
                topic.value_serde().read(Some(&row.value)).map_err(at("value"))?,
            ))
        })
        .collect()
}

fn decode_error(
    field: &'static str,
    topic: &Arc<str>,
    partition: i32,
    offset: Offset,
) -> impl FnOnce(SerdeError) -> FeedError {
    let partition = TopicPartition::new(Arc::clone(topic), partition);
    move |source| FeedError::Decode { field, partition, offset: offset.0, source }
}

fn read_committed(
    backend: &dyn Backend,
    topic: &Arc<str>,
    mut each: impl FnMut(i32, RecordRef<'_>) -> Result<(), FeedError>,
) -> Result<(), FeedError> {
    let error = FeedError::port("read", topic);
    let described =
        backend.admin().and_then(|mut admin| admin.describe(&[topic])).map_err(&error)?;
    let Some(info) = described.get(&**topic) else {
        return Err(FeedError::NoTopic { topic: topic.to_string() });
    };
    let options = ConsumerOptions {
        isolation: Isolation::ReadCommitted,
        client_id: "thalweg-read".to_owned(),
    };
    let mut consumer = backend.consumer(&options).map_err(&error)?;
    let partitions: Vec<_> =
        (0..info.partitions).map(|p| TopicPartition::new(Arc::clone(topic), p)).collect();
    let mut ends = consumer.end_offsets(&partitions, Isolation::ReadCommitted).map_err(&error)?;
    let starts = consumer.beginning_offsets(&partitions).map_err(&error)?;
    ends.retain(|tp, end| starts[tp] < *end);
    let assignment: Vec<_> = ends.keys().map(|tp| (tp.clone(), starts[tp])).collect();
    consumer.assign(&assignment).map_err(&error)?;
    let mut fetched: Vec<Fetched> = Vec::new();
    while !ends.is_empty() {
        consumer.poll(POLL_TIMEOUT, POLL_RECORDS, &mut fetched).map_err(&error)?;
        for run in fetched.drain(..) {
            let Some(end) = ends.get(&run.partition).copied() else {
                continue;
            };
            let records = (0..run.records.len()).map(|i| run.records.get(i));
            for record in records.take_while(|r| r.offset < end) {
                each(run.partition.partition, record)?;
            }
            if run.next >= end {
                ends.remove(&run.partition);
                consumer.unassign(&[run.partition]).map_err(&error)?;
            }
        }
    }
    Ok(())
}
