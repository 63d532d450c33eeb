//! A topology as data: nodes, stores and topics, with no client, thread or clock in sight.
//!
//! | module | what it is |
//! | --- | --- |
//! | `def` | what a node and a source are made of |
//! | `builder` | adding nodes by name; every rule is checked here |
//! | `groups` | sub-topologies: what becomes a task |
//! | `describe` | the text Kafka Streams prints |
//! | `internal` | the topics that belong to the application, with their configuration |

mod builder;
mod def;
mod describe;
mod error;
mod groups;
mod internal;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use indexmap::IndexMap;

pub use builder::TopologyBuilder;
pub use def::{
    InternalTopic, NodeDef, NodeIx, NodeKind, NodeSupplier, SinkTopic, SourceDef, SourceSupplier,
    StoreEntry, StoreNo, TopicRef,
};
pub use describe::{
    NodeDescription, NodeDescriptionKind, SubTopologyDescription, TopologyDescription,
};
pub use error::{TopologyError, check_name};
pub use groups::SubTopology;
pub use internal::{InternalTopicDef, InternalTopicKind};

/// Names a task: a sub-topology on one partition number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct TaskId {
    /// Number of the sub-topology.
    pub subtopology: u32,
    /// Partition number.
    pub partition: i32,
}

impl TaskId {
    /// Of the one that reads all partitions: that of the global stores.
    pub(crate) const ALL_PARTITIONS: i32 = -1;

    /// Does it read that partition of its topics?
    pub(crate) fn reads(self, partition: i32) -> bool {
        self.partition == partition || self.partition == Self::ALL_PARTITIONS
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}_{}", self.subtopology, self.partition)
    }
}

/// A complete topology. Cheap to clone; it cannot change any more.
#[derive(Clone)]
pub struct Topology(pub(crate) Arc<TopologyData>);

pub(crate) struct TopologyData {
    pub(crate) nodes: IndexMap<Arc<str>, NodeDef>,
    pub(crate) stores: IndexMap<Arc<str>, StoreEntry>,
    /// Repartition topics, without the application's prefix.
    pub(crate) internal_topics: BTreeMap<Arc<str>, InternalTopic>,
    /// Sets of source topics that need equal partition counts.
    pub(crate) copartitioned: Vec<Vec<TopicRef>>,
    pub(crate) sub_topologies: Vec<SubTopology>,
}

impl Topology {
    /// The nodes, in the order they were added; a [`NodeIx`] is an index into it.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &NodeDef> {
        self.0.nodes.values()
    }

    /// One node.
    ///
    /// # Panics
    /// When the index is of another topology.
    pub fn node(&self, ix: NodeIx) -> &NodeDef {
        &self.0.nodes[ix.0 as usize]
    }

    /// The stores, in the order they were added; a [`StoreNo`] is an index into it.
    pub fn stores(&self) -> impl ExactSizeIterator<Item = &StoreEntry> {
        self.0.stores.values()
    }

    /// The parts without a repartition topic inside; a task runs one of them on one partition.
    pub fn sub_topologies(&self) -> &[SubTopology] {
        &self.0.sub_topologies
    }

    /// The repartition topics it needs, by name without the application's prefix.
    pub fn internal_topics(&self) -> &BTreeMap<Arc<str>, InternalTopic> {
        &self.0.internal_topics
    }

    /// Sets of source topics that need equal partition counts.
    pub fn copartition_groups(&self) -> &[Vec<TopicRef>] {
        &self.0.copartitioned
    }
}

impl fmt::Debug for Topology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.nodes.keys()).finish()
    }
}
