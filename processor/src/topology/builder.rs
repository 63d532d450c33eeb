//! Adding nodes, sinks and stores by name. Errors name what and where; nothing is added by a call that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use indexmap::IndexMap;
use indexmap::map::Entry;

use super::def::{
    InternalTopic, NodeDef, NodeIx, NodeKind, NodeSupplier, SinkTopic, SourceDef, StoreEntry,
    StoreNo, TopicRef,
};
use super::error::{TopologyError, check_name};
use super::{Topology, TopologyData, groups};
use crate::stores::StoreDef;

type Result<T> = std::result::Result<T, TopologyError>;

/// Builds a topology node by node: the low-level API, which the DSL compiles to.
#[derive(Default)]
pub struct TopologyBuilder {
    nodes: IndexMap<Arc<str>, NodeDef>,
    stores: IndexMap<Arc<str>, StoreEntry>,
    internal_topics: BTreeMap<Arc<str>, InternalTopic>,
    copartitioned: Vec<BTreeSet<Arc<str>>>,
    source_topics: BTreeSet<Arc<str>>,
}

impl TopologyBuilder {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a source.
    ///
    /// # Errors
    /// A name that is taken, no topics, a topic that another source reads already.
    pub fn add_source(&mut self, name: &str, def: SourceDef) -> Result<NodeIx> {
        let own_name: Arc<str> = name.into();
        if def.topics.is_empty() {
            return Err(TopologyError::NoTopic(own_name));
        }
        for topic in &def.topics {
            check_name(topic.name())?;
            if self.source_topics.contains(topic.name()) {
                return Err(TopologyError::TopicTwice(Arc::clone(topic.name())));
            }
        }
        let topics: Vec<_> = def.topics.iter().map(|t| Arc::clone(t.name())).collect();
        let ix = self.add(name, NodeKind::Source(def), &[])?;
        self.source_topics.extend(topics);
        Ok(ix)
    }

    /// Adds a processor behind its parents.
    ///
    /// # Errors
    /// A name that is taken, parents that are not there or are sinks.
    pub fn add_processor(
        &mut self,
        name: &str,
        supplier: NodeSupplier,
        parents: &[&str],
    ) -> Result<NodeIx> {
        if parents.is_empty() {
            return Err(TopologyError::NoParent(name.into()));
        }
        self.add(name, NodeKind::Processor(supplier), parents)
    }

    /// Adds a sink behind its parents.
    ///
    /// # Errors
    /// As for [`add_processor`](Self::add_processor); an illegal topic name.
    pub fn add_sink(
        &mut self,
        name: &str,
        topic: SinkTopic,
        supplier: NodeSupplier,
        parents: &[&str],
    ) -> Result<NodeIx> {
        if let SinkTopic::Fixed(topic) = &topic {
            check_name(topic.name())?;
        }
        if parents.is_empty() {
            return Err(TopologyError::NoParent(name.into()));
        }
        self.add(name, NodeKind::Sink { topic, supplier }, parents)
    }

    fn add(&mut self, name: &str, kind: NodeKind, parents: &[&str]) -> Result<NodeIx> {
        let name: Arc<str> = name.into();
        if name.is_empty() {
            return Err(TopologyError::IllegalName { name: String::new(), reason: "it is empty" });
        }
        if self.nodes.contains_key(&name) {
            return Err(TopologyError::DuplicateNode(name));
        }
        let ix =
            NodeIx(u32::try_from(self.nodes.len()).expect("a topology has fewer than 2^32 nodes"));
        let parents = parents.iter().map(|p| self.parent(&name, p)).collect::<Result<Vec<_>>>()?;
        for parent in &parents {
            self.nodes[parent.0 as usize].children.push(ix);
        }
        let def = NodeDef {
            name: Arc::clone(&name),
            kind,
            parents,
            children: Vec::new(),
            stores: Vec::new(),
        };
        self.nodes.insert(name, def);
        Ok(ix)
    }

    fn parent(&self, node: &Arc<str>, parent: &str) -> Result<NodeIx> {
        if **node == *parent {
            return Err(TopologyError::OwnParent(Arc::clone(node)));
        }
        let unknown =
            || TopologyError::UnknownParent { node: Arc::clone(node), parent: parent.into() };
        let (ix, _, def) = self.nodes.get_full(parent).ok_or_else(unknown)?;
        if matches!(def.kind, NodeKind::Sink { .. }) {
            return Err(TopologyError::SinkAsParent {
                node: Arc::clone(node),
                parent: parent.into(),
            });
        }
        Ok(NodeIx(ix as u32))
    }

