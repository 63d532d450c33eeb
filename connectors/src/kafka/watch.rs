//! A look, now and then, at whether the topics that are read are still what they were. librdkafka waits for a topic that is deleted as
//! long as it takes, without a word, and reads one that was made anew as if it were the same. Nobody reads the partitions that a
//! topic gets while it is read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::ffi::{Client, TopicAnswer, TopicsAsked, code};

/// How often it looks.
const INTERVAL: Duration = Duration::from_secs(5);

/// What became of a topic.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fate {
    /// It is not there.
    Gone,
    /// Another one of its name is there.
    MadeAnew,
    /// It has so many partitions now, more than before.
    Grown(i32),
}

/// A topic as it was when it was first looked at.
pub(super) struct Known<'a> {
    pub(super) ids: &'a BTreeMap<Arc<str>, String>,
    pub(super) partitions: &'a BTreeMap<Arc<str>, i32>,
}

/// Looks without waiting: it asks at one poll and hears at a later one.
#[derive(Default)]
pub(super) struct Watch {
    asked: Option<TopicsAsked>,
    next: Option<Instant>,
    /// Topics that were not there when it last looked: a broker may hear late of one that is new.
    missed: BTreeSet<String>,
}

impl Watch {
    /// Tells which topics are not what they were.
    pub(super) fn look(
        &mut self,
        client: &Arc<Client>,
        known: &Known<'_>,
        timeout: Duration,
    ) -> Vec<(String, Fate)> {
        if let Some(asked) = &mut self.asked {
            let Some(answer) = asked.answer() else { return Vec::new() };
            self.asked = None;
            // A broker that does not answer is another matter.
            return answer.map_or(Vec::new(), |topics| self.judge(topics, known));
        }
        let now = Instant::now();
        if now >= *self.next.get_or_insert(now + INTERVAL) && !known.ids.is_empty() {
            self.next = Some(now + INTERVAL);
            let names: Vec<_> = known.ids.keys().map(|name| &**name).collect();
            self.asked = TopicsAsked::new(client, &names, timeout).ok();
        }
        Vec::new()
    }

    fn judge(&mut self, topics: Vec<TopicAnswer>, known: &Known<'_>) -> Vec<(String, Fate)> {
        let mut fates = Vec::new();
        let before = std::mem::take(&mut self.missed);
        for topic in topics {
            match topic.failure.map(|f| f.code) {
                Some(code::UNKNOWN_TOPIC | code::UNKNOWN_TOPIC_OR_PARTITION) => {
                    if before.contains(&topic.name) {
                        fates.push((topic.name.clone(), Fate::Gone));
                    }
                    self.missed.insert(topic.name);
                }
                Some(_) => {}
                None if known.ids.get(&*topic.name).is_some_and(|id| *id != topic.id) => {
                    fates.push((topic.name, Fate::MadeAnew));
                }
                None => {
                    let before = known.partitions.get(&*topic.name);
                    if before.is_some_and(|before| topic.partitions > *before) {
                        fates.push((topic.name, Fate::Grown(topic.partitions)));
                    }
                }
            }
        }
        fates
    }
}
