//! The topics of a plan: sources that have to be there, internal topics and how they are configured, outputs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_connectors::{Admin, NewTopic, TopicInfo};

use super::{Plan, PlanError, written};
use crate::config::TaskConfig;
use crate::topology::{InternalTopicKind, NodeKind, TopicRef, Topology};

/// How many similar or existing names a message lists.
const NAMES_LISTED_MAX: usize = 3;

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
    let found = find(&asked, admin)?;
    let mut partitions = BTreeMap::new();
    for name in &names {
        match found.get(&**name) {
            Some(info) => partitions.insert(Arc::clone(name), info.partitions),
            None => {
                return Err(PlanError::MissingSource {
                    topic: name.to_string(),
                    hint: hint(name, admin)?,
                });
            }
        };
    }
    Ok(partitions)
}

/// Describes topics. Those that are not there are looked for a second time: brokers hear of a new topic a little later than whoever
/// made it.
fn find(names: &[&str], admin: &mut dyn Admin) -> Result<BTreeMap<String, TopicInfo>, PlanError> {
    let mut found = admin.describe(names)?;
    if found.len() < names.len() {
        let listed = admin.list()?.into_iter().filter(|t| names.contains(&t.name.as_str()));
        found.extend(listed.map(|t| (t.name.clone(), t)));
    }
    Ok(found)
}

/// What to do about a topic that is not there.
fn hint(name: &str, admin: &mut dyn Admin) -> Result<String, PlanError> {
    let all = admin.list()?;
    let mut near: Vec<(f64, &str)> = all
        .iter()
        .map(|t| (strsim::jaro_winkler(&t.name, name), t.name.as_str()))
        .filter(|(likeness, _)| *likeness > 0.8)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let quoted = |names: &mut dyn Iterator<Item = &str>| {
        let quoted: Vec<String> = names.take(NAMES_LISTED_MAX).map(|n| format!("`{n}`")).collect();
        quoted.join(", ")
    };
    Ok(match (near.is_empty(), all.is_empty()) {
        (false, _) => format!("did you mean {}?", quoted(&mut near.into_iter().map(|(_, n)| n))),
        (true, true) => "there are no topics yet; create it first".to_owned(),
        (true, false) => format!(
            "none of the {} topics has a similar name, among them {}; create it first",
            all.len(),
            quoted(&mut all.iter().map(|t| t.name.as_str()))
        ),
    })
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

/// Checks the topics that are there, and makes the others.
pub(super) fn create(topics: &[NewTopic], admin: &mut dyn Admin) -> Result<(), PlanError> {
    let found = describe(topics, admin)?;
    for topic in topics {
        let info = found.get(&topic.name);
        if let Some(info) = info.filter(|i| i.partitions != topic.partitions) {
            return Err(PlanError::WrongPartitions {
                topic: topic.name.clone(),
                found: info.partitions,
                needed: topic.partitions,
            });
        }
    }
    make(&without(topics, &found), admin)
}

fn describe(
    topics: &[NewTopic],
    admin: &mut dyn Admin,
) -> Result<BTreeMap<String, TopicInfo>, PlanError> {
    let names: Vec<&str> = topics.iter().map(|t| t.name.as_str()).collect();
    Ok(admin.describe(&names)?)
}

/// Those that were not found.
fn without(topics: &[NewTopic], found: &BTreeMap<String, TopicInfo>) -> Vec<NewTopic> {
    let missing = topics.iter().filter(|t| !found.contains_key(&t.name));
    missing.cloned().collect()
}

fn make(topics: &[NewTopic], admin: &mut dyn Admin) -> Result<(), PlanError> {
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
    let found = describe(outputs, admin)?;
    make(&without(outputs, &found), admin)
}

/// Fails at the first output that is not there.
pub(super) fn check_outputs(outputs: &[NewTopic], admin: &mut dyn Admin) -> Result<(), PlanError> {
    let names: Vec<&str> = outputs.iter().map(|t| t.name.as_str()).collect();
    let found = find(&names, admin)?;
    match without(outputs, &found).first() {
        None => Ok(()),
        Some(topic) => Err(PlanError::MissingOutput {
            topic: topic.name.clone(),
            hint: hint(&topic.name, admin)?,
        }),
    }
}
