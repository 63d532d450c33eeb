//! [`Store`]: a store as a value, declared once; its handle in a processor; its view while a record is processed.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{DefaultSerde, Serde, SharedSerde, Timestamp};
use thalweg_state::window::parse_window_store_key;

use super::def::{LocalStore, StoreDef, StoreSerdes, StoreShape};
use super::raw::split_local;
use super::window::WindowedKey;
use crate::collector::Collector;
use crate::context::Shared;
use crate::error::{NodeError, NodeResult};
use crate::node::Flushed;

/// Marks a key-value store.
#[derive(Debug)]
pub struct KeyValue(());
/// Marks a key-value store whose values carry timestamps, as the DSL's tables have them.
#[derive(Debug)]
pub struct TimestampedKeyValue(());
/// Marks a window store.
#[derive(Debug)]
pub struct Window(());
/// Marks a session store.
#[derive(Debug)]
pub struct Session(());
/// Marks a window store whose values carry timestamps, as the DSL's windowed tables have them.
#[derive(Debug)]
pub struct TimestampedWindow(());

/// A value and when it was valid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timestamped<V> {
    /// The value.
    pub value: V,
    /// Its timestamp.
    pub timestamp: Timestamp,
}

/// The rows of an update on its way out of the record cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FlushedRows<V> {
    /// The newest row; `None` when deleted.
    pub new: Option<Timestamped<V>>,
    /// What the store held when the key was last flushed.
    pub old: Option<Timestamped<V>>,
}

/// What an `update` of a timestamped store made of a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Updated<V, R = ()> {
    /// The new value; `None` deletes it.
    pub value: Option<V>,
    /// Its timestamp.
    pub timestamp: Timestamp,
    /// Whatever else the caller wants to know.
    pub extra: R,
}

/// A store, declared once and used everywhere: in the topology, in processors, in tests.
///
/// ```
/// use thalweg_processor::Store;
/// let seen = Store::<String, i64>::key_value("seen").in_memory();
/// assert_eq!(seen.name(), "seen");
/// ```
pub struct Store<K, V, S = KeyValue> {
    def: StoreDef,
    serdes: StoreSerdes<K, V>,
    shape: PhantomData<fn() -> S>,
}

impl<K, V, S> Clone for Store<K, V, S> {
    fn clone(&self) -> Self {
        Self { def: self.def.clone(), serdes: self.serdes.clone(), shape: PhantomData }
    }
}

impl<K: 'static, V: 'static, S> Store<K, V, S> {
    #[track_caller]
    pub(super) fn declare(
        name: Arc<str>,
        shape: StoreShape,
        timestamped: bool,
        serdes: StoreSerdes<K, V>,
    ) -> Self {
        let def = StoreDef::new(name, shape, timestamped, serdes.clone());
        Self { def, serdes, shape: PhantomData }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.def.name
    }

    /// Keeps it in memory only: it is rebuilt from its changelog at each start.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.def.persistent = false;
        self
    }

    /// Switches the changelog off: the store is empty after it moved to another machine.
    #[must_use]
    pub fn without_changelog(mut self) -> Self {
        self.def.logging = None;
        self
    }

    /// Sets topic configuration of the changelog, such as `segment.bytes`.
    #[must_use]
    pub fn changelog_config(mut self, config: BTreeMap<String, String>) -> Self {
        self.def.logging = Some(config);
        self
    }

    /// Lets the changelog's records have the headers of the records that changed the store: as Kafka Streams does with some of its own
    /// stores.
    #[must_use]
    pub fn logs_headers(mut self) -> Self {
        self.def.logs_headers = true;
        self
    }

    /// Lets updates wait in the record cache, so that a key is logged once per commit. Off unless asked for, as in Kafka Streams'
    /// store builders.
    #[must_use]
    pub fn cached(mut self) -> Self {
        self.def.caching = true;
        self
    }
}

pub(super) fn defaults<K: DefaultSerde, V: DefaultSerde>() -> StoreSerdes<K, V> {
    StoreSerdes { key: K::default_serde(), value: V::default_serde() }
}

