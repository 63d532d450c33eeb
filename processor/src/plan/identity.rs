//! Which internal topics the committed work of an application relies on.
//!
//! A digest of each topic's identity is committed beside the offsets of every task that reads or writes it, in the part of the
//! metadata that Kafka Streams keeps for processors. So it is known after a restart, on any machine, whether a topic is still the
//! one that the last commit knew: one that is missing, or was made anew, has lost what it held, and nobody would notice.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_connectors::TopicInfo;
use xxhash_rust::xxh3::xxh3_64;

use super::Plan;
use crate::topology::{SubTopology, TopicRef};

/// How much the entries of a task's topics may take, before they become text that is a third longer.
const COMMITTED_BYTES_MAX: usize = 2048;
/// What an entry takes beside its name: a length and the digest.
const ENTRY_BYTES: usize = 12;

/// What the entries of topics begin with; those of processors begin with a node's name.
const PREFIX: &str = "topic-id/";

/// An internal topic of a sub-topology: a changelog, or a repartition topic that it reads or writes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct OwnTopic {
    /// Its full name.
    pub(crate) name: Arc<str>,
    /// What its entry in committed metadata is called.
    pub(crate) key: Arc<str>,
}

impl OwnTopic {
    /// By its full name.
    pub(crate) fn new(name: Arc<str>, application_id: &str) -> Self {
        let short = name.strip_prefix(application_id).and_then(|rest| rest.strip_prefix('-'));
        let key = format!("{PREFIX}{}", short.unwrap_or(&name)).into();
        Self { name, key }
    }
}

/// The internal topics of a sub-topology, sorted.
pub(super) fn own_topics(plan: &Plan, number: usize, sub: &SubTopology) -> Vec<OwnTopic> {
    let app = &*plan.application_id;
    let written = super::written(&plan.topology, sub).filter_map(|topic| match topic {
        TopicRef::Internal(_) => Some(topic.resolve(app)),
        TopicRef::External(_) => None,
    });
    let read = plan.parts[number].inputs.iter().filter(|input| input.internal);
    let stores: Vec<_> = plan.topology.stores().collect();
    let changelogs = sub.stores.iter().map(|no| stores[no.0 as usize].def.changelog_topic(app));
    let is_made = |name: &Arc<str>| plan.internal_topics.iter().any(|t| t.name == **name);
    let names = written.chain(read.map(|input| Arc::clone(&input.name)));
    let names = names.chain(changelogs.map(Arc::from).filter(is_made));
    let mut topics: Vec<OwnTopic> = names.map(|name| OwnTopic::new(name, app)).collect();
    topics.sort();
    topics.dedup();
    within(COMMITTED_BYTES_MAX, topics)
}

/// As many as may be committed: brokers take 4096 bytes of text beside an offset, by default, and others need some of it.
fn within(bytes_max: usize, mut topics: Vec<OwnTopic>) -> Vec<OwnTopic> {
    let mut bytes = 0;
    let fit = topics.iter().take_while(|topic| {
        bytes += topic.key.len() + ENTRY_BYTES;
        bytes <= bytes_max
    });
    let fit = fit.count();
    if let Some(first) = topics.get(fit) {
        tracing::warn!(topic = %first.name, left_out = topics.len() - fit,
            "too many internal topics in one sub-topology: from this one on nobody misses them when they are deleted");
    }
    topics.truncate(fit);
    topics
}

/// What is committed of a topic's identity; `None` on brokers that give topics none.
pub(crate) fn digest(topic: &TopicInfo) -> Option<i64> {
    (!topic.id.is_empty()).then(|| xxh3_64(topic.id.as_bytes()).cast_signed())
}

/// What became of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is the one that was committed with, or nothing was committed of it.
    Same,
    /// It is not there.
    Missing,
    /// Another one of its name is there.
    MadeAnew,
}

/// Compares a topic as it is now with what was committed of it.
pub(crate) fn fate(
    topic: &OwnTopic,
    committed: &BTreeMap<String, i64>,
    now: Option<&TopicInfo>,
) -> Fate {
    match (committed.get(&*topic.key), now) {
        (None, _) => Fate::Same,
        (Some(_), None) => Fate::Missing,
        (Some(before), Some(now)) => match digest(now) {
            Some(now) if now != *before => Fate::MadeAnew,
            _ => Fate::Same,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(id: &str) -> TopicInfo {
        TopicInfo { name: "app-counts-changelog".into(), id: id.into(), partitions: 1 }
    }

    #[test]
    fn only_a_topic_that_was_committed_with_can_be_lost() {
        let topic = OwnTopic::new("app-counts-changelog".into(), "app");
        assert_eq!(&*topic.key, "topic-id/counts-changelog");
        let before = digest(&info("one")).unwrap();
        let (nothing, one) = (BTreeMap::new(), [(topic.key.to_string(), before)].into());
        let cases = [
            (&nothing, None, Fate::Same),
            (&nothing, Some("one"), Fate::Same),
            (&one, Some("one"), Fate::Same),
            (&one, Some("two"), Fate::MadeAnew),
            (&one, Some(""), Fate::Same),
            (&one, None, Fate::Missing),
        ];
        for (committed, now, expected) in cases {
            let now = now.map(info);
            assert_eq!(fate(&topic, committed, now.as_ref()), expected, "{now:?}");
        }
    }

    #[test]
    fn no_more_topics_are_committed_than_fit_beside_an_offset() {
        let topics = |count| {
            let name = |n| format!("app-some-long-name-of-a-store-{n:02}-changelog").into();
            within(COMMITTED_BYTES_MAX, (0..count).map(|n| OwnTopic::new(name(n), "app")).collect())
        };
        assert_eq!(topics(30).len(), 30);
        let all = topics(90);
        let metadata = thalweg_txn::OffsetMetadata {
            partition_time: thalweg_connectors::Timestamp(0),
            processor: all.iter().map(|topic| (topic.key.to_string(), 0)).collect(),
        };
        assert!((2000..2900).contains(&metadata.encode().len()), "{}", metadata.encode().len());
    }

    /// It is stored: another one would make every topic look like another one.
    #[test]
    fn the_digest_stays_the_same() {
        assert_eq!(digest(&info("MSGoAXXYTZ2e8pW2RtrMmA")), Some(7_044_779_354_092_822_470));
    }
}
