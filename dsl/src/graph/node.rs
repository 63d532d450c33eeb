//! What the graph keeps of a node.

use std::any::TypeId;

use thalweg_connectors::OffsetReset;
use thalweg_processor::{NodeSupplier, SinkTopic, SourceDef, StoreDef, TopologyError};

use super::NodeId;
use super::write::Writer;
use crate::config::StoreType;

type Write = Box<dyn FnOnce(&mut Writer<'_>) -> Result<(), TopologyError> + Send>;

/// A node that is about to be added: a name, and how it is written.
pub(crate) struct NodeSpec {
    pub(super) name: String,
    pub(super) write: Write,
    pub(super) source: Option<SourceRole>,
    pub(super) source_name: Option<String>,
    pub(super) repartition: Option<RepartitionRole>,
    pub(super) effect: Effect,
    pub(super) stores: Vec<(StoreDef, Option<StoreType>)>,
    pub(super) connected: Vec<String>,
    pub(super) named_without_number: bool,
    pub(super) grace_ms: Option<i64>,
    pub(super) joins_null_keys: bool,
    pub(super) join: Option<JoinRole>,
    pub(super) source_in_front: Option<NodeId>,
}

/// A stream-stream join, whose sides may turn out to be one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinRole {
    /// The node that keeps the records of the right side: needless then.
    pub(crate) other: NodeId,
}

/// What a node does to a stream, as far as an optimizer must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Effect {
    /// Keys and values come out as they went in, or it is no matter.
    #[default]
    None,
    /// It may change keys.
    ChangesKeys,
    /// It may change values and their type.
    ChangesValues,
    /// It merges streams.
    Merges,
}

/// The names of a repartition topic's parts; the source has the name of the node.
#[derive(Clone)]
pub(crate) struct RepartitionRole {
    /// The topic, without the application's prefix.
    pub(crate) topic: String,
    /// The filter of null keys.
    pub(crate) filter: String,
    /// The sink.
    pub(crate) sink: String,
    /// May the optimizer move and merge it? Not one that the user placed.
    pub(crate) optimizable: bool,
    /// Records with a null key go through it: a node further down joins them.
    pub(crate) null_keys: bool,
}

/// What makes two sources the same one.
pub(crate) struct SourceRole {
    /// The topics it reads.
    pub(crate) topics: Vec<String>,
    /// The types it decodes to.
    pub(crate) types: TypeId,
    /// Where it starts.
    pub(crate) offset_reset: Option<OffsetReset>,
}

