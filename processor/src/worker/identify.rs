//! Whether internal topics are still those that committed work relies on: looked at whenever tasks are opened.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use thalweg_connectors::TopicInfo;
use thalweg_state::StoreIx;

use super::open::Starts;
use super::{Phase, Worker};
use crate::plan::identity::{Fate, OwnTopic, digest, fate};
use crate::plan::{Found, LostTopic, Plan};
use crate::restore::Opened;
use crate::task::Task;

impl Worker {
    /// Describes the internal topics of tasks, and their changelogs; fails when one of them is not the one that was committed with.
    pub(super) fn identify_topics(
        &mut self,
        opened: &mut [Opened],
        starts: &Starts,
    ) -> Phase<BTreeMap<String, TopicInfo>> {
        let plan = &self.around.plan;
        let changelogs = opened.iter().flat_map(|o| o.task.changelogs().iter().flatten());
        let own = opened.iter().flat_map(|o| &plan.part(o.id.subtopology).own);
        let names: BTreeSet<Arc<str>> = own
            .map(|topic| Arc::clone(&topic.name))
            .chain(changelogs.map(|tp| Arc::clone(&tp.topic)))
            .collect();
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let names: Vec<&str> = names.iter().map(|name| &**name).collect();
        let found = Found::look(&names, &mut *self.admin)?.topics;
        for Opened { id, task, inputs } in opened {
            let committed = inputs.iter().filter_map(|(tp, _)| starts.get(tp)?.committed.as_ref());
            let committed: Vec<_> = committed.map(|metadata| &metadata.processor).collect();
            for topic in &plan.part(id.subtopology).own {
                check(plan, topic, &committed, task, found.get(&*topic.name))?;
                let Some(now) = found.get(&*topic.name).and_then(digest) else { continue };
                // Tasks that were opened before rely on it, though nothing is committed for this one.
                match self.topic_ids.get(&topic.key) {
                    Some(before) if *before != now => {
                        return Err(plan.lost(topic, Fate::MadeAnew).into());
                    }
                    _ => self.topic_ids.insert(Arc::clone(&topic.key), now),
                };
            }
        }
        Ok(found)
    }
}

/// Compares a topic with what was committed beside the inputs of a task, and with the local state of that task.
fn check(
    plan: &Plan,
    topic: &OwnTopic,
    committed: &[&BTreeMap<String, i64>],
    task: &mut Task,
    now: Option<&TopicInfo>,
) -> Result<(), LostTopic> {
    let fates = committed.iter().map(|facts| fate(topic, facts, now));
    if let Some(fate) = fates.into_iter().find(|fate| *fate != Fate::Same) {
        return Err(plan.lost(topic, fate));
    }
    // Who committed may not have known of topics' identities. State that is another topic's is all that is left of it then.
    let is_noted = committed.iter().any(|facts| facts.contains_key(&*topic.key));
    if committed.is_empty() || is_noted || !is_foreign(topic, task, now) {
        return Ok(());
    }
    Err(plan.lost(topic, Fate::MadeAnew))
}

/// Does the local state of a store come from another topic of the name?
fn is_foreign(topic: &OwnTopic, task: &mut Task, now: Option<&TopicInfo>) -> bool {
    let changelogs = task.changelogs().iter();
    let is_this = |changelog: &Option<_>| {
        changelog
            .as_ref()
            .is_some_and(|tp: &thalweg_connectors::TopicPartition| tp.topic == topic.name)
    };
    let Some(store) = changelogs.clone().position(is_this) else { return false };
    let before = task.state().topic_id(StoreIx(store as u16));
    let known = |id: &&str| !id.is_empty();
    match (before.filter(known), now.map(|now| now.id.as_str()).filter(known)) {
        (Some(before), Some(now)) => before != now,
        _ => false,
    }
}
