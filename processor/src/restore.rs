//! Brings stores up to their changelogs, beside the tasks that run already.
//!
//! The order matters: committed offsets first, stable ones only, then the changelogs' high watermarks as targets. The last stable
//! offset would not do: a dead owner's open transaction hides what a later owner committed. Reading is read-committed and goes
//! on until the position, which steps over markers and aborted records, is at the target.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use thalweg_connectors::{
    Consumer, Fetched, Isolation, Offset, PortError, PortErrorKind, Timestamp, TopicInfo,
    TopicPartition,
};
use thalweg_state::{CommitFacts, RestoreRecord, StateError, StoreIx};

use crate::metrics::{Metrics, RestoreCell};
use crate::task::Task;
use crate::topology::TaskId;
use crate::worker::{Failure, Phase, Slot, Slots, Stage};

/// How often progress is logged.
const REPORT_INTERVAL: Duration = Duration::from_secs(5);

/// The restore of one store.
struct Restore {
    task: TaskId,
    store: StoreIx,
    name: Arc<str>,
    position: Offset,
    target: Offset,
    records: u64,
    cell: Arc<RestoreCell>,
}

impl Restore {
    fn is_done(&self) -> bool {
        self.position >= self.target
    }

    fn publish(&self) {
        let remaining = u64::try_from(self.target.0 - self.position.0).unwrap_or(0);
        self.cell.remaining.store(remaining, Relaxed);
    }
}

/// What a changelog partition holds.
#[derive(Clone, Debug)]
struct Extent {
    start: Offset,
    /// The high watermark.
    end: Offset,
    topic_id: String,
}

/// A task that has been opened: where its inputs go on.
pub(crate) struct Opened {
    pub(crate) id: TaskId,
    pub(crate) task: Box<Task>,
    pub(crate) inputs: Vec<(TopicPartition, Offset)>,
}

/// All restores of one worker.
pub(crate) struct Restorer {
    consumer: Box<dyn Consumer>,
    active: BTreeMap<TopicPartition, Restore>,
    fetched: Vec<Fetched>,
    report_at: Duration,
}

/// What a restore has to know of its surroundings.
pub(crate) struct RestoreContext<'a> {
    /// The changelogs, as they are now.
    pub(crate) topics: &'a BTreeMap<String, TopicInfo>,
    pub(crate) metrics: &'a Metrics,
    pub(crate) now: Timestamp,
    /// State whose last commit is older is not trusted.
    pub(crate) state_age_max: Option<Duration>,
}

impl Restorer {
    /// `consumer` has to be read-committed.
    pub(crate) fn new(consumer: Box<dyn Consumer>) -> Self {
        let report_at = Duration::ZERO;
        Self { consumer, active: BTreeMap::new(), fetched: Vec::new(), report_at }
    }

    pub(crate) fn is_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// Are all stores of the task restored?
    pub(crate) fn is_done(&self, task: TaskId) -> bool {
        self.active.values().all(|r| r.task != task)
    }

    /// Begins to restore the stores of tasks whose committed offsets are known.
    pub(crate) fn begin(&mut self, opened: &mut [Opened], context: &RestoreContext<'_>) -> Phase {
        let changelogs: BTreeSet<TopicPartition> =
            opened.iter().flat_map(|o| o.task.changelogs().iter().flatten().cloned()).collect();
        let extents = self.extents(changelogs, context.topics)?;
        let mut assign = Vec::new();
        for opened in opened {
            for (ix, changelog) in opened.task.changelogs().to_vec().into_iter().enumerate() {
                let Some(tp) = changelog else { continue };
                let store = StoreIx(ix as u16);
                let restore = plan(opened, store, &tp, &extents[&tp], context)
                    .map_err(|e| Failure::from(e).of(opened.id))?;
                if !restore.is_done() {
                    tracing::info!(task = %opened.id, store = %restore.name, changelog = %tp,
                        from = %restore.position, to = %restore.target, "restoring store");
                    assign.push((tp.clone(), restore.position));
                    self.active.insert(tp, restore);
                }
            }
        }
        self.consumer.assign(&assign)?;
        Ok(())
    }

