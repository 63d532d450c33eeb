//! A table re-grouped: each change becomes a subtraction from the old group and an addition to the new one.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::{Datum, Field, SharedSerde};
use thalweg_processor::{
    BoxError, Change, Context, Node, NodeError, NodeResult, NodeSupplier, Record, take,
};

type Group<K2, W> = (<K2 as Datum>::Inner, <W as Datum>::Inner);

struct Regroup<K, V, K2: Datum, W, F> {
    select: Arc<F>,
    group_key: SharedSerde<K2::Inner>,
    new_bytes: Vec<u8>,
    old_bytes: Vec<u8>,
    types: PhantomData<fn(K, V) -> W>,
}

impl<K, V, K2, W, F> Regroup<K, V, K2, W, F>
where
    K: Datum,
    V: Datum,
    K2: Datum,
    W: Datum,
    F: Fn(&K, &V) -> Result<(K2, W), BoxError> + Send + Sync + 'static,
{
    /// Group and value of a row; `None` when either is null.
    fn group(&self, key: &K, row: Option<&V>) -> NodeResult<Option<Group<K2, W>>> {
        let Some(row) = row else { return Ok(None) };
        let (group, value) = (self.select)(key, row).map_err(NodeError::user)?;
        Ok(group.into_inner().zip(value.into_inner()))
    }

    /// Two groups are one when their keys' bytes are.
    fn same(&mut self, new: &K2::Inner, old: &K2::Inner) -> NodeResult<bool> {
        self.new_bytes.clear();
        self.old_bytes.clear();
        let new = self.group_key.write(new, &mut self.new_bytes)? == Field::Bytes;
        let old = self.group_key.write(old, &mut self.old_bytes)? == Field::Bytes;
        Ok(new == old && self.new_bytes == self.old_bytes)
    }
}

impl<K, V, K2, W, F> Node for Regroup<K, V, K2, W, F>
where
    K: Datum,
    V: Datum,
    K2: Datum,
    W: Datum,
    F: Fn(&K, &V) -> Result<(K2, W), BoxError> + Send + Sync + 'static,
{
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value: change, timestamp, headers } = take::<K, Change<V>>(slot);
        let new = self.group(&key, change.new.as_ref())?;
        let old = self.group(&key, change.old.as_ref())?;
        let mut forward = |key, new, old| {
            let value = Change::latest(new, old);
            context.forward(Record { key, value, timestamp, headers: headers.clone() })
        };
        match (new, old) {
            (Some((group, new)), Some((old_group, old))) => {
                if self.same(&group, &old_group)? {
                    return forward(group, Some(new), Some(old));
                }
                forward(old_group, None, Some(old))?;
                forward(group, Some(new), None)
            }
            (Some((group, new)), None) => forward(group, Some(new), None),
            (None, Some((group, old))) => forward(group, None, Some(old)),
            (None, None) => Ok(()),
        }
    }
}

/// Makes the node that re-groups a table's changes; equal groups are told by the bytes of their keys.
pub(crate) fn regroup<K, V, K2, W, F>(select: F, group_key: SharedSerde<K2::Inner>) -> NodeSupplier
where
    K: Datum,
    V: Datum,
    K2: Datum,
    W: Datum,
    F: Fn(&K, &V) -> Result<(K2, W), BoxError> + Send + Sync + 'static,
{
    let select = Arc::new(select);
    Arc::new(move |_| {
        Ok(Box::new(Regroup::<K, V, K2, W, F> {
            select: Arc::clone(&select),
            group_key: Arc::clone(&group_key),
            new_bytes: Vec::new(),
            old_bytes: Vec::new(),
            types: PhantomData,
        }))
    })
}
