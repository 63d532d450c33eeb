//! A foreign-key join at work.
//!
//! A left row sends a subscription to where the right row of its foreign key is. There it is kept, and answered with the right row: at
//! once, and whenever the right row changes. The left side drops answers to rows that have changed since they asked.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use thalweg_connectors::{Datum, Field, SharedSerde};
use thalweg_processor::{
    BoxError, Change, Context, Handle, Node, NodeError, NodeResult, NodeSupplier, Record, Store,
    TimestampedKeyValue, take,
};

use super::foreign_wire::{Hash, Instruction, Response, Subscription, hash, prefix};
use super::join_tables::JoinRows;
use super::table_getter::{Getter, GetterSupplier};

/// The subscriptions for right rows, by foreign and primary key.
pub(crate) type SubscriptionStore<K> = Store<Vec<u8>, Subscription<K>, TimestampedKeyValue>;

/// Is a row of the join also made when there is no right row?
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Inner,
    Left,
}

fn written<T: 'static>(serde: &SharedSerde<T>, value: &T) -> NodeResult<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    Ok((serde.write(value, &mut bytes)? == Field::Bytes).then_some(bytes))
}

fn hash_of<V: 'static>(serde: &SharedSerde<V>, row: Option<&V>) -> NodeResult<Option<Hash>> {
    let Some(row) = row else { return Ok(None) };
    Ok(written(serde, row)?.map(|bytes| hash(&bytes)))
}

/// Makes foreign keys of left rows.
pub(crate) type SelectKey<K, V, FK> =
    Arc<dyn Fn(&K, &V) -> Result<Option<FK>, BoxError> + Send + Sync>;

/// What is to be sent to which foreign key.
type Message<FK> = Option<(Option<FK>, Instruction)>;

/// Sends a left row's subscriptions.
struct Subscribe<K, V, FK> {
    select: SelectKey<K, V, FK>,
    foreign_key: SharedSerde<FK>,
    value: SharedSerde<V>,
    kind: Kind,
}

impl<K: Datum, V: Datum, FK: Datum<Inner = FK>> Subscribe<K, V, FK> {
    fn key_of(&self, key: &K, row: Option<&V>) -> NodeResult<Option<FK>> {
        let Some(row) = row else { return Ok(None) };
        (self.select)(key, row).map_err(NodeError::user)
    }

    fn differ(&self, old: &FK, new: Option<&FK>) -> NodeResult<bool> {
        let new = new.map(|new| written(&self.foreign_key, new)).transpose()?.flatten();
        Ok(written(&self.foreign_key, old)? != new)
    }

    /// What is to be sent, in this order.
    fn messages(
        &self,
        context: &mut Context<'_>,
        key: &K,
        change: &Change<V>,
    ) -> NodeResult<[Message<FK>; 2]> {
        let old = self.key_of(key, change.old.as_ref())?;
        let new = self.key_of(key, change.new.as_ref())?;
        let is_known = old.is_some();
        let moved = match &old {
            Some(old) => self.differ(old, new.as_ref())?,
            None => false,
        };
        if self.kind == Kind::Left {
            if change.new.is_none() && change.old.is_none() {
                return Ok([None, None]);
            }
            let before = moved.then_some((old, Instruction::Delete));
            return Ok([before, Some((new, Instruction::TellAny))]);
        }
        if change.new.is_some() && new.is_none() {
            context.drop_record("null foreign key in a foreign-key join");
        }
        Ok(match new {
            None => [is_known.then_some((old, Instruction::DeleteAndTell)), None],
            Some(_) if moved => {
                [Some((old, Instruction::Delete)), Some((new, Instruction::TellAny))]
            }
            Some(_) => [None, Some((new, Instruction::TellRow))],
        })
    }
}