pub(super) fn given<K, V>(key: impl Serde<K>, value: impl Serde<V>) -> StoreSerdes<K, V> {
    StoreSerdes { key: Arc::new(key), value: Arc::new(value) }
}

impl<K: 'static, V: 'static> Store<K, V, KeyValue> {
    /// A key-value store.
    #[track_caller]
    pub fn key_value(name: impl Into<Arc<str>>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Self::declare(name.into(), StoreShape::KeyValue, false, defaults())
    }

    /// A key-value store with serdes of your choice.
    #[track_caller]
    pub fn key_value_with(
        name: impl Into<Arc<str>>,
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> Self {
        Self::declare(name.into(), StoreShape::KeyValue, false, given(key, value))
    }
}

impl<K: 'static, V: 'static> Store<K, V, TimestampedKeyValue> {
    /// A key-value store whose values carry timestamps.
    #[track_caller]
    pub fn timestamped(name: impl Into<Arc<str>>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Self::declare(name.into(), StoreShape::KeyValue, true, defaults())
    }

    /// A key-value store whose values carry timestamps, with shared serdes.
    #[track_caller]
    pub fn timestamped_shared(
        name: impl Into<Arc<str>>,
        key: SharedSerde<K>,
        value: SharedSerde<V>,
    ) -> Self {
        Self::declare(name.into(), StoreShape::KeyValue, true, StoreSerdes { key, value })
    }
}

fn window_shape(retention: Duration, size: Duration) -> StoreShape {
    let ms = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    StoreShape::Window { retention_ms: ms(retention), size_ms: ms(size), retain_duplicates: false }
}

impl<K: 'static, V: 'static> Store<K, V, Window> {
    /// A window store: windows of `size` can be read for `retention` of stream time after their start.
    #[track_caller]
    pub fn window(name: impl Into<Arc<str>>, retention: Duration, size: Duration) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Self::declare(name.into(), window_shape(retention, size), false, defaults())
    }

    /// A window store with serdes of your choice.
    #[track_caller]
    pub fn window_with(
        name: impl Into<Arc<str>>,
        (retention, size): (Duration, Duration),
        key: impl Serde<K>,
        value: impl Serde<V>,
    ) -> Self {
        Self::declare(name.into(), window_shape(retention, size), false, given(key, value))
    }

    /// A window store with shared serdes.
    #[track_caller]
    pub fn window_shared(
        name: impl Into<Arc<str>>,
        (retention, size): (Duration, Duration),
        key: SharedSerde<K>,
        value: SharedSerde<V>,
    ) -> Self {
        Self::declare(name.into(), window_shape(retention, size), false, StoreSerdes { key, value })
    }

    /// Keeps several values of one key and start side by side.
    #[must_use]
    pub fn retain_duplicates(mut self) -> Self {
        if let StoreShape::Window { retain_duplicates, .. } = &mut self.def.shape {
            *retain_duplicates = true;
        }
        self
    }
}

impl<K: 'static, V: 'static> Store<K, V, TimestampedWindow> {
    /// A window store whose values carry timestamps, with shared serdes.
    #[track_caller]
    pub fn timestamped_window_shared(
        name: impl Into<Arc<str>>,
        (retention, size): (Duration, Duration),
        key: SharedSerde<K>,
        value: SharedSerde<V>,
    ) -> Self {
        Self::declare(name.into(), window_shape(retention, size), true, StoreSerdes { key, value })
    }
}

impl<K, V, S> fmt::Debug for Store<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.def, f)
    }
}

/// A declared store of any kind.
pub trait StoreDecl: Send + Sync + 'static {
    /// What a processor keeps to open it.
    type Handle;

    /// Its definition, for the topology.
    fn def(&self) -> &StoreDef;

    /// Makes a handle on the store of one task.
    fn bind(&self, local: LocalStore) -> Self::Handle;

    /// Makes a handle on a global store, for reading.
    fn bind_global(&self, place: LocalStore) -> Self::Handle;
}

impl<K: 'static, V: 'static, S: 'static> StoreDecl for Store<K, V, S> {
    type Handle = Handle<K, V, S>;

    fn def(&self) -> &StoreDef {
        &self.def
    }

    fn bind(&self, local: LocalStore) -> Handle<K, V, S> {
        Handle { local, is_global: false, serdes: self.serdes.clone(), shape: PhantomData }
    }

    fn bind_global(&self, place: LocalStore) -> Handle<K, V, S> {
        Handle { is_global: true, ..self.bind(place) }
    }
}

