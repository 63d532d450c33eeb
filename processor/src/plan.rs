//! From a topology to a plan of work: how many partitions every topic has, which tasks there are, who waits for whom.
//!
//! Repartition and changelog topics are made here, before any member joins; what is there already is checked, never made anew.
//!
//! | module | what it is |
//! | --- | --- |
//! | `counts` | partition counts of repartition topics, as Kafka Streams decides them |
//! | `topics` | the internal topics and their configuration |
//! | `settings` | whether those that are there are configured well |
//! | `identity` | whether they are still those that were committed with |
//! | `error` | why there can be no plan |

mod counts;
mod error;
pub(crate) mod identity;
mod settings;
#[cfg(test)]
mod tests;
mod topics;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_connectors::{Admin, NewTopic, Share, TopicPartition};

use crate::config::TaskConfig;
use crate::runtime::MissingOutputs;
use crate::topology::{NodeKind, SinkTopic, StoreNo, SubTopology, TaskId, TopicRef, Topology};

use self::identity::{Fate, OwnTopic};

pub(crate) use counts::resolve as partition_counts;
pub use error::{LostTopic, PlanError};
pub(crate) use topics::Found;

/// A topic that a topology reads or writes, by its full name.
#[derive(Clone, Debug)]
pub(crate) struct InputTopic {
    pub(crate) name: Arc<str>,
    /// One of the application's own.
    pub(crate) internal: bool,
    pub(crate) offset_reset: Option<thalweg_connectors::OffsetReset>,
}

/// One sub-topology in the plan.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) inputs: Vec<InputTopic>,
    /// Its tasks: as many as its widest input has partitions.
    pub(crate) tasks: i32,
    /// The sub-topologies that write its internal inputs.
    pub(crate) upstream: BTreeSet<u32>,
    /// The internal topics that it reads, writes, or keeps its stores' changes in.
    pub(crate) own: Vec<OwnTopic>,
}

/// Which tasks an application has on a backend, and which topics they need.
#[derive(Clone, Debug)]
pub struct Plan {
    topology: Topology,
    application_id: Arc<str>,
    partitions: BTreeMap<Arc<str>, i32>,
    parts: Vec<Part>,
    internal_topics: Vec<NewTopic>,
    outputs: Vec<NewTopic>,
}

impl Plan {
    /// Works out the plan from the topics that are there. Changes nothing.
    ///
    /// # Errors
    /// A source topic that is not there, partition counts that do not fit, a backend that cannot be asked.
    pub fn resolve(
        topology: &Topology,
        config: &TaskConfig,
        admin: &mut dyn Admin,
    ) -> Result<Self, PlanError> {
        let application_id = Arc::clone(&config.application_id);
        let existing = topics::sources(topology, admin)?;
        let partitions = counts::resolve(topology, &application_id, existing)?;
        let parts = parts(topology, &application_id, &partitions);
        let mut plan = Self {
            topology: topology.clone(),
            application_id,
            partitions,
            parts,
            internal_topics: Vec::new(),
            outputs: Vec::new(),
        };
        plan.internal_topics = topics::internal(&plan);
        for (number, sub) in topology.sub_topologies().iter().enumerate() {
            plan.parts[number].own = identity::own_topics(&plan, number, sub);
        }
        plan.outputs = topics::outputs(&plan, config, admin)?;
        Ok(plan)
    }

    /// Makes the internal topics that are missing and checks those that are there; heeds what is said of missing outputs.
    ///
    /// # Errors
    /// An internal topic with another number of partitions or with a policy that loses records, a missing output, a backend that
    /// cannot be asked.
    pub fn create_topics(
        &self,
        missing_outputs: MissingOutputs,
        admin: &mut dyn Admin,
    ) -> Result<(), PlanError> {
        let missing = self.missing_topics(admin)?;
        self.make_topics(&missing, missing_outputs, admin)
    }