impl<K: Datum, V: Datum, FK: Datum<Inner = FK>> Node for Subscribe<K, V, FK> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value: change, timestamp, headers } = take::<K, Change<V>>(slot);
        if !change.is_latest {
            context.drop_record("a late update of a versioned table in a join");
            return Ok(());
        }
        let hash = hash_of(&self.value, change.new.as_ref())?;
        let own = context.task_id().partition;
        let partition = Some(context.metadata().map_or(own, |origin| origin.partition));
        for (foreign_key, instruction) in
            self.messages(context, &key, &change)?.into_iter().flatten()
        {
            let value = Subscription { hash, instruction, primary_key: key.clone(), partition };
            let (key, headers) = (FK::opt(foreign_key), headers.clone());
            context.forward(Record { key, value, timestamp, headers })?;
        }
        Ok(())
    }
}

/// Makes the node that sends subscriptions.
pub(crate) fn send<K: Datum, V: Datum, FK: Datum<Inner = FK>>(
    select: SelectKey<K, V, FK>,
    foreign_key: SharedSerde<FK>,
    value: SharedSerde<V>,
    kind: Kind,
) -> NodeSupplier {
    Arc::new(move |_| {
        let (foreign_key, value) = (Arc::clone(&foreign_key), Arc::clone(&value));
        Ok(Box::new(Subscribe { select: Arc::clone(&select), foreign_key, value, kind }))
    })
}

/// Keeps subscriptions.
struct Receive<K, FK> {
    store: Handle<Vec<u8>, Subscription<K>, TimestampedKeyValue>,
    foreign_key: SharedSerde<FK>,
    primary_key: SharedSerde<K>,
}

impl<K: Datum, FK: Datum<Inner = FK>> Node for Receive<K, FK> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let record = take::<FK::Opt, Subscription<K>>(slot);
        let Some(foreign_key) = record.key.inner() else {
            if record.value.instruction != Instruction::TellAny {
                context.drop_record("a subscription without a foreign key");
                return Ok(());
            }
            return context.forward(record);
        };
        let (Some(foreign), Some(primary)) = (
            written(&self.foreign_key, foreign_key)?,
            written(&self.primary_key, &record.value.primary_key)?,
        ) else {
            context.drop_record("a subscription whose key is written as null");
            return Ok(());
        };
        let mut key = Vec::with_capacity(4 + foreign.len() + primary.len());
        prefix(&foreign, &mut key);
        key.extend_from_slice(&primary);
        let mut store = context.store(&self.store);
        match record.value.instruction.deletes() {
            true => store.delete(&key)?,
            false => store.put(&key, &record.value, record.timestamp)?,
        }
        context.forward(record)
    }
}

/// Makes the node that keeps subscriptions.
pub(crate) fn receive<K: Datum, FK: Datum<Inner = FK>>(
    store: SubscriptionStore<K>,
    foreign_key: SharedSerde<FK>,
    primary_key: SharedSerde<K>,
) -> NodeSupplier {
    Arc::new(move |setup| {
        let (foreign_key, primary_key) = (Arc::clone(&foreign_key), Arc::clone(&primary_key));
        Ok(Box::new(Receive { store: setup.store(&store)?, foreign_key, primary_key }))
    })
}

/// Answers a subscription with the right row as it is.
struct Answer<K, FK, T> {
    rows: Box<dyn Getter<FK, T>>,
    types: PhantomData<fn(K)>,
}

impl<K: Datum, FK: Datum<Inner = FK>, T: Datum> Node for Answer<K, FK, T> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value, timestamp, headers } = take::<FK::Opt, Subscription<K>>(slot);
        let Subscription { hash, instruction, primary_key, partition } = value;
        let row = match key.inner() {
            Some(key) => self.rows.get(context, key)?,
            None => None,
        };
        let timestamp = row.as_ref().map_or(timestamp, |row| row.timestamp.max(timestamp));
        let row = row.map(|row| row.value);
        let row = match instruction {
            Instruction::Delete => return Ok(()),
            Instruction::TellRow if row.is_none() => return Ok(()),
            Instruction::DeleteAndTell => None,
            Instruction::TellAny | Instruction::TellRow => row,
        };
        let value = Response { hash, row, partition };
        context.forward(Record { key: primary_key, value, timestamp, headers })
    }
}

