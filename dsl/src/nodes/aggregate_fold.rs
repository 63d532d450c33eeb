//! What an aggregation does with a row: count, reduce or fold. The nodes beside it know where the row lies.

use std::marker::PhantomData;

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, NodeError, NodeResult};

/// What an aggregation made of a row.
pub(crate) struct Folded<S> {
    /// The row now; `None` deletes it.
    pub(crate) new: Option<S>,
    /// The row before, when it was asked for.
    pub(crate) old: Option<S>,
}

/// Folds a stream's records into rows.
pub(crate) trait Fold<K, V, S>: Send + Sync + 'static {
    /// Folds a value into the row of its key. The old row is told when it is asked for; where there was none, an aggregation
    /// that starts from an initial value tells that one, as Kafka Streams does.
    fn fold(&self, key: &K, value: &V, row: Option<S>, tell_old: bool) -> NodeResult<Folded<S>>;
}

/// Folds a table's changes into rows of another.
pub(crate) trait TableFold<K, V, S>: Send + Sync + 'static {
    /// Adds a value to a row that may not be there yet.
    fn add(&self, key: &K, value: &V, row: Option<S>) -> NodeResult<Option<S>>;
    /// Takes a value off a row.
    fn subtract(&self, key: &K, value: &V, row: S) -> NodeResult<Option<S>>;
}

/// Counts, in a type that is made from a number and turned back into one.
pub(crate) struct Count<C>(PhantomData<fn() -> C>);

impl<C> Default for Count<C> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<C> Count<C>
where
    C: Datum + From<i64>,
    C::Inner: TryInto<i64>,
{
    fn step(row: C::Inner, by: i64) -> NodeResult<Option<C::Inner>> {
        let n = row.try_into().map_err(|_| NodeError::user("a counted row is no number"))?;
        Ok(C::from(n + by).into_inner())
    }

    fn zero() -> Option<C::Inner> {
        C::from(0).into_inner()
    }
}

impl<K, V, C> Fold<K, V, C::Inner> for Count<C>
where
    C: Datum + From<i64>,
    C::Inner: TryInto<i64>,
{
    fn fold(
        &self,
        _: &K,
        _: &V,
        row: Option<C::Inner>,
        tell_old: bool,
    ) -> NodeResult<Folded<C::Inner>> {
        let Some(row) = row.or_else(Self::zero) else {
            return Ok(Folded { new: None, old: None });
        };
        let old = tell_old.then(|| row.clone());
        Ok(Folded { new: Self::step(row, 1)?, old })
    }
}

impl<K, V, C> TableFold<K, V, C::Inner> for Count<C>
where
    C: Datum + From<i64>,
    C::Inner: TryInto<i64>,
{
    fn add(&self, _: &K, _: &V, row: Option<C::Inner>) -> NodeResult<Option<C::Inner>> {
        row.or_else(Self::zero).map_or(Ok(None), |row| Self::step(row, 1))
    }

    fn subtract(&self, _: &K, _: &V, row: C::Inner) -> NodeResult<Option<C::Inner>> {
        Self::step(row, -1)
    }
}

/// Reduces: the first value is the row, each further one is joined to it; a null result deletes.
pub(crate) struct Reduce<F>(pub(crate) F);

impl<F> Reduce<F> {
    pub(crate) fn join<V: Datum>(&self, row: V::Inner, value: &V) -> NodeResult<Option<V::Inner>>
    where
        F: Fn(&V, &V) -> Result<V, BoxError>,
    {
        let joined = (self.0)(&V::from_inner(row), value);
        Ok(joined.map_err(NodeError::user)?.into_inner())
    }
}

impl<K, V, F> Fold<K, V, V::Inner> for Reduce<F>
where
    V: Datum,
    F: Fn(&V, &V) -> Result<V, BoxError> + Send + Sync + 'static,
{
    fn fold(
        &self,
        _: &K,
        value: &V,
        row: Option<V::Inner>,
        tell_old: bool,
    ) -> NodeResult<Folded<V::Inner>> {
        let Some(row) = row else {
            return Ok(Folded { new: value.clone().into_inner(), old: None });
        };
        let old = tell_old.then(|| row.clone());
        Ok(Folded { new: self.join(row, value)?, old })
    }
}

/// Reduces a table's changes with one function that adds and one that subtracts.
pub(crate) struct ReduceTable<F, G> {
    pub(crate) add: Reduce<F>,
    pub(crate) subtract: Reduce<G>,
}

impl<K, V, F, G> TableFold<K, V, V::Inner> for ReduceTable<F, G>
where
    V: Datum,
    F: Fn(&V, &V) -> Result<V, BoxError> + Send + Sync + 'static,
    G: Fn(&V, &V) -> Result<V, BoxError> + Send + Sync + 'static,
{
    fn add(&self, _: &K, value: &V, row: Option<V::Inner>) -> NodeResult<Option<V::Inner>> {
        match row {
            Some(row) => self.add.join(row, value),
            None => Ok(value.clone().into_inner()),
        }
    }

    fn subtract(&self, _: &K, value: &V, row: V::Inner) -> NodeResult<Option<V::Inner>> {
        self.subtract.join(row, value)
    }
}

/// Folds in place, starting from an initial value. `A` is the row, or its nullable form when folding may delete.
pub(crate) struct Aggregate<A, I, F> {
    initial: I,
    fold: F,
    row: PhantomData<fn() -> A>,
}

impl<A: Datum, I, F> Aggregate<A, I, F>
where
    I: Fn() -> Result<A, BoxError>,
{
    pub(crate) fn new(initial: I, fold: F) -> Self {
        Self { initial, fold, row: PhantomData }
    }

    fn start(&self, row: Option<A::Inner>) -> NodeResult<A> {
        match row {
            Some(row) => Ok(A::from_inner(row)),
            None => (self.initial)().map_err(NodeError::user),
        }
    }
}

impl<K, V, A, I, F> Fold<K, V, A::Inner> for Aggregate<A, I, F>
where
    A: Datum,
    I: Fn() -> Result<A, BoxError> + Send + Sync + 'static,
    F: Fn(&K, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
{
    fn fold(
        &self,
        key: &K,
        value: &V,
        row: Option<A::Inner>,
        tell_old: bool,
    ) -> NodeResult<Folded<A::Inner>> {
        let mut aggregate = self.start(row)?;
        let old = if tell_old { aggregate.inner().cloned() } else { None };
        (self.fold)(key, value, &mut aggregate).map_err(NodeError::user)?;
        Ok(Folded { new: aggregate.into_inner(), old })
    }
}

/// Folds a table's changes in place, with one function that adds and one that subtracts.
pub(crate) struct AggregateTable<A, I, F, G> {
    pub(crate) add: Aggregate<A, I, F>,
    pub(crate) subtract: G,
}

impl<K, V, A, I, F, G> TableFold<K, V, A::Inner> for AggregateTable<A, I, F, G>
where
    A: Datum,
    I: Fn() -> Result<A, BoxError> + Send + Sync + 'static,
    F: Fn(&K, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
    G: Fn(&K, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
{
    fn add(&self, key: &K, value: &V, row: Option<A::Inner>) -> NodeResult<Option<A::Inner>> {
        Ok(self.add.fold(key, value, row, false)?.new)
    }

    fn subtract(&self, key: &K, value: &V, row: A::Inner) -> NodeResult<Option<A::Inner>> {
        let mut aggregate = A::from_inner(row);
        (self.subtract)(key, value, &mut aggregate).map_err(NodeError::user)?;
        Ok(aggregate.into_inner())
    }
}
