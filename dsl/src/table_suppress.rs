//! `suppress`: updates of a table wait.

use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{StoreDecl, TopologyError};

use crate::graph::NodeSpec;
use crate::name::Name;
use crate::nodes::suppress::{BufferStore, Rules, suppress};
use crate::options::{Suppressed, WhenFull};
use crate::serdes::Known;
use crate::table::KTable;
use crate::table_rows::SuppressedRows;

impl<K: Datum<Inner = K>, V: Datum<Inner = V>> KTable<K, V> {
    /// Lets updates wait, and only the last one of each key go on: until its window has closed, or for a time.
    ///
    /// - Time is that of the records that come here, so updates leave only when later ones arrive: the last windows of a stream that
    ///   has ended stay. It survives a restart.
    /// - An update leaves with the time, headers and origin of its record. Those that are due leave in the order of window end or
    ///   first buffering, then of the keys' bytes.
    /// - A deleted row leaves as a delete, but for final results: nobody has heard of a row that is deleted before its window closes.
    /// - The waiting updates are kept in a store named `<name>-store`, with a changelog of Kafka Streams' format.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use thalweg::*;
    /// let clicks = Topic::<String, String>::new("clicks");
    /// let totals = Topic::<Windowed<String>, _>::with("totals", TimeWindowedSerde::new(Utf8, Duration::from_millis(10)), Nullable::new(I64Be));
    ///
    /// let builder = StreamsBuilder::new();
    /// builder
    ///     .stream(&clicks)
    ///     .group_by_key()
    ///     .windowed_by(TimeWindows::of_size(Duration::from_millis(10)).grace(Duration::from_millis(5)))
    ///     .count("clicks-by-window")
    ///     .suppress("final", Suppressed::until_window_closes())
    ///     .to(&totals);
    ///
    /// let mut driver = TestDriver::new(&builder.build()?, TaskConfig::new("clicks"))?;
    /// for time in [1, 3, 14, 15] {
    ///     driver.input(&clicks).pipe("ann".to_owned(), "page".to_owned(), time)?;
    /// }
    /// let rows = driver.output(&totals).read_all()?;
    /// assert_eq!(rows.len(), 1);
    /// assert_eq!((rows[0].key.window.end_ms, rows[0].value), (10, Some(2)));
    /// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[track_caller]
    pub fn suppress(&self, name: impl Into<Name>, suppressed: Suppressed<K>) -> Self {
        let (name, graph) = (name.into(), &self.place.graph);
        let node = match name.given() {
            Some(given) => given.to_string(),
            None => graph.processor_name("KTABLE-SUPPRESS-"),
        };
        let wait_ms = suppressed.wait_ms.or_else(|| graph.grace_ms(self.place.node));
        if wait_ms.is_none() {
            graph.error(TopologyError::Invalid(format!(
                "`{node}` waits for windows to close, but the rows of its table are not all about windows; use `until_time_limit`"
            )));
        }
        let drops_tombstones = suppressed.wait_ms.is_none();
        if drops_tombstones && suppressed.when_full == WhenFull::EmitEarly {
            graph.error(TopologyError::IllegalArgument(format!(
                "`{node}` promises final results, so that it cannot let any go early; use `WhenFull::ShutDown`"
            )));
        }
        let store_name = match name.given() {
            Some(given) => format!("{given}-store"),
            None => {
                let generated = graph.store_name("KTABLE-SUPPRESS-");
                if suppressed.changelog.is_some() {
                    graph.note_generated("store", &generated);
                }
                generated
            }
        };
        let key = self.place.key_serde(None, &store_name);
        let value = self.place.value_serde(None, &store_name);
        let store = BufferStore::buffer(store_name, Arc::clone(&key), Arc::clone(&value));
        let rules = Rules {
            time: suppressed.time,
            wait_ms: wait_ms.unwrap_or(0),
            max_records: suppressed.max_records,
            max_bytes: suppressed.max_bytes,
            emits_early: suppressed.when_full == WhenFull::EmitEarly,
            drops_tombstones,
        };
        self.rows.send_old(true);
        let mut def = store.def().clone();
        def.logging = suppressed.changelog;
        let (for_key, for_value) = (Arc::clone(&key), Arc::clone(&value));
        let supplier = suppress(rules, store.clone(), for_key, for_value);
        let spec = NodeSpec::processor(node, supplier).store(def, None);
        let place = self.place.then(spec, Known::both(Arc::clone(&key), Arc::clone(&value)));
        let rows = SuppressedRows { parent: Arc::clone(&self.rows), store, key, value };
        KTable::at(place, Arc::new(rows), None)
    }
}
