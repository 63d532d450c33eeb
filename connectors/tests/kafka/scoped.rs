//! A part of a cluster that looks like a cluster of its own: names get a prefix on their way in and lose it on their way out, and
//! a look that does not wait sees what is there, as with a backend in the same process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use thalweg_connectors::*;

/// Longer than anything takes here.
const PATIENCE: Duration = Duration::from_secs(30);

/// As long as markers may take that nothing is in the way of.
const MARKERS_MAX: Duration = Duration::from_millis(300);

/// A backend whose names have a prefix.
#[derive(Clone, Debug)]
pub(crate) struct Scoped {
    backend: SharedBackend,
    prefix: String,
}

impl Scoped {
    /// A fresh part.
    pub(crate) fn new(backend: SharedBackend) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        Self::named(backend, &format!("n{}", COUNT.fetch_add(1, Ordering::Relaxed)))
    }

    /// A part of this process with a name.
    pub(crate) fn named(backend: SharedBackend, name: &str) -> Self {
        Self { backend, prefix: format!("s{}{name}.", std::process::id()) }
    }

    /// The same part, reached another way.
    pub(crate) fn through(&self, backend: SharedBackend) -> Self {
        Self { backend, prefix: self.prefix.clone() }
    }

    fn add(&self, name: &str) -> String {
        // These would become legal.
        if matches!(name, "" | "." | "..") { name.into() } else { format!("{}{name}", self.prefix) }
    }

    fn strip(&self, name: &str) -> String {
        name.replace(&self.prefix, "")
    }

    fn tp(&self, tp: &TopicPartition) -> TopicPartition {
        TopicPartition::new(self.add(&tp.topic), tp.partition)
    }

    fn out(&self, tp: &TopicPartition) -> TopicPartition {
        TopicPartition::new(self.strip(&tp.topic), tp.partition)
    }

    fn tps(&self, tps: &[TopicPartition]) -> Vec<TopicPartition> {
        tps.iter().map(|tp| self.tp(tp)).collect()
    }

    fn outs<T>(&self, map: BTreeMap<TopicPartition, T>) -> BTreeMap<TopicPartition, T> {
        map.into_iter().map(|(tp, value)| (self.out(&tp), value)).collect()
    }

    fn heard<T>(&self, result: PortResult<T>) -> PortResult<T> {
        result.map_err(|e| PortError::new(e.kind(), self.strip(&e.to_string())).caused_by(e))
    }

    fn group(&self, group: &GroupMetadata) -> GroupMetadata {
        GroupMetadata { group: self.add(&group.group), ..group.clone() }
    }

    fn info(&self, info: TopicInfo) -> TopicInfo {
        TopicInfo { name: self.strip(&info.name), ..info }
    }
}

impl Backend for Scoped {
    fn scheme(&self) -> &'static str {
        self.backend.scheme()
    }

    fn supports_transactions(&self) -> bool {
        self.backend.supports_transactions()
    }

    fn promise(&self) -> &'static str {
        self.backend.promise()
    }

    fn consumer(&self, options: &ConsumerOptions) -> PortResult<Box<dyn Consumer>> {
        Ok(Box::new(ScopedConsumer {
            scope: self.clone(),
            inner: self.backend.consumer(options)?,
            isolation: options.isolation,
            positions: BTreeMap::new(),
            paused: Vec::new(),
        }))
    }

    fn producer(&self, options: &ProducerOptions) -> PortResult<Box<dyn Producer>> {
        let transactional_id = options.transactional_id.as_deref().map(|id| self.add(id));
        let options = ProducerOptions { transactional_id, ..options.clone() };
        let inner = self.backend.producer(&options)?;
        let watch =
            ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "watch".into() };
        let watch = self.backend.consumer(&watch)?;
        Ok(Box::new(ScopedProducer {
            scope: self.clone(),
            inner,
            watch,
            topics: Vec::new(),
            written: BTreeSet::new(),
        }))
    }

    fn admin(&self) -> PortResult<Box<dyn Admin>> {
        Ok(Box::new(ScopedAdmin { scope: self.clone(), inner: self.backend.admin()? }))
    }

    fn membership(&self, options: &MembershipOptions) -> PortResult<Box<dyn Membership>> {
        let group = self.add(&options.group);
        self.backend.membership(&MembershipOptions { group, ..options.clone() })
    }
}

struct ScopedConsumer {
    scope: Scoped,
    inner: Box<dyn Consumer>,
    isolation: Isolation,
    positions: BTreeMap<TopicPartition, Offset>,
    paused: Vec<TopicPartition>,
}

impl ScopedConsumer {
    fn is_at_end(&mut self) -> PortResult<bool> {
        let read: Vec<_> =
            self.positions.keys().filter(|tp| !self.paused.contains(tp)).cloned().collect();
        let ends = self.inner.end_offsets(&read, self.isolation)?;
        Ok(ends.iter().all(|(tp, end)| self.positions[tp] == *end))
    }

