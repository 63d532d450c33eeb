//! Topics by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::engine::TopicView;
use crate::ports::{NewTopic, PortError, PortErrorKind, PortResult, TopicInfo};
use crate::wire::TopicPartition;

/// Kafka's default of `max.message.bytes`.
const DEFAULT_MAX_MESSAGE_BYTES: usize = 1_048_588;

/// How many similar or existing names an error lists.
const NAMES_LISTED_MAX: usize = 5;

/// A topic and its partitions, whatever a backend keeps of them.
#[derive(Debug)]
pub(crate) struct TopicEntry<P> {
    pub(crate) id: String,
    pub(crate) partitions: Vec<P>,
    pub(crate) max_message_bytes: usize,
    /// `message.timestamp.type=LogAppendTime`: the log stamps every record.
    pub(crate) stamps: bool,
}

/// Is a topic to be created there already?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Existing {
    Yes,
    No,
}

#[derive(Debug)]
pub(crate) struct Catalog<P> {
    topics: BTreeMap<Arc<str>, TopicEntry<P>>,
}

impl<P> Default for Catalog<P> {
    fn default() -> Self {
        Self { topics: BTreeMap::new() }
    }
}

impl<P> Catalog<P> {
    /// Finds a topic.
    pub(crate) fn get(&self, name: &str) -> PortResult<(&Arc<str>, &TopicEntry<P>)> {
        self.topics.get_key_value(name).ok_or_else(|| self.unknown(name))
    }

    /// What a producer has to know of a topic.
    pub(crate) fn view(&self, name: &str) -> PortResult<TopicView> {
        let (name, topic) = self.get(name)?;
        Ok(TopicView {
            name: Arc::clone(name),
            partitions: topic.partitions.len() as i32,
            max_message_bytes: topic.max_message_bytes,
        })
    }

    /// Finds a partition.
    pub(crate) fn partition(&self, tp: &TopicPartition) -> PortResult<&P> {
        let entry = self.topics.get(&tp.topic);
        entry
            .and_then(|t| t.partitions.get(usize::try_from(tp.partition).ok()?))
            .ok_or_else(|| self.unknown_partition(tp))
    }

    /// Does the log stamp every record of this partition?
    pub(crate) fn stamps(&self, tp: &TopicPartition) -> PortResult<bool> {
        self.partition(tp)?;
        Ok(self.topics.get(&tp.topic).is_some_and(|t| t.stamps))
    }

    /// Finds a partition, to change it, and whether its topic stamps records.
    pub(crate) fn partition_mut(&mut self, tp: &TopicPartition) -> PortResult<(&mut P, bool)> {
        if self.partition(tp).is_err() {
            return Err(self.unknown_partition(tp));
        }
        let topic = self.topics.get_mut(&tp.topic).expect("it was found above");
        let partition = &mut topic.partitions[tp.partition as usize];
        Ok((partition, topic.stamps))
    }

    /// Can it be created?
    pub(crate) fn check_new(&self, topic: &NewTopic) -> PortResult<Existing> {
        let refused = |message| Err(PortError::new(PortErrorKind::Refused, message));
        let name = &topic.name;
        if let Err(why) = check_name(name) {
            return refused(format!("cannot create topic {name:?}: {why}"));
        }
        if topic.partitions < 1 {
            return refused(format!(
                "cannot create topic {name:?} with {} partitions: it needs at least one",
                topic.partitions
            ));
        }
        max_message_bytes(name, &topic.config)?;
        match self.topics.get(name.as_str()) {
            None => Ok(Existing::No),
            Some(t) if t.partitions.len() == topic.partitions as usize => Ok(Existing::Yes),
            Some(t) => refused(format!(
                "topic {name:?} has {} partitions, {} are asked for: delete it first or ask for as many",
                t.partitions.len(),
                topic.partitions
            )),
        }
    }

    /// Adds a topic that [`check_new`](Self::check_new) accepted.
    pub(crate) fn insert(
        &mut self,
        topic: &NewTopic,
        id: String,
        partitions: Vec<P>,
    ) -> PortResult<()> {
        let entry = TopicEntry {
            id,
            max_message_bytes: max_message_bytes(&topic.name, &topic.config)?,
            stamps: topic
                .config
                .get("message.timestamp.type")
                .is_some_and(|v| v == "LogAppendTime"),
            partitions,
        };
        self.topics.insert(topic.name.as_str().into(), entry);
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> Option<TopicEntry<P>> {
        self.topics.remove(name)
    }

    pub(crate) fn list(&self) -> Vec<TopicInfo> {
        let info = |(name, t): (&Arc<str>, &TopicEntry<P>)| TopicInfo {
            name: name.to_string(),
            id: t.id.clone(),
            partitions: t.partitions.len() as i32,
        };
        self.topics.iter().map(info).collect()
    }

    fn unknown(&self, name: &str) -> PortError {
        let mut near: Vec<_> = self
            .topics
            .keys()
            .map(|known| (strsim::jaro_winkler(known, name), known))
            .filter(|(likeness, _)| *likeness > 0.8)
            .collect();
        near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        let names = |names: Vec<&Arc<str>>| {
            let shown = names.iter().take(NAMES_LISTED_MAX);
            shown.map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ")
        };
        let hint = if self.topics.is_empty() {
            "there are no topics yet; create it first".to_owned()
        } else if near.is_empty() {
            let all = names(self.topics.keys().collect());
            format!(
                "none of the {} topics has a similar name ({all}{}); create it first",
                self.topics.len(),
                if self.topics.len() > NAMES_LISTED_MAX { ", …" } else { "" }
            )
        } else {
            let near = names(near.into_iter().map(|(_, n)| n).collect());
            format!("did you mean {near}?")
        };
        PortError::new(
            PortErrorKind::UnknownTopic,
            format!("topic {name:?} does not exist: {hint}"),
        )
    }

    fn unknown_partition(&self, tp: &TopicPartition) -> PortError {
        match self.topics.get(&tp.topic) {
            None => self.unknown(&tp.topic),
            Some(t) => PortError::new(
                PortErrorKind::UnknownTopic,
                format!(
                    "partition {} does not exist: topic {:?} has partitions 0 to {}",
                    tp.partition,
                    tp.topic,
                    t.partitions.len() - 1
                ),
            ),
        }
    }
}

/// Kafka's rule for topic names.
fn check_name(name: &str) -> Result<(), &'static str> {
    let legal = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > 249 {
        Err("a topic's name has 1 to 249 characters")
    } else if matches!(name, "." | "..") || !name.bytes().all(legal) {
        Err("a topic's name has only letters, digits, '.', '_' and '-', and is not '.' or '..'")
    } else {
        Ok(())
    }
}

fn max_message_bytes(name: &str, config: &BTreeMap<String, String>) -> PortResult<usize> {
    let Some(text) = config.get("max.message.bytes") else {
        return Ok(DEFAULT_MAX_MESSAGE_BYTES);
    };
    text.parse().map_err(|_| {
        PortError::new(
            PortErrorKind::Refused,
            format!("topic {name:?}: max.message.bytes is {text:?}, not a number of bytes"),
        )
    })
}
