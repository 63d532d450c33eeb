//! How many partitions repartition topics get, as Kafka Streams decides it.
//!
//! An explicit number stands. A topic that is read together with others by key takes the number of those whose number is given.
//! Any other takes the number of tasks that write it. So counts are passed from upstream to downstream until nothing changes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{PlanError, inputs, written};
use crate::topology::{TopicRef, Topology};

/// From the counts of external topics to those of all inputs, by full name.
pub(crate) fn resolve(
    topology: &Topology,
    application_id: &str,
    external: BTreeMap<Arc<str>, i32>,
) -> Result<BTreeMap<Arc<str>, i32>, PlanError> {
    let mut counts = Counts { topology, application_id, given: external, written: BTreeMap::new() };
    for (name, topic) in topology.internal_topics() {
        if let Some(partitions) = topic.partitions {
            let name = TopicRef::Internal(Arc::clone(name)).resolve(application_id);
            counts.given.insert(name, partitions);
        }
    }
    while counts.spread() {}
    counts.check()?;
    Ok(counts.given)
}

struct Counts<'a> {
    topology: &'a Topology,
    application_id: &'a str,
    /// What is decided.
    given: BTreeMap<Arc<str>, i32>,
    /// What the writers of a topic in a co-partitioned group ask for, while the group is not decided.
    written: BTreeMap<Arc<str>, i32>,
}

impl Counts<'_> {
    /// Decides what can be decided; tells whether anything was.
    fn spread(&mut self) -> bool {
        let before = (self.given.len(), self.written.len());
        self.spread_in_groups();
        self.spread_downstream();
        before != (self.given.len(), self.written.len())
    }

    fn groups(&self) -> Vec<Vec<Arc<str>>> {
        let name = |t: &TopicRef| t.resolve(self.application_id);
        let groups = self.topology.copartition_groups().iter();
        groups.map(|g| g.iter().map(name).collect()).collect()
    }

    fn spread_in_groups(&mut self) {
        for group in self.groups() {
            let given = group.iter().find_map(|t| self.given.get(t).copied());
            let asked: Option<Vec<i32>> =
                group.iter().map(|t| self.written.get(t).copied()).collect();
            let agreed = given.or_else(|| asked?.into_iter().max());
            let Some(partitions) = agreed else {
                continue;
            };
            for topic in group {
                self.given.entry(topic).or_insert(partitions);
            }
        }
    }

    fn spread_downstream(&mut self) {
        let grouped: Vec<Arc<str>> = self.groups().into_iter().flatten().collect();
        for topic in self.undecided() {
            if let Some(partitions) = self.writers_tasks(&topic) {
                let to = match grouped.contains(&topic) {
                    true => &mut self.written,
                    false => &mut self.given,
                };
                to.entry(topic).or_insert(partitions);
            }
        }
    }

    fn undecided(&self) -> Vec<Arc<str>> {
        let subs = self.topology.sub_topologies().iter();
        let names = subs
            .flat_map(|sub| inputs(self.topology, sub, self.application_id))
            .map(|input| input.name);
        names.filter(|n| !self.given.contains_key(n)).collect()
    }

    /// The most tasks of a sub-topology that writes the topic; `None` while one of them is undecided.
    fn writers_tasks(&self, topic: &Arc<str>) -> Option<i32> {
        let subs = self.topology.sub_topologies().iter();
        let writes = |t: &TopicRef| {
            matches!(t, TopicRef::Internal(_)) && t.resolve(self.application_id) == *topic
        };
        let writers = subs.filter(|sub| written(self.topology, sub).any(writes));
        let tasks = writers.map(|sub| {
            let read = inputs(self.topology, sub, self.application_id);
            let counts: Option<Vec<i32>> =
                read.iter().map(|i| self.given.get(&i.name).copied()).collect();
            counts?.into_iter().max()
        });
        tasks.collect::<Option<Vec<i32>>>()?.into_iter().max()
    }

    fn check(&self) -> Result<(), PlanError> {
        if let Some(topic) = self.undecided().first() {
            return Err(PlanError::UnknownPartitions(topic.to_string()));
        }
        for group in self.groups() {
            let first = &group[0];
            let differs = group.iter().find(|t| self.given[*t] != self.given[first]);
            if let Some(second) = differs {
                return Err(PlanError::NotCopartitioned {
                    first: first.to_string(),
                    first_partitions: self.given[first],
                    second: second.to_string(),
                    second_partitions: self.given[second],
                });
            }
        }
        Ok(())
    }
}