    /// Adds a store and connects it to processors. Adding the very same declaration again is fine.
    ///
    /// # Errors
    /// A name that is illegal or taken by another store; processors that are not there.
    pub fn add_store(&mut self, def: StoreDef, processors: &[&str]) -> Result<StoreNo> {
        check_name(&def.name)?;
        let name = Arc::clone(&def.name);
        let no = match self.stores.entry(Arc::clone(&name)) {
            Entry::Occupied(entry) if entry.get().def.is_same(&def) => entry.index(),
            Entry::Occupied(_) => return Err(TopologyError::DuplicateStore(name)),
            Entry::Vacant(entry) => {
                let index = entry.index();
                entry.insert(StoreEntry { def, nodes: Vec::new(), source_as_changelog: None });
                index
            }
        };
        for processor in processors {
            self.connect(processor, &[&name])?;
        }
        Ok(StoreNo(no as u32))
    }

    /// Is there a store of that name?
    pub fn has_store(&self, name: &str) -> bool {
        self.stores.contains_key(name)
    }

    /// Connects a processor to stores.
    ///
    /// # Errors
    /// A processor or store that is not there.
    pub fn connect(&mut self, processor: &str, stores: &[&str]) -> Result<()> {
        for store in stores {
            let Some((no, _, entry)) = self.stores.get_full_mut(*store) else {
                return Err(TopologyError::UnknownStore {
                    node: processor.into(),
                    store: (*store).into(),
                });
            };
            let unknown = || TopologyError::UnknownProcessor {
                store: (*store).into(),
                node: processor.into(),
            };
            let (ix, _, def) = self.nodes.get_full_mut(processor).ok_or_else(unknown)?;
            if !matches!(def.kind, NodeKind::Processor(_)) {
                return Err(unknown());
            }
            let (ix, no) = (NodeIx(ix as u32), StoreNo(no as u32));
            if !def.stores.contains(&no) {
                def.stores.push(no);
                entry.nodes.push(ix);
            }
        }
        Ok(())
    }

    /// Lets a source topic serve as a store's changelog.
    ///
    /// # Errors
    /// A store that is not there.
    pub fn source_as_changelog(&mut self, store: &str, topic: TopicRef) -> Result<()> {
        let unknown =
            || TopologyError::UnknownStore { node: Arc::clone(topic.name()), store: store.into() };
        self.stores.get_mut(store).ok_or_else(unknown)?.source_as_changelog = Some(topic.clone());
        Ok(())
    }

    /// Declares a repartition topic, by its name without the application's prefix.
    ///
    /// # Errors
    /// An illegal name.
    pub fn add_internal_topic(&mut self, name: &str, topic: InternalTopic) -> Result<()> {
        check_name(name)?;
        self.internal_topics.insert(name.into(), topic);
        Ok(())
    }

    /// Declares that the topics of these sources need equal partition counts.
    ///
    /// # Errors
    /// A source that is not there.
    pub fn copartition(&mut self, sources: &[&str]) -> Result<()> {
        let mut set = BTreeSet::new();
        for source in sources {
            if !self.nodes.contains_key(*source) {
                return Err(TopologyError::UnknownParent {
                    node: "copartition".into(),
                    parent: (*source).into(),
                });
            }
            set.insert(Arc::from(*source));
        }
        self.copartitioned.push(set);
        Ok(())
    }

    /// The index of a node.
    pub fn node_ix(&self, name: &str) -> Option<NodeIx> {
        self.nodes.get_index_of(name).map(|ix| NodeIx(ix as u32))
    }

    /// Completes the topology.
    ///
    /// # Errors
    /// When there is no source, or a store has no processor in it.
    pub fn build(self) -> Result<Topology> {
        if !self.nodes.values().any(|n| matches!(n.kind, NodeKind::Source(_))) {
            return Err(TopologyError::Empty);
        }
        let copartitioned = groups::copartitioned_topics(&self.nodes, &self.copartitioned);
        let sub_topologies = groups::sub_topologies(&self.nodes, &self.stores);
        Ok(Topology(Arc::new(TopologyData {
            nodes: self.nodes,
            stores: self.stores,
            internal_topics: self.internal_topics,
            copartitioned,
            sub_topologies,
        })))
    }
}
