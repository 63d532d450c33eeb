//! The topics of a plan: sources that have to be there, internal topics and how they are configured, outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_connectors::{Admin, NewTopic, PortResult, TopicInfo, topic_hint};

use super::{Plan, PlanError, settings, written};
use crate::config::TaskConfig;
use crate::topology::{InternalTopicKind, NodeKind, TopicRef, Topology};

/// The partition counts of the external source topics; all of them have to be there.
pub(super) fn sources(
    topology: &Topology,
    admin: &mut dyn Admin,
) -> Result<BTreeMap<Arc<str>, i32>, PlanError> {
    let names: BTreeSet<Arc<str>> = topology
        .nodes()
        .filter_map(|node| match &node.kind {
            NodeKind::Source(def) => Some(&def.topics),
            _ => None,
        })
        .flatten()
        .filter_map(|topic| match topic {
            TopicRef::External(name) => Some(Arc::clone(name)),
            TopicRef::Internal(_) => None,
        })
        .collect();
    let asked: Vec<&str> = names.iter().map(|n| &**n).collect();
    let found = Found::look(&asked, admin)?;
    let mut partitions = BTreeMap::new();
    for name in &names {
        match found.topics.get(&**name) {
            Some(info) => partitions.insert(Arc::clone(name), info.partitions),
            None => {
                let (topic, hint) = (name.to_string(), found.hint(name));
                return Err(PlanError::MissingSource { topic, hint });
            }
        };
    }
    Ok(partitions)
}

/// What was found of topics that were looked for.
pub(crate) struct Found {
    pub(crate) topics: BTreeMap<String, TopicInfo>,
    /// All that there are, when one was missing.
    all: Vec<TopicInfo>,
}

impl Found {
    /// Describes topics. Those that are not there are looked for a second time, among all: brokers hear of a new topic a little
    /// later than whoever made it.
    pub(crate) fn look(names: &[&str], admin: &mut dyn Admin) -> PortResult<Self> {
        let mut found = Self { topics: admin.describe(names)?, all: Vec::new() };
        if found.topics.len() < names.len() {
            found.all = admin.list()?;
            let late = found.all.iter().filter(|t| names.contains(&t.name.as_str()));
            found.topics.extend(late.map(|t| (t.name.clone(), t.clone())));
        }
        Ok(found)
    }

    /// What to do about a topic that was not found.
    fn hint(&self, name: &str) -> String {
        topic_hint(name, self.all.iter().map(|topic| topic.name.as_str()))
    }
}

fn new_topic(name: &str, partitions: i32, config: BTreeMap<String, String>) -> NewTopic {
    NewTopic { name: name.to_owned(), partitions, config }
}

/// The topics that belong to the application, with their partition counts.
pub(super) fn internal(plan: &Plan) -> Vec<NewTopic> {
    let app = &plan.application_id;
    let stores: Vec<_> = plan.topology.stores().collect();
    let mut tasks: BTreeMap<String, i32> = BTreeMap::new();
    for (sub, part) in plan.topology.sub_topologies().iter().zip(&plan.parts) {
        let changelogs = sub.stores.iter().map(|no| stores[no.0 as usize].def.changelog_topic(app));
        tasks.extend(changelogs.map(|name| (name, part.tasks)));
    }
    let topics = plan.topology.internal_topics_for(app).into_iter().filter_map(|topic| {
        let partitions = match topic.kind {
            InternalTopicKind::Repartition => plan.partitions.get(&topic.name),
            InternalTopicKind::Changelog => tasks.get(&*topic.name),
            InternalTopicKind::SourceAsChangelog => None,
        };
        Some(new_topic(&topic.name, *partitions?, topic.config))
    });
    topics.collect()
}

/// The topics that sinks always write, with the suffix. They would be made as wide as the topic without the suffix is, else
/// with as many partitions as tasks write them.
pub(super) fn outputs(
    plan: &Plan,
    config: &TaskConfig,
    admin: &mut dyn Admin,
) -> Result<Vec<NewTopic>, PlanError> {
    let mut outputs: BTreeMap<&str, i32> = BTreeMap::new();
    for (sub, part) in plan.topology.sub_topologies().iter().zip(&plan.parts) {
        for topic in written(&plan.topology, sub) {
            if let TopicRef::External(name) = topic {
                let partitions = outputs.entry(name).or_default();
                *partitions = part.tasks.max(*partitions);
            }
        }
    }
    if let Some(dead_letters) = &config.dead_letter_topic {
        outputs.entry(dead_letters).or_insert(1);
    }
    let (names, suffix) = (outputs.keys().copied().collect::<Vec<_>>(), &config.output_suffix);
    let originals = admin.describe(&names)?;
    let output = |(name, tasks): (&str, i32)| {
        let partitions = originals.get(name).map_or(tasks, |info| info.partitions);
        new_topic(&format!("{name}{suffix}"), partitions, BTreeMap::new())
    };
    Ok(outputs.into_iter().map(output).collect())
}

/// Checks the topics that are there; gives the others.
pub(super) fn check(
    topics: &[NewTopic],
    admin: &mut dyn Admin,
) -> Result<Vec<NewTopic>, PlanError> {
    let names: Vec<&str> = topics.iter().map(|t| t.name.as_str()).collect();
    let found = admin.describe(&names)?;
    let (there, missing): (Vec<&NewTopic>, Vec<&NewTopic>) =
        topics.iter().partition(|topic| found.contains_key(&topic.name));
    for topic in &there {
        let partitions = found[&topic.name].partitions;
        if partitions != topic.partitions {
            return Err(PlanError::WrongPartitions {
                topic: topic.name.clone(),
                found: partitions,
                needed: topic.partitions,
            });
        }
    }
    settings::check(&there, admin)?;
    Ok(missing.into_iter().cloned().collect())
}

/// Those that were not found.
fn without(topics: &[NewTopic], found: &BTreeMap<String, TopicInfo>) -> Vec<NewTopic> {
    let missing = topics.iter().filter(|t| !found.contains_key(&t.name));
    missing.cloned().collect()
}

/// Makes topics.
pub(super) fn make(topics: &[NewTopic], admin: &mut dyn Admin) -> Result<(), PlanError> {
    for topic in topics {
        tracing::info!(topic = %topic.name, partitions = topic.partitions, "creating topic");
    }
    if !topics.is_empty() {
        admin.create(topics)?;
    }
    Ok(())
}

/// Makes the outputs that are missing; others may have any number of partitions.
pub(super) fn create_missing(outputs: &[NewTopic], admin: &mut dyn Admin) -> Result<(), PlanError> {
    let names: Vec<&str> = outputs.iter().map(|t| t.name.as_str()).collect();
    let found = admin.describe(&names)?;
    make(&without(outputs, &found), admin)
}

/// Fails at the first output that is not there.
pub(super) fn check_outputs(outputs: &[NewTopic], admin: &mut dyn Admin) -> Result<(), PlanError> {
    let names: Vec<&str> = outputs.iter().map(|t| t.name.as_str()).collect();
    let found = Found::look(&names, admin)?;
    match without(outputs, &found.topics).first() {
        None => Ok(()),
        Some(topic) => {
            let (topic, hint) = (topic.name.clone(), found.hint(&topic.name));
            Err(PlanError::MissingOutput { topic, hint })
        }
    }
}
