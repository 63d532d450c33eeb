//! `single.store.self.join`: a join whose sides are one stream keeps its records once.

use super::State;

impl State {
    /// Rewrites joins whose two sides are one node.
    pub(super) fn rewrite_self_joins(&mut self) {
        for id in 0..self.nodes.len() {
            let node = &mut self.nodes[id];
            let (Some(role), [parent]) = (node.join, &node.parents[..]) else { continue };
            let parent = *parent;
            node.self_join = true;
            self.nodes[role.other.0].write = None;
            self.nodes[role.other.0].parents.clear();
            self.nodes[parent.0].children.retain(|child| *child != role.other);
        }
    }
}
