//! What a session aggregation does with sessions: merge those that a record joins, and add the record.

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, NodeError, NodeResult};

use super::aggregate_fold::{Count, Reduce};

/// Folds a stream's records into sessions.
pub(crate) trait SessionFold<K, V, S>: Send + Sync + 'static {
    /// A session in the making.
    type Row;

    /// The session before anything is in it.
    fn begin(&self) -> NodeResult<Self::Row>;
    /// Takes in a session from the store.
    fn merge(&self, key: &K, row: Self::Row, session: S) -> NodeResult<Self::Row>;
    /// Takes in a record.
    fn add(&self, key: &K, value: &V, row: Self::Row) -> NodeResult<Self::Row>;
    /// The session to be stored; `None` deletes it.
    fn finish(&self, row: Self::Row) -> Option<S>;
}

impl<K, V, C> SessionFold<K, V, C::Inner> for Count<C>
where
    C: Datum + From<i64>,
    C::Inner: TryInto<i64>,
{
    type Row = i64;

    fn begin(&self) -> NodeResult<i64> {
        Ok(0)
    }

    fn merge(&self, _: &K, row: i64, session: C::Inner) -> NodeResult<i64> {
        let n = session.try_into();
        Ok(row + n.map_err(|_| NodeError::user("a counted session is no number"))?)
    }

    fn add(&self, _: &K, _: &V, row: i64) -> NodeResult<i64> {
        Ok(row + 1)
    }

    fn finish(&self, row: i64) -> Option<C::Inner> {
        C::from(row).into_inner()
    }
}

impl<K, V, F> SessionFold<K, V, V::Inner> for Reduce<F>
where
    V: Datum,
    F: Fn(&V, &V) -> Result<V, BoxError> + Send + Sync + 'static,
{
    type Row = Option<V::Inner>;

    fn begin(&self) -> NodeResult<Self::Row> {
        Ok(None)
    }

    fn merge(&self, _: &K, row: Self::Row, session: V::Inner) -> NodeResult<Self::Row> {
        match row {
            Some(row) => self.join(row, &V::from_inner(session)),
            None => Ok(Some(session)),
        }
    }

    fn add(&self, _: &K, value: &V, row: Self::Row) -> NodeResult<Self::Row> {
        match row {
            Some(row) => self.join(row, value),
            None => Ok(value.clone().into_inner()),
        }
    }

    fn finish(&self, row: Self::Row) -> Option<V::Inner> {
        row
    }
}

/// Folds in place, starting from an initial value. `A` is the session, or its nullable form when folding may delete.
pub(crate) struct SessionAggregate<I, F, M> {
    pub(crate) initial: I,
    pub(crate) fold: F,
    pub(crate) merge: M,
}

impl<K, V, A, I, F, M> SessionFold<K, V, A::Inner> for SessionAggregate<I, F, M>
where
    A: Datum,
    I: Fn() -> Result<A, BoxError> + Send + Sync + 'static,
    F: Fn(&K, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
    M: Fn(&K, A, A) -> Result<A, BoxError> + Send + Sync + 'static,
{
    type Row = A;

    fn begin(&self) -> NodeResult<A> {
        (self.initial)().map_err(NodeError::user)
    }

    fn merge(&self, key: &K, row: A, session: A::Inner) -> NodeResult<A> {
        (self.merge)(key, row, A::from_inner(session)).map_err(NodeError::user)
    }

    fn add(&self, key: &K, value: &V, mut row: A) -> NodeResult<A> {
        (self.fold)(key, value, &mut row).map_err(NodeError::user)?;
        Ok(row)
    }

    fn finish(&self, row: A) -> Option<A::Inner> {
        row.into_inner()
    }
}
