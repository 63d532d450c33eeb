//! How the rows of a table are got at: by a node that reads one, and by the node that sends old rows along with new ones.

use std::sync::Arc;

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{Store, TimestampedWindow};

use crate::nodes::join_tables::{JoinRows, Needs};
use crate::nodes::session_aggregate::SessionStore;
use crate::nodes::suppress::BufferStore;
use crate::nodes::table::{RowStore, Switch};
use crate::nodes::table_compute::Compute;
use crate::nodes::table_getter::GetterSupplier;
use crate::windows::WindowKey;

/// What operators ask of the table above them. Kafka Streams' rules: a source table is materialized when somebody needs its rows,
/// a computed table computes them from its parent's.
pub(crate) trait TableRows<K, V>: Send + Sync {
    /// Asks the table to send old rows; tells whether it does. Without `force` a source table that is not materialized refuses.
    fn send_old(&self, force: bool) -> bool;

    /// Reads rows.
    fn getter(&self) -> GetterSupplier<K, V>;
}

/// Any table's rows.
pub(crate) type SharedRows<K, V> = Arc<dyn TableRows<K, V>>;

/// Rows of a topic read as a table.
pub(crate) struct SourceRows<K, V> {
    pub(crate) store: RowStore<K, V>,
    pub(crate) materialized: Switch,
    pub(crate) send_old: Switch,
}

impl<K: Datum, V: Datum> TableRows<K, V> for SourceRows<K, V> {
    fn send_old(&self, force: bool) -> bool {
        if !force && !self.materialized.is_on() {
            return false;
        }
        self.materialized.on();
        self.send_old.on();
        true
    }

    fn getter(&self) -> GetterSupplier<K, V> {
        self.materialized.on();
        GetterSupplier::stored(self.store.clone())
    }
}

/// Rows of an aggregation.
pub(crate) struct AggregateRows<K, V> {
    pub(crate) store: RowStore<K, V>,
    pub(crate) send_old: Switch,
}

impl<K: Datum, V: Datum> TableRows<K, V> for AggregateRows<K, V> {
    fn send_old(&self, _force: bool) -> bool {
        self.send_old.on();
        true
    }

    fn getter(&self) -> GetterSupplier<K, V> {
        GetterSupplier::stored(self.store.clone())
    }
}

/// Rows of a windowed aggregation over keys `K`.
pub(crate) struct WindowRows<K, V> {
    pub(crate) store: Store<K, V, TimestampedWindow>,
    pub(crate) send_old: Switch,
}

impl<K: Datum, WK: WindowKey<K>, V: Datum> TableRows<WK, V> for WindowRows<K, V> {
    fn send_old(&self, _force: bool) -> bool {
        self.send_old.on();
        true
    }

    fn getter(&self) -> GetterSupplier<WK, V> {
        GetterSupplier::windowed(self.store.clone())
    }
}

/// Rows of an aggregation by session, over keys `K`.
pub(crate) struct SessionRows<K, V> {
    pub(crate) store: SessionStore<K, V>,
    pub(crate) send_old: Switch,
}

impl<K: Datum, WK: WindowKey<K>, V: Datum> TableRows<WK, V> for SessionRows<K, V> {
    fn send_old(&self, _force: bool) -> bool {
        self.send_old.on();
        true
    }

    fn getter(&self) -> GetterSupplier<WK, V> {
        GetterSupplier::sessions(self.store.clone())
    }
}

/// Rows computed from a parent's, kept in a store or not.
pub(crate) struct ComputedRows<K, V, W> {
    pub(crate) parent: SharedRows<K, V>,
    pub(crate) compute: Arc<dyn Compute<K, V, W>>,
    pub(crate) store: Option<RowStore<K, W>>,
    pub(crate) send_old: Switch,
}

impl<K: Datum, V: Datum, W: Datum> TableRows<K, W> for ComputedRows<K, V, W> {
    fn send_old(&self, force: bool) -> bool {
        if self.store.is_some() || self.parent.send_old(force) {
            self.send_old.on();
        }
        self.send_old.is_on()
    }

    fn getter(&self) -> GetterSupplier<K, W> {
        match &self.store {
            Some(store) => GetterSupplier::stored(store.clone()),
            None => self.parent.getter().computed(Arc::clone(&self.compute)),
        }
    }
}

/// Rows of two tables joined, kept in a store or not.
pub(crate) struct JoinedRows<K, A, B, W> {
    pub(crate) left: SharedRows<K, A>,
    pub(crate) right: SharedRows<K, B>,
    pub(crate) join: JoinRows<A, B, W>,
    pub(crate) needs: Needs,
    pub(crate) store: Option<RowStore<K, W>>,
    pub(crate) send_old: Switch,
}

impl<K: Datum, A: Datum, B: Datum, W: Datum> TableRows<K, W> for JoinedRows<K, A, B, W> {
    /// The old row of a join is made of the old row of either side.
    fn send_old(&self, _force: bool) -> bool {
        self.left.send_old(true);
        self.right.send_old(true);
        self.send_old.on();
        true
    }

    fn getter(&self) -> GetterSupplier<K, W> {
        match &self.store {
            Some(store) => GetterSupplier::stored(store.clone()),
            None => {
                let (left, right) = (self.left.getter(), self.right.getter());
                left.joined(right, Arc::clone(&self.join), self.needs)
            }
        }
    }
}

/// Rows of a table as they are behind a suppression. They come with their old rows in any case.
pub(crate) struct SuppressedRows<K, V> {
    pub(crate) parent: SharedRows<K, V>,
    pub(crate) store: BufferStore<K, V>,
    pub(crate) key: SharedSerde<K>,
    pub(crate) value: SharedSerde<V>,
}

impl<K: Datum, V: Datum> TableRows<K, V> for SuppressedRows<K, V> {
    fn send_old(&self, force: bool) -> bool {
        self.parent.send_old(force)
    }

    fn getter(&self) -> GetterSupplier<K, V> {
        let (key, value) = (Arc::clone(&self.key), Arc::clone(&self.value));
        self.parent.getter().suppressed(self.store.clone(), key, value)
    }
}