    /// Takes what there is; waits for it as long as it is not at hand.
    fn look(&mut self, max: usize, out: &mut Vec<Fetched>) -> PortResult<()> {
        let (until, before) = (Instant::now() + PATIENCE, out.len());
        self.inner.poll(Duration::ZERO, max, out)?;
        while out.len() == before && !self.is_at_end()? {
            assert!(Instant::now() < until, "at {:?} nothing comes", self.positions);
            self.inner.poll(Duration::from_millis(100), max, out)?;
        }
        Ok(())
    }
}

impl Consumer for ScopedConsumer {
    fn assign(&mut self, partitions: &[(TopicPartition, Offset)]) -> PortResult<()> {
        let inner = partitions.iter().map(|(tp, offset)| (self.scope.tp(tp), *offset));
        let inner: Vec<_> = inner.collect();
        self.scope.heard(self.inner.assign(&inner))?;
        self.positions.extend(inner);
        Ok(())
    }

    fn unassign(&mut self, partitions: &[TopicPartition]) -> PortResult<()> {
        let inner = self.scope.tps(partitions);
        self.positions.retain(|tp, _| !inner.contains(tp));
        self.scope.heard(self.inner.unassign(&inner))
    }

    fn set_paused(&mut self, partitions: &[TopicPartition], paused: bool) -> PortResult<()> {
        let inner = self.scope.tps(partitions);
        self.paused.retain(|tp| !inner.contains(tp));
        self.scope.heard(self.inner.set_paused(&inner, paused))?;
        if paused {
            self.paused.extend(inner);
        }
        Ok(())
    }

    fn poll(
        &mut self,
        timeout: Duration,
        max_records: usize,
        out: &mut Vec<Fetched>,
    ) -> PortResult<()> {
        let before = out.len();
        let polled = match timeout.is_zero() {
            true => self.look(max_records, out),
            false => self.inner.poll(timeout, max_records, out),
        };
        for run in &mut out[before..] {
            self.positions.insert(run.partition.clone(), run.next);
            run.partition = self.scope.out(&run.partition);
        }
        self.scope.heard(polled)
    }

    fn committed(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, CommittedOffset>> {
        let (group, partitions) = (self.scope.add(group), self.scope.tps(partitions));
        let mut committed = Ok(BTreeMap::new());
        soon(|| {
            committed = self.inner.committed(&group, &partitions);
            Ok(!committed.as_ref().is_err_and(|e| e.kind() == PortErrorKind::Retriable))
        })?;
        let committed = self.scope.heard(committed)?;
        Ok(self.scope.outs(committed))
    }

    fn beginning_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        let partitions = self.scope.tps(partitions);
        let offsets = self.scope.heard(self.inner.beginning_offsets(&partitions))?;
        Ok(self.scope.outs(offsets))
    }

    fn end_offsets(
        &mut self,
        partitions: &[TopicPartition],
        isolation: Isolation,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        let partitions = self.scope.tps(partitions);
        let offsets = self.scope.heard(self.inner.end_offsets(&partitions, isolation))?;
        Ok(self.scope.outs(offsets))
    }

    fn look_at_ends(
        &mut self,
        partitions: &[TopicPartition],
        isolation: Isolation,
    ) -> PortResult<Option<BTreeMap<TopicPartition, Offset>>> {
        let partitions = self.scope.tps(partitions);
        let offsets = self.scope.heard(self.inner.look_at_ends(&partitions, isolation))?;
        Ok(offsets.map(|offsets| self.scope.outs(offsets)))
    }

    fn offsets_for_times(
        &mut self,
        times: &[(TopicPartition, Timestamp)],
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        let times: Vec<_> = times.iter().map(|(tp, time)| (self.scope.tp(tp), *time)).collect();
        let offsets = self.scope.heard(self.inner.offsets_for_times(&times))?;
        Ok(self.scope.outs(offsets))
    }
}

struct ScopedProducer {
    scope: Scoped,
    inner: Box<dyn Producer>,
    watch: Box<dyn Consumer>,
    topics: Vec<String>,
    written: BTreeSet<TopicPartition>,
}

impl ScopedProducer {
    fn offsets(
        &self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
    ) -> BTreeMap<TopicPartition, CommittedOffset> {
        offsets.iter().map(|(tp, offset)| (self.scope.tp(tp), offset.clone())).collect()
    }
}

impl ScopedProducer {
    /// A transaction has ended when its coordinator says so; its markers follow. Waits for them, as far as no other transaction
    /// is in their way.
    fn await_markers(&mut self) -> PortResult<()> {
        let written: Vec<_> = std::mem::take(&mut self.written).into_iter().collect();
        soon(|| {
            let mut end = |isolation| self.watch.end_offsets(&written, isolation);
            Ok(end(Isolation::ReadCommitted)? == end(Isolation::ReadUncommitted)?)
        })
    }
}

