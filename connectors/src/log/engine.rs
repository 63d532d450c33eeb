//! The engine. Writers take turns (one lock), so that offsets are assigned, written and made
//! visible in one order; readers take the other lock for a moment only, never while something is
//! written.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use super::append::{Stashed, note_offsets};
use super::partition::Partition;
use super::storage::{Changes, Family, Storage, Write};
use super::{Durability, LogOptions, format, recover};
use crate::batch::RecordBatch;
use crate::local::{
    Bounds, Catalog, Coordinator, Engine, FetchedRun, Held, Owner, Shared, TopicView, lock,
};
use crate::ports::{
    Acknowledged, Clock, CommittedOffset, GroupMetadata, Isolation, NewTopic, PortError,
    PortErrorKind, PortResult, TopicInfo,
};
use crate::wire::{Offset, Timestamp, TopicPartition};

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) catalog: Catalog<Partition>,
    pub(super) coordinator: Coordinator<Vec<Stashed>>,
    /// How many transactions each id has committed.
    pub(super) markers: BTreeMap<Arc<str>, u64>,
    pub(super) last_topic: u32,
    /// The order in which runs were remembered, and what they weigh together.
    pub(super) tail: VecDeque<(TopicPartition, u32, usize)>,
    pub(super) tail_bytes: usize,
}

pub(super) struct LogEngine {
    pub(super) shared: Arc<Shared>,
    pub(super) state: Mutex<State>,
    /// Held by who writes. Taken before the state.
    pub(super) writing: Mutex<()>,
    pub(super) write: Write,
    /// What topic ids begin with.
    pub(super) identity: String,
    pub(super) place: String,
    pub(super) storage: Box<dyn Storage>,
    /// A write failed, and nobody knows whether it happened: nothing may be written on top of it.
    in_doubt: AtomicBool,
    /// Dropped after the storage is closed.
    pub(super) _keep: Option<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for LogEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LogEngine").field(&self.place).finish()
    }
}

impl LogEngine {
    pub(super) fn open(
        storage: Box<dyn Storage>,
        place: String,
        options: &LogOptions,
        clock: Arc<dyn Clock>,
    ) -> PortResult<Self> {
        let (state, identity) = recover::recover(&*storage, &place)?;
        Ok(Self {
            shared: Arc::new(Shared::new(clock)),
            state: Mutex::new(state),
            writing: Mutex::default(),
            write: match options.durability {
                Durability::Process => Write::Process,
                Durability::Sync => Write::Sync,
            },
            identity,
            place,
            storage,
            in_doubt: AtomicBool::new(false),
            _keep: None,
        })
    }

    /// Writes changes. After a write that failed, what is stored may differ from what memory says: all later ones are refused
    /// until the log is opened anew, which reads what is there. The caller holds the writing lock.
    pub(super) fn store(&self, changes: Changes) -> PortResult<()> {
        if self.in_doubt.load(Ordering::SeqCst) {
            return Err(PortError::new(
                PortErrorKind::Fatal,
                format!(
                    "the log {:?} takes no more writes: an earlier one failed, and nobody knows whether it happened; \
                     end the process and start it again",
                    self.place
                ),
            ));
        }
        let written = self.storage.write(changes, self.write);
        if written.is_err() {
            self.in_doubt.store(true, Ordering::SeqCst);
        }
        written
    }

    pub(super) fn durability(&self) -> Durability {
        match self.write {
            Write::Process => Durability::Process,
            Write::Sync => Durability::Sync,
        }
    }

    pub(super) fn transactions_committed(&self, id: &str) -> u64 {
        lock(&self.state).markers.get(id).copied().unwrap_or(0)
    }

    /// The state, after everything whose time has come.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        let state = lock(&self.state);
        if !state.coordinator.is_any_due(&*self.shared.clock) {
            return state;
        }
        drop(state);
        let writing = lock(&self.writing);
        let mut state = lock(&self.state);
        for ended in state.coordinator.due(self.shared.clock.elapsed()) {
            if ended.commit {
                self.commit_late(&mut state, ended);
            }
        }
        drop(writing);
        self.shared.signal.arrived();
        state
    }
}

impl Engine for LogEngine {
    fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn topic(&self, name: &str) -> PortResult<TopicView> {
        self.state().catalog.view(name)
    }

    fn topics(&self) -> PortResult<Vec<TopicInfo>> {
        Ok(self.state().catalog.list())
    }

    fn create(&self, topics: &[NewTopic]) -> PortResult<()> {
        self.create_topics(topics)
    }

    fn delete(&self, topics: &[&str]) -> PortResult<()> {
        self.delete_topics(topics)
    }

    fn delete_records(&self, before: &BTreeMap<TopicPartition, Offset>) -> PortResult<()> {
        self.delete_before(before)
    }

    fn bounds(&self, tp: &TopicPartition) -> PortResult<Bounds> {
        self.state().catalog.partition(tp).map(Partition::bounds)
    }

    fn fetch(
        &self,
        tp: &TopicPartition,
        position: Offset,
        held: &mut Option<Held>,
        _isolation: Isolation,
        max_records: usize,
    ) -> PortResult<Option<FetchedRun>> {
        self.read(tp, position, held, max_records)
    }

    fn offset_for_time(
        &self,
        tp: &TopicPartition,
        time: Timestamp,
        _isolation: Isolation,
    ) -> PortResult<Option<Offset>> {
        self.first_not_before(tp, time)
    }

    fn committed(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, CommittedOffset>> {
        self.state().coordinator.committed(group, partitions)
    }

    fn init(&self, id: &str, timeout: Duration) -> PortResult<Owner> {
        drop(self.state());
        let _writing = lock(&self.writing);
        let mut state = lock(&self.state);
        let (owner, _aborted) = state.coordinator.init(id, timeout)?;
        let committed = state.markers.get(id).copied().unwrap_or(0);
        let mut changes = Changes::default();
        let key = format::named(format::PRODUCER_PREFIX, id);
        changes.put(Family::Meta, key, format::marker(owner.epoch, committed));
        self.store(changes)?;
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
        let stashed = self.stash(batches)?;
        let Some(owner) = owner else {
            return self.append_plain(stashed);
        };
        let mut state = self.state();
        let now = self.shared.clock.elapsed();
        let transaction = state.coordinator.open(owner, now)?;
        transaction.work.extend(stashed);
        Ok(Acknowledged::new())
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
        drop(self.state());
        let _writing = lock(&self.writing);
        self.shared.groups.check(group)?;
        let mut changes = Changes::default();
        note_offsets(&mut changes, &group.group, offsets);
        self.store(changes)?;
        let mut state = lock(&self.state);
        state.coordinator.commit_offsets(&group.group, offsets.clone());
        Ok(())
    }

    fn end(&self, owner: &Owner, commit: bool) -> PortResult<Acknowledged> {
        if commit {
            return self.commit(owner);
        }
        self.state().coordinator.take(owner, false)?;
        Ok(Acknowledged::new())
    }

    fn end_later(&self, owner: &Owner, commit: bool, delay: Duration) -> PortResult<()> {
        let due = self.shared.clock.elapsed() + delay;
        self.state().coordinator.delay(owner, commit, due)
    }
}
