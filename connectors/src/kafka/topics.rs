//! Which topics there are, as every client of this backend asks.

use std::collections::BTreeMap;
use std::time::Duration;

use super::error::failed;
use super::ffi::{self, Client, code};
use crate::names;
use crate::ports::{PortError, PortResult, TopicInfo};
use crate::wire::TopicPartition;

/// How long a question waits that may be asked again: short enough that a user hears soon that no broker is there.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// How long a question may take.
pub(super) fn patience(request_timeout: Duration) -> Duration {
    request_timeout.min(ANSWER_MAX)
}

/// Describes topics; those that are not there are left out.
pub(super) fn describe(
    client: &Client,
    names: &[&str],
    timeout: Duration,
) -> PortResult<Vec<TopicInfo>> {
    let attempt = || match names {
        [name] => format!("describe topic {name:?}"),
        _ => format!("describe {} topics", names.len()),
    };
    // No topic has an illegal name; a broker would end the whole question over one.
    let legal: Vec<_> = names.iter().copied().filter(|n| names::is_legal(n)).collect();
    let answers =
        ffi::describe_topics(client, &legal, timeout).map_err(|f| failed(attempt(), f))?;
    let mut topics = Vec::with_capacity(answers.len());
    for answer in answers {
        match answer.failure {
            None => topics.push(TopicInfo {
                name: answer.name,
                // Brokers before 2.8 give topics no identity, which reads as zero.
                id: if answer.id.bytes().all(|b| b == b'A') { String::new() } else { answer.id },
                partitions: answer.partitions,
            }),
            Some(f) if matches!(f.code, code::UNKNOWN_TOPIC | code::UNKNOWN_TOPIC_OR_PARTITION) => {
            }
            Some(f) => return Err(failed(format!("describe topic {:?}", answer.name), f)),
        }
    }
    Ok(topics)
}

/// The settings of topics; those that this client may not see are left out.
pub(super) fn settings(
    client: &Client,
    names: &[&str],
    timeout: Duration,
) -> PortResult<BTreeMap<String, BTreeMap<String, String>>> {
    let answers = ffi::topic_settings(client, names, timeout)
        .map_err(|f| failed("ask for the settings of topics", f))?;
    let mut known = BTreeMap::new();
    for answer in answers {
        match answer.settings {
            Ok(settings) => drop(known.insert(answer.topic, settings)),
            Err(why) => tracing::debug!(topic = answer.topic, "its settings are not known: {why}"),
        }
    }
    Ok(known)
}

/// Lists all topics but the cluster's own.
pub(super) fn list(client: &Client, timeout: Duration) -> PortResult<Vec<TopicInfo>> {
    let names = ffi::topic_names(client, timeout).map_err(|f| failed("list the topics", f))?;
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut topics = describe(client, &names, timeout)?;
    topics.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(topics)
}

/// The topic is not there: says which ones are like it.
pub(super) fn unknown(client: &Client, name: &str, timeout: Duration) -> PortError {
    match ffi::topic_names(client, timeout) {
        Ok(known) => names::unknown_topic(name, known.iter().map(String::as_str)),
        Err(failure) => failed("list the topics", failure),
    }
}

/// Checks that a partition is there, given its topic's number of partitions.
pub(super) fn check_partition(tp: &TopicPartition, partitions: i32) -> PortResult<()> {
    if (0..partitions).contains(&tp.partition) {
        return Ok(());
    }
    Err(names::unknown_partition(tp, usize::try_from(partitions).unwrap_or(0)))
}