/// What a processor keeps of a store; [`Context::store`](crate::Context::store) opens it.
pub struct Handle<K, V, S = KeyValue> {
    pub(crate) local: LocalStore,
    /// Is it a place among the worker's global stores? Those are only read.
    pub(crate) is_global: bool,
    pub(crate) serdes: StoreSerdes<K, V>,
    shape: PhantomData<fn() -> S>,
}

impl<K, V, S> Clone for Handle<K, V, S> {
    fn clone(&self) -> Self {
        let Self { local, is_global, .. } = *self;
        Self { local, is_global, serdes: self.serdes.clone(), shape: PhantomData }
    }
}

impl<K: 'static, V: 'static> Handle<K, V, TimestampedKeyValue> {
    /// Reads an update that leaves the record cache: key, new row and old row.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    pub fn read_flushed(&self, entry: &Flushed<'_>) -> NodeResult<(K, FlushedRows<V>)> {
        let key = self.serdes.key.read(Some(entry.key))?;
        Ok((key, self.rows(entry)?))
    }
}

impl<K: 'static, V: 'static> Handle<K, V, TimestampedWindow> {
    /// Reads an update that leaves the record cache: key and window start, new row and old row.
    ///
    /// # Errors
    /// When the bytes cannot be read.
    pub fn read_flushed(
        &self,
        entry: &Flushed<'_>,
    ) -> NodeResult<(WindowedKey<K>, FlushedRows<V>)> {
        let parsed = parse_window_store_key(entry.key)
            .ok_or_else(|| NodeError::user("a cached window key is too short"))?;
        let key = WindowedKey {
            key: self.serdes.key.read(Some(parsed.key))?,
            start: Timestamp(parsed.start_ms),
        };
        Ok((key, self.rows(entry)?))
    }
}

impl<K: 'static, V: 'static, S> Handle<K, V, S> {
    fn rows(&self, entry: &Flushed<'_>) -> NodeResult<FlushedRows<V>> {
        let row = |local: Option<&[u8]>| -> NodeResult<Option<Timestamped<V>>> {
            let Some(local) = local else { return Ok(None) };
            let (timestamp, value) = split_local(true, local)?;
            Ok(Some(Timestamped {
                value: self.serdes.value.read(Some(value))?,
                timestamp: timestamp.unwrap_or(Timestamp::NONE),
            }))
        };
        Ok(FlushedRows { new: row(entry.new)?, old: row(entry.old)? })
    }
}

impl<K, V, S> fmt::Debug for Handle<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Handle").field(&self.local.0).finish()
    }
}

mod sealed {
    pub trait Sealed {}
    impl<K, V, S> Sealed for super::Handle<K, V, S> {}
}

/// A handle that can be opened. Sealed.
pub trait StoreHandle: sealed::Sealed {
    /// The opened store.
    type View<'a>
    where
        Self: 'a;

    #[doc(hidden)]
    #[expect(private_interfaces, reason = "sealed: only the context calls it")]
    fn view<'a>(&'a self, shared: &'a mut Shared, output: &'a mut Collector) -> Self::View<'a>;
}

impl<K: 'static, V: 'static, S: 'static> StoreHandle for Handle<K, V, S> {
    type View<'a> = View<'a, K, V, S>;

    #[expect(private_interfaces, reason = "sealed: only the context calls it")]
    fn view<'a>(&'a self, shared: &'a mut Shared, output: &'a mut Collector) -> View<'a, K, V, S> {
        match self.is_global {
            true => {
                let (shared, output) = output.global_stores();
                View { shared, output, handle: self }
            }
            false => View { shared, output, handle: self },
        }
    }
}

/// An opened store. Reads see every write of this task, committed or not.
pub struct View<'a, K, V, S = KeyValue> {
    pub(crate) shared: &'a mut Shared,
    pub(crate) output: &'a mut Collector,
    pub(crate) handle: &'a Handle<K, V, S>,
}