    /// Makes the internal topics that are missing; heeds what is said of missing outputs.
    pub(crate) fn make_topics(
        &self,
        missing: &[NewTopic],
        missing_outputs: MissingOutputs,
        admin: &mut dyn Admin,
    ) -> Result<(), PlanError> {
        topics::make(missing, admin)?;
        match missing_outputs {
            MissingOutputs::Ignore => Ok(()),
            MissingOutputs::Create => topics::create_missing(&self.outputs, admin),
            MissingOutputs::Fail => topics::check_outputs(&self.outputs, admin),
        }
    }

    /// The internal topics that are missing; those that are there are checked.
    pub(crate) fn missing_topics(&self, admin: &mut dyn Admin) -> Result<Vec<NewTopic>, PlanError> {
        topics::check(&self.internal_topics, admin)
    }

    /// Refuses to make topics that committed work relies on. `committed` are the facts beside the offsets of all inputs.
    pub(crate) fn refuse_lost(
        &self,
        missing: &[NewTopic],
        committed: &[BTreeMap<String, i64>],
        admin: &mut dyn Admin,
    ) -> Result<(), PlanError> {
        let own = self.parts.iter().flat_map(|part| &part.own);
        let own = own.filter(|own| missing.iter().any(|topic| topic.name == *own.name));
        let lost = own.filter(|own| {
            committed.iter().any(|facts| identity::fate(own, facts, None) == Fate::Missing)
        });
        for topic in lost {
            // Another instance may have made it, and committed, since it was looked for.
            if Found::look(&[&topic.name], admin)?.topics.is_empty() {
                return Err(self.lost(topic, Fate::Missing).into());
            }
        }
        Ok(())
    }

    /// The error of a topic that is lost.
    pub(crate) fn lost(&self, topic: &OwnTopic, fate: Fate) -> LostTopic {
        let what = match fate {
            Fate::Missing => "was there at the last commit and is missing",
            Fate::MadeAnew | Fate::Same => "was deleted and made anew since the last commit",
        };
        let (topic, application_id) = (topic.name.to_string(), self.application_id.to_string());
        LostTopic { topic, application_id, what }
    }

    /// The topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// The application: group, and prefix of internal topics.
    pub fn application_id(&self) -> &Arc<str> {
        &self.application_id
    }

    /// How many partitions each input topic has, by full name.
    pub fn partitions(&self) -> &BTreeMap<Arc<str>, i32> {
        &self.partitions
    }

    /// Repartition and changelog topics, with their configuration.
    pub fn internal_topics(&self) -> &[NewTopic] {
        &self.internal_topics
    }

    /// The topics that sinks always write and that of dead letters, output suffix included, with as many partitions as they would be made with.
    pub fn outputs(&self) -> &[NewTopic] {
        &self.outputs
    }

    /// All shares of work: one per task.
    pub fn shares(&self) -> Vec<Share> {
        let share = |id: TaskId| Share { group: id.subtopology, partition: id.partition };
        self.tasks().map(share).collect()
    }

    /// The topics that each sub-topology reads.
    pub(crate) fn topics(&self) -> BTreeMap<u32, Vec<String>> {
        let names = |part: &Part| part.inputs.iter().map(|input| input.name.to_string()).collect();
        (0..).zip(&self.parts).map(|(number, part)| (number, names(part))).collect()
    }

    /// All tasks.
    pub fn tasks(&self) -> impl Iterator<Item = TaskId> {
        self.parts.iter().enumerate().flat_map(|(number, part)| {
            let task = move |partition| TaskId { subtopology: number as u32, partition };
            (0..part.tasks).map(task)
        })
    }

    /// The input partitions of all external topics.
    pub fn external_inputs(&self) -> Vec<TopicPartition> {
        self.inputs_that(|input| !input.internal)
    }

    /// The input partitions of all internal topics.
    pub fn internal_inputs(&self) -> Vec<TopicPartition> {
        self.inputs_that(|input| input.internal)
    }