impl NodeSpec {
    /// A node that is written by a closure: for those that are more than one node of the topology.
    pub(crate) fn custom(
        name: impl Into<String>,
        write: impl FnOnce(&mut Writer<'_>) -> Result<(), TopologyError> + Send + 'static,
    ) -> Self {
        Self {
            name: name.into(),
            write: Box::new(write),
            source: None,
            source_name: None,
            repartition: None,
            effect: Effect::None,
            stores: Vec::new(),
            connected: Vec::new(),
            named_without_number: false,
            grace_ms: None,
            joins_null_keys: false,
            join: None,
            source_in_front: None,
        }
    }

    /// A processor.
    pub(crate) fn processor(name: impl Into<String>, supplier: NodeSupplier) -> Self {
        Self::custom(name, move |w| w.topology.add_processor(w.name, supplier, w.parents).map(drop))
    }

    /// A source that can be merged with another of the same topics.
    pub(crate) fn source(name: impl Into<String>, role: SourceRole, def: SourceDef) -> Self {
        let mut spec = Self::custom(name, move |w| w.topology.add_source(w.name, def).map(drop));
        spec.source = Some(role);
        spec
    }

    /// A sink.
    pub(crate) fn sink(name: impl Into<String>, topic: SinkTopic, supplier: NodeSupplier) -> Self {
        Self::custom(name, move |w| {
            w.topology.add_sink(w.name, topic, supplier, w.parents).map(drop)
        })
    }

    /// Adds a store and connects it to this processor. `placed`: where the step said the store lives; else the configuration
    /// decides.
    #[must_use]
    pub(crate) fn store(mut self, def: StoreDef, placed: Option<StoreType>) -> Self {
        self.stores.push((def, placed));
        self
    }

    /// Connects stores that are added elsewhere, by name.
    #[must_use]
    pub(crate) fn connect<S: Into<String>>(mut self, stores: impl IntoIterator<Item = S>) -> Self {
        self.connected.extend(stores.into_iter().map(Into::into));
        self
    }

    /// Gives the number of its generated name back when it is named: so Kafka Streams does with custom processors, and only there.
    #[must_use]
    pub(crate) fn named_without_number(mut self) -> Self {
        self.named_without_number = true;
        self
    }

    /// Tells that records with a null key have a result here, so that no repartition topic above leaves them out.
    #[must_use]
    pub(crate) fn joins_null_keys(mut self, does: bool) -> Self {
        self.joins_null_keys = does;
        self
    }

    /// When this node is named, so is the source in front of it: `NAME-source`.
    #[must_use]
    pub(crate) fn names_source(mut self, source: Option<NodeId>) -> Self {
        self.source_in_front = source;
        self
    }

    /// Tells what it does to the stream.
    #[must_use]
    pub(crate) fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    /// Says how long after their end its windows wait for late records: then they are closed.
    #[must_use]
    pub(crate) fn grace_ms(mut self, grace_ms: i64) -> Self {
        self.grace_ms = Some(grace_ms);
        self
    }

    /// Makes it a repartition topic.
    #[must_use]
    pub(crate) fn repartition(mut self, role: RepartitionRole) -> Self {
        self.repartition = Some(role);
        self
    }

    /// Makes it a stream-stream join, whose sides may turn out to be one stream.
    #[must_use]
    pub(crate) fn join(mut self, role: JoinRole) -> Self {
        self.join = Some(role);
        self
    }

    /// The name of the source inside, where it is not the node's name.
    #[must_use]
    pub(crate) fn source_name(mut self, name: impl Into<String>) -> Self {
        self.source_name = Some(name.into());
        self
    }
}

/// A node in the graph.
pub(super) struct GraphNode {
    pub(super) name: String,
    pub(super) priority: u64,
    pub(super) parents: Vec<NodeId>,
    pub(super) children: Vec<NodeId>,
    pub(super) source: Option<SourceRole>,
    pub(super) source_name: Option<String>,
    pub(super) repartition: Option<RepartitionRole>,
    pub(super) effect: Effect,
    pub(super) stores: Vec<(StoreDef, Option<StoreType>)>,
    pub(super) connected: Vec<String>,
    pub(super) named_without_number: bool,
    pub(super) grace_ms: Option<i64>,
    pub(super) joins_null_keys: bool,
    pub(super) join: Option<JoinRole>,
    /// A join over one store, because both sides are one stream.
    pub(super) self_join: bool,
    pub(super) source_in_front: Option<NodeId>,
    /// Taken when it is written.
    pub(super) write: Option<Write>,
}

impl GraphNode {
    pub(super) fn new(spec: NodeSpec, priority: u64) -> Self {
        Self {
            name: spec.name,
            priority,
            parents: Vec::new(),
            children: Vec::new(),
            source: spec.source,
            source_name: spec.source_name,
            repartition: spec.repartition,
            effect: spec.effect,
            stores: spec.stores,
            connected: spec.connected,
            named_without_number: spec.named_without_number,
            grace_ms: spec.grace_ms,
            joins_null_keys: spec.joins_null_keys,
            join: spec.join,
            self_join: false,
            source_in_front: spec.source_in_front,
            write: Some(spec.write),
        }
    }

    /// The one repartition node that several were merged into.
    pub(super) fn merged(
        name: String,
        priority: u64,
        role: RepartitionRole,
        write: Option<Write>,
    ) -> Self {
        let spec = NodeSpec::custom(name, |_| Ok(())).repartition(role);
        Self { write, ..Self::new(spec, priority) }
    }

    pub(super) fn add_parent(&mut self, parent: NodeId) {
        if !self.parents.contains(&parent) {
            self.parents.push(parent);
        }
    }

    pub(super) fn add_child(&mut self, child: NodeId) {
        if !self.children.contains(&child) {
            self.children.push(child);
        }
    }
}
