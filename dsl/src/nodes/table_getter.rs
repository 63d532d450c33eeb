//! Reading a table's row from another node of the same task: from a store, or computed from a parent's row.

use std::sync::Arc;

use thalweg_connectors::{Datum, SharedSerde, Timestamp};
use thalweg_processor::{
    Context, Handle, NodeResult, Session, Setup, Store, Timestamped, TimestampedKeyValue,
    TimestampedWindow, UsageError,
};

use super::join_tables::{JoinRows, JoinedGetter, Needs};
use super::session_aggregate::SessionStore;
use super::suppress::{BufferStore, SuppressedGetter};
use super::table::RowStore;
use super::table_compute::Compute;
use crate::windows::WindowKey;

/// Reads rows of a table.
pub(crate) trait Getter<K, V>: Send {
    /// The row of a key, with its timestamp.
    fn get(&mut self, context: &mut Context<'_>, key: &K) -> NodeResult<Option<Timestamped<V>>>;
}

type MakeGetter<K, V> =
    Arc<dyn Fn(&mut Setup<'_>) -> Result<Box<dyn Getter<K, V>>, UsageError> + Send + Sync>;

/// Makes the getter of one node, which has to be connected to these stores.
pub(crate) struct GetterSupplier<K, V> {
    make: MakeGetter<K, V>,
    stores: Vec<Arc<str>>,
}

impl<K, V> Clone for GetterSupplier<K, V> {
    fn clone(&self) -> Self {
        Self { make: Arc::clone(&self.make), stores: self.stores.clone() }
    }
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> GetterSupplier<K, V> {
    /// From a table's own rows.
    pub(crate) fn stored(store: RowStore<K, V>) -> Self {
        let stores = vec![Arc::from(store.name())];
        let make = move |setup: &mut Setup<'_>| -> Result<Box<dyn Getter<K, V>>, UsageError> {
            Ok(Box::new(Stored(setup.store(&store)?)))
        };
        Self { make: Arc::new(make), stores }
    }

    /// From the rows of a windowed table, whose keys name the window.
    pub(crate) fn windowed<IK: Clone + Send + 'static>(
        store: Store<IK, V, TimestampedWindow>,
    ) -> Self
    where
        K: WindowKey<IK>,
    {
        let stores = vec![Arc::from(store.name())];
        let make = move |setup: &mut Setup<'_>| -> Result<Box<dyn Getter<K, V>>, UsageError> {
            Ok(Box::new(Windowed(setup.store(&store)?)))
        };
        Self { make: Arc::new(make), stores }
    }

    /// From the rows of a table of sessions, whose keys name the session; a row's time is its session's end.
    pub(crate) fn sessions<IK: Clone + Send + 'static>(store: SessionStore<IK, V>) -> Self
    where
        K: WindowKey<IK>,
    {
        let stores = vec![Arc::from(store.name())];
        let make = move |setup: &mut Setup<'_>| -> Result<Box<dyn Getter<K, V>>, UsageError> {
            Ok(Box::new(Sessions(setup.store(&store)?)))
        };
        Self { make: Arc::new(make), stores }
    }

    /// From the rows of this table, computed anew at each reading.
    pub(crate) fn computed<W: Clone + Send + 'static>(
        self,
        compute: Arc<dyn Compute<K, V, W>>,
    ) -> GetterSupplier<K, W> {
        let (parent, stores) = (self.make, self.stores);
        let make = move |setup: &mut Setup<'_>| -> Result<Box<dyn Getter<K, W>>, UsageError> {
            Ok(Box::new(Computed { parent: parent(setup)?, compute: Arc::clone(&compute) }))
        };
        GetterSupplier { make: Arc::new(make), stores }
    }

    /// From the rows of this table and of another, joined anew at each reading.
    pub(crate) fn joined<B: Datum, W: Datum>(
        self,
        other: GetterSupplier<K, B>,
        join: JoinRows<V, B, W>,
        needs: Needs,
    ) -> GetterSupplier<K, W>
    where
        K: Datum,
        V: Datum,
    {
        let mut stores = self.stores;
        let others = other.stores.iter().filter(|name| !stores.contains(name)).cloned();
        let others: Vec<_> = others.collect();
        stores.extend(others);
        let (own, other) = (self.make, other.make);
        let make = move |setup: &mut Setup<'_>| -> Result<Box<dyn Getter<K, W>>, UsageError> {
            let (own, other, join) = (own(setup)?, other(setup)?, Arc::clone(&join));
            Ok(Box::new(JoinedGetter { own, other, join, needs }))
        };
        GetterSupplier { make: Arc::new(make), stores }
    }

    /// From the rows of this table as they are behind a suppression.
    pub(crate) fn suppressed(
        self,
        store: BufferStore<K, V>,
        key: SharedSerde<K>,
        value: SharedSerde<V>,
    ) -> Self {
        let mut stores = vec![Arc::from(store.name())];
        stores.extend(self.stores);
        let parent = self.make;
        let make = move |setup: &mut Setup<'_>| -> Result<Box<dyn Getter<K, V>>, UsageError> {
            let (parent, buffer) = (parent(setup)?, setup.store(&store)?);
            let (key, value) = (Arc::clone(&key), Arc::clone(&value));
            Ok(Box::new(SuppressedGetter { parent, buffer, key, value }))
        };
        Self { make: Arc::new(make), stores }
    }

    /// The stores that the reading node has to be connected to.
    pub(crate) fn stores(&self) -> &[Arc<str>] {
        &self.stores
    }

    /// Makes the getter.
    pub(crate) fn make(&self, setup: &mut Setup<'_>) -> Result<Box<dyn Getter<K, V>>, UsageError> {
        (self.make)(setup)
    }
}

struct Stored<K, V>(Handle<K, V, TimestampedKeyValue>);

impl<K: 'static, V: 'static> Getter<K, V> for Stored<K, V> {
    fn get(&mut self, context: &mut Context<'_>, key: &K) -> NodeResult<Option<Timestamped<V>>> {
        context.store(&self.0).get(key)
    }
}

struct Windowed<K, V>(Handle<K, V, TimestampedWindow>);

impl<K: 'static, WK: WindowKey<K>, V: 'static> Getter<WK, V> for Windowed<K, V> {
    fn get(&mut self, context: &mut Context<'_>, key: &WK) -> NodeResult<Option<Timestamped<V>>> {
        let start = Timestamp(key.window().start_ms);
        context.store(&self.0).fetch(key.key(), start)
    }
}

struct Sessions<K, V>(Handle<K, V, Session>);

impl<K: 'static, WK: WindowKey<K>, V: 'static> Getter<WK, V> for Sessions<K, V> {
    fn get(&mut self, context: &mut Context<'_>, key: &WK) -> NodeResult<Option<Timestamped<V>>> {
        let (start, end) = (Timestamp(key.window().start_ms), Timestamp(key.window().end_ms));
        let value = context.store(&self.0).fetch(key.key(), start, end)?;
        Ok(value.map(|value| Timestamped { value, timestamp: end }))
    }
}

struct Computed<K, V, W> {
    parent: Box<dyn Getter<K, V>>,
    compute: Arc<dyn Compute<K, V, W>>,
}

impl<K, V, W> Getter<K, W> for Computed<K, V, W> {
    fn get(&mut self, context: &mut Context<'_>, key: &K) -> NodeResult<Option<Timestamped<W>>> {
        let Some(Timestamped { value, timestamp }) = self.parent.get(context, key)? else {
            return Ok(None);
        };
        let value = self.compute.compute(key, value)?;
        Ok(value.map(|value| Timestamped { value, timestamp }))
    }
}
