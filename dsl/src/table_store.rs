//! The stores of tables: their names and serdes, settled.

use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::TopologyError;

use crate::cut::Cut;
use crate::graph::Graph;
use crate::nodes::table::RowStore;
use crate::nodes::window_aggregate::WindowStore;
use crate::options::Materialized;
use crate::serdes::Known;
use crate::windows::millis;

/// The name of a store that is needed in any case: the given one, else a generated one, which is noted.
#[track_caller]
pub(crate) fn store_name<K, V>(
    graph: &Graph,
    materialized: &Materialized<K, V>,
    prefix: &str,
) -> String {
    match materialized.name.given() {
        Some(given) => given.to_string(),
        None => {
            let generated = graph.store_name(prefix);
            graph.note_generated("store", &generated);
            generated
        }
    }
}

/// Kafka Streams generates a name too many where the stream's count is given a store without one, and keeps doing so for the sake of
/// the names behind it.
#[track_caller]
pub(crate) fn skip_a_number<K, V>(graph: &Graph, materialized: &Materialized<K, V>, prefix: &str) {
    if materialized.unnamed && materialized.name.given().is_none() {
        graph.store_name(prefix);
    }
}

/// A declared store, and the serdes that were settled for it.
pub(crate) struct Kept<S, K, V> {
    pub(crate) store: S,
    pub(crate) key: SharedSerde<K>,
    pub(crate) value: SharedSerde<V>,
}

/// Declares the rows of a table. The serdes are the given ones, else the known ones, else the defaults; a missing one is noted as the
/// store's mistake.
#[track_caller]
pub(crate) fn row_store<K: Datum, V: Datum>(
    graph: &Graph,
    name: &str,
    materialized: &Materialized<K, V>,
    known: &Known<K, V>,
) -> Kept<RowStore<K, V>, K, V> {
    let serdes = materialized.serdes.clone().or(known);
    let (key, value) = (graph.key_serde(serdes.key, name), graph.value_serde(serdes.value, name));
    let store = RowStore::timestamped_shared(name, Arc::clone(&key), Arc::clone(&value));
    Kept { store, key, value }
}

/// Declares the rows of a windowed table; windows that make no sense and a retention that is too short are noted as mistakes.
#[track_caller]
pub(crate) fn window_store<K: Datum, V: Datum>(
    graph: &Graph,
    name: &str,
    materialized: &Materialized<K, V>,
    known: &Known<K, V>,
    windows: &Cut,
) -> Kept<WindowStore<K, V>, K, V> {
    let Kept { key, value, .. } = row_store(graph, name, materialized, known);
    let needed_ms = windows.retention_ms();
    let retention_ms = materialized.retention.map_or(needed_ms, millis);
    if retention_ms < needed_ms {
        graph.error(TopologyError::IllegalArgument(format!(
            "the window store `{name}` keeps windows for {retention_ms} ms, but the windows and their grace need {needed_ms} ms: retain them longer"
        )));
    }
    let ms = |ms: i64| Duration::from_millis(ms.unsigned_abs());
    let times = (ms(retention_ms), ms(windows.size_ms()));
    let (for_key, for_value) = (Arc::clone(&key), Arc::clone(&value));
    let store = WindowStore::timestamped_window_shared(name, times, for_key, for_value);
    Kept { store, key, value }
}
