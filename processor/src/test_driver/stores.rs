//! Looking into stores from a test.

use thalweg_connectors::{SerdeError, Timestamp};
use thalweg_state::{Direction, KeyRange, StoreIx, values::decode_timestamped};

use super::TestDriver;
use crate::collector::Collector;
use crate::error::{TaskError, UsageError};
use crate::stores::{LocalStore, StoreDecl, StoreDef, StoreHandle, StoreShape};
use crate::task::Task;

/// An opened store: [`TestDriver::store`].
pub struct TestStore<'d, H> {
    task: &'d mut Task,
    output: &'d mut Collector,
    handle: H,
}

impl<H: StoreHandle> TestStore<'_, H> {
    /// The store as a processor sees it. What a test writes through it is committed by the next step.
    pub fn view(&mut self) -> H::View<'_> {
        self.task.store(&self.handle, self.output)
    }
}

/// One entry of a store, as it lies there.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct StoredEntry {
    /// The partition of the task that holds it.
    pub partition: i32,
    /// The key's bytes, without a window.
    pub key: Vec<u8>,
    /// Where its window starts, in a window or session store.
    pub window_start: Option<Timestamp>,
    /// Where its session ends, in a session store.
    pub session_end: Option<Timestamp>,
    /// The value's bytes, without a timestamp.
    pub value: Vec<u8>,
    /// The value's timestamp, in a store that keeps it.
    pub timestamp: Option<Timestamp>,
}

/// One entry of a store, decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TestEntry<K, V> {
    /// The key, without a window.
    pub key: K,
    /// Where its window starts, in a window or session store.
    pub window_start: Option<Timestamp>,
    /// Where its session ends, in a session store.
    pub session_end: Option<Timestamp>,
    /// The value.
    pub value: V,
    /// The value's timestamp, in a store that keeps it.
    pub timestamp: Option<Timestamp>,
}

