//! What is said of a topic that is not there, and which names a topic may have.

use crate::ports::{PortError, PortErrorKind};
use crate::wire::TopicPartition;

/// How many similar or existing names an error lists.
const NAMES_LISTED_MAX: usize = 5;

/// The topic is not among those that are known.
pub(crate) fn unknown_topic<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> PortError {
    let hint = topic_hint(name, known);
    PortError::new(PortErrorKind::UnknownTopic, format!("topic {name:?} does not exist: {hint}"))
}

/// Says what to do about a topic that is not among those that are known: which have similar names, or to create it.
///
/// ```
/// use thalweg_connectors::topic_hint;
///
/// assert_eq!(topic_hint("page-views", ["page-view", "clicks"]), "did you mean \"page-view\"?");
/// assert_eq!(topic_hint("page-views", []), "there are no topics yet; create it first");
/// ```
pub fn topic_hint<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut known: Vec<_> = known.into_iter().collect();
    known.sort_unstable();
    let near = known.iter().map(|k| (strsim::jaro_winkler(k, name), *k));
    let mut near: Vec<_> = near.filter(|(likeness, _)| *likeness > 0.8).collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let names = |names: &mut dyn Iterator<Item = &str>| {
        let shown = names.take(NAMES_LISTED_MAX);
        shown.map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ")
    };
    if known.is_empty() {
        "there are no topics yet; create it first".to_owned()
    } else if near.is_empty() {
        format!(
            "none of the {} topics has a similar name ({}{}); create it first",
            known.len(),
            names(&mut known.iter().copied()),
            if known.len() > NAMES_LISTED_MAX { ", …" } else { "" }
        )
    } else {
        format!("did you mean {}?", names(&mut near.iter().map(|(_, n)| *n)))
    }
}

/// The topic has not so many partitions.
pub(crate) fn unknown_partition(tp: &TopicPartition, partitions: usize) -> PortError {
    PortError::new(
        PortErrorKind::UnknownTopic,
        format!(
            "partition {} does not exist: topic {:?} has partitions 0 to {}",
            tp.partition,
            tp.topic,
            partitions.saturating_sub(1)
        ),
    )
}

/// A topic cannot be created with that name or so many partitions.
pub(crate) fn check_new_topic(name: &str, partitions: i32) -> Result<(), PortError> {
    let refused = |message| Err(PortError::new(PortErrorKind::Refused, message));
    if let Err(why) = check_name(name) {
        return refused(format!("cannot create topic {name:?}: {why}"));
    }
    if partitions < 1 {
        return refused(format!(
            "cannot create topic {name:?} with {partitions} partitions: it needs at least one"
        ));
    }
    Ok(())
}

/// A topic is there with another number of partitions than is asked for.
pub(crate) fn other_partitions(name: &str, has: usize, asked: i32) -> PortError {
    PortError::new(
        PortErrorKind::Refused,
        format!(
            "topic {name:?} has {has} partitions, {asked} are asked for: delete it first or ask for as many"
        ),
    )
}

/// A record cannot be sent to a partition that is not there.
pub(crate) fn no_such_partition(name: &str, partition: i32, partitions: i32) -> PortError {
    PortError::new(
        PortErrorKind::UnknownTopic,
        format!(
            "cannot send to partition {partition} of {name:?}: it has partitions 0 to {}",
            partitions - 1
        ),
    )
}

/// A record is larger than its topic allows.
pub(crate) fn too_large(bytes: usize, topic: &str, partition: i32, max: usize) -> PortError {
    PortError::new(
        PortErrorKind::Refused,
        format!(
            "a record of {bytes} bytes for {topic}-{partition} is too large: max.message.bytes of the topic is {max}; \
             raise it, or write smaller records"
        ),
    )
}

/// May a topic have this name?
#[cfg(feature = "kafka")]
pub(crate) fn is_legal(name: &str) -> bool {
    check_name(name).is_ok()
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
