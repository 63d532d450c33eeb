//! A group's committed offsets, over the wire.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_fetch_response::OffsetFetchResponse;
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest, TopicName};
use kafka_protocol::protocol::StrBytes;

use super::coordinator::{Coordinator, Pauses, Refusal};
use super::error::{WireError, WireResult};
use crate::kafka::KafkaConfig;
use crate::ports::{CommittedOffset, GroupMetadata, PortError, PortErrorKind, PortResult};
use crate::wire::{Offset, TopicPartition};

/// Offsets by partition.
type Offsets = BTreeMap<TopicPartition, CommittedOffset>;

/// Commits and reads offsets of groups; connects when it is first used.
pub(crate) struct OffsetClient {
    config: KafkaConfig,
    client_id: String,
    coordinators: BTreeMap<String, Coordinator>,
}

impl OffsetClient {
    /// Makes one; nothing is connected yet.
    pub(crate) fn new(config: &KafkaConfig, client_id: &str) -> Self {
        let (config, client_id) = (config.clone(), client_id.to_owned());
        Self { config, client_id, coordinators: BTreeMap::new() }
    }

    /// Commits offsets as a member of its group. The same request is repeated, within the request timeout, until it is answered:
    /// the same member commits the same offsets, so that it does not matter how often.
    ///
    /// # Errors
    /// [`PortErrorKind::Fenced`] when the member is not current; [`PortErrorKind::Unknown`] when no answer came to a request
    /// that was sent.
    pub(crate) fn commit(&mut self, offsets: &Offsets, group: &GroupMetadata) -> PortResult<()> {
        if offsets.is_empty() {
            return Ok(());
        }
        let mut sent = false;
        let result = self.repeat(&group.group, |coordinator, timeout| {
            let result = coordinator.commit_offsets(offsets, group, timeout);
            sent |= result.as_ref().is_err_and(WireError::may_have_happened);
            result
        });
        result.map_err(|error| match error.is_passing() && sent {
            true => PortError::new(PortErrorKind::Unknown, error.in_one_line()),
            false => error.into(),
        })
    }

    /// The offsets that a group has committed; partitions without one are left out.
    ///
    /// # Errors
    /// [`PortErrorKind::Retriable`] while a transaction holds one of them.
    pub(crate) fn committed(
        &mut self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> PortResult<Offsets> {
        if partitions.is_empty() {
            return Ok(Offsets::new());
        }
        let result = self
            .repeat(group, |coordinator, timeout| coordinator.fetch_offsets(partitions, timeout));
        Ok(result?)
    }

    /// Calls until it is answered, at most for the request timeout.
    fn repeat<T>(
        &mut self,
        group: &str,
        mut call: impl FnMut(&mut Coordinator, Duration) -> WireResult<T>,
    ) -> WireResult<T> {
        let deadline = Instant::now() + self.config.request_timeout;
        let (config, client_id) = (&self.config, &self.client_id);
        let coordinator = self.coordinators.entry(group.to_owned());
        let coordinator = coordinator.or_insert_with(|| Coordinator::new(config, client_id, group));
        let mut pauses = Pauses::default();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let error = match call(coordinator, left.max(Duration::from_millis(1))) {
                Ok(value) => return Ok(value),
                Err(error) => error,
            };
            let again = error.lost_coordinator() || (error.lost_connection() && error.is_passing());
            let pause = pauses.next_pause();
            if !again || Instant::now() + pause >= deadline {
                return Err(error);
            }
            tracing::debug!(group, error = error.in_one_line(), "asking for offsets again");
            std::thread::sleep(pause);
        }
    }
}

/// Collects what belongs to one topic; topics in the order of their names.
fn by_topic<T>(
    partitions: impl IntoIterator<Item = (TopicPartition, T)>,
) -> BTreeMap<String, Vec<(i32, T)>> {
    let mut topics: BTreeMap<String, Vec<(i32, T)>> = BTreeMap::new();
    for (tp, value) in partitions {
        topics.entry(tp.topic.to_string()).or_default().push((tp.partition, value));
    }
    topics
}