/// Makes the node that answers subscriptions; it has to be connected to the stores of `rows`.
pub(crate) fn answer<K: Datum, FK: Datum<Inner = FK>, T: Datum>(
    rows: GetterSupplier<FK, T>,
) -> NodeSupplier {
    Arc::new(move |setup| {
        Ok(Box::new(Answer::<K, FK, T> { rows: rows.make(setup)?, types: PhantomData }))
    })
}

/// Tells all subscribers of a right row that it has changed.
struct Publish<K, FK, T> {
    store: Handle<Vec<u8>, Subscription<K>, TimestampedKeyValue>,
    foreign_key: SharedSerde<FK>,
    types: PhantomData<fn(T)>,
}

impl<K: Datum, FK: Datum, T: Datum> Node for Publish<K, FK, T> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value: change, timestamp, headers } = take::<FK, Change<T>>(slot);
        if !change.is_latest {
            context.drop_record("a late update of a versioned table in a join");
            return Ok(());
        }
        let Some(foreign) = written(&self.foreign_key, &key)? else { return Ok(()) };
        let mut wanted = Vec::with_capacity(4 + foreign.len());
        prefix(&foreign, &mut wanted);
        let subscribers: Vec<_> = {
            let mut store = context.store(&self.store);
            store.prefix(&wanted)?.collect::<NodeResult<_>>()?
        };
        for (_, subscription) in subscribers {
            let Subscription { hash, primary_key, partition, .. } = subscription.value;
            let value = Response { hash, row: change.new.clone(), partition };
            let headers = headers.clone();
            context.forward(Record { key: primary_key, value, timestamp, headers })?;
        }
        Ok(())
    }
}

/// Makes the node that tells of changed right rows.
pub(crate) fn publish<K: Datum, FK: Datum, T: Datum>(
    store: SubscriptionStore<K>,
    foreign_key: SharedSerde<FK>,
) -> NodeSupplier {
    Arc::new(move |setup| {
        let (store, foreign_key) = (setup.store(&store)?, Arc::clone(&foreign_key));
        Ok(Box::new(Publish::<K, FK, T> { store, foreign_key, types: PhantomData }))
    })
}

/// Joins a left row with the right row that it is told.
struct Resolve<K, V, T, W> {
    rows: Box<dyn Getter<K, V>>,
    value: SharedSerde<V>,
    join: JoinRows<V, T, W>,
    kind: Kind,
}

impl<K: Datum, V: Datum, T: Datum, W: Datum<Inner = W>> Node for Resolve<K, V, T, W> {
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let Record { key, value: told, timestamp, headers } = take::<K, Response<T>>(slot);
        let row = self.rows.get(context, &key)?.map(|row| row.value);
        if hash_of(&self.value, row.as_ref())? != told.hash {
            context.drop_record("an answer to a row that has changed since it asked");
            return Ok(());
        }
        let is_joined = told.row.is_some() || (self.kind == Kind::Left && row.is_some());
        let joined = if is_joined { (self.join)(row.as_ref(), told.row.as_ref())? } else { None };
        context.forward(Record { key, value: W::opt(joined), timestamp, headers })
    }
}

/// Makes the node that joins; it has to be connected to the stores of `rows`.
pub(crate) fn resolve<K: Datum, V: Datum, T: Datum, W: Datum<Inner = W>>(
    rows: GetterSupplier<K, V>,
    value: SharedSerde<V>,
    join: JoinRows<V, T, W>,
    kind: Kind,
) -> NodeSupplier {
    Arc::new(move |setup| {
        let (value, join) = (Arc::clone(&value), Arc::clone(&join));
        Ok(Box::new(Resolve { rows: rows.make(setup)?, value, join, kind }))
    })
}
