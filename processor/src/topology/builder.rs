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
            Entry::Occupied(entry) => {
                let there = &entry.get().def;
                return Err(TopologyError::DuplicateStore {
                    store: name,
                    first: there.declared_at(),
                    second: def.declared_at(),
                    differences: there.differences(&def),
                });
            }
            Entry::Vacant(entry) => {
                let index = entry.index();
                entry.insert(StoreEntry {
                    def,
                    nodes: Vec::new(),
                    source_as_changelog: None,
                    is_global: false,
                });
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
            if entry.is_global {
                let (node, store) = (processor.into(), (*store).into());
                return Err(TopologyError::GlobalStore { node, store });
            }
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

    /// Adds a store that every worker keeps whole: a source that reads all partitions of its topic, and a processor that brings the
    /// records into it. All other processors can read the store without being connected. It has no changelog and no cache.
    ///
    /// # Errors
    /// As for [`add_source`](Self::add_source), [`add_processor`](Self::add_processor) and [`add_store`](Self::add_store).
    pub fn add_global_store(
        &mut self,
        (source, def): (&str, SourceDef),
        (processor, supplier): (&str, NodeSupplier),
        mut store: StoreDef,
    ) -> Result<StoreNo> {
        (store.logging, store.caching, store.persistent) = (None, false, false);
        let name = Arc::clone(&store.name);
        if self.has_store(&name) {
            // refused, with both places
            return self.add_store(store, &[]);
        }
        check_name(&name)?;
        self.add_source(source, def)?;
        self.add_processor(processor, supplier, &[source])?;
        let no = self.add_store(store, &[processor])?;
        if let Some(entry) = self.stores.get_mut(&name) {
            entry.is_global = true;
        }
        Ok(no)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics on failure")]

    use std::time::Duration;

    use super::*;
    use crate::{Store, StoreDecl};

    fn refused(first: &impl StoreDecl, second: &impl StoreDecl) -> String {
        let mut builder = TopologyBuilder::new();
        builder.add_store(first.def().clone(), &[]).unwrap();
        builder.add_store(second.def().clone(), &[]).unwrap_err().to_string()
    }

    #[test]
    fn a_topology_without_a_source_is_refused() {
        let told = "the topology has no source; start with `stream` or `table`";
        assert_eq!(TopologyBuilder::new().build().unwrap_err().to_string(), told);
        let mut stores_only = TopologyBuilder::new();
        stores_only.add_store(Store::<i64, i64>::key_value("s").def().clone(), &[]).unwrap();
        assert_eq!(stores_only.build().unwrap_err().to_string(), told);
    }

    #[test]
    fn two_stores_of_one_name_are_told_apart_by_place_and_difference() {
        let numbers = || Store::<String, i64>::key_value("s");
        let first = numbers();
        let text =
            Store::<String, String, crate::TimestampedKeyValue>::timestamped("s").in_memory();
        let told = refused(&first, &text);
        for part in [
            format!("store `s` is declared twice, at {} and at ", first.def().declared_at()),
            format!("builder.rs:{}:", text.def().declared_at().line()),
            "differs in kind (key-value store, timestamped key-value store), value type (i64, alloc::string::String), \
             place (persistent, in memory); give"
                .to_owned(),
        ] {
            assert!(told.contains(&part), "{part}: {told}");
        }
        let alike = refused(&first, &numbers());
        assert!(!alike.contains("differs") && alike.contains("use one declaration"), "{alike}");
        let window = |ms| {
            Store::<String, i64, crate::Window>::window(
                "s",
                Duration::from_millis(ms),
                Duration::from_millis(5),
            )
        };
        let told = refused(&window(10), &window(20));
        assert!(told.contains("differs in retention (10 ms, 20 ms);"), "{told}");
    }

    #[test]
    fn a_declaration_can_be_added_again_but_not_with_other_options() {
        let store = Store::<String, i64>::key_value("s");
        let mut builder = TopologyBuilder::new();
        builder.add_store(store.def().clone(), &[]).unwrap();
        builder.add_store(store.clone().def().clone(), &[]).unwrap();
        let told = refused(&store, &store.clone().cached());
        assert!(told.contains("differs in caching (off, on);"), "{told}");
    }
}