fn name(topic: String) -> TopicName {
    TopicName(StrBytes::from_string(topic))
}

impl Coordinator {
    fn commit_offsets(
        &mut self,
        offsets: &Offsets,
        group: &GroupMetadata,
        timeout: Duration,
    ) -> WireResult<()> {
        let partition = |(partition, committed): (i32, &CommittedOffset)| {
            let metadata = StrBytes::from_string(committed.metadata.clone());
            OffsetCommitRequestPartition::default()
                .with_partition_index(partition)
                .with_committed_offset(committed.offset.0)
                .with_committed_metadata(Some(metadata))
        };
        let topics = by_topic(offsets.iter().map(|(tp, o)| (tp.clone(), o)));
        let topics = topics.into_iter().map(|(topic, partitions)| {
            OffsetCommitRequestTopic::default()
                .with_name(name(topic))
                .with_partitions(partitions.into_iter().map(partition).collect())
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(StrBytes::from_string(group.group.clone())))
            .with_generation_id_or_member_epoch(group.generation)
            .with_member_id(StrBytes::from_string(group.member.clone()))
            .with_topics(topics.collect());
        self.call(
            timeout,
            |_| request,
            |reply| {
                for topic in &reply.topics {
                    for p in &topic.partitions {
                        let tp = || TopicPartition::new(topic.name.as_str(), p.partition_index);
                        Refusal::check(p.error_code, || Some(tp()))?;
                    }
                }
                Ok(())
            },
        )
    }

    fn fetch_offsets(
        &mut self,
        partitions: &[TopicPartition],
        timeout: Duration,
    ) -> WireResult<Offsets> {
        let group = GroupId(StrBytes::from_string(self.group().to_owned()));
        let topics = by_topic(partitions.iter().map(|tp| (tp.clone(), ()))).into_iter();
        let topics = topics.map(|(t, p)| (name(t), p.iter().map(|(p, ())| *p).collect()));
        let request = |version| {
            let request = OffsetFetchRequest::default().with_require_stable(true);
            if version < 8 {
                let topic = |(name, partitions)| {
                    let topic = OffsetFetchRequestTopic::default().with_name(name);
                    topic.with_partition_indexes(partitions)
                };
                return request.with_group_id(group).with_topics(Some(topics.map(topic).collect()));
            }
            let topic = |(name, partitions)| {
                let topic = OffsetFetchRequestTopics::default().with_name(name);
                topic.with_partition_indexes(partitions)
            };
            let group = OffsetFetchRequestGroup::default()
                .with_group_id(group)
                .with_topics(Some(topics.map(topic).collect()));
            request.with_groups(vec![group])
        };
        self.call(timeout, request, read_offsets)
    }
}

/// Reads both shapes of the reply: of one group, and of several.
fn read_offsets(reply: OffsetFetchResponse) -> Result<Offsets, Refusal> {
    Refusal::check(reply.error_code, || None)?;
    let mut offsets = Offsets::new();
    let mut read = |topic: &TopicName, partition, code, offset, metadata: Option<StrBytes>| {
        let tp = TopicPartition::new(topic.as_str(), partition);
        Refusal::check(code, || Some(tp.clone()))?;
        if offset >= 0 {
            let metadata = metadata.map_or_else(String::new, |m| m.to_string());
            offsets.insert(tp, CommittedOffset { offset: Offset(offset), metadata });
        }
        Ok::<(), Refusal>(())
    };
    for topic in reply.topics {
        for p in topic.partitions {
            read(&topic.name, p.partition_index, p.error_code, p.committed_offset, p.metadata)?;
        }
    }
    for group in reply.groups {
        Refusal::check(group.error_code, || None)?;
        for topic in group.topics {
            for p in topic.partitions {
                read(&topic.name, p.partition_index, p.error_code, p.committed_offset, p.metadata)?;
            }
        }
    }
    Ok(offsets)
}
