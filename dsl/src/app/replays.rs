//! Replays as things that stay: their names, which there are, how one is removed, and what one could have read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{
    Backend, Clock, Consumer, ConsumerOptions, Fetched, Isolation, Offset, PortResult, Timestamp,
    TopicPartition,
};
use thalweg_processor::{NodeKind, Plan, PlanError, SinkTopic, TaskConfig, TopicRef, Topology};

use super::config::Settings;
use super::error::AppError;

/// Stands between a name of the live application and the replay's name.
const MARK: &str = "-replay-";
/// Records that are looked at for the first and the last time of a partition.
const LOOK_RECORDS: i64 = 64;
const LOOK_TIMEOUT: Duration = Duration::from_millis(100);

/// What a replay's outputs and its application id end with.
pub(super) fn suffix(name: &str) -> String {
    format!("{MARK}{name}")
}

/// The present time as a replay's name; a number behind it when that is taken.
pub(super) fn present_name(clock: &dyn Clock, taken: &BTreeSet<String>) -> String {
    let now = jiff::Timestamp::from_millisecond(clock.now().0)
        .unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        .strftime("%Y%m%d-%H%M%S")
        .to_string();
    let numbered = (2..).map(|n| format!("{now}-{n}"));
    let mut names = std::iter::once(now.clone()).chain(numbered);
    names.find(|name| !taken.contains(name)).unwrap_or(now)
}

pub(super) fn check_name(name: &str) -> Result<(), AppError> {
    match is_legal(name) {
        true => Ok(()),
        false => Err(AppError::Option {
            option: "--as",
            reason: "a name is 1 to 50 letters, digits, `.`, `_` and `-`, and more than dots"
                .to_owned(),
        }),
    }
}

fn is_legal(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (1..=50).contains(&name.len()) && name.chars().all(legal) && name.chars().any(|c| c != '.')
}

/// Refuses a name that is taken.
pub(super) fn check_free(name: &str, taken: &BTreeSet<String>) -> Result<(), AppError> {
    match taken.contains(name) {
        false => Ok(()),
        true => Err(AppError::Option {
            option: "--as",
            reason: format!(
                "there is a replay `{name}` already; give this one another name, or make that one anew with `--replace`"
            ),
        }),
    }
}

/// The replays of one application on one backend.
pub(super) struct Replays<'a> {
    pub(super) topology: &'a Topology,
    pub(super) settings: &'a Settings,
    pub(super) backend: &'a dyn Backend,
}

