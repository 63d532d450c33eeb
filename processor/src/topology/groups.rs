//! Sub-topologies: nodes that hang together through edges or shared stores. Numbered as Kafka Streams numbers them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;

use super::def::{NodeDef, NodeIx, NodeKind, StoreEntry, StoreNo, TopicRef};

/// A part of the topology that one task runs as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubTopology {
    /// Its nodes, in the order they were added (parents before children).
    pub nodes: Vec<NodeIx>,
    /// Its stores, in the order they were added.
    pub stores: Vec<StoreNo>,
    /// Does it fill a global store? Then it has no tasks: every worker runs it for all partitions.
    pub is_global: bool,
}

struct Sets(Vec<usize>);

impl Sets {
    fn root(&mut self, mut i: usize) -> usize {
        while self.0[i] != i {
            self.0[i] = self.0[self.0[i]];
            i = self.0[i];
        }
        i
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

/// Splits the nodes into sub-topologies: numbered by their first source, in the order in which sources were added, as Kafka Streams
/// does; parts without a source come last.
pub(super) fn sub_topologies(
    nodes: &IndexMap<Arc<str>, NodeDef>,
    stores: &IndexMap<Arc<str>, StoreEntry>,
) -> Vec<SubTopology> {
    let mut sets = Sets((0..nodes.len()).collect());
    for (i, node) in nodes.values().enumerate() {
        node.parents.iter().for_each(|p| sets.join(i, p.0 as usize));
    }
    for store in stores.values() {
        store.nodes.windows(2).for_each(|pair| sets.join(pair[0].0 as usize, pair[1].0 as usize));
    }
    let is_source = |n: &NodeDef| matches!(n.kind, NodeKind::Source(_));
    let (sources, others): (Vec<_>, Vec<_>) =
        nodes.values().enumerate().partition(|(_, node)| is_source(node));
    let mut numbers = BTreeMap::new();
    for (i, _) in sources.into_iter().chain(others) {
        let next = numbers.len();
        numbers.entry(sets.root(i)).or_insert(next);
    }
    let mut result = vec![
        SubTopology { nodes: Vec::new(), stores: Vec::new(), is_global: false };
        numbers.len()
    ];
    for i in 0..nodes.len() {
        result[numbers[&sets.root(i)]].nodes.push(NodeIx(i as u32));
    }
    for (no, store) in stores.values().enumerate() {
        if let Some(node) = store.nodes.first() {
            let part = &mut result[numbers[&sets.root(node.0 as usize)]];
            part.stores.push(StoreNo(no as u32));
            part.is_global |= store.is_global;
        }
    }
    result
}

/// From sets of source nodes to sets of topics; sets that share a topic become one. A self-join's set has one topic.
pub(super) fn copartitioned_topics(
    nodes: &IndexMap<Arc<str>, NodeDef>,
    sets: &[BTreeSet<Arc<str>>],
) -> Vec<Vec<TopicRef>> {
    let mut merged: Vec<BTreeSet<TopicRef>> = Vec::new();
    for set in sets {
        let mut topics: BTreeSet<TopicRef> = set
            .iter()
            .filter_map(|s| match &nodes[s].kind {
                NodeKind::Source(def) => Some(def.topics.clone()),
                _ => None,
            })
            .flatten()
            .collect();
        merged.retain(|other| {
            let disjoint = other.is_disjoint(&topics);
            if !disjoint {
                topics.extend(other.iter().cloned());
            }
            disjoint
        });
        merged.push(topics);
    }
    let mut lists: Vec<Vec<TopicRef>> =
        merged.into_iter().filter(|s| !s.is_empty()).map(|s| s.into_iter().collect()).collect();
    lists.sort();
    lists
}
