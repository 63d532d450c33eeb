//! Grouped streams.

use crate::grouping::Grouping;

/// A stream that is grouped by its key: what aggregations start from.
pub struct KGroupedStream<K, V> {
    pub(crate) grouping: Grouping<K, V>,
}

impl<K, V> KGroupedStream<K, V> {
    pub(crate) fn new(grouping: Grouping<K, V>) -> Self {
        Self { grouping }
    }
}

impl<K, V> Clone for KGroupedStream<K, V> {
    fn clone(&self) -> Self {
        Self { grouping: self.grouping.clone() }
    }
}
