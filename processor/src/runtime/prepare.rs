//! What comes before the first worker: settings that fit together, a replay made fresh, where the run begins and ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{
    Admin, Backend, CommittedOffset, Consumer, ConsumerOptions, GroupMetadata, Isolation, NewTopic,
    Offset, PortErrorKind, PortResult, ProducerOptions, Timestamp, TopicPartition,
};
use thalweg_state::StateError;
use thalweg_txn::{Guarantee, OffsetMetadata};

use super::StreamsSpec;
use super::config::{MissingOutputs, ReplayFrom, RuntimeConfig, StartAt, Until};
use super::error::StartError;
use super::state::Engines;
use crate::metrics::Metrics;
use crate::plan::{Plan, PlanError};
use crate::topology::{NodeDef, NodeKind, SinkTopic, Topology};
use crate::worker::{Ends, Order, Surroundings};

/// Prepares a run: everything that its workers share. `engines` opens the place of their state.
pub(crate) fn surroundings(
    spec: StreamsSpec,
    engines: impl FnOnce(&RuntimeConfig) -> Result<Arc<dyn Engines>, StateError>,
) -> Result<Surroundings, StartError> {
    let StreamsSpec { topology, backend, clock, config } = spec;
    let mut config = checked(&config)?;
    config.guarantee.check(&*backend).map_err(StartError::Guarantee)?;
    let engines = engines(&config)?;
    let mut admin = backend.admin()?;
    let plan = Arc::new(Plan::resolve(&topology, &config.task, &mut *admin)?);
    if backend.compacts() {
        config.state_age_max = config.state_age_max.or_else(|| Some(shortest_memory(&plan) / 2));
    }
    let config = Arc::new(config);
    let mut reader = Reader::new(&*backend, &plan)?;
    match config.start {
        StartAt::Committed => {
            let missing = plan.missing_topics(&mut *admin)?;
            reader.refuse_lost(&missing, &mut *admin)?;
            plan.make_topics(&missing, config.missing_outputs, &mut *admin)?;
        }
        StartAt::Replay { from, warm_up } => {
            fixed_sinks(&topology)?;
            // Refused while it runs: before anything of it is touched.
            let starts = reader.external_starts(from, warm_up)?;
            reader.commit(&*backend, starts)?;
            remake_topics(&plan, &mut *admin)?;
            discard_state(&plan, &*engines)?;
            let starts = reader.consumer.beginning_offsets(&plan.internal_inputs())?;
            reader.commit(&*backend, starts)?;
        }
    }
    let ends = reader.ends(&config)?.map(Arc::new);
    let metrics = Metrics::new(config.workers);
    Ok(Surroundings { plan, backend, clock, config, engines, metrics, ends })
}

/// Checks that settings fit together, and settles what a replay leaves no choice in.
fn checked(config: &RuntimeConfig) -> Result<RuntimeConfig, StartError> {
    let mut config = config.clone();
    if config.workers == 0 {
        return Err(StartError::NoWorkers);
    }
    config.task.cache_max_bytes /= config.workers;
    let (interval, timeout) = (config.commit_interval(), config.transaction_timeout);
    if config.guarantee == Guarantee::ExactlyOnce && interval >= timeout {
        return Err(StartError::CommitInterval { interval, timeout });
    }
    let StartAt::Replay { from, warm_up } = config.start else {
        return Ok(config);
    };
    let task = &mut config.task;
    let (application_id, suffix) = (&task.application_id, &task.output_suffix);
    if suffix.is_empty() || !application_id.ends_with(&**suffix) {
        let (application_id, suffix) = (application_id.to_string(), suffix.to_string());
        return Err(StartError::NotAReplay { application_id, suffix });
    }
    match from {
        _ if warm_up.is_zero() => {}
        ReplayFrom::Time(from) => task.output_from = task.output_from.or(Some(from)),
        ReplayFrom::Beginning | ReplayFrom::Offset(_) => return Err(StartError::WarmUpNeedsTime),
    }
    // No clock and no race decides what a replay writes, and in which order.
    task.cache_max_bytes = 0;
    config.workers = 1;
    Ok(config)
}

/// Kafka's default of `delete.retention.ms`.
const DELETES_KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long the changelogs keep deletes at least.
fn shortest_memory(plan: &Plan) -> Duration {
    let configured = |topic: &NewTopic| topic.config.get("delete.retention.ms")?.parse().ok();
    let configured = plan.internal_topics().iter().filter_map(configured);
    configured.map(Duration::from_millis).chain([DELETES_KEPT]).min().unwrap_or(DELETES_KEPT)
}

/// A replay makes all topics anew that it writes, so it has to know them.
fn fixed_sinks(topology: &Topology) -> Result<(), StartError> {
    let mut nodes = topology.nodes();
    let by_record = |node: &NodeDef| {
        matches!(&node.kind, NodeKind::Sink { topic: SinkTopic::Extracted(_), .. })
    };
    match nodes.find(|node| by_record(node)) {
        Some(node) => Err(StartError::ReplayOfDynamicSink(node.name.to_string())),
        None => Ok(()),
    }
}