    fn extents(
        &mut self,
        changelogs: BTreeSet<TopicPartition>,
        topics: &BTreeMap<String, TopicInfo>,
    ) -> Phase<BTreeMap<TopicPartition, Extent>> {
        if changelogs.is_empty() {
            return Ok(BTreeMap::new());
        }
        let all: Vec<TopicPartition> = changelogs.into_iter().collect();
        let ends = self.consumer.end_offsets(&all, Isolation::ReadUncommitted)?;
        let starts = self.consumer.beginning_offsets(&all)?;
        let extent = |tp: &TopicPartition| extent(tp, &starts, &ends, topics);
        let extents = all.iter().map(|tp| Ok((tp.clone(), extent(tp)?)));
        extents.collect()
    }

    /// Takes over what can be read now, waiting up to `timeout`; tells whether anything was.
    pub(crate) fn advance(
        &mut self,
        timeout: Duration,
        records_max: usize,
        slots: &mut Slots,
    ) -> Phase<bool> {
        if self.active.is_empty() {
            return Ok(false);
        }
        let mut fetched = std::mem::take(&mut self.fetched);
        let polled = self.consumer.poll(timeout, records_max, &mut fetched);
        let any = !fetched.is_empty();
        let applied = self.apply(&fetched, slots);
        fetched.clear();
        self.fetched = fetched;
        applied.map_err(Failure::half_done)?;
        polled.map_err(out_of_range)?;
        Ok(any)
    }

    /// Applies runs of records, those of one partition together.
    fn apply(&mut self, fetched: &[Fetched], slots: &mut Slots) -> Phase {
        let mut runs: BTreeMap<&TopicPartition, Vec<&Fetched>> = BTreeMap::new();
        for run in fetched {
            runs.entry(&run.partition).or_default().push(run);
        }
        for (tp, runs) in runs {
            let Some(restore) = self.active.get_mut(tp) else { continue };
            let Some(Slot { stage: Stage::Restoring(task, _), .. }) = slots.get_mut(&restore.task)
            else {
                continue;
            };
            apply(restore, task, &runs).map_err(|e| Failure::from(e).of(restore.task))?;
            restore.publish();
            if restore.is_done() {
                tracing::info!(task = %restore.task, store = %restore.name, changelog = %tp,
                    records = restore.records, "restored store");
                self.consumer.unassign(std::slice::from_ref(tp))?;
                self.active.remove(tp);
            }
        }
        Ok(())
    }

    /// Logs how far the restores are, now and then.
    pub(crate) fn report(&mut self, elapsed: Duration) {
        if self.active.is_empty() {
            self.report_at = elapsed + REPORT_INTERVAL;
        } else if elapsed >= self.report_at {
            self.report_at = elapsed + REPORT_INTERVAL;
            let remaining: i64 = self.active.values().map(|r| r.target.0 - r.position.0).sum();
            let records: u64 = self.active.values().map(|r| r.records).sum();
            tracing::info!(stores = self.active.len(), records, remaining, "restoring");
        }
    }

    /// Stops restoring a task; what was applied stays.
    pub(crate) fn forget(&mut self, task: TaskId) -> Phase {
        let of_task = self.active.iter().filter(|(_, r)| r.task == task);
        let changelogs: Vec<TopicPartition> = of_task.map(|(tp, _)| tp.clone()).collect();
        for tp in &changelogs {
            self.active.remove(tp);
        }
        Ok(self.consumer.unassign(&changelogs)?)
    }
}

fn extent(
    tp: &TopicPartition,
    starts: &BTreeMap<TopicPartition, Offset>,
    ends: &BTreeMap<TopicPartition, Offset>,
    infos: &BTreeMap<String, TopicInfo>,
) -> Phase<Extent> {
    match (starts.get(tp), ends.get(tp), infos.get(&*tp.topic)) {
        (Some(&start), Some(&end), Some(info)) => {
            Ok(Extent { start, end, topic_id: info.id.clone() })
        }
        _ => {
            let message =
                format!("changelog {tp} was described only in part: is it being deleted?");
            Err(PortError::new(PortErrorKind::Retriable, message).into())
        }
    }
}