impl Replays<'_> {
    /// The names that are taken: those of output topics, and of state where a topology writes none.
    pub(super) fn taken(&self) -> PortResult<BTreeSet<String>> {
        if self.outputs().next().is_none() {
            return Ok(self.of_state());
        }
        let topics = self.backend.admin()?.list()?;
        let mut names = BTreeSet::new();
        for output in self.outputs() {
            let prefix = format!("{output}{MARK}");
            let of_output = topics.iter().filter_map(|topic| topic.name.strip_prefix(&prefix));
            names.extend(of_output.filter(|name| is_legal(name)).map(str::to_owned));
        }
        Ok(names)
    }

    /// The names of all that replays left; one that failed at its start leaves state only.
    pub(super) fn names(&self) -> PortResult<BTreeSet<String>> {
        let mut names = self.taken()?;
        names.extend(self.of_state());
        Ok(names)
    }

    fn of_state(&self) -> BTreeSet<String> {
        let in_memory = self.backend.scheme() == "mem";
        let entries = std::fs::read_dir(&self.settings.state_dir).ok().filter(|_| !in_memory);
        let directories = entries.into_iter().flatten().flatten();
        let prefix = format!("{}{MARK}", self.settings.application_id);
        directories
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter_map(|directory| directory.strip_prefix(&prefix).map(str::to_owned))
            .filter(|name| is_legal(name))
            .collect()
    }

    fn outputs(&self) -> impl Iterator<Item = &str> {
        self.topology.nodes().filter_map(|node| match &node.kind {
            NodeKind::Sink { topic: SinkTopic::Fixed(TopicRef::External(name)), .. } => {
                Some(&**name)
            }
            _ => None,
        })
    }

    /// Removes replays: all of them, or none when one of the names is unknown.
    pub(super) fn remove_all(&self, names: &[String]) -> Result<(), AppError> {
        let there = self.names().map_err(AppError::Topics)?;
        if let Some(name) = names.iter().find(|name| !there.contains(*name)) {
            let reason = format!("there is no replay `{name}`; `replays` lists them");
            return Err(AppError::Option { option: "--remove", reason });
        }
        let names: BTreeSet<&String> = names.iter().collect();
        names.into_iter().try_for_each(|name| self.remove(name))
    }

    /// Removes the topics and the state of a replay.
    fn remove(&self, name: &str) -> Result<(), AppError> {
        let id = format!("{}{}", self.settings.application_id, suffix(name));
        let mut task = TaskConfig::new(id.as_str());
        task.output_suffix = suffix(name).into();
        let delete = || {
            let mut admin = self.backend.admin()?;
            let plan = Plan::resolve(self.topology, &task, &mut *admin)?;
            let own = plan.internal_topics().iter().chain(plan.outputs());
            let own: Vec<&str> = own.map(|topic| topic.name.as_str()).collect();
            admin.delete(&own).map_err(PlanError::from)
        };
        delete().map_err(|source| AppError::Start {
            application_id: id.clone(),
            source: Box::new(source.into()),
        })?;
        match std::fs::remove_dir_all(self.settings.state_dir.join(&id)) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(AppError::Process { what: "remove the state of the replay", source })
            }
            _ => Ok(()),
        }
    }

    /// What there is to replay, topic by topic: for one that found nothing.
    pub(super) fn there_is(&self) -> Result<String, PlanError> {
        let task = TaskConfig::new(self.settings.application_id.as_str());
        let mut admin = self.backend.admin()?;
        let inputs = Plan::resolve(self.topology, &task, &mut *admin)?.external_inputs();
        let options = ConsumerOptions {
            isolation: Isolation::ReadCommitted,
            client_id: "thalweg-look".to_owned(),
        };
        let mut consumer = self.backend.consumer(&options)?;
        let starts = consumer.beginning_offsets(&inputs)?;
        let ends = consumer.end_offsets(&inputs, Isolation::ReadCommitted)?;
        let mut spans: BTreeMap<Arc<str>, Span> = BTreeMap::new();
        for tp in inputs {
            let (start, end) = (starts[&tp], ends[&tp]);
            let span = spans.entry(Arc::clone(&tp.topic)).or_default();
            if start < end {
                span.look(&mut *consumer, &tp, start, end)?;
            }
        }
        let spans: Vec<String> =
            spans.iter().map(|(topic, span)| format!("`{topic}` {span}")).collect();
        Ok(spans.join(", "))
    }
}

/// The offsets and times of a topic.
#[derive(Default)]
struct Span {
    offsets: Option<(i64, i64)>,
    times: Option<(Timestamp, Timestamp)>,
}

impl Span {
    fn look(
        &mut self,
        consumer: &mut dyn Consumer,
        tp: &TopicPartition,
        start: Offset,
        end: Offset,
    ) -> PortResult<()> {
        let (low, high) = self.offsets.unwrap_or((start.0, end.0 - 1));
        self.offsets = Some((low.min(start.0), high.max(end.0 - 1)));
        let first = end.0.min(start.0 + LOOK_RECORDS);
        let last = start.0.max(end.0 - LOOK_RECORDS);
        for (from, until) in [(start.0, first), (last, end.0)] {
            self.look_at(consumer, tp, from, until)?;
        }
        Ok(())
    }

    fn look_at(
        &mut self,
        consumer: &mut dyn Consumer,
        tp: &TopicPartition,
        from: i64,
        until: i64,
    ) -> PortResult<()> {
        consumer.assign(&[(tp.clone(), Offset(from))])?;
        let mut fetched: Vec<Fetched> = Vec::new();
        let mut next = from;
        while next < until {
            consumer.poll(LOOK_TIMEOUT, LOOK_RECORDS as usize, &mut fetched)?;
            for run in fetched.drain(..) {
                for time in (0..run.records.len()).map(|i| run.records.get(i).timestamp) {
                    let (low, high) = self.times.unwrap_or((time, time));
                    self.times = Some((low.min(time), high.max(time)));
                }
                next = run.next.0;
            }
        }
        consumer.unassign(std::slice::from_ref(tp))
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some((first, last)) = self.offsets else {
            return f.write_str("is empty");
        };
        write!(f, "has the offsets {first} to {last}")?;
        let Some((from, to)) = self.times else {
            return Ok(());
        };
        let date = |time: Timestamp| {
            jiff::Timestamp::from_millisecond(time.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH)
        };
        write!(f, ", about {} to {}", date(from), date(to))
    }
}
