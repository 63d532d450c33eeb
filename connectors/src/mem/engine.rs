//! The engine: one lock, taken per call and never per record.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::partition::Partition;
use crate::batch::RecordBatch;
use crate::local::{
    Bounds, Catalog, Coordinator, Ended, Engine, Existing, FetchedRun, Held, Owner, Shared,
    TopicView, lock,
};
use crate::ports::{
    Acknowledged, Clock, CommittedOffset, GroupMetadata, Isolation, NewTopic, PortResult, TopicInfo,
};
use crate::wire::{Offset, Timestamp, TopicPartition};

/// The partitions that a transaction wrote to.
type Touched = BTreeSet<TopicPartition>;

#[derive(Debug, Default)]
struct State {
    catalog: Catalog<Partition>,
    coordinator: Coordinator<Touched>,
    topics_made: u64,
}

impl State {
    fn carry_out(&mut self, ended: Ended<Touched>) {
        for tp in &ended.work {
            // A topic may have been deleted meanwhile.
            if let Ok((partition, _)) = self.catalog.partition_mut(tp) {
                partition.end_transaction(&ended.owner.id, ended.commit);
            }
        }
        if ended.commit {
            for (group, offsets) in ended.offsets {
                self.coordinator.commit_offsets(&group, offsets);
            }
        }
    }
}

pub(super) struct MemEngine {
    shared: Arc<Shared>,
    state: Mutex<State>,
    /// What topic ids begin with.
    instance: String,
}

impl fmt::Debug for MemEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MemEngine").field(&self.instance).finish()
    }
}

impl MemEngine {
    pub(super) fn new(clock: Arc<dyn Clock>, instance: String) -> Self {
        Self { shared: Arc::new(Shared::new(clock)), state: Mutex::default(), instance }
    }

    /// The state, after everything whose time has come.
    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = lock(&self.state);
        if state.coordinator.is_any_due(&*self.shared.clock) {
            for ended in state.coordinator.due(self.shared.clock.elapsed()) {
                state.carry_out(ended);
            }
            self.shared.signal.arrived();
        }
        state
    }
}

impl Engine for MemEngine {
    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn topic(&self, name: &str) -> PortResult<TopicView> {
        let state = self.state();
        state.catalog.view(name)
    }

    fn topics(&self) -> PortResult<Vec<TopicInfo>> {
        Ok(self.state().catalog.list())
    }

    fn create(&self, topics: &[NewTopic]) -> PortResult<()> {
        let mut state = self.state();
        for topic in topics {
            if state.catalog.check_new(topic)? == Existing::No {
                state.topics_made += 1;
                let id = format!("{}-{}", self.instance, state.topics_made);
                let partitions = (0..topic.partitions).map(|_| Partition::default());
                state.catalog.insert(topic, id, partitions.collect())?;
            }
        }
        Ok(())
    }

    fn delete(&self, topics: &[&str]) -> PortResult<()> {
        let mut state = self.state();
        for topic in topics {
            state.catalog.remove(topic);
            state.coordinator.forget_topic(topic);
        }
        drop(state);
        self.shared.signal.arrived();
        Ok(())
    }

    fn delete_records(&self, before: &BTreeMap<TopicPartition, Offset>) -> PortResult<()> {
        let mut state = self.state();
        for (tp, before) in before {
            let (partition, _) = state.catalog.partition_mut(tp)?;
            partition.bounds().check_delete(tp, *before)?;
            partition.delete_before(*before);
        }
        Ok(())
    }

    fn bounds(&self, tp: &TopicPartition) -> PortResult<Bounds> {
        let state = self.state();
        state.catalog.partition(tp).map(Partition::bounds)
    }

    fn fetch(
        &self,
        tp: &TopicPartition,
        position: Offset,
        _held: &mut Option<Held>,
        isolation: Isolation,
        max_records: usize,
    ) -> PortResult<Option<FetchedRun>> {
        let state = self.state();
        let partition = state.catalog.partition(tp)?;
        partition.fetch(tp, position, isolation, max_records)
    }

    fn offset_for_time(
        &self,
        tp: &TopicPartition,
        time: Timestamp,
        isolation: Isolation,
    ) -> PortResult<Option<Offset>> {
        let state = self.state();
        let partition = state.catalog.partition(tp)?;
        Ok(partition.offset_for_time(time, isolation))
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, CommittedOffset>> {
        self.state().coordinator.committed(group, partitions)
    }

    fn init(&self, id: &str, timeout: Duration) -> PortResult<Owner> {
        let mut state = self.state();
        let (owner, aborted) = state.coordinator.init(id, timeout)?;
        if let Some(aborted) = aborted {
            state.carry_out(aborted);
            drop(state);
            self.shared.signal.arrived();
        }
        Ok(owner)
    }

    fn check(&self, owner: &Owner) -> PortResult<()> {
        self.state().coordinator.check_idle(owner)
    }

    fn append(
        &self,
        owner: Option<&Owner>,
        batches: Vec<(TopicPartition, RecordBatch)>,
    ) -> PortResult<Acknowledged> {
        let now = self.shared.clock.now();
        let mut went = Acknowledged::new();
        let mut state = self.state();
        // Resolved before anything is written: all or nothing.
        for (tp, _) in &batches {
            state.catalog.partition(tp)?;
        }
        if let Some(owner) = owner {
            let transaction = state.coordinator.open(owner, self.shared.clock.elapsed())?;
            let touched = batches.iter().map(|(tp, _)| tp);
            transaction.work.extend(touched.cloned());
        }
        for (tp, mut batch) in batches {
            let (partition, stamps) = state.catalog.partition_mut(&tp)?;
            if stamps {
                batch.restamp(now);
            } else {
                batch.stamp(now);
            }
            went.insert(tp, partition.append(batch, owner.map(|o| &o.id)));
        }
        drop(state);
        self.shared.signal.arrived();
        Ok(went)
    }

    fn add_offsets(
        &self,
        owner: &Owner,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        let mut state = self.state();
        state.coordinator.check(owner)?;
        self.shared.groups.check(group)?;
        let now = self.shared.clock.elapsed();
        let transaction = state.coordinator.open(owner, now)?;
        transaction.add_offsets(&group.group, offsets);
        Ok(())
    }

    fn commit_offsets(
        &self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        let mut state = self.state();
        self.shared.groups.check(group)?;
        state.coordinator.commit_offsets(&group.group, offsets.clone());
        Ok(())
    }

    fn end(&self, owner: &Owner, commit: bool) -> PortResult<Acknowledged> {
        let mut state = self.state();
        if let Some(ended) = state.coordinator.take(owner, commit)? {
            state.carry_out(ended);
            drop(state);
            self.shared.signal.arrived();
        }
        Ok(Acknowledged::new())
    }

    fn end_later(&self, owner: &Owner, commit: bool, delay: Duration) -> PortResult<()> {
        let due = self.shared.clock.elapsed() + delay;
        self.state().coordinator.delay(owner, commit, due)
    }
}
