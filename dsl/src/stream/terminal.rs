//! [`Terminal`]: what an operator returns that nothing comes out of.

use std::fmt;

use crate::graph::{Graph, NodeId, NodeSpec};
use crate::place::Place;

/// The end of a stream: a sink or a side effect.
pub struct Terminal {
    graph: Graph,
    node: NodeId,
}

impl Terminal {
    #[track_caller]
    pub(crate) fn add<K, V>(place: &Place<K, V>, spec: NodeSpec) -> Self {
        let node = place.graph.add(&[place.node], spec);
        Self { graph: place.graph.clone(), node }
    }

    /// Names the node.
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    pub fn named(self, name: impl AsRef<str>) {
        self.graph.rename(self.node, name.as_ref());
    }
}

impl fmt::Debug for Terminal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Terminal").field(&self.node).finish()
    }
}
