//! Repartition topics: Kafka Streams' `createRepartitionedSource`, its names and the numbers it burns.

use std::sync::Arc;

use thalweg_connectors::{Datum, Topic};
use thalweg_processor::{
    Context, InternalTopic, PartitionerFn, Record, SinkDef, SourceDef, TimestampExtractor,
    TimestampPolicy, TopicRef,
};

use crate::graph::{Graph, NodeId, NodeSpec, RepartitionRole, Writer};
use crate::name::Name;
use crate::place::Place;
use crate::serdes::Known;
use crate::stream::stateless;

const SUFFIX: &str = "-repartition";

/// The name that a repartition topic is made of: the given one, else the generated one.
pub(crate) fn prefix(name: &Name, generate: impl FnOnce() -> String) -> String {
    name.given().map_or_else(generate, |given| given.to_string())
}

/// A repartition topic that is about to be added: a filter, a sink, and a source behind it. The filter leaves null keys out, unless a
/// node further down joins them (KIP-962).
pub(crate) struct Repartition<K, V> {
    graph: Graph,
    role: RepartitionRole,
    source: String,
    serdes: Known<K, V>,
    partitions: Option<i32>,
    partitioner: Option<PartitionerFn<K, V>>,
}

impl<K: Datum, V: Datum> Repartition<K, V> {
    /// Names its parts. Burns the numbers of all three, used or not.
    #[track_caller]
    pub(crate) fn of(graph: &Graph, prefix: &str, serdes: Known<K, V>) -> Self {
        let topic = match prefix.ends_with(SUFFIX) {
            true => prefix.to_owned(),
            false => format!("{prefix}{SUFFIX}"),
        };
        let mut sink = graph.processor_name("KSTREAM-SINK-");
        let mut filter = graph.processor_name("KSTREAM-FILTER-");
        let mut source = graph.processor_name("KSTREAM-SOURCE-");
        if is_generated(prefix) {
            graph.note_generated("repartition topic", &topic);
        } else {
            sink = format!("{topic}-sink");
            filter = format!("{topic}-filter");
            source = format!("{topic}-source");
        }
        let role = RepartitionRole { topic, filter, sink, optimizable: true, null_keys: false };
        let graph = graph.clone();
        Self { graph, role, source, serdes, partitions: None, partitioner: None }
    }

    /// Keeps the optimizer away from it: the user placed it.
    pub(crate) fn explicit(mut self) -> Self {
        self.role.optimizable = false;
        self
    }

    /// Fixes the number of partitions.
    pub(crate) fn partitions(mut self, partitions: Option<i32>) -> Self {
        self.partitions = partitions;
        self
    }

    /// Chooses partitions by a function.
    pub(crate) fn partitioner(mut self, partitioner: Option<PartitionerFn<K, V>>) -> Self {
        self.partitioner = partitioner;
        self
    }

    /// Adds it behind a node; what stands behind it has its keys in place.
    #[track_caller]
    pub(crate) fn add_behind(self, parent: NodeId) -> Place<K, V> {
        let key = self.graph.key_serde(self.serdes.key.clone(), &self.role.topic);
        let value = self.graph.value_serde(self.serdes.value.clone(), &self.role.topic);
        let graph = self.graph.clone();
        let serdes = Known::both(key, value);
        let spec = self.spec(&serdes);
        let node = graph.add(&[parent], spec);
        Place::source(graph, node, serdes)
    }

    fn spec(self, serdes: &Known<K, V>) -> NodeSpec {
        let (Some(key), Some(value)) = (serdes.key.clone(), serdes.value.clone()) else {
            unreachable!("both serdes were resolved");
        };
        let topic = self.role.topic.as_str();
        let internal = TopicRef::Internal(topic.into());
        let encoder = Topic::with_shared(topic, Arc::clone(&key), Arc::clone(&value));
        let mut sink = SinkDef::fixed(internal.clone(), Arc::new(encoder));
        if let Some(partitioner) = self.partitioner {
            sink = sink.partitioner(partitioner);
        }
        let extractor = TimestampExtractor::Policy(TimestampPolicy::FailOnInvalid);
        let source = SourceDef::new(vec![internal], (key, value), extractor, None);
        let (partitions, (target, supplier)) =
            (InternalTopic { partitions: self.partitions }, sink.build());
        let spec = NodeSpec::custom(self.source, move |w: &mut Writer<'_>| {
            let role = w.repartition.expect("a repartition node has the names of its parts");
            w.topology.add_internal_topic(&role.topic, partitions)?;
            let null_keys = role.null_keys;
            let filter = stateless(move |record: Record<K, V>, context: &mut Context<'_>| {
                match record.key.is_null() && !null_keys {
                    true => Ok(()),
                    false => context.forward(record),
                }
            });
            w.topology.add_processor(&role.filter, filter, w.parents)?;
            w.topology.add_sink(&role.sink, target, supplier, &[&role.filter])?;
            w.topology.add_source(w.name, source).map(drop)
        });
        spec.repartition(self.role)
    }
}

impl<K: Datum, V: Datum> Place<K, V> {
    /// This place with its keys in place, for a join: behind a repartition topic if a key was changed upstream. One under the stream's
    /// own generated name is made once and used by all its joins.
    #[track_caller]
    pub(crate) fn in_place(&self, name: Option<String>, serdes: Known<K, V>) -> Self {
        if !self.must_repartition {
            return self.clone();
        }
        let (graph, own) = (&self.graph, self.graph.node_name(self.node));
        let prefix = name.unwrap_or_else(|| own.clone());
        let serdes = serdes.or(&self.serdes);
        let repartition = Repartition::of(graph, &prefix, serdes.clone());
        match graph.join_repartition(self.node) {
            Some(node) if prefix == own => Place::source(graph.clone(), node, serdes),
            _ => {
                let behind = repartition.add_behind(self.node);
                graph.set_join_repartition(self.node, behind.node);
                behind
            }
        }
    }
}

/// Is this a name of the form `KSTREAM…-0123456789`?
fn is_generated(prefix: &str) -> bool {
    let Some((head, number)) = prefix.rsplit_once('-') else { return false };
    head.starts_with("KSTREAM") && number.len() == 10 && number.bytes().all(|b| b.is_ascii_digit())
}
