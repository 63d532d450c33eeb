//! The port [`Admin`] on librdkafka.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::config::KafkaConfig;
use super::error::{failed, kind};
use super::ffi::{self, Client, NewTopicSpec, Outcome, PartitionAnswer, RecordsDeleted, code};
use super::topics;
use crate::names;
use crate::ports::{Admin, NewTopic, PortError, PortErrorKind, PortResult, TopicInfo};
use crate::wire::{Offset, TopicPartition};

/// How long brokers are left alone until they are asked again whether they know of a change.
const SETTLE_PAUSE: Duration = Duration::from_millis(10);

pub(super) struct KafkaAdmin {
    client: Arc<Client>,
    config: Arc<KafkaConfig>,
    /// Records that are being deleted, before these offsets.
    deleting: Option<(RecordsDeleted, Offsets)>,
}

type Offsets = BTreeMap<TopicPartition, Offset>;

impl KafkaAdmin {
    pub(super) fn new(client: Arc<Client>, config: Arc<KafkaConfig>) -> Self {
        Self { client, config, deleting: None }
    }

    fn patience(&self) -> Duration {
        topics::patience(self.config.request_timeout)
    }

    /// Which of these are not there yet; one that is there with other partitions is an error.
    fn missing<'a>(&mut self, topics: &'a [NewTopic]) -> PortResult<Vec<&'a NewTopic>> {
        let names: Vec<_> = topics.iter().map(|t| &*t.name).collect();
        let known = self.describe(&names)?;
        let mut missing = Vec::new();
        for topic in topics {
            match known.get(&topic.name) {
                None => missing.push(topic),
                Some(t) if t.partitions == topic.partitions => {}
                Some(t) => {
                    let has = usize::try_from(t.partitions).unwrap_or(0);
                    return Err(names::other_partitions(&topic.name, has, topic.partitions));
                }
            }
        }
        Ok(missing)
    }

    /// Waits until the brokers that answer say `done` of the topics, which they hear of one after another.
    fn settle(
        &mut self,
        names: &[&str],
        done: impl Fn(&BTreeMap<String, TopicInfo>) -> bool,
    ) -> PortResult<()> {
        let until = Instant::now() + self.config.request_timeout;
        while !done(&self.describe(names)?) {
            if Instant::now() >= until {
                return Err(PortError::new(
                    PortErrorKind::Retriable,
                    format!("not all brokers know yet of a change to {} topics", names.len()),
                ));
            }
            thread::sleep(SETTLE_PAUSE);
        }
        Ok(())
    }
}

/// The first failure that is not expected.
fn first_failure(attempt: &str, outcomes: Vec<Outcome>, expected: &[ffi::Code]) -> PortResult<()> {
    for Outcome { topic, failure } in outcomes {
        match failure {
            Some(f) if !expected.contains(&f.code) => {
                return Err(failed(format!("{attempt} topic {topic:?}: {f}"), f));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Were all records deleted?
fn deleted(answers: Vec<PartitionAnswer>, before: &Offsets) -> PortResult<()> {
    let Some(refused) = answers.into_iter().find(|a| a.code != 0) else {
        return Ok(());
    };
    let (tp, code) = (&refused.partition, refused.code);
    let offset = before.get(tp).copied().unwrap_or_default();
    let why = ffi::describe(code);
    let what = format!("cannot delete the records of {tp} before offset {offset}: {why}");
    Err(PortError::new(kind(code), what))
}

impl Admin for KafkaAdmin {
    fn describe(&mut self, topics: &[&str]) -> PortResult<BTreeMap<String, TopicInfo>> {
        let found = topics::describe(&self.client, topics, self.patience())?;
        Ok(found.into_iter().map(|t| (t.name.clone(), t)).collect())
    }

    fn list(&mut self) -> PortResult<Vec<TopicInfo>> {
        topics::list(&self.client, self.patience())
    }

    fn settings(
        &mut self,
        topics: &[&str],
    ) -> PortResult<BTreeMap<String, BTreeMap<String, String>>> {
        topics::settings(&self.client, topics, self.patience())
    }

    fn create(&mut self, topics: &[NewTopic]) -> PortResult<()> {
        topics.iter().try_for_each(|t| names::check_new_topic(&t.name, t.partitions))?;
        let missing = self.missing(topics)?;
        if missing.is_empty() {
            return Ok(());
        }
        let replicas = i32::from(self.config.replication_factor);
        let specs = missing.iter().map(|topic| NewTopicSpec {
            name: &topic.name,
            partitions: topic.partitions,
            replicas,
            config: topic.config.iter().map(|(k, v)| (&**k, &**v)).collect(),
        });
        let specs: Vec<_> = specs.collect();
        let outcomes = ffi::create_topics(&self.client, &specs, self.config.request_timeout)
            .map_err(|f| failed("create topics", f))?;
        first_failure("create", outcomes, &[code::TOPIC_EXISTS])?;
        let names: Vec<_> = missing.iter().map(|t| &*t.name).collect();
        self.settle(&names, |known| known.len() == names.len())?;
        // Another instance may have been faster, and have asked for something else.
        self.missing(topics).map(drop)
    }

    fn delete_records(&mut self, before: &Offsets) -> PortResult<()> {
        if before.is_empty() {
            return Ok(());
        }
        let answers = ffi::delete_records(&self.client, before.iter(), self.config.request_timeout)
            .map_err(|f| failed("delete records", f))?;
        deleted(answers, before)
    }

    fn begin_delete_records(&mut self, before: &Offsets) -> PortResult<()> {
        if before.is_empty() {
            return Ok(());
        }
        let last = self.deleting.take();
        let timeout = self.config.request_timeout;
        let asked = RecordsDeleted::new(&self.client, before.iter(), timeout)
            .map_err(|f| failed("delete records", f))?;
        self.deleting = Some((asked, before.clone()));
        let Some((mut asked, before)) = last else { return Ok(()) };
        match asked.answer() {
            Some(answer) => deleted(answer.map_err(|f| failed("delete records", f))?, &before),
            // It has taken longer than the pause between two calls: what is asked now covers it.
            None => Ok(()),
        }
    }

    fn delete(&mut self, topics: &[&str]) -> PortResult<()> {
        let known = self.describe(topics)?;
        let names: Vec<_> = known.keys().map(String::as_str).collect();
        if names.is_empty() {
            return Ok(());
        }
        let outcomes = ffi::delete_topics(&self.client, &names, self.config.request_timeout)
            .map_err(|f| failed("delete topics", f))?;
        first_failure("delete", outcomes, &[code::UNKNOWN_TOPIC_OR_PARTITION])?;
        // A topic of the name that somebody has made meanwhile is another one.
        self.settle(&names, |now| now.iter().all(|(name, t)| known[name].id != t.id))
    }
}
