//! From a topology to a task: nodes made, stores and changelogs bound, inputs listed.

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_connectors::{Headers, Offset, Timestamp, TopicPartition};
use thalweg_state::{Engine, StoreIx, TaskState};

use super::Task;
use crate::cache::RecordCache;
use crate::collector::Collector;
use crate::config::TaskConfig;
use crate::context::{Graph, Shared, Slot};
use crate::dead_letters::DeadLetters;
use crate::error::{NodeError, TaskError, caught};
use crate::group::{Input, PartitionGroup};
use crate::punctuate::Timers;
use crate::setup::Setup;
use crate::source::Source;
use crate::stores::{LocalStore, StoreDef, TaskStore};
use crate::topology::{NodeDef, NodeIx, NodeKind, StoreEntry, StoreNo, TaskId, Topology};

/// Sources, their nodes, and their inputs.
type Sources = (Vec<Box<dyn Source>>, Vec<NodeIx>, Vec<Input>);

/// Which part of a topology a task runs, and as what.
pub struct TaskSpec<'a> {
    /// The topology.
    pub topology: &'a Topology,
    /// The nodes it runs, parents before children: a sub-topology's, or all of them in the test driver.
    pub nodes: &'a [NodeIx],
    /// The stores it has.
    pub stores: &'a [StoreNo],
    /// Its id.
    pub id: TaskId,
    /// How many partitions each input topic has, by full name: the task reads its own number of those that have it.
    pub partitions: &'a BTreeMap<Arc<str>, i32>,
    /// The application's configuration.
    pub config: Arc<TaskConfig>,
}