/// Asks until it is so, for a little while.
fn soon(mut so: impl FnMut() -> PortResult<bool>) -> PortResult<()> {
    let until = Instant::now() + MARKERS_MAX;
    while !so()? && Instant::now() < until {}
    Ok(())
}

impl Producer for ScopedProducer {
    fn init_transactions(&mut self) -> PortResult<()> {
        self.scope.heard(self.inner.init_transactions())
    }

    fn begin(&mut self) -> PortResult<()> {
        self.scope.heard(self.inner.begin())
    }

    fn topic(&mut self, name: &str) -> PortResult<(TopicSlot, i32)> {
        let name = self.scope.add(name);
        let (slot, partitions) = self.scope.heard(self.inner.topic(&name))?;
        if self.topics.len() == slot.0 as usize {
            self.topics.push(name);
        }
        Ok((slot, partitions))
    }

    fn send(&mut self, topic: TopicSlot, partition: i32, record: &NewRecord<'_>) -> PortResult<()> {
        self.scope.heard(self.inner.send(topic, partition, record))?;
        self.written.insert(TopicPartition::new(&*self.topics[topic.0 as usize], partition));
        Ok(())
    }

    fn flush(&mut self) -> PortResult<Acknowledged> {
        let acknowledged = self.scope.heard(self.inner.flush())?;
        Ok(self.scope.outs(acknowledged))
    }

    fn send_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        let offsets = self.offsets(offsets);
        self.scope.heard(self.inner.send_offsets(&offsets, &self.scope.group(group)))
    }

    fn commit(&mut self) -> PortResult<Acknowledged> {
        let acknowledged = self.scope.heard(self.inner.commit())?;
        self.await_markers()?;
        Ok(self.scope.outs(acknowledged))
    }

    fn abort(&mut self) -> PortResult<()> {
        self.scope.heard(self.inner.abort())?;
        self.await_markers()
    }

    fn commit_offsets(
        &mut self,
        offsets: &BTreeMap<TopicPartition, CommittedOffset>,
        group: &GroupMetadata,
    ) -> PortResult<()> {
        let offsets = self.offsets(offsets);
        self.scope.heard(self.inner.commit_offsets(&offsets, &self.scope.group(group)))
    }

    fn is_tainted(&mut self) -> bool {
        self.inner.is_tainted()
    }
}

struct ScopedAdmin {
    scope: Scoped,
    inner: Box<dyn Admin>,
}

impl Admin for ScopedAdmin {
    fn describe(&mut self, topics: &[&str]) -> PortResult<BTreeMap<String, TopicInfo>> {
        let names: Vec<_> = topics.iter().map(|name| self.scope.add(name)).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let found = self.scope.heard(self.inner.describe(&names))?;
        Ok(found.into_values().map(|t| (self.scope.strip(&t.name), self.scope.info(t))).collect())
    }

    fn list(&mut self) -> PortResult<Vec<TopicInfo>> {
        let mut all = self.scope.heard(self.inner.list())?;
        all.retain(|topic| topic.name.starts_with(&self.scope.prefix));
        Ok(all.into_iter().map(|topic| self.scope.info(topic)).collect())
    }

    fn settings(
        &mut self,
        topics: &[&str],
    ) -> PortResult<BTreeMap<String, BTreeMap<String, String>>> {
        let names: Vec<_> = topics.iter().map(|name| self.scope.add(name)).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        let found = self.scope.heard(self.inner.settings(&names))?;
        Ok(found.into_iter().map(|(name, known)| (self.scope.strip(&name), known)).collect())
    }

    fn create(&mut self, topics: &[NewTopic]) -> PortResult<()> {
        let mut topics = topics.to_vec();
        for topic in &mut topics {
            topic.name = self.scope.add(&topic.name);
            // By default brokers take no record from the future.
            let limit = topic.config.entry("message.timestamp.after.max.ms".into());
            limit.or_insert_with(|| i64::MAX.to_string());
        }
        self.scope.heard(self.inner.create(&topics))
    }

    fn delete_records(&mut self, before: &BTreeMap<TopicPartition, Offset>) -> PortResult<()> {
        let before = before.iter().map(|(tp, offset)| (self.scope.tp(tp), *offset)).collect();
        self.scope.heard(self.inner.delete_records(&before))
    }

    fn begin_delete_records(
        &mut self,
        before: &BTreeMap<TopicPartition, Offset>,
    ) -> PortResult<()> {
        let before = before.iter().map(|(tp, offset)| (self.scope.tp(tp), *offset)).collect();
        self.scope.heard(self.inner.begin_delete_records(&before))
    }

    fn delete(&mut self, topics: &[&str]) -> PortResult<()> {
        let names: Vec<_> = topics.iter().map(|name| self.scope.add(name)).collect();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        self.scope.heard(self.inner.delete(&names))
    }
}