    fn inputs_that(&self, wanted: impl Fn(&InputTopic) -> bool) -> Vec<TopicPartition> {
        let inputs = self.parts.iter().flat_map(|p| &p.inputs);
        let of = |input: &InputTopic| {
            let name = Arc::clone(&input.name);
            (0..self.partitions[&input.name])
                .map(move |partition| TopicPartition::new(Arc::clone(&name), partition))
        };
        inputs.filter(|i| wanted(i)).flat_map(of).collect()
    }

    pub(crate) fn sub_topology(&self, task: TaskId) -> &SubTopology {
        &self.topology.sub_topologies()[task.subtopology as usize]
    }

    /// The stores of a sub-topology that its tasks keep on disk.
    pub(crate) fn kept_stores(&self, sub: &SubTopology) -> Vec<&str> {
        let all = self.topology.stores().enumerate();
        let own = all.filter(|(no, _)| sub.stores.contains(&StoreNo(*no as u32)));
        let kept = own.map(|(_, store)| &store.def).filter(|def| def.persistent);
        kept.map(|def| &*def.name).collect()
    }

    /// How many tasks there are that keep stores on disk.
    pub(crate) fn keeping_tasks(&self) -> usize {
        let parts = self.parts.iter().zip(self.topology.sub_topologies());
        let keeping = parts.filter(|(_, sub)| !self.kept_stores(sub).is_empty());
        keeping.map(|(part, _)| part.tasks as usize).sum()
    }

    /// Are there global stores?
    pub(crate) fn has_globals(&self) -> bool {
        self.topology.sub_topologies().iter().any(|part| part.is_global)
    }

    pub(crate) fn part(&self, sub_topology: u32) -> &Part {
        &self.parts[sub_topology as usize]
    }
}

/// The topics that the sources of a sub-topology read.
fn inputs(topology: &Topology, part: &SubTopology, application_id: &str) -> Vec<InputTopic> {
    let nodes = part.nodes.iter().map(|ix| topology.node(*ix));
    let sources = nodes.filter_map(|node| match &node.kind {
        NodeKind::Source(def) => Some(def),
        _ => None,
    });
    let input = |topic: &TopicRef, offset_reset| InputTopic {
        name: topic.resolve(application_id),
        internal: matches!(topic, TopicRef::Internal(_)),
        offset_reset,
    };
    sources.flat_map(|def| def.topics.iter().map(|t| input(t, def.offset_reset))).collect()
}

/// The topics that the sinks of a sub-topology always write.
fn written<'a>(
    topology: &'a Topology,
    part: &'a SubTopology,
) -> impl Iterator<Item = &'a TopicRef> {
    part.nodes.iter().filter_map(|ix| match &topology.node(*ix).kind {
        NodeKind::Sink { topic: SinkTopic::Fixed(topic), .. } => Some(topic),
        _ => None,
    })
}

fn parts(
    topology: &Topology,
    application_id: &str,
    partitions: &BTreeMap<Arc<str>, i32>,
) -> Vec<Part> {
    let subs = topology.sub_topologies();
    let writers = |inputs: &[InputTopic], own: usize| -> BTreeSet<u32> {
        let reads = |topic: &TopicRef| {
            let name = topic.resolve(application_id);
            inputs.iter().any(|i| i.internal && i.name == name)
        };
        (0..subs.len())
            .filter(|&other| other != own && written(topology, &subs[other]).any(reads))
            .map(|other| other as u32)
            .collect()
    };
    let part = |(own, sub): (usize, &SubTopology)| {
        let inputs = match sub.is_global {
            true => Vec::new(),
            false => inputs(topology, sub, application_id),
        };
        let tasks = inputs.iter().map(|i| partitions[&i.name]).max();
        let upstream = writers(&inputs, own);
        Part { inputs, tasks: tasks.unwrap_or(0), upstream, own: Vec::new() }
    };
    subs.iter().enumerate().map(part).collect()
}
