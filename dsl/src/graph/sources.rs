//! Two streams of one topic read it through one source, as in Kafka Streams.

use std::collections::BTreeMap;

use thalweg_processor::TopologyError;

use super::{NodeId, State};

impl State {
    /// Merges sources of the same topics. Returns which node stands for a source that vanished.
    pub(super) fn merge_sources(&mut self) -> BTreeMap<NodeId, NodeId> {
        let mut readers: BTreeMap<String, NodeId> = BTreeMap::new();
        let mut merged = BTreeMap::new();
        for id in (0..self.nodes.len()).map(NodeId) {
            let Some(source) = &self.nodes[id.0].source else { continue };
            let Some(&main) = source.topics.iter().find_map(|t| readers.get(t)) else {
                readers.extend(source.topics.iter().map(|t| (t.clone(), id)));
                continue;
            };
            match self.mismatch(main, id) {
                Some(error) => {
                    self.errors.push(error);
                    self.nodes[id.0].write = None;
                }
                None => {
                    merged.insert(id, main);
                    self.move_children(id, main);
                }
            }
        }
        merged
    }

    /// Why two sources that share a topic cannot be one.
    fn mismatch(&self, main: NodeId, other: NodeId) -> Option<TopologyError> {
        let (a, b) = (self.nodes[main.0].source.as_ref()?, self.nodes[other.0].source.as_ref()?);
        let topics = b.topics.join(", ");
        let why = if a.topics != b.topics {
            "they overlap, but are not the same set; read each topic as a stream of its own and merge"
        } else if a.offset_reset != b.offset_reset {
            "with different offset resets; give both the same"
        } else if a.types != b.types {
            "with different types; read the topic once and map the stream"
        } else {
            return None;
        };
        Some(TopologyError::Invalid(format!(
            "the topics `{topics}` are read by two sources: {why}"
        )))
    }

    fn move_children(&mut self, from: NodeId, to: NodeId) {
        for child in std::mem::take(&mut self.nodes[from.0].children) {
            self.nodes[child.0].parents.retain(|p| *p != from);
            self.nodes[child.0].add_parent(to);
            self.nodes[to.0].add_child(child);
        }
        self.nodes[from.0].write = None;
    }
}
