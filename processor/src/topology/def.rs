//! What a node, a source and a store entry are made of.

use std::fmt;
use std::sync::Arc;

use thalweg_connectors::OffsetReset;

use crate::config::TaskConfig;
use crate::error::UsageError;
use crate::node::Node;
use crate::setup::Setup;
use crate::source::Source;
use crate::stores::StoreDef;

/// Index of a node in its topology.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct NodeIx(pub u32);

/// Index of a store in its topology.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct StoreNo(pub u32);

/// Makes the node of one task; called once per task.
pub type NodeSupplier =
    Arc<dyn Fn(&mut Setup<'_>) -> Result<Box<dyn Node>, UsageError> + Send + Sync>;

/// Makes the decoding end of a source of one task.
pub type SourceSupplier = Arc<dyn Fn(&TaskConfig) -> Box<dyn Source> + Send + Sync>;

/// A topic as a topology names it.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum TopicRef {
    /// A topic of the user's, by its full name.
    External(Arc<str>),
    /// A topic of the application's own: its full name is `<application.id>-<name>`.
    Internal(Arc<str>),
}

impl TopicRef {
    /// The name as the topology shows it.
    pub fn name(&self) -> &Arc<str> {
        match self {
            Self::External(name) | Self::Internal(name) => name,
        }
    }

    /// The full name for an application.
    pub fn resolve(&self, application_id: &str) -> Arc<str> {
        match self {
            Self::External(name) => Arc::clone(name),
            Self::Internal(name) => format!("{application_id}-{name}").into(),
        }
    }
}

/// A repartition topic.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InternalTopic {
    /// How many partitions, when the user said so; else as many as the tasks that write it.
    pub partitions: Option<i32>,
}

/// Where records enter.
#[derive(Clone)]
pub struct SourceDef {
    /// The topics it reads.
    pub topics: Vec<TopicRef>,
    /// Where it starts when no offset was committed; `None`: as `auto.offset.reset` says.
    pub offset_reset: Option<OffsetReset>,
    /// Makes its decoding end.
    pub supplier: SourceSupplier,
}

/// Where a sink writes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SinkTopic {
    /// Always to this topic.
    Fixed(TopicRef),
    /// Where the extractor says, record by record; the text is its name in descriptions.
    Extracted(Arc<str>),
}

/// What a node does.
#[derive(Clone)]
pub enum NodeKind {
    /// Reads topics.
    Source(SourceDef),
    /// Processes.
    Processor(NodeSupplier),
    /// Writes a topic.
    Sink {
        /// Where to.
        topic: SinkTopic,
        /// Makes its encoding end.
        supplier: NodeSupplier,
    },
}

impl fmt::Debug for NodeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(def) => f.debug_tuple("Source").field(&def.topics).finish(),
            Self::Processor(_) => f.write_str("Processor"),
            Self::Sink { topic, .. } => f.debug_tuple("Sink").field(topic).finish(),
        }
    }
}

/// A node and its place in the graph.
#[derive(Clone, Debug)]
pub struct NodeDef {
    /// Its name, unique in the topology.
    pub name: Arc<str>,
    /// What it does.
    pub kind: NodeKind,
    /// Where its records come from.
    pub parents: Vec<NodeIx>,
    /// Where they go.
    pub children: Vec<NodeIx>,
    /// The stores it may use.
    pub stores: Vec<StoreNo>,
}

/// A store and who uses it.
#[derive(Clone, Debug)]
pub struct StoreEntry {
    /// What it is.
    pub def: StoreDef,
    /// The nodes connected to it.
    pub nodes: Vec<NodeIx>,
    /// A source topic that serves as its changelog, when the optimizer chose so.
    pub source_as_changelog: Option<TopicRef>,
    /// Is it kept whole by every worker, and read by all tasks?
    pub is_global: bool,
}
