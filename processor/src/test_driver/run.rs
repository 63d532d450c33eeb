//! How a step is carried out: process, punctuate, commit, and feed back.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_connectors::{GroupMetadata, Offset, Producer, TopicPartition};
use thalweg_state::{Engine, RestoreRecord, StoreIx};
use thalweg_txn::{CommitPlan, Committer, Guarantee, OffsetMetadata, PersistError};

use super::log::SentRecord;
use super::{Recorder, SharedLog, TestDriver, lock, refused};
use crate::collector::Collector;
use crate::error::TaskError;
use crate::globals::Globals;
use crate::plan::partition_counts;
use crate::task::{Task, TaskSpec};
use crate::topology::{NodeIx, StoreNo, TaskId, TopicRef};

/// A producer and a commit protocol at rest.
pub(super) fn collector(log: &SharedLog, default_partitions: i32) -> Result<Collector, TaskError> {
    let mut producer = Recorder::new(Arc::clone(log), default_partitions);
    producer.init_transactions()?;
    let committer = Committer::new(Guarantee::ExactlyOnce);
    Ok(Collector::new(Box::new(producer), committer))
}

impl TestDriver {
    /// Makes the topics of the topology.
    pub(super) fn create_topics(&mut self, given: &BTreeMap<Arc<str>, i32>) {
        let app = &self.config.application_id;
        let count = |name: &Arc<str>| given.get(name).copied().unwrap_or(self.default_partitions);
        let internal = |name: &Arc<str>| TopicRef::Internal(Arc::clone(name)).resolve(app);
        let repartition: Vec<_> = self.topology.internal_topics().iter().collect();
        let externals = self.sources();
        let externals: Vec<_> = externals
            .filter(|source| !repartition.iter().any(|(name, _)| internal(name) == *source))
            .collect();
        let most = externals.iter().map(&count).max().unwrap_or(1);
        let mut log = lock(&self.log);
        log.now = self.now;
        for (name, partitions) in given {
            log.create(name, *partitions);
        }
        for name in &externals {
            log.create(name, count(name));
        }
        let known = externals.iter().map(|name| (Arc::clone(name), count(name)));
        let known =
            known.chain(given.iter().map(|(name, partitions)| (Arc::clone(name), *partitions)));
        // Inputs that do not fit together are a test's own business.
        let planned = partition_counts(&self.topology, app, known.collect()).unwrap_or_default();
        for (name, topic) in repartition {
            let name = internal(name);
            let wanted = given.get(&name).copied().or(topic.partitions);
            log.create(&name, wanted.or(planned.get(&name).copied()).unwrap_or(most));
        }
        drop(log);
        let tasks = self.inputs().values().copied().max().unwrap_or(1);
        let mut log = lock(&self.log);
        for store in self.topology.stores() {
            if store.def.logging.is_some() && store.source_as_changelog.is_none() {
                log.create(&store.def.changelog_topic(app).into(), tasks);
            }
        }
    }

    /// How many partitions each input topic has.
    fn inputs(&self) -> BTreeMap<Arc<str>, i32> {
        let sources: Vec<_> = self.sources().collect();
        let log = lock(&self.log);
        let count = |name: Arc<str>| {
            let partitions = log.partitions(&name).unwrap_or(1);
            (name, partitions)
        };
        sources.into_iter().map(count).collect()
    }

    /// Makes the tasks, on these engines or on fresh ones, and brings them to where the last commit was.
    pub(super) fn open(&mut self, engines: Option<Vec<Box<dyn Engine>>>) -> Result<(), TaskError> {
        self.open_globals()?;
        let mut partitions = self.inputs();
        let globals = self.global_inputs();
        partitions.retain(|topic, _| !globals.iter().any(|tp| tp.topic == *topic));
        let count = partitions.values().copied().max().unwrap_or(1);
        let parts = || self.topology.sub_topologies().iter().filter(|part| !part.is_global);
        let mut nodes: Vec<NodeIx> = parts().flat_map(|part| part.nodes.clone()).collect();
        let mut stores: Vec<StoreNo> = parts().flat_map(|part| part.stores.clone()).collect();
        nodes.sort_unstable();
        stores.sort_unstable();
        let mut engines = engines.unwrap_or_default().into_iter();
        for partition in 0..count {
            let engine = match engines.next() {
                Some(engine) => engine,
                None => (self.engine)(partition)?,
            };
            let spec = TaskSpec {
                topology: &self.topology,
                nodes: &nodes,
                stores: &stores,
                id: TaskId { subtopology: 0, partition },
                partitions: &partitions,
                config: Arc::clone(&self.config),
            };
            let mut task = spec.build(engine, &mut self.output)?;
            self.restore(&mut task)?;
            self.position(&mut task);
            task.init(&mut self.output, self.now)?;
            self.tasks.push(task);
        }
        Ok(())
    }

    /// Fills the global stores with what their topics hold.
    fn open_globals(&mut self) -> Result<(), TaskError> {
        let built = Globals::build(&self.topology, &self.config, &self.inputs())?;
        let Some(mut globals) = built else { return Ok(()) };
        globals.begin(&BTreeMap::new(), BTreeMap::new(), self.now)?;
        self.output.globals = Some(globals);
        self.follow_globals()
    }

