//! Two tables joined: an update of either looks up the row of its key in the other, and a node behind both merges the results.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::Datum;
use thalweg_processor::{
    Change, Context, Flushed, Node, NodeResult, NodeSupplier, Record, Timestamped, take,
};

use super::table::{RowStore, Rows, Switch};
use super::table_getter::{Getter, GetterSupplier};

/// Joins two rows, of which at least one is there; `None` is no row.
pub(crate) type JoinRows<A, B, W> =
    Arc<dyn Fn(Option<&A>, Option<&B>) -> NodeResult<Option<W>> + Send + Sync>;

/// Which rows have to be there to make a row of the join, as one of its sides sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Needs {
    /// A row of this side's own table.
    pub(crate) own: bool,
    /// A row of the other one.
    pub(crate) other: bool,
}

impl Needs {
    pub(crate) const BOTH: Self = Self { own: true, other: true };
    pub(crate) const OWN: Self = Self { own: true, other: false };
    pub(crate) const ANY: Self = Self { own: false, other: false };

    /// The same needs, as the other side sees them.
    pub(crate) fn reversed(self) -> Self {
        Self { own: self.other, other: self.own }
    }

    /// Is there enough for a row of the join?
    fn are_met(self, own: bool, other: bool) -> bool {
        match (own, other) {
            (true, true) => true,
            (true, false) => !self.other,
            (false, true) => !self.own,
            (false, false) => false,
        }
    }

    fn join<A, B, W>(
        self,
        join: &JoinRows<A, B, W>,
        own: Option<&A>,
        other: Option<&B>,
    ) -> NodeResult<Option<W>> {
        match self.are_met(own.is_some(), other.is_some()) {
            true => join(own, other),
            false => Ok(None),
        }
    }
}

/// One side of a join.
struct Side<K, A, B, W> {
    other: Box<dyn Getter<K, B>>,
    join: JoinRows<A, B, W>,
    needs: Needs,
    send_old: bool,
    types: PhantomData<fn(A) -> W>,
}

impl<K: Datum, A: Datum, B: Datum, W: Datum> Node for Side<K, A, B, W> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value: change, timestamp, headers } = take::<K, Change<A>>(slot);
        if !change.is_latest {
            context.drop_record("a late update of a versioned table in a join");
            return Ok(());
        }
        let other = self.other.get(context, &key)?;
        let nothing = self.needs.other || (change.new.is_none() && change.old.is_none());
        if other.is_none() && nothing {
            return Ok(());
        }
        let timestamp = other.as_ref().map_or(timestamp, |row| row.timestamp.max(timestamp));
        let other = other.map(|row| row.value);
        let row = |own: Option<&A>| self.needs.join(&self.join, own, other.as_ref());
        let new = row(change.new.as_ref())?;
        let old = if self.send_old { row(change.old.as_ref())? } else { None };
        let value = Change::latest(new, old);
        context.forward(Record { key, value, timestamp, headers })
    }
}

/// How a side of a join is made.
pub(crate) struct SideDef<K, A, B, W> {
    /// The rows of the other table; the node has to be connected to their stores.
    pub(crate) other: GetterSupplier<K, B>,
    pub(crate) join: JoinRows<A, B, W>,
    pub(crate) needs: Needs,
    pub(crate) send_old: Switch,
}

impl<K: Datum, A: Datum, B: Datum, W: Datum> SideDef<K, A, B, W> {
    pub(crate) fn supplier(self) -> NodeSupplier {
        Arc::new(move |setup| {
            Ok(Box::new(Side {
                other: self.other.make(setup)?,
                join: Arc::clone(&self.join),
                needs: self.needs,
                send_old: self.send_old.is_on(),
                types: PhantomData,
            }))
        })
    }
}

/// Where the results of both sides meet, and where they are kept if they are.
struct Merge<K, W> {
    rows: Option<Rows<K, W>>,
    send_old: bool,
}

impl<K: Datum, W: Datum> Node for Merge<K, W> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let record = take::<K, Change<W>>(slot);
        match &self.rows {
            Some(rows) => rows.put(context, record),
            None => context.forward(record),
        }
    }

    fn flush(&mut self, entry: Flushed<'_>, context: &mut Context<'_>) -> NodeResult {
        match &self.rows {
            Some(rows) => rows.forward_flushed(&entry, self.send_old, context),
            None => Ok(()),
        }
    }
}

/// Makes the node behind both sides; it keeps the rows when a store is given.
pub(crate) fn join_merge<K: Datum, W: Datum>(
    store: Option<RowStore<K, W>>,
    send_old: Switch,
) -> NodeSupplier {
    Arc::new(move |setup| {
        let rows = store.as_ref().map(|store| Rows::own(store, setup)).transpose()?;
        Ok(Box::new(Merge { rows, send_old: send_old.is_on() }))
    })
}

/// Reads a row of the join, computed anew from those of both tables.
pub(crate) struct JoinedGetter<K, A, B, W> {
    pub(crate) own: Box<dyn Getter<K, A>>,
    pub(crate) other: Box<dyn Getter<K, B>>,
    pub(crate) join: JoinRows<A, B, W>,
    pub(crate) needs: Needs,
}

impl<K: Send, A: Send, B: Send, W: Send> Getter<K, W> for JoinedGetter<K, A, B, W> {
    fn get(&mut self, context: &mut Context<'_>, key: &K) -> NodeResult<Option<Timestamped<W>>> {
        let own = self.own.get(context, key)?;
        if own.is_none() && self.needs.own {
            return Ok(None);
        }
        let other = self.other.get(context, key)?;
        let timestamp = own.as_ref().map(|r| r.timestamp).max(other.as_ref().map(|r| r.timestamp));
        let (own, other) = (own.map(|r| r.value), other.map(|r| r.value));
        let value = self.needs.join(&self.join, own.as_ref(), other.as_ref())?;
        Ok(value.zip(timestamp).map(|(value, timestamp)| Timestamped { value, timestamp }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_join_has_a_row_when_the_rows_it_needs_are_there() {
        // for no row, own, other, both
        let cases = [
            (Needs::BOTH, [false, false, false, true]),
            (Needs::OWN, [false, true, false, true]),
            (Needs::OWN.reversed(), [false, false, true, true]),
            (Needs::ANY, [false, true, true, true]),
        ];
        let there = [(false, false), (true, false), (false, true), (true, true)];
        for (needs, expected) in cases {
            assert_eq!(there.map(|(own, other)| needs.are_met(own, other)), expected, "{needs:?}");
        }
    }
}
