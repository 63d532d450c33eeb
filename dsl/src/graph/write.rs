//! Writing the graph: in the order of build priorities, each node after all its parents.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use thalweg_processor::{StoreDef, Topology, TopologyBuilder, TopologyError};

use super::node::RepartitionRole;
use super::{NodeId, State};
use crate::config::{BuildConfig, Optimization, StoreType};
use crate::error::BuildError;

/// What a node is written with.
pub(crate) struct Writer<'a> {
    pub(crate) topology: &'a mut TopologyBuilder,
    pub(crate) config: &'a BuildConfig,
    /// The node's name.
    pub(crate) name: &'a str,
    /// The names of its parents, in the order in which they were added.
    pub(crate) parents: &'a [&'a str],
    /// The names of its parts, of a repartition node.
    pub(crate) repartition: Option<&'a RepartitionRole>,
    /// Is it a join whose sides are one stream, over one store?
    pub(crate) self_join: bool,
}

impl Writer<'_> {
    /// Adds a store of the DSL and connects it to a processor; the configuration decides where it lives when the step did not.
    pub(crate) fn store(
        &mut self,
        mut def: StoreDef,
        placed: Option<StoreType>,
        processor: &str,
    ) -> Result<(), TopologyError> {
        def.persistent = placed.unwrap_or(self.config.default_store) == StoreType::Persistent;
        self.topology.add_store(def, &[processor]).map(drop)
    }
}

impl State {
    pub(super) fn write(mut self, config: &BuildConfig) -> Result<Topology, BuildError> {
        let mut replaced = self.merge_sources();
        if config.optimizations.contains(&Optimization::MergeRepartitionTopics) {
            replaced.extend(self.merge_repartitions());
        }
        self.let_null_keys_through();
        if config.optimizations.contains(&Optimization::SingleStoreSelfJoins) {
            self.rewrite_self_joins();
        }
        if config.explicit_names {
            let generated = std::mem::take(&mut self.generated).into_iter();
            let refused = generated.map(|(what, name)| TopologyError::GeneratedName { what, name });
            self.errors.extend(refused);
        }
        let mut topology = TopologyBuilder::new();
        self.write_nodes(&mut topology, config);
        self.write_copartitions(&mut topology, &replaced);
        if !self.errors.is_empty() {
            return Err(BuildError::new(self.errors));
        }
        topology.build().map_err(|e| BuildError::new(vec![e]))
    }

    /// Repartition topics above a node that joins null keys, however far, let them through.
    fn let_null_keys_through(&mut self) {
        let mut below: Vec<NodeId> = (0..self.nodes.len())
            .map(NodeId)
            .filter(|id| self.nodes[id.0].joins_null_keys)
            .collect();
        let mut seen: BTreeSet<NodeId> = below.iter().copied().collect();
        while let Some(id) = below.pop() {
            if let Some(role) = &mut self.nodes[id.0].repartition {
                role.null_keys = true;
            }
            let parents = self.nodes[id.0].parents.iter();
            below.extend(parents.filter(|parent| seen.insert(**parent)));
        }
    }

    fn write_nodes(&mut self, topology: &mut TopologyBuilder, config: &BuildConfig) {
        let mut waits_for: Vec<usize> = self.nodes.iter().map(|n| n.parents.len()).collect();
        let mut failed = vec![false; self.nodes.len()];
        let mut ready = BinaryHeap::new();
        for (i, node) in self.nodes.iter().enumerate() {
            if node.parents.is_empty() && node.write.is_some() {
                ready.push(Reverse((node.priority, i)));
            }
        }
        while let Some(Reverse((_, i))) = ready.pop() {
            // what hangs on a node that could not be written is not reported again
            failed[i] = self.nodes[i].parents.iter().any(|p| failed[p.0]);
            if !failed[i]
                && let Err(e) = self.write_node(i, topology, config)
            {
                self.errors.push(e);
                failed[i] = true;
            }
            for child in &self.nodes[i].children {
                waits_for[child.0] -= 1;
                if waits_for[child.0] == 0 {
                    ready.push(Reverse((self.nodes[child.0].priority, child.0)));
                }
            }
        }
    }

    fn write_node(
        &mut self,
        i: usize,
        topology: &mut TopologyBuilder,
        config: &BuildConfig,
    ) -> Result<(), TopologyError> {
        let Some(write) = self.nodes[i].write.take() else { return Ok(()) };
        let stores = std::mem::take(&mut self.nodes[i].stores);
        let node = &self.nodes[i];
        let parents: Vec<&str> = node.parents.iter().map(|p| &*self.nodes[p.0].name).collect();
        let repartition = node.repartition.as_ref();
        let mut writer = Writer {
            topology,
            config,
            name: &node.name,
            parents: &parents,
            repartition,
            self_join: node.self_join,
        };
        write(&mut writer)?;
        for (def, placed) in stores {
            writer.store(def, placed, &node.name)?;
        }
        let connected: Vec<&str> = node.connected.iter().map(|s| &**s).collect();
        writer.topology.connect(&node.name, &connected)
    }

    fn write_copartitions(
        &mut self,
        topology: &mut TopologyBuilder,
        replaced: &BTreeMap<NodeId, NodeId>,
    ) {
        for set in &self.copartitioned {
            let nodes = set.iter().map(|id| &self.nodes[replaced.get(id).unwrap_or(id).0]);
            let names: Vec<&str> =
                nodes.map(|n| n.source_name.as_deref().unwrap_or(&n.name)).collect();
            // a source that could not be written has been reported
            if names.iter().all(|n| topology.node_ix(n).is_some())
                && let Err(e) = topology.copartition(&names)
            {
                self.errors.push(e);
            }
        }
    }
}
