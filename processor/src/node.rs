//! The erased form of a node: typed records cross the task's arena through a slot on the caller's stack.

use std::any::Any;

use thalweg_connectors::Timestamp;

use crate::context::Context;
use crate::error::NodeResult;
use crate::punctuate::TimerId;
use crate::record::{Record, RecordContext};

/// A processor or sink of one task. Operators and the Processor API implement it through [`take`] and [`Context::forward`].
pub trait Node: Send {
    /// Called once, before the first record.
    ///
    /// # Errors
    /// Whatever user code reports.
    fn init(&mut self, _context: &mut Context<'_>) -> NodeResult {
        Ok(())
    }

    /// Processes the record in the slot: an `Option<Record<K, V>>` of the types this node takes, see [`take`].
    ///
    /// # Errors
    /// Whatever user code reports, and failures of stores and producer.
    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult;

    /// A timer of this node is due; `now` is stream or wall-clock time, as it was scheduled.
    ///
    /// # Errors
    /// As for [`process`](Self::process).
    fn punctuate(
        &mut self,
        _timer: TimerId,
        _now: Timestamp,
        _context: &mut Context<'_>,
    ) -> NodeResult {
        Ok(())
    }

    /// A cached update of the store that this node owns leaves the record cache: forward it.
    ///
    /// # Errors
    /// As for [`process`](Self::process).
    fn flush(&mut self, _entry: Flushed<'_>, _context: &mut Context<'_>) -> NodeResult {
        Ok(())
    }

    /// The task is about to commit: log what was kept back until now. Called after all updates have left the record cache.
    ///
    /// # Errors
    /// As for [`process`](Self::process).
    fn before_commit(&mut self, _context: &mut Context<'_>) -> NodeResult {
        Ok(())
    }

    /// Names the times this node has to remember over a restart, such as its stream time; read back with
    /// [`Context::remembered`] in [`init`](Self::init).
    fn remember(&self, _facts: &mut dyn FnMut(&'static str, i64)) {}

    /// Called when the task is closed.
    fn close(&mut self) {}
}

/// An update on its way out of the record cache.
#[derive(Debug)]
pub struct Flushed<'a> {
    /// The key's bytes, as in the store.
    pub key: &'a [u8],
    /// The newest value's bytes, as in the store; `None` when deleted.
    pub new: Option<&'a [u8]>,
    /// What the store held when the key was last flushed.
    pub old: Option<&'a [u8]>,
    /// Of the last record that touched the key.
    pub context: &'a RecordContext,
}

/// Takes the typed record out of the slot.
///
/// # Panics
/// As [`slot_of`], and when the slot is empty.
#[inline]
pub fn take<K: 'static, V: 'static>(slot: &mut dyn Any) -> Record<K, V> {
    match slot_of(slot).take() {
        Some(record) => record,
        None => panic!("a node was given an empty slot"),
    }
}

/// The slot in its type: to look at a record, change it in place and hand it on with
/// [`Context::forward_slot`], without moving it.
///
/// # Panics
/// When parent and child disagree on the types: the DSL's types rule that out, so it is a bug in an operator.
#[inline]
pub fn slot_of<K: 'static, V: 'static>(slot: &mut dyn Any) -> &mut Option<Record<K, V>> {
    match slot.downcast_mut() {
        Some(slot) => slot,
        None => other_type::<Record<K, V>>(),
    }
}

#[cold]
fn other_type<T>() -> ! {
    panic!("a node that takes {} was given another type", std::any::type_name::<T>())
}