    fn global_inputs(&self) -> Vec<TopicPartition> {
        self.output.globals.as_ref().map_or_else(Vec::new, |globals| globals.inputs())
    }

    /// Brings what is new in their topics into the global stores.
    fn follow_globals(&mut self) -> Result<(), TaskError> {
        let Some(globals) = &mut self.output.globals else { return Ok(()) };
        let log = lock(&self.log);
        let fetched: Vec<_> =
            globals.positions().filter_map(|(tp, at)| log.fetch(tp, at)).collect();
        drop(log);
        for records in fetched {
            let foreign = globals.add(records);
            debug_assert!(foreign.is_ok(), "global stores are fed their own topics only");
        }
        globals.process(self.now).map(drop)
    }

    /// Commits what processors did when they were initialized.
    pub(super) fn commit_all(&mut self) -> Result<(), TaskError> {
        (0..self.tasks.len()).try_for_each(|ix| self.commit(ix))
    }

    /// Brings the stores up to date from their changelogs; a source topic that serves as one counts up to the committed offset.
    fn restore(&self, task: &mut Task) -> Result<(), TaskError> {
        let log = lock(&self.log);
        for (i, tp) in task.changelogs().to_vec().iter().enumerate() {
            let Some(tp) = tp else { continue };
            let store = StoreIx(u16::try_from(i).expect("a task has fewer than 65 536 stores"));
            let is_input = task.inputs().any(|input| input == tp);
            let end = if is_input {
                let committed = log.committed.get(tp);
                committed.map_or(Offset(0), |c| c.offset)
            } else {
                log.end(tp)
            };
            let from = task.state().position(store).unwrap_or(0);
            let mut records = Vec::new();
            log.each(tp, Offset(from), |record| {
                if record.offset < end {
                    records.push(restored(record));
                }
            });
            let mut records = records.into_iter().flatten();
            task.state().restore(store, &mut records, end.0)?;
        }
        Ok(())
    }

    /// Sets the inputs to the committed offsets.
    fn position(&self, task: &mut Task) {
        let log = lock(&self.log);
        for tp in task.inputs().cloned().collect::<Vec<_>>() {
            if let Some(committed) = log.committed.get(&tp) {
                let metadata = OffsetMetadata::decode(&committed.metadata).unwrap_or_default();
                task.start_at(&tp, committed.offset, &metadata);
            }
        }
    }

    /// Does something, and handles what comes of it to the very end.
    pub(super) fn step(
        &mut self,
        work: impl FnOnce(&mut Self) -> Result<(), TaskError>,
    ) -> Result<(), TaskError> {
        if self.has_failed {
            let cause = "an earlier step failed, and its task is gone: call `restart` first";
            return Err(refused("cannot go on", cause));
        }
        lock(&self.log).begin_step();
        let result = work(self).and_then(|()| self.settle());
        if result.is_err() {
            lock(&self.log).fail_step();
            self.has_failed = true;
        }
        result
    }

    /// Processes, record by record, until there are none.
    fn settle(&mut self) -> Result<(), TaskError> {
        loop {
            self.follow_globals()?;
            self.feed();
            let waiting = self.tasks.iter().position(has_records);
            let Some(ix) = waiting else { return Ok(()) };
            self.tasks[ix].process(1, &mut self.output, self.now)?;
            self.commit(ix)?;
        }
    }

    /// Hands the tasks what their input topics hold beyond what they have.
    fn feed(&mut self) {
        let log = lock(&self.log);
        for task in &mut self.tasks {
            let held = |(tp, position): (&TopicPartition, Offset)| {
                let next = Offset(position.0 + task.buffered(tp) as i64);
                log.fetch(tp, next)
            };
            let fetched: Vec<_> = task.positions().filter_map(held).collect();
            for records in fetched {
                let foreign = task.add(records);
                debug_assert!(foreign.is_ok(), "a task is fed its own partitions only");
            }
        }
    }

    /// Runs what is due on the clock, in every task.
    pub(super) fn punctuate(&mut self) -> Result<(), TaskError> {
        for ix in 0..self.tasks.len() {
            self.tasks[ix].punctuate(&mut self.output, self.now)?;
            self.commit(ix)?;
        }
        Ok(())
    }

    /// Commits one task.
    pub(super) fn commit(&mut self, ix: usize) -> Result<(), TaskError> {
        let (task, now) = (&mut self.tasks[ix], self.now);
        task.flush_caches(&mut self.output)?;
        let mut plan = CommitPlan::new(GroupMetadata {
            group: self.config.application_id.to_string(),
            member: "test-driver".to_owned(),
            generation: -1,
        });
        for (tp, next, metadata) in task.offsets()? {
            plan.add(tp, next, &metadata);
        }
        let (producer, committer) = self.output.parts();
        let _ = committer.commit(producer, &plan, &mut |permit| {
            let persisted = task.persist(permit, now);
            persisted.map_err(|e| PersistError::new(e.class(), e))
        })?;
        Ok(())
    }
}

fn has_records(task: &Task) -> bool {
    task.inputs().any(|tp| task.buffered(tp) > 0)
}

/// A changelog record on its way back; one without a key says nothing about any key.
fn restored(record: &SentRecord) -> Option<RestoreRecord<'_>> {
    Some(RestoreRecord {
        key: record.key.as_deref()?,
        value: record.value.as_deref(),
        timestamp_ms: record.stamped().0,
    })
}
