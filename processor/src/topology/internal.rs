//! The topics that belong to the application, as Kafka Streams would create them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Topology;
use crate::stores::{StoreDef, StoreShape};

/// How much longer than its store a windowed changelog keeps records, in ms: Kafka Streams' default of
/// `windowstore.changelog.additional.retention.ms`.
const ADDITIONAL_RETENTION_MS: i64 = 86_400_000;

/// What an internal topic is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum InternalTopicKind {
    /// Carries re-keyed records to their new owner.
    Repartition,
    /// Rebuilds a store.
    Changelog,
    /// A source topic of the user's that also rebuilds a store: never created, only checked.
    SourceAsChangelog,
}

/// One internal topic of an application.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct InternalTopicDef {
    /// Its full name.
    pub name: Arc<str>,
    /// What it is for.
    pub kind: InternalTopicKind,
    /// How many partitions it has, when the topology says so; else it follows from the topics it is fed from.
    pub partitions: Option<i32>,
    /// Its topic configuration.
    pub config: BTreeMap<String, String>,
}

impl Topology {
    /// The topics that belong to the application, by name, with the configuration Kafka Streams gives them.
    pub fn internal_topics_for(&self, application_id: &str) -> Vec<InternalTopicDef> {
        let repartition = self.internal_topics().iter().map(|(name, topic)| InternalTopicDef {
            name: format!("{application_id}-{name}").into(),
            kind: InternalTopicKind::Repartition,
            partitions: topic.partitions,
            config: repartition_config(),
        });
        let used = self.stores().filter(|store| !store.nodes.is_empty());
        let changelogs = used.filter_map(|store| {
            let (name, kind) = match &store.source_as_changelog {
                Some(topic) => {
                    (topic.resolve(application_id), InternalTopicKind::SourceAsChangelog)
                }
                None => {
                    store.def.logging.as_ref()?;
                    let name = store.def.changelog_topic(application_id).into();
                    (name, InternalTopicKind::Changelog)
                }
            };
            let config = changelog_config(&store.def);
            Some(InternalTopicDef { name, kind, partitions: None, config })
        });
        let mut topics: Vec<_> = repartition.chain(changelogs).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name).then(a.kind.cmp(&b.kind)));
        topics
    }

    /// Sets of source topics that need equal partition counts, by full name; sorted.
    pub fn copartition_groups_for(&self, application_id: &str) -> Vec<Vec<Arc<str>>> {
        let groups = self.copartition_groups().iter();
        let mut groups: Vec<Vec<_>> = groups
            .map(|group| group.iter().map(|topic| topic.resolve(application_id)).collect())
            .collect();
        groups.iter_mut().for_each(|group| group.sort());
        groups.sort();
        groups
    }
}

fn config_of(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// Consumed records are deleted by the workers, so nothing expires by itself.
pub(crate) fn repartition_config() -> BTreeMap<String, String> {
    config_of(&[
        ("cleanup.policy", "delete"),
        ("message.timestamp.type", "CreateTime"),
        ("retention.ms", "-1"),
        ("segment.bytes", "52428800"),
    ])
}

/// The configuration of a store's changelog; what the user said comes last.
pub(crate) fn changelog_config(def: &StoreDef) -> BTreeMap<String, String> {
    let mut config = config_of(&[("message.timestamp.type", "CreateTime")]);
    let mut set = |key: &str, value: &str| {
        config.insert(key.to_owned(), value.to_owned());
    };
    match def.shape {
        StoreShape::KeyValue | StoreShape::Buffer => set("cleanup.policy", "compact"),
        StoreShape::Window { retention_ms, retain_duplicates, .. } => {
            let kept = retention_ms.saturating_add(ADDITIONAL_RETENTION_MS);
            set("retention.ms", &kept.to_string());
            // Values of one key are not versions of each other, so compaction would lose some.
            set("cleanup.policy", if retain_duplicates { "delete" } else { "compact,delete" });
        }
        StoreShape::Session { retention_ms } => {
            let kept = retention_ms.saturating_add(ADDITIONAL_RETENTION_MS);
            set("retention.ms", &kept.to_string());
            set("cleanup.policy", "compact,delete");
        }
    }
    config.extend(def.logging.iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
    config
}

#[cfg(test)]
#[path = "internal_tests.rs"]
mod tests;
