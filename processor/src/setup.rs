//! What a node is given when it is made: its stores, and whose it is.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::config::Semantics;
use crate::error::UsageError;
use crate::stores::{LocalStore, StoreDecl, StoreDef};
use crate::topology::{NodeIx, TaskId};

/// Hands a new processor what it needs, so that it is complete when constructed.
pub struct Setup<'a> {
    pub(crate) node: NodeIx,
    pub(crate) name: &'a Arc<str>,
    pub(crate) task: TaskId,
    pub(crate) config: &'a crate::config::TaskConfig,
    pub(crate) stores: Vec<(LocalStore, &'a StoreDef)>,
    /// What the nodes of the task share beside their stores.
    pub(crate) shared: &'a mut BTreeMap<Arc<str>, Arc<dyn Any + Send + Sync>>,
    /// The global stores, by their places in the worker's.
    pub(crate) globals: Vec<(LocalStore, &'a StoreDef)>,
    pub(crate) flush_owners: &'a mut Vec<(LocalStore, NodeIx)>,
}

impl Setup<'_> {
    /// A handle on a store that is connected to this node, or on a global store.
    ///
    /// # Errors
    /// When the store is not connected, or was declared as another kind.
    pub fn store<D: StoreDecl>(&mut self, decl: &D) -> Result<D::Handle, UsageError> {
        let name = &decl.def().name;
        let global = self.globals.iter().find(|(_, def)| def.name == *name);
        let ((local, def), is_global) = match global {
            Some(global) => (*global, true),
            None => (self.find(name)?, false),
        };
        if def.kind_name() != decl.def().kind_name() {
            let (is, wanted) = (def.kind_name(), decl.def().kind_name());
            return Err(UsageError::WrongStoreKind { store: def.name.to_string(), is, wanted });
        }
        Ok(if is_global { decl.bind_global(local) } else { decl.bind(local) })
    }

    /// As [`store`](Self::store); updates that leave the record cache come to this node's
    /// [`flush`](crate::Node::flush).
    ///
    /// # Errors
    /// As for [`store`](Self::store).
    pub fn owned_store<D: StoreDecl>(&mut self, decl: &D) -> Result<D::Handle, UsageError> {
        let handle = self.store(decl)?;
        let (local, _) = self.find(&decl.def().name)?;
        self.flush_owners.push((local, self.node));
        Ok(handle)
    }

    /// What nodes of one task share under a name; the first that asks for it makes it. One of another type under the same name takes
    /// the place of the one before.
    pub fn shared<T: Any + Default + Send + Sync>(&mut self, name: &Arc<str>) -> Arc<T> {
        let known = self.shared.get(name).cloned().and_then(|any| any.downcast::<T>().ok());
        known.unwrap_or_else(|| {
            let made = Arc::new(T::default());
            self.shared.insert(Arc::clone(name), Arc::clone(&made) as Arc<dyn Any + Send + Sync>);
            made
        })
    }

    /// The definition of a connected store, by name.
    ///
    /// # Errors
    /// When no such store is connected.
    pub fn store_def(&self, name: &str) -> Result<&StoreDef, UsageError> {
        self.find(name).map(|(_, def)| def)
    }

    /// Do updates of a connected store wait in the record cache, and leave it through [`flush`](crate::Node::flush)?
    ///
    /// # Errors
    /// When no such store is connected.
    pub fn is_cached(&self, name: &str) -> Result<bool, UsageError> {
        let def = self.store_def(name)?;
        Ok(def.caching && self.config.cache_max_bytes > 0)
    }

    /// The definitions of all stores that it can open: the connected ones and the global ones.
    pub fn store_defs(&self) -> impl Iterator<Item = &StoreDef> {
        self.stores.iter().chain(&self.globals).map(|(_, def)| *def)
    }

    fn find(&self, name: &str) -> Result<(LocalStore, &StoreDef), UsageError> {
        let found = self.stores.iter().find(|(_, def)| *def.name == *name);
        found.map(|(local, def)| (*local, *def)).ok_or_else(|| UsageError::StoreNotConnected {
            node: Arc::clone(self.name),
            store: name.to_owned(),
        })
    }

    /// The node's name.
    pub fn node_name(&self) -> &Arc<str> {
        self.name
    }

    /// The task it will run in.
    pub fn task_id(&self) -> TaskId {
        self.task
    }

    /// The application.
    pub fn application_id(&self) -> &Arc<str> {
        &self.config.application_id
    }

    /// Whether accidents of Kafka Streams are copied.
    pub fn semantics(&self) -> Semantics {
        self.config.semantics
    }

    /// What is appended to the names of topics that sinks write.
    pub fn output_suffix(&self) -> &str {
        &self.config.output_suffix
    }
}
