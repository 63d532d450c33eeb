//! [`TopologyDescription`]: a topology to walk, and the text that Kafka Streams' `Topology.describe()` prints, letter by letter,
//! because visualizers parse it.

use std::fmt;
use std::sync::Arc;

use super::def::{NodeDef, NodeIx, NodeKind, SinkTopic};
use super::{SubTopology, Topology};

/// All parts of a topology.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TopologyDescription {
    /// The sub-topologies, by number.
    pub sub_topologies: Vec<SubTopologyDescription>,
}

/// One sub-topology.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct SubTopologyDescription {
    /// Its number.
    pub number: u32,
    /// Does it fill a global store, and has no tasks?
    pub is_global: bool,
    /// Its nodes: those with the most below them first, then by name.
    pub nodes: Vec<NodeDescription>,
}

/// One node.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct NodeDescription {
    /// Its name.
    pub name: Arc<str>,
    /// What it does.
    pub kind: NodeDescriptionKind,
    /// Where its records come from.
    pub predecessors: Vec<Arc<str>>,
    /// Where they go.
    pub successors: Vec<Arc<str>>,
}

/// What a node does.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum NodeDescriptionKind {
    /// Reads topics.
    Source {
        /// Which ones, without the application's prefix.
        topics: Vec<Arc<str>>,
    },
    /// Processes, with stores.
    Processor {
        /// Their names.
        stores: Vec<Arc<str>>,
    },
    /// Writes one topic.
    Sink {
        /// Which one, without the application's prefix.
        topic: Arc<str>,
    },
    /// Writes where an extractor says.
    DynamicSink {
        /// The extractor's name.
        extractor: Arc<str>,
    },
}

impl Topology {
    /// Describes it; [`to_string`](ToString::to_string) gives the text of Kafka Streams.
    ///
    /// ```
    /// # use thalweg_connectors::Topic;
    /// # use thalweg_processor::{SourceDef, TopologyBuilder};
    /// let mut builder = TopologyBuilder::new();
    /// builder.add_source("lines-in", SourceDef::typed(&Topic::<String, String>::new("lines")))?;
    /// let text = builder.build()?.describe().to_string();
    /// assert_eq!(text, "Topologies:\n   Sub-topology: 0\n    Source: lines-in (topics: [lines])\n      --> none\n\n");
    /// # Ok::<(), thalweg_processor::TopologyError>(())
    /// ```
    pub fn describe(&self) -> TopologyDescription {
        let sizes = sizes(self);
        let parts = self.sub_topologies().iter().enumerate();
        let sub_topologies =
            parts.map(|(number, sub)| self.describe_part(number as u32, sub, &sizes));
        TopologyDescription { sub_topologies: sub_topologies.collect() }
    }

    fn describe_part(
        &self,
        number: u32,
        sub: &SubTopology,
        sizes: &[u64],
    ) -> SubTopologyDescription {
        let mut nodes = sub.nodes.clone();
        nodes.sort_by(|a, b| {
            let by_size = sizes[b.0 as usize].cmp(&sizes[a.0 as usize]);
            by_size.then_with(|| self.node(*a).name.cmp(&self.node(*b).name))
        });
        let nodes = nodes.into_iter().map(|ix| self.describe_node(self.node(ix))).collect();
        SubTopologyDescription { number, is_global: sub.is_global, nodes }
    }

    fn describe_node(&self, node: &NodeDef) -> NodeDescription {
        let names =
            |list: &[NodeIx]| list.iter().map(|ix| Arc::clone(&self.node(*ix).name)).collect();
        let kind = match &node.kind {
            NodeKind::Source(def) => NodeDescriptionKind::Source {
                topics: hash_ordered(def.topics.iter().map(|t| Arc::clone(t.name())).collect()),
            },
            NodeKind::Processor(_) => {
                let name = |no: &super::StoreNo| self.stores().nth(no.0 as usize);
                let stores = node.stores.iter().filter_map(name);
                NodeDescriptionKind::Processor {
                    stores: hash_ordered(stores.map(|s| Arc::clone(&s.def.name)).collect()),
                }
            }
            NodeKind::Sink { topic: SinkTopic::Fixed(topic), .. } => {
                NodeDescriptionKind::Sink { topic: Arc::clone(topic.name()) }
            }
            NodeKind::Sink { topic: SinkTopic::Extracted(extractor), .. } => {
                NodeDescriptionKind::DynamicSink { extractor: Arc::clone(extractor) }
            }
        };
        let name = Arc::clone(&node.name);
        NodeDescription {
            name,
            kind,
            predecessors: names(&node.parents),
            successors: names(&node.children),
        }
    }
}

/// Per node, one and the sizes of all children; a child counts once per path.
fn sizes(topology: &Topology) -> Vec<u64> {
    let mut sizes = vec![1u64; topology.nodes().len()];
    // Children are always added after their parents.
    for ix in (0..sizes.len()).rev() {
        let children = &topology.node(NodeIx(ix as u32)).children;
        let below = children.iter().map(|c| sizes[c.0 as usize]).fold(0, u64::saturating_add);
        sizes[ix] = below.saturating_add(1);
    }
    sizes
}

/// The order in which a Java `HashSet` of these names is printed.
fn hash_ordered(mut names: Vec<Arc<str>>) -> Vec<Arc<str>> {
    let buckets = (names.len() * 4 / 3 + 1).max(16).next_power_of_two() as u32;
    names.sort_by_key(|name| {
        let hash = name.encode_utf16().fold(0u32, |h, c| h.wrapping_mul(31).wrapping_add(c.into()));
        (hash ^ (hash >> 16)) & (buckets - 1)
    });
    names
}

fn list(names: &[Arc<str>]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

impl fmt::Display for NodeDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.name;
        match &self.kind {
            NodeDescriptionKind::Source { topics } => {
                writeln!(f, "    Source: {name} (topics: [{}])", topics.join(", "))?;
            }
            NodeDescriptionKind::Processor { stores } => {
                writeln!(f, "    Processor: {name} (stores: [{}])", stores.join(", "))?;
            }
            NodeDescriptionKind::Sink { topic } => {
                writeln!(f, "    Sink: {name} (topic: {topic})")?
            }
            NodeDescriptionKind::DynamicSink { extractor } => {
                writeln!(f, "    Sink: {name} (extractor class: {extractor})")?;
            }
        }
        let is_source = matches!(self.kind, NodeDescriptionKind::Source { .. });
        let is_sink = matches!(
            self.kind,
            NodeDescriptionKind::Sink { .. } | NodeDescriptionKind::DynamicSink { .. }
        );
        if !is_sink {
            writeln!(f, "      --> {}", list(&self.successors))?;
        }
        if !is_source {
            writeln!(f, "      <-- {}", list(&self.predecessors))?;
        }
        Ok(())
    }
}

impl fmt::Display for SubTopologyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.is_global { " for global store (will not generate tasks)" } else { "" };
        writeln!(f, "Sub-topology: {}{kind}", self.number)?;
        self.nodes.iter().try_for_each(|node| node.fmt(f))?;
        if self.is_global { Ok(()) } else { writeln!(f) }
    }
}

impl fmt::Display for TopologyDescription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Topologies:\n ")?;
        self.sub_topologies.iter().try_for_each(|sub| write!(f, "  {sub}"))
    }
}

#[cfg(test)]
#[path = "describe_tests.rs"]
mod tests;
