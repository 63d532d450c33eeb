//! Topics by name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::engine::TopicView;
use crate::names;
use crate::ports::{NewTopic, PortError, PortErrorKind, PortResult, TopicInfo};
use crate::wire::TopicPartition;

/// The default of `max.message.bytes`: 64 MiB, and not Kafka's 1 MiB, because nobody can raise the limit of an internal topic that
/// an input has turned out to need. The longest line of an input is 16 MiB, and may be key and value of a record at once.
const DEFAULT_MAX_MESSAGE_BYTES: usize = 64 << 20;

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
        let name = &topic.name;
        names::check_new_topic(name, topic.partitions)?;
        max_message_bytes(name, &topic.config)?;
        match self.topics.get(name.as_str()) {
            None => Ok(Existing::No),
            Some(t) if t.partitions.len() == topic.partitions as usize => Ok(Existing::Yes),
            Some(t) => Err(names::other_partitions(name, t.partitions.len(), topic.partitions)),
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
        names::unknown_topic(name, self.topics.keys().map(|known| &**known))
    }

    fn unknown_partition(&self, tp: &TopicPartition) -> PortError {
        match self.topics.get(&tp.topic) {
            None => self.unknown(&tp.topic),
            Some(t) => names::unknown_partition(tp, t.partitions.len()),
        }
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
