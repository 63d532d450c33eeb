//! `merge.repartition.topics`: the repartition topics behind one change of keys become one, right behind that change. Kafka Streams'
//! rules, but for one: a custom processor counts as a change of keys and values, since its types may differ.

use std::collections::BTreeMap;

use super::node::{Effect, GraphNode, RepartitionRole};
use super::{NodeId, State};

/// Repartition nodes by the node whose change of keys asks for them, in the order in which they were added.
type Behind = BTreeMap<NodeId, Vec<NodeId>>;

impl State {
    /// Merges what can be merged. Returns which node stands for a repartition node that vanished.
    pub(super) fn merge_repartitions(&mut self) -> BTreeMap<NodeId, NodeId> {
        let mut behind = self.behind_key_changes();
        self.move_to_merges(&mut behind);
        let mut replaced = BTreeMap::new();
        for (change, repartitions) in behind {
            if !repartitions.is_empty() {
                self.merge_behind(change, &repartitions, &mut replaced);
            }
        }
        replaced
    }

    fn behind_key_changes(&self) -> Behind {
        let mut behind = Behind::new();
        for id in (0..self.nodes.len()).map(NodeId) {
            let node = &self.nodes[id.0];
            if node.effect == Effect::ChangesKeys {
                behind.entry(id).or_default();
            }
            if node.repartition.as_ref().is_some_and(|r| r.optimizable) {
                let change = self.above(id, |n| {
                    matches!(self.nodes[n.0].effect, Effect::ChangesKeys | Effect::ChangesValues)
                });
                let key_change = self.above(id, |n| self.nodes[n.0].effect == Effect::ChangesKeys);
                if let Some(change) = change.filter(|c| Some(*c) == key_change) {
                    behind.entry(change).or_default().push(id);
                }
            }
        }
        behind
    }

    /// Where all repartition nodes of several changes lie behind one merge, they are merged behind that.
    fn move_to_merges(&self, behind: &mut Behind) {
        for merge in (0..self.nodes.len()).map(NodeId) {
            if self.nodes[merge.0].effect != Effect::Merges {
                continue;
            }
            let is_below = |id: NodeId, node: NodeId| {
                self.above(id, |n| self.nodes[n.0].parents.contains(&node)).is_some()
            };
            let changes: Vec<NodeId> = behind
                .iter()
                .filter(|(change, repartitions)| {
                    repartitions.iter().all(|r| is_below(*r, merge)) && is_below(merge, **change)
                })
                .map(|(change, _)| *change)
                .collect();
            let mut moved: Vec<NodeId> =
                changes.iter().filter_map(|change| behind.remove(change)).flatten().collect();
            moved.sort_unstable();
            moved.dedup();
            behind.insert(merge, moved);
        }
    }

    fn merge_behind(
        &mut self,
        change: NodeId,
        repartitions: &[NodeId],
        replaced: &mut BTreeMap<NodeId, NodeId>,
    ) {
        let one = NodeId(self.nodes.len());
        let first = &mut self.nodes[repartitions[0].0];
        let Some(topic) = first.repartition.as_ref().map(|r| r.topic.clone()) else { return };
        let write = first.write.take();
        let role = RepartitionRole {
            filter: format!("{topic}-filter"),
            sink: format!("{topic}-sink"),
            topic: topic.clone(),
            optimizable: true,
            null_keys: false,
        };
        let priority = self.nodes[change.0].priority;
        self.nodes.push(GraphNode::merged(format!("{topic}-source"), priority, role, write));
        for &old in repartitions {
            replaced.insert(old, one);
            let Some(top) = self.above(old, |n| self.nodes[n.0].parents.contains(&change)) else {
                continue;
            };
            self.link(one, top);
            self.unlink(change, top);
            let children = std::mem::take(&mut self.nodes[old.0].children);
            let parents = std::mem::take(&mut self.nodes[old.0].parents);
            for &child in &children {
                self.nodes[child.0].parents.retain(|p| *p != old);
                parents.iter().for_each(|parent| self.link(*parent, child));
            }
            parents.iter().for_each(|parent| self.nodes[parent.0].children.retain(|c| *c != old));
            self.nodes[old.0].write = None;
        }
        self.link(change, one);
    }

    fn link(&mut self, parent: NodeId, child: NodeId) {
        self.nodes[parent.0].add_child(child);
        self.nodes[child.0].add_parent(parent);
    }

    fn unlink(&mut self, parent: NodeId, child: NodeId) {
        self.nodes[parent.0].children.retain(|c| *c != child);
        self.nodes[child.0].parents.retain(|p| *p != parent);
    }

    /// The node itself or the nearest one above it that the test holds for: Kafka's `findParentNodeMatching`.
    fn above(&self, id: NodeId, holds: impl Fn(NodeId) -> bool + Copy) -> Option<NodeId> {
        if holds(id) {
            return Some(id);
        }
        let mut found = None;
        for &parent in &self.nodes[id.0].parents {
            if holds(parent) {
                return Some(parent);
            }
            found = self.above(parent, holds);
        }
        found
    }
}