/// Makes the topics of a replay anew.
fn remake_topics(plan: &Plan, admin: &mut dyn Admin) -> Result<(), StartError> {
    let own: Vec<&NewTopic> = plan.internal_topics().iter().chain(plan.outputs()).collect();
    let own: Vec<&str> = own.into_iter().map(|topic| topic.name.as_str()).collect();
    admin.delete(&own).map_err(PlanError::from)?;
    Ok(plan.create_topics(MissingOutputs::Create, admin)?)
}

/// Discards what an earlier replay of the same name left.
fn discard_state(plan: &Plan, engines: &dyn Engines) -> Result<(), StartError> {
    for task in plan.tasks() {
        engines.discard(task)?;
    }
    Ok(())
}

/// Looks at the inputs before anybody reads them.
struct Reader {
    consumer: Box<dyn Consumer>,
    plan: Arc<Plan>,
}

impl Reader {
    fn new(backend: &dyn Backend, plan: &Arc<Plan>) -> PortResult<Self> {
        let client_id = format!("{}-start", plan.application_id());
        let options = ConsumerOptions { isolation: Isolation::ReadCommitted, client_id };
        Ok(Self { consumer: backend.consumer(&options)?, plan: Arc::clone(plan) })
    }

    /// Fails when an internal topic is missing that committed work relies on.
    fn refuse_lost(
        &mut self,
        missing: &[NewTopic],
        admin: &mut dyn Admin,
    ) -> Result<(), StartError> {
        if missing.is_empty() {
            return Ok(());
        }
        let inputs = [self.plan.external_inputs(), self.plan.internal_inputs()].concat();
        let committed = self.consumer.committed(self.plan.application_id(), &inputs)?;
        let facts = committed.into_values().map(|at| OffsetMetadata::decode(&at.metadata));
        let facts: Vec<_> = facts.map(|known| known.unwrap_or_default().processor).collect();
        self.plan.refuse_lost(missing, &facts, admin)?;
        if !facts.is_empty() {
            let names: Vec<&str> = missing.iter().map(|topic| topic.name.as_str()).collect();
            tracing::warn!(
                "internal topics are missing although offsets are committed: {}; they are made, empty, which is right when the \
                 topology has changed",
                names.join(", ")
            );
        }
        Ok(())
    }

    /// Commits where a replay begins, so that its workers go on from there, also after a failure.
    fn commit(
        &self,
        backend: &dyn Backend,
        starts: BTreeMap<TopicPartition, Offset>,
    ) -> Result<(), StartError> {
        if starts.is_empty() {
            return Ok(());
        }
        let offsets = starts
            .into_iter()
            .map(|(tp, offset)| (tp, CommittedOffset { offset, metadata: String::new() }))
            .collect();
        let group = self.plan.application_id().to_string();
        let mut producer = backend.producer(&ProducerOptions {
            transactional_id: None,
            transaction_timeout: Duration::from_secs(60),
            client_id: format!("{group}-start"),
        })?;
        let nobody = GroupMetadata { group, member: String::new(), generation: -1 };
        producer.commit_offsets(&offsets, &nobody).map_err(|error| match error.kind() {
            PortErrorKind::Fenced => StartError::ReplayIsRunning(nobody.group.clone()),
            _ => StartError::Port(error),
        })
    }

    fn external_starts(
        &mut self,
        from: ReplayFrom,
        warm_up: Duration,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        let all = self.plan.external_inputs();
        match from {
            ReplayFrom::Beginning => self.consumer.beginning_offsets(&all),
            ReplayFrom::Time(time) => {
                let warm_up = i64::try_from(warm_up.as_millis()).unwrap_or(i64::MAX);
                self.offsets_at(&all, Timestamp(time.0.saturating_sub(warm_up)))
            }
            ReplayFrom::Offset(offset) => {
                let starts = self.consumer.beginning_offsets(&all)?;
                let ends = self.consumer.end_offsets(&all, Isolation::ReadCommitted)?;
                let nearest = |(tp, start): (TopicPartition, Offset)| {
                    let end = ends.get(&tp).copied().unwrap_or(start);
                    (tp, Offset(offset).min(end).max(start))
                };
                Ok(starts.into_iter().map(nearest).collect())
            }
        }
    }

    /// The first offset that is not older than the time; the end where there is none.
    fn offsets_at(
        &mut self,
        partitions: &[TopicPartition],
        time: Timestamp,
    ) -> PortResult<BTreeMap<TopicPartition, Offset>> {
        let mut offsets = self.consumer.end_offsets(partitions, Isolation::ReadCommitted)?;
        let times: Vec<_> = partitions.iter().map(|tp| (tp.clone(), time)).collect();
        for (tp, offset) in self.consumer.offsets_for_times(&times)? {
            offsets.entry(tp).and_modify(|end| *end = offset.min(*end));
        }
        Ok(offsets)
    }

    /// Where the external inputs end, in a run that ends by itself.
    fn ends(&mut self, config: &RuntimeConfig) -> PortResult<Option<Ends>> {
        let all = self.plan.external_inputs();
        let bounds = match config.until {
            Until::Forever => return Ok(None),
            Until::EndAtStart => self.consumer.end_offsets(&all, Isolation::ReadCommitted)?,
            Until::Time(time) => self.offsets_at(&all, time)?,
        };
        let order = match config.start {
            StartAt::Replay { .. } => Order::ByTime,
            StartAt::Committed => Order::Free,
        };
        Ok(Some(Ends::new(Arc::clone(&self.plan), order, bounds)))
    }
}