/// The log begins behind a position that was valid when the restore began: look at it anew.
fn out_of_range(error: PortError) -> Failure {
    let reopen = error.kind() == PortErrorKind::OffsetOutOfRange;
    let mut failure = Failure::from(error);
    if reopen {
        failure.class = crate::error::ErrorClass::Abortable;
    }
    failure
}

/// Decides from where to where a store is restored; a store whose position cannot be trusted is emptied.
fn plan(
    opened: &mut Opened,
    store: StoreIx,
    changelog: &TopicPartition,
    extent: &Extent,
    context: &RestoreContext<'_>,
) -> Result<Restore, StateError> {
    let state = opened.task.state();
    let name: Arc<str> = state.specs().nth(store.0.into()).map_or("", |s| &s.name).into();
    let age = state.committed_at_ms().map(|at| context.now.0.saturating_sub(at));
    if let Some(why) = distrust(
        state.position(store),
        state.topic_id(store),
        extent,
        age.zip(context.state_age_max),
    ) {
        tracing::warn!(task = %opened.id, store = %name, changelog = %changelog, why,
            "local state of a store does not fit its changelog: restoring it in full");
        state.clear_store(store)?;
    }
    let position = state.position(store).map_or(extent.start, Offset);
    // A source topic that serves as changelog: what lies behind the committed offset is processed again, by the task.
    let input = opened.inputs.iter().find(|(tp, _)| tp == changelog);
    let target = input.map_or(extent.end, |(_, committed)| *committed);
    let cell = context.metrics.restore(opened.id, &name, changelog);
    cell.changelog_length.store(u64::try_from(extent.end.0 - extent.start.0).unwrap_or(0), Relaxed);
    let restore = Restore { task: opened.id, store, name, position, target, records: 0, cell };
    restore.publish();
    note_topic(opened, store, position, extent)?;
    Ok(restore)
}

/// Why a stored position cannot be trusted; `age` is that of the last commit, and what is allowed.
fn distrust(
    position: Option<i64>,
    topic_id: Option<&str>,
    extent: &Extent,
    age: Option<(i64, Duration)>,
) -> Option<&'static str> {
    let position = position?;
    // An identity that is empty is not known.
    let known = |id: &&str| !id.is_empty();
    let now = Some(extent.topic_id.as_str()).filter(known);
    if topic_id.filter(known).zip(now).is_some_and(|(before, now)| before != now) {
        return Some("the changelog topic was deleted and made anew");
    }
    if position > extent.end.0 {
        return Some("the stored position lies behind the changelog's end");
    }
    if position < extent.start.0 {
        return Some("the changelog begins behind the stored position");
    }
    let max_ms = |max: Duration| i64::try_from(max.as_millis()).unwrap_or(i64::MAX);
    let too_old = age.is_some_and(|(age, max)| age > max_ms(max));
    (too_old && position < extent.end.0)
        .then_some("the last commit is so old that the changelog may have lost deletes since")
}

/// Stores which topic the position counts in, before the first record.
fn note_topic(
    opened: &mut Opened,
    store: StoreIx,
    position: Offset,
    extent: &Extent,
) -> Result<(), StateError> {
    let state = opened.task.state();
    if state.topic_id(store) == Some(extent.topic_id.as_str()) {
        return Ok(());
    }
    let facts = CommitFacts::new().topic_id(store, extent.topic_id.as_str());
    state.commit(&facts.position(store, position.0))
}

fn apply(restore: &mut Restore, task: &mut Task, runs: &[&Fetched]) -> Result<(), StateError> {
    let (from, target) = (restore.position, restore.target);
    let mut count = 0;
    let records = runs.iter().flat_map(|run| (0..run.records.len()).map(|i| run.records.get(i)));
    let mut records = records
        .filter(|record| record.offset >= from && record.offset < target)
        .filter_map(|record| {
            count += 1;
            let (value, timestamp_ms) = (record.value, record.timestamp.0);
            Some(RestoreRecord { key: record.key?, value, timestamp_ms })
        });
    let next = runs.iter().map(|run| run.next).max().unwrap_or(from);
    let position = next.min(target).max(from);
    task.state().restore(restore.store, &mut records, position.0)?;
    restore.position = position;
    restore.records += count;
    restore.cell.restored.fetch_add(count, Relaxed);
    Ok(())
}
