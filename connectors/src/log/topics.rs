//! Making, deleting and emptying topics.

use std::collections::BTreeMap;

use super::engine::LogEngine;
use super::partition::Partition;
use super::storage::{Changes, Family, Scan};
use super::{format, recover};
use crate::local::{Bounds, Existing, lock};
use crate::ports::{NewTopic, PortResult};
use crate::wire::{Offset, Timestamp, TopicPartition};

impl LogEngine {
    pub(super) fn create_topics(&self, topics: &[NewTopic]) -> PortResult<()> {
        drop(self.state());
        let _writing = lock(&self.writing);
        for topic in topics {
            let mut state = lock(&self.state);
            if state.catalog.check_new(topic)? == Existing::Yes {
                continue;
            }
            let number = state.last_topic + 1;
            let mut changes = Changes::default();
            let stored = format::StoredTopic {
                number,
                partitions: topic.partitions as u32,
                config: topic.config.clone(),
            };
            let key = format::named(format::TOPIC_PREFIX, &topic.name);
            changes.put(Family::Meta, key, format::topic_value(&stored));
            let last = format::plain_value(&number.to_be_bytes());
            changes.put(Family::Meta, format::LAST_TOPIC_KEY.to_vec(), last);
            self.store(changes)?;
            state.last_topic = number;
            let partitions = (0..topic.partitions).map(|_| Partition::new(number));
            let id = recover::topic_id(&self.identity, number);
            state.catalog.insert(topic, id, partitions.collect())?;
        }
        Ok(())
    }

    pub(super) fn delete_topics(&self, topics: &[&str]) -> PortResult<()> {
        drop(self.state());
        let writing = lock(&self.writing);
        for name in topics {
            let mut state = lock(&self.state);
            let Ok((_, topic)) = state.catalog.get(name) else {
                continue;
            };
            let number = topic.partitions[0].topic;
            let mut changes = Changes::default();
            changes.delete(Family::Meta, format::named(format::TOPIC_PREFIX, name));
            for partition in 0..topic.partitions.len() as i32 {
                changes.delete(Family::Meta, format::end_key(number, partition));
                changes.delete(Family::Meta, format::start_key(number, partition));
            }
            for (group, tp) in state.coordinator.offsets_of(name) {
                changes.delete(Family::Offsets, format::group_key(&group, &tp));
            }
            for family in [Family::Records, Family::Times] {
                let (from, to) = format::topic_range(number);
                changes.delete_range(family, from, to);
            }
            self.store(changes)?;
            state.catalog.remove(name);
            state.coordinator.forget_topic(name);
        }
        drop(writing);
        self.shared.signal.arrived();
        Ok(())
    }

    pub(super) fn delete_before(
        &self,
        before: &BTreeMap<TopicPartition, Offset>,
    ) -> PortResult<()> {
        drop(self.state());
        let _writing = lock(&self.writing);
        let mut changes = Changes::default();
        let mut starts = Vec::new();
        for (tp, before) in before {
            let partition = {
                let state = lock(&self.state);
                let partition = state.catalog.partition(tp)?;
                let mut bounds = partition.bounds();
                bounds.check_delete(tp, *before)?;
                bounds.start = bounds.start.max(*before);
                (partition.topic, bounds)
            };
            let start = partition.1.start;
            let key = format::start_key(partition.0, tp.partition);
            changes.put(Family::Meta, key, format::offset_value(start));
            self.trim(tp, partition, &mut changes)?;
            starts.push((tp, start));
        }
        self.store(changes)?;
        let mut state = lock(&self.state);
        for (tp, start) in starts {
            state.catalog.partition_mut(tp)?.0.start = start;
        }
        Ok(())
    }

    /// Entries that go when records before `start` do.
    fn trim(
        &self,
        tp: &TopicPartition,
        partition: (u32, Bounds),
        changes: &mut Changes,
    ) -> PortResult<()> {
        let (topic, bounds) = partition;
        let from = format::run_key(topic, tp.partition, Offset(0));
        let start = format::run_key(topic, tp.partition, bounds.start);
        let kept = if bounds.start == bounds.end {
            start
        } else {
            let found = self.storage.seek_back(Family::Records, &start)?;
            let found = found.filter(|(key, _)| format::is_of(key, topic, tp.partition));
            found.map_or(from.clone(), |(key, _)| key)
        };
        let base = format::base_of(&kept).unwrap_or_default();
        if base > Offset(0) {
            changes.delete_range(Family::Records, from, kept);
        }
        let first = format::time_key(topic, tp.partition, Timestamp(i64::MIN));
        let last = format::time_key(topic, tp.partition, Timestamp(i64::MAX));
        let mut obsolete = Vec::new();
        self.storage.scan(Family::Times, &first, &last, &mut |key, value| {
            if format::offset_of(value).is_none_or(|of| of >= base) {
                return Ok(Scan::Enough);
            }
            obsolete.push(key.to_vec());
            Ok(Scan::Next)
        })?;
        // The last of them stays: it is the highest timestamp before what is kept. Without it a
        // look-up of a lower time would begin at the next rise and pass over records in between.
        obsolete.pop();
        for key in obsolete {
            changes.delete(Family::Times, key);
        }
        Ok(())
    }
}