impl TaskSpec<'_> {
    fn store_entries(&self) -> impl Iterator<Item = &StoreEntry> {
        self.stores
            .iter()
            .map(|no| self.topology.stores().nth(no.0 as usize).expect("a store of this topology"))
    }

    /// Builds the task on an engine; its stores still have to be restored, its inputs positioned, and its nodes initialized.
    ///
    /// # Errors
    /// When a changelog topic is not there, or the engine holds something else.
    pub fn build(
        &self,
        engine: Box<dyn Engine>,
        output: &mut Collector,
    ) -> Result<Task, TaskError> {
        let specs = self.store_entries().map(|e| e.def.spec(self.config.semantics)).collect();
        let state = TaskState::open(engine, specs)?;
        let changelogs: Vec<_> = self.store_entries().map(|e| self.changelog(e)).collect();
        let stores = self.task_stores(&changelogs, output)?;
        let cache = RecordCache::new(stores.iter().map(|s| s.cached.then_some(s.shape)));
        let shared = Shared {
            task: self.id,
            config: Arc::clone(&self.config),
            state,
            stores,
            cache,
            timers: Timers::default(),
            origin: None,
            offset: Offset(-1),
            timestamp: Timestamp::NONE,
            headers: Headers::new(),
            stream_time: Timestamp::NONE,
            wall_time: Timestamp::NONE,
            dropped: 0,
            dead_letters: DeadLetters::of(&self.config, output)?,
            commit_requested: false,
            remembered: BTreeMap::new(),
            key_buffer: Vec::new(),
            value_buffer: Vec::new(),
            window_key_buffer: Vec::new(),
        };
        let mut graph = Graph { slots: Vec::new(), shared };
        self.build_nodes(&mut graph)?;
        let (sources, source_nodes, inputs) = self.build_sources()?;
        Ok(Task {
            topology: self.topology.clone(),
            graph,
            group: PartitionGroup::new(inputs),
            sources,
            source_nodes,
            changelogs,
            cache_max_bytes: self.config.cache_max_bytes,
            worked: false,
        })
    }

    /// The changelog partition of a store. A source topic that serves as one is restored from, but not written.
    fn changelog(&self, entry: &StoreEntry) -> Option<TopicPartition> {
        let app = &self.config.application_id;
        let topic: Arc<str> = match &entry.source_as_changelog {
            Some(topic) => topic.resolve(app),
            None => {
                entry.def.logging.as_ref()?;
                entry.def.changelog_topic(app).into()
            }
        };
        Some(TopicPartition::new(topic, self.id.partition))
    }

    fn task_stores(
        &self,
        changelogs: &[Option<TopicPartition>],
        output: &mut Collector,
    ) -> Result<Vec<TaskStore>, TaskError> {
        let mut stores = Vec::new();
        for (i, (entry, changelog)) in self.store_entries().zip(changelogs).enumerate() {
            let def = &entry.def;
            let written = changelog.as_ref().filter(|_| entry.source_as_changelog.is_none());
            let changelog = match written {
                Some(tp) => Some((output.topic(&tp.topic)?.slot, tp.partition)),
                None => None,
            };
            stores.push(TaskStore {
                name: Arc::clone(&def.name),
                ix: StoreIx(u16::try_from(i).expect("a task has fewer than 65 536 stores")),
                shape: def.shape,
                timestamped: def.timestamped,
                logs_headers: def.logs_headers,
                cached: def.caching && self.config.cache_max_bytes > 0,
                changelog,
                owner: None,
            });
        }
        Ok(stores)
    }

    /// Makes the nodes. The arena has a slot for every node of the topology, so that indices need no translation; those of other
    /// tasks stay empty.
    fn build_nodes(&self, graph: &mut Graph) -> Result<(), TaskError> {
        for def in self.topology.nodes() {
            graph.slots.push(Slot {
                name: Arc::clone(&def.name),
                node: None,
                children: def.children.iter().copied().collect(),
                is_sink: matches!(def.kind, NodeKind::Sink { .. }),
            });
        }
        let (mut owners, mut shared) = (Vec::new(), BTreeMap::new());
        for &ix in self.nodes {
            let def = self.topology.node(ix);
            let (NodeKind::Processor(supplier) | NodeKind::Sink { supplier, .. }) = &def.kind
            else {
                continue;
            };
            let mut setup = Setup {
                node: ix,
                name: &def.name,
                task: self.id,
                config: &self.config,
                stores: self.stores_of(def),
                shared: &mut shared,
                globals: self.globals(),
                flush_owners: &mut owners,
            };
            let made = caught(|| supplier(&mut setup)).map_err(|m| self.panicked(def, m))?;
            let node = made.map_err(|e| {
                let (node, at) = (Arc::clone(&def.name), String::new());
                TaskError::Processing { task: self.id, node, at, source: Box::new(e) }
            })?;
            graph.slots[ix.0 as usize].node = Some(node);
        }
        for (store, owner) in owners {
            graph.shared.stores[store.0].owner = Some(owner);
        }
        Ok(())
    }

    /// A supplier of a node panicked.
    fn panicked(&self, def: &NodeDef, message: String) -> TaskError {
        let (node, at) = (Some(Arc::clone(&def.name)), String::new());
        TaskError::Panicked { task: self.id, node, at, message }
    }

    fn stores_of(&self, node: &NodeDef) -> Vec<(LocalStore, &StoreDef)> {
        let local = |no: &StoreNo| self.stores.iter().position(|s| s == no).map(LocalStore);
        let def = |no: &StoreNo| self.topology.stores().nth(no.0 as usize).map(|e| &e.def);
        node.stores.iter().filter_map(|no| Some((local(no)?, def(no)?))).collect()
    }

    /// The global stores, which all nodes can read; not the nodes that fill them: for those they are stores like any other.
    fn globals(&self) -> Vec<(LocalStore, &StoreDef)> {
        if self.id.partition == TaskId::ALL_PARTITIONS {
            return Vec::new();
        }
        let globals = self.topology.stores().filter(|entry| entry.is_global).enumerate();
        globals.map(|(i, entry)| (LocalStore(i), &entry.def)).collect()
    }

    fn build_sources(&self) -> Result<Sources, TaskError> {
        let (mut sources, mut nodes, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
        for &ix in self.nodes {
            let node = self.topology.node(ix);
            let NodeKind::Source(def) = &node.kind else {
                continue;
            };
            let source = caught(|| (def.supplier)(&self.config));
            let source = source.map_err(|message| self.panicked(node, message))?;
            for topic in &def.topics {
                let topic = topic.resolve(&self.config.application_id);
                let partitions = self.partitions.get(&topic).copied().unwrap_or(0);
                for partition in (0..partitions).filter(|p| self.id.reads(*p)) {
                    let tp = TopicPartition::new(Arc::clone(&topic), partition);
                    inputs.push(Input::new(tp, sources.len(), source.keeps_timestamps()));
                }
            }
            sources.push(source);
            nodes.push(ix);
        }
        Ok((sources, nodes, inputs))
    }
}

impl From<TaskError> for NodeError {
    fn from(e: TaskError) -> Self {
        Self::failed(e)
    }
}