impl TestDriver {
    /// Opens a store of the task of partition 0, by its declaration.
    ///
    /// # Errors
    /// When the topology has no such store, or one of another kind.
    pub fn store<D: StoreDecl>(
        &mut self,
        decl: &D,
    ) -> Result<TestStore<'_, D::Handle>, UsageError> {
        self.store_in(0, decl)
    }

    /// Opens a store of the task of another partition.
    ///
    /// # Errors
    /// As for [`store`](Self::store); a partition that no task has.
    pub fn store_in<D: StoreDecl>(
        &mut self,
        partition: i32,
        decl: &D,
    ) -> Result<TestStore<'_, D::Handle>, UsageError> {
        let wanted = decl.def();
        let is = self.store_def(&wanted.name)?.kind_name();
        if is != wanted.kind_name() {
            return Err(UsageError::WrongStoreKind {
                store: wanted.name.to_string(),
                is,
                wanted: wanted.kind_name(),
            });
        }
        let index = usize::try_from(partition).unwrap_or(usize::MAX);
        if let Some(place) = self.global_place(&wanted.name) {
            let task = self.tasks.get_mut(0).ok_or_else(|| unknown(&wanted.name))?;
            let handle = decl.bind_global(place);
            return Ok(TestStore { task, output: &mut self.output, handle });
        }
        let task = self.tasks.get_mut(index);
        let task = task.ok_or_else(|| unknown(&wanted.name))?;
        let local = task.local_store(&wanted.name).ok_or_else(|| unknown(&wanted.name))?;
        Ok(TestStore { task, output: &mut self.output, handle: decl.bind(local) })
    }

    /// The names of all stores, sorted.
    pub fn store_names(&self) -> Vec<String> {
        let stores = self.topology.stores();
        let mut names: Vec<_> = stores.map(|s| s.def.name.to_string()).collect();
        names.sort();
        names
    }

    /// The place of a global store among the global stores.
    fn global_place(&mut self, name: &str) -> Option<LocalStore> {
        self.output.globals.as_mut()?.task().local_store(name)
    }

    /// The definition of a store: its shape and its serdes.
    ///
    /// # Errors
    /// When the topology has no such store.
    pub fn store_def(&self, name: &str) -> Result<&StoreDef, UsageError> {
        let mut stores = self.topology.stores();
        let found = stores.find(|s| *s.def.name == *name);
        found.map(|s| &s.def).ok_or_else(|| unknown(name))
    }

    /// Everything that a store holds, partition by partition: in the order of the keys' bytes, a window store's by time.
    ///
    /// # Errors
    /// When the topology has no such store, or it cannot be read.
    pub fn dump_raw(&mut self, name: &str) -> Result<Vec<StoredEntry>, TaskError> {
        let def = self.store_def(name).map_err(misuse)?;
        let (shape, timestamped) = (def.shape, def.timestamped);
        let mut entries = Vec::new();
        let globals = self.output.globals.as_mut().map(|globals| globals.task());
        for task in self.tasks.iter_mut().chain(globals) {
            let partition = task.id().partition;
            let Some(ix) = task.state().store_ix(name) else {
                continue;
            };
            dump(task, ix, shape, |key, (window_start, session_end), local| {
                let (timestamp, value) = match decode_timestamped(local).filter(|_| timestamped) {
                    Some((timestamp, value)) => (Some(Timestamp(timestamp)), value),
                    None => (None, local),
                };
                entries.push(StoredEntry {
                    partition,
                    key: key.to_vec(),
                    window_start,
                    session_end,
                    value: value.to_vec(),
                    timestamp,
                });
            })?;
        }
        Ok(entries)
    }

    /// Everything that a store holds, decoded by the store's own serdes, in the order of [`dump_raw`](Self::dump_raw).
    ///
    /// # Errors
    /// When the topology has no such store, its types are others, or an entry cannot be read.
    pub fn dump<K: 'static, V: 'static>(
        &mut self,
        name: &str,
    ) -> Result<Vec<TestEntry<K, V>>, TaskError> {
        let def = self.store_def(name).map_err(misuse)?;
        let serdes = def.serdes::<K, V>().cloned().ok_or_else(|| {
            misuse(UsageError::WrongStoreKind {
                store: name.to_owned(),
                is: "store of other types",
                wanted: std::any::type_name::<(K, V)>(),
            })
        })?;
        let entries = self.dump_raw(name)?.into_iter();
        entries
            .map(|raw| {
                Ok(TestEntry {
                    key: serdes.key.read(Some(&raw.key))?,
                    window_start: raw.window_start,
                    session_end: raw.session_end,
                    value: serdes.value.read(Some(&raw.value))?,
                    timestamp: raw.timestamp,
                })
            })
            .collect::<Result<_, SerdeError>>()
            .map_err(misuse)
    }
}

/// Start and end of the window that an entry is of.
type Times = (Option<Timestamp>, Option<Timestamp>);

fn dump(
    task: &mut Task,
    ix: StoreIx,
    shape: StoreShape,
    mut entry: impl FnMut(&[u8], Times, &[u8]),
) -> Result<(), TaskError> {
    let state = task.state();
    match shape {
        StoreShape::KeyValue | StoreShape::Buffer => {
            let mut entries = state.range(ix, &KeyRange::all(), Direction::Forward)?;
            while let Some((key, local)) = entries.next_entry()? {
                entry(key, (None, None), local);
            }
        }
        StoreShape::Session { .. } => {
            let all = (0, i64::MAX);
            let mut entries = state.session_keys(ix, None, None, all, Direction::Forward)?;
            while let Some(found) = entries.next_entry()? {
                let (start, end) = (Timestamp(found.start_ms), Timestamp(found.end_ms));
                entry(found.key, (Some(start), Some(end)), found.value);
            }
        }
        StoreShape::Window { .. } => {
            let mut entries = state.window_all(ix, 0, i64::MAX, Direction::Forward)?;
            while let Some(found) = entries.next_entry()? {
                entry(found.key, (Some(Timestamp(found.start_ms)), None), found.value);
            }
        }
    }
    Ok(())
}

fn unknown(store: &str) -> UsageError {
    UsageError::StoreNotConnected { node: "test driver".into(), store: store.to_owned() }
}

/// A test asked for something that is not there.
fn misuse(error: impl Into<crate::error::BoxError>) -> TaskError {
    super::refused("cannot look into the store", error)
}
