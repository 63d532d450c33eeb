//! Opening a log: what is stored becomes what is kept in memory.

use std::sync::Arc;

use super::engine::State;
use super::format::{self, StoredTopic};
use super::partition::Partition;
use super::storage::{Changes, Family, Scan, Storage, Write};
use crate::local::fresh_id;
use crate::ports::{NewTopic, PortError, PortErrorKind, PortResult};
use crate::wire::Timestamp;

/// A topic's identity: no other topic of this log or another one has it.
pub(super) fn topic_id(identity: &str, number: u32) -> String {
    format!("{identity}-{number}")
}

/// Reads the state of a log, and its identity. A new log gets one.
pub(super) fn recover(storage: &dyn Storage, place: &str) -> PortResult<(State, String)> {
    let corrupt = |what: &str| {
        PortError::new(
            PortErrorKind::Corrupt,
            format!(
                "the log {place:?} has an unreadable {what}; restore the directory from a copy"
            ),
        )
    };
    let Some(version) = storage.get(Family::Meta, format::VERSION_KEY)? else {
        return found(storage);
    };
    match format::version_of(&version) {
        Some(format::VERSION) => {}
        Some(newer) if newer > format::VERSION => {
            return Err(PortError::new(
                PortErrorKind::Unsupported,
                format!(
                    "the log {place:?} has format {newer}, this build reads up to {}: use the newer build",
                    format::VERSION
                ),
            ));
        }
        _ => return Err(corrupt("format version")),
    }
    let identity = storage.get(Family::Meta, format::IDENTITY_KEY)?;
    let identity = identity.and_then(|i| format::text_of(&i));
    let identity = identity.ok_or_else(|| corrupt("identity"))?;

    let mut state = State::default();
    let last = storage.get(Family::Meta, format::LAST_TOPIC_KEY)?;
    let last = last.map_or(Some(0), |value| format::number_of(&value));
    state.last_topic = last.ok_or_else(|| corrupt("topic number"))?;

    let (from, to) = ([format::TOPIC_PREFIX], [format::TOPIC_PREFIX + 1]);
    let mut topics = Vec::new();
    storage.scan(Family::Meta, &from, &to, &mut |key, value| {
        let topic = format::name_of(key).zip(format::topic_of(value));
        let (name, topic) = topic.ok_or_else(|| corrupt("topic"))?;
        topics.push((name.to_owned(), topic));
        Ok(Scan::Next)
    })?;
    for (name, topic) in topics {
        let partitions = i32::try_from(topic.partitions).unwrap_or(0);
        let partition = |p| recover_partition(storage, topic.number, p);
        let partitions: PortResult<Option<Vec<_>>> = (0..partitions).map(partition).collect();
        let partitions = partitions?.filter(|p| !p.is_empty());
        let partitions = partitions.ok_or_else(|| corrupt(&format!("end of topic {name:?}")))?;
        insert(&mut state, name, topic, &identity, partitions)?;
    }

    let (from, to) = ([format::PRODUCER_PREFIX], [format::PRODUCER_PREFIX + 1]);
    storage.scan(Family::Meta, &from, &to, &mut |key, value| {
        let marker = format::name_of(key).zip(format::marker_of(value));
        let (id, (epoch, committed)) = marker.ok_or_else(|| corrupt("transaction marker"))?;
        state.coordinator.restore_epoch(id, epoch);
        state.markers.insert(Arc::from(id), committed);
        Ok(Scan::Next)
    })?;
    storage.scan(Family::Offsets, &[], &[0xff; 4], &mut |key, value| {
        let offset = format::group_of(key).zip(format::committed_of(value));
        let ((group, tp), offset) = offset.ok_or_else(|| corrupt("committed offset"))?;
        state.coordinator.restore_offset(group, tp, offset);
        Ok(Scan::Next)
    })?;
    Ok((state, identity))
}

/// Founds a new log.
fn found(storage: &dyn Storage) -> PortResult<(State, String)> {
    let identity = fresh_id();
    let mut changes = Changes::default();
    let version = format::VERSION.to_be_bytes().to_vec();
    changes.put(Family::Meta, format::VERSION_KEY.to_vec(), version);
    let bytes = format::plain_value(identity.as_bytes());
    changes.put(Family::Meta, format::IDENTITY_KEY.to_vec(), bytes);
    storage.write(changes, Write::Sync)?;
    Ok((State::default(), identity))
}

/// Reads what is kept of a partition; nothing when it is unreadable.
fn recover_partition(
    storage: &dyn Storage,
    topic: u32,
    number: i32,
) -> PortResult<Option<Partition>> {
    let mut partition = Partition::new(topic);
    let end = storage.get(Family::Meta, &format::end_key(topic, number))?;
    let start = storage.get(Family::Meta, &format::start_key(topic, number))?;
    let read =
        |value: Option<Vec<u8>>| value.map_or(Some(Default::default()), |v| format::offset_of(&v));
    let (Some(start), Some(end)) = (read(start), read(end)) else {
        return Ok(None);
    };
    (partition.start, partition.end) = (start, end);
    let last = format::time_key(topic, number, Timestamp(i64::MAX));
    let last = storage.seek_back(Family::Times, &last)?;
    let last = last.filter(|(key, _)| format::is_of(key, topic, number));
    if let Some(highest) = last.and_then(|(key, _)| format::time_of(&key)) {
        partition.highest = highest;
    }
    Ok((start <= end).then_some(partition))
}

fn insert(
    state: &mut State,
    name: String,
    topic: StoredTopic,
    identity: &str,
    partitions: Vec<Partition>,
) -> PortResult<()> {
    let id = topic_id(identity, topic.number);
    let topic = NewTopic { name, partitions: partitions.len() as i32, config: topic.config };
    state.catalog.insert(&topic, id, partitions)
}
