//! The logical graph: what the operators record, and `build` writes as a topology.
//!
//! It is Kafka Streams' `InternalStreamsBuilder`, call for call: one counter for all generated names, nodes that are written in the
//! order in which they were added, each after all its parents. Writing waits for `build`, so that an optimizer can still move and
//! merge nodes.

mod node;
mod optimize;
mod self_join;
mod sources;
mod write;

use std::any::{Any, TypeId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{Topology, TopologyError, check_name};

use crate::config::BuildConfig;
use crate::error::BuildError;
use crate::serdes::Unknown;

pub(crate) use node::{Effect, JoinRole, NodeSpec, RepartitionRole, SourceRole};
pub(crate) use write::Writer;

use node::GraphNode;

/// Index of a node in its graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct NodeId(usize);

/// A key or a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Part {
    Key,
    Value,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::Value => "value",
        }
    }
}

/// The graph that all handles of a builder share.
#[derive(Clone, Default)]
pub(crate) struct Graph(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    nodes: Vec<GraphNode>,
    /// The next number of a generated name.
    names: u64,
    /// The next build priority.
    priorities: u64,
    /// Sets of nodes whose sources need equal partition counts.
    copartitioned: Vec<BTreeSet<NodeId>>,
    /// Repartition nodes made for joins, by the stream they repartition.
    join_repartitions: BTreeMap<NodeId, NodeId>,
    /// Serdes for types that no step has a serde for.
    defaults: BTreeMap<(TypeId, Part), Box<dyn Any + Send>>,
    /// Durable names that were generated: what, and the name.
    generated: Vec<(&'static str, Arc<str>)>,
    errors: Vec<TopologyError>,
    built: bool,
}

impl Graph {
    /// The state, open for additions.
    #[track_caller]
    fn open(&self) -> MutexGuard<'_, State> {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(!state.built, "the topology is built already; finish it before `build`");
        state
    }

    /// The name that Kafka Streams generates next: `KSTREAM-FILTER-0000000001`. Also burns the number where a name is given.
    #[track_caller]
    pub(crate) fn processor_name(&self, prefix: &str) -> String {
        let mut state = self.open();
        let number = state.names;
        state.names += 1;
        format!("{prefix}{number:010}")
    }

    /// As [`processor_name`](Self::processor_name), for a store: `KSTREAM-AGGREGATE-STATE-STORE-0000000001`.
    #[track_caller]
    pub(crate) fn store_name(&self, prefix: &str) -> String {
        self.processor_name(&format!("{prefix}STATE-STORE-"))
    }

    /// Kafka's `orElseGenerateWithPrefix`: the given name, else the generated one; burns a number in both cases.
    #[track_caller]
    pub(crate) fn name_or(&self, given: Option<&Arc<str>>, prefix: &str) -> String {
        let generated = self.processor_name(prefix);
        self.checked(given).map_or(generated, str::to_owned)
    }

    /// Kafka's `suffixWithOrElseGet`: the given name with a suffix, else the generated one; burns a number in both cases.
    #[track_caller]
    pub(crate) fn suffixed_or(
        &self,
        given: Option<&Arc<str>>,
        suffix: &str,
        prefix: &str,
    ) -> String {
        let generated = self.processor_name(prefix);
        self.checked(given).map_or(generated, |name| format!("{name}{suffix}"))
    }

    /// Notes an illegal name as a mistake.
    #[track_caller]
    fn checked<'n>(&self, given: Option<&'n Arc<str>>) -> Option<&'n str> {
        let name = given?;
        if let Err(e) = check_name(name) {
            self.error(e);
        }
        Some(name)
    }

    /// Adds a node behind its parents; none: at the root.
    #[track_caller]
    pub(crate) fn add(&self, parents: &[NodeId], spec: NodeSpec) -> NodeId {
        let mut state = self.open();
        let id = NodeId(state.nodes.len());
        let priority = state.next_priority();
        let mut node = GraphNode::new(spec, priority);
        for &parent in parents {
            node.add_parent(parent);
            state.nodes[parent.0].add_child(id);
        }
        state.nodes.push(node);
        id
    }

    /// Adds a node that is there already behind a parent, as Kafka Streams does with a repartition node that is used again: it
    /// moves to the end of the order.
    #[track_caller]
    pub(crate) fn add_again(&self, parent: NodeId, id: NodeId) {
        let mut state = self.open();
        let priority = state.next_priority();
        state.nodes[id.0].priority = priority;
        state.nodes[id.0].add_parent(parent);
        state.nodes[parent.0].add_child(id);
    }

    /// The name of a node.
    #[track_caller]
    pub(crate) fn node_name(&self, id: NodeId) -> String {
        self.open().nodes[id.0].name.clone()
    }

    /// Names a node; a generated name's number stays used, but for custom processors that are named at once.
    #[track_caller]
    pub(crate) fn rename(&self, id: NodeId, name: &str) {
        let mut state = self.open();
        if let Err(e) = check_name(name) {
            state.errors.push(e);
        }
        let last = state.names.checked_sub(1);
        let node = &mut state.nodes[id.0];
        let newest =
            last.filter(|n| node.named_without_number && node.name.ends_with(&format!("-{n:010}")));
        name.clone_into(&mut node.name);
        if let Some(source) = node.source_in_front {
            state.nodes[source.0].name = format!("{name}-source");
        }
        if let Some(number) = newest {
            state.names = number;
        }
    }

    /// How long after their end the windows that a node's rows are about wait for late records: the longest grace period of all
    /// windows upstream. `None` when some of its rows are not about windows.
    #[track_caller]
    pub(crate) fn grace_ms(&self, id: NodeId) -> Option<i64> {
        self.open().grace_ms(id)
    }

    /// Demands equal partition counts of the sources behind these nodes.
    #[track_caller]
    pub(crate) fn copartition(&self, sources: impl IntoIterator<Item = NodeId>) {
        self.open().copartitioned.push(sources.into_iter().collect());
    }

    /// The repartition node that was made for joins of this stream.
    #[track_caller]
    pub(crate) fn join_repartition(&self, stream: NodeId) -> Option<NodeId> {
        self.open().join_repartitions.get(&stream).copied()
    }

    /// Remembers the repartition node that was made for joins of this stream.
    #[track_caller]
    pub(crate) fn set_join_repartition(&self, stream: NodeId, repartition: NodeId) {
        self.open().join_repartitions.insert(stream, repartition);
    }

    /// Notes a mistake; `build` reports it.
    #[track_caller]
    pub(crate) fn error(&self, error: TopologyError) {
        self.open().errors.push(error);
    }

    /// Notes that a durable name was generated; `build` refuses it when the configuration asks for explicit names.
    #[track_caller]
    pub(crate) fn note_generated(&self, what: &'static str, name: &str) {
        self.open().generated.push((what, name.into()));
    }

    /// Sets the serde of a type for steps that have none.
    #[track_caller]
    pub(crate) fn set_default<T: 'static>(&self, part: Part, serde: SharedSerde<T>) {
        self.open().defaults.insert((TypeId::of::<T>(), part), Box::new(serde));
    }

    #[track_caller]
    fn serde<T: Datum>(
        &self,
        part: Part,
        known: Option<SharedSerde<T>>,
        whose: &str,
    ) -> SharedSerde<T> {
        if let Some(known) = known {
            return known;
        }
        let mut state = self.open();
        let default = state.defaults.get(&(TypeId::of::<T>(), part));
        let default = default.and_then(|any| any.downcast_ref::<SharedSerde<T>>()).cloned();
        default.or_else(T::own_serde).unwrap_or_else(|| {
            let (node, field, of) = (whose.into(), part.name(), std::any::type_name::<T>());
            state.errors.push(TopologyError::NoSerde { node, field, of });
            Arc::new(Unknown)
        })
    }

    /// The serde of a key whose bytes are needed: the known one, else the default; a missing one is noted as a mistake of `whose`.
    #[track_caller]
    pub(crate) fn key_serde<K: Datum>(
        &self,
        known: Option<SharedSerde<K>>,
        whose: &str,
    ) -> SharedSerde<K> {
        self.serde(Part::Key, known, whose)
    }

    /// As [`key_serde`](Self::key_serde), for a value.
    #[track_caller]
    pub(crate) fn value_serde<V: Datum>(
        &self,
        known: Option<SharedSerde<V>>,
        whose: &str,
    ) -> SharedSerde<V> {
        self.serde(Part::Value, known, whose)
    }

    /// Writes the topology. The graph is frozen then.
    #[track_caller]
    pub(crate) fn build(&self, config: &BuildConfig) -> Result<Topology, BuildError> {
        let mut state = self.open();
        let written = std::mem::take(&mut *state);
        state.built = true;
        drop(state);
        written.write(config)
    }
}

impl State {
    fn grace_ms(&self, id: NodeId) -> Option<i64> {
        let node = &self.nodes[id.0];
        if node.grace_ms.is_some() {
            return node.grace_ms;
        }
        let parents: Option<Vec<_>> = node.parents.iter().map(|p| self.grace_ms(*p)).collect();
        parents?.into_iter().max()
    }

    fn next_priority(&mut self) -> u64 {
        self.priorities += 1;
        self.priorities
    }
}
