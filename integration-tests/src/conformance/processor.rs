//! A scenario's program as a processor of the library.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Headers, Timestamp};
use thalweg_processor::{
    BoxError, NodeSupplier, Processor, ProcessorContext, Punctuation, PunctuationType, Record,
    TimerId, supply,
};

use super::failure::unsupported;
use super::stores::{AnyHandle, StoreCall, connected};
use super::{Fault, FaultKind, HeaderList, Outgoing, Port, Program, Punctuator, TimeKind, Value};

type Context<'a, 'c> = ProcessorContext<'a, 'c, Value, Value>;

/// May a program change the key?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keys {
    Free,
    Fixed,
}

/// Makes the processor of a program for each task.
pub(crate) fn supplier(program: Program, keys: Keys) -> NodeSupplier {
    let program = Arc::new(program);
    supply(move |setup| {
        Ok(ProgramProcessor {
            program: Arc::clone(&program),
            keys,
            stores: connected(setup)?,
            timers: Timers::default(),
        })
    })
}

/// A program at work in one task.
pub(crate) struct ProgramProcessor {
    program: Arc<Program>,
    keys: Keys,
    stores: BTreeMap<String, AnyHandle>,
    timers: Timers,
}

#[derive(Default)]
struct Timers {
    scheduled: BTreeMap<TimerId, Arc<Punctuator>>,
    by_name: BTreeMap<String, TimerId>,
}

/// The context of one call of the program.
struct Call<'p, 'a, 'c> {
    context: &'p mut Context<'a, 'c>,
    stores: &'p BTreeMap<String, AnyHandle>,
    timers: &'p mut Timers,
    /// The key that has to stay, if it has to.
    key: Option<Value>,
    now: Timestamp,
}

impl Processor for ProgramProcessor {
    type KIn = Value;
    type VIn = Value;
    type KOut = Value;
    type VOut = Value;

    fn init(&mut self, context: &mut Context<'_, '_>) -> Result<(), BoxError> {
        let program = Arc::clone(&self.program);
        let mut call = self.call(context, None, Timestamp::NONE);
        program.punctuators.iter().try_for_each(|punctuator| call.schedule(punctuator))
    }

    fn process(
        &mut self,
        context: &mut Context<'_, '_>,
        record: Record<Value, Value>,
    ) -> Result<(), BoxError> {
        let Record { key, value, timestamp, headers } = record;
        let program = Arc::clone(&self.program);
        let fixed = (self.keys == Keys::Fixed).then(|| key.clone());
        let mut call = self.call(context, fixed, timestamp);
        program.run(&mut call, key, value, timestamp.0, HeaderList::from(&headers))
    }

    fn punctuate(
        &mut self,
        context: &mut Context<'_, '_>,
        punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        let Some(punctuator) = self.timers.scheduled.get(&punctuation.timer).map(Arc::clone) else {
            return Ok(());
        };
        let mut call = self.call(context, None, punctuation.now);
        punctuator.run(&mut call, punctuation.now.0)
    }
}

impl ProgramProcessor {
    fn call<'p, 'a, 'c>(
        &'p mut self,
        context: &'p mut Context<'a, 'c>,
        key: Option<Value>,
        now: Timestamp,
    ) -> Call<'p, 'a, 'c> {
        let (stores, timers) = (&self.stores, &mut self.timers);
        Call { context, stores, timers, key, now }
    }
}

impl Port for Call<'_, '_, '_> {
    type Error = BoxError;

    fn forward(&mut self, outgoing: Outgoing<'_>) -> Result<(), BoxError> {
        let record = Record {
            key: self.key.clone().unwrap_or(outgoing.key),
            value: outgoing.value,
            timestamp: Timestamp(outgoing.timestamp_ms),
            headers: Headers::from(outgoing.headers),
        };
        match outgoing.child {
            Some(child) => self.context.forward_to(child, record)?,
            None => self.context.forward(record)?,
        }
        Ok(())
    }

    fn schedule(&mut self, punctuator: &Arc<Punctuator>) -> Result<(), BoxError> {
        let kind = match punctuator.time {
            TimeKind::Stream => PunctuationType::StreamTime,
            TimeKind::WallClock => PunctuationType::WallClockTime,
        };
        let interval = Duration::from_millis(u64::try_from(punctuator.interval_ms).unwrap_or(0));
        let timer = match punctuator.start_ms {
            Some(start) => self.context.schedule_at(kind, Timestamp(start), interval)?,
            None => self.context.schedule(kind, interval)?,
        };
        self.timers.scheduled.insert(timer, Arc::clone(punctuator));
        self.timers.by_name.insert(punctuator.name.clone(), timer);
        Ok(())
    }

    fn cancel(&mut self, name: &str) -> Result<(), BoxError> {
        let unknown = || Fault::new(FaultKind::NullPointer, format!("no punctuator `{name}`"));
        let timer = *self.timers.by_name.get(name).ok_or_else(unknown)?;
        self.context.cancel(timer);
        Ok(())
    }

    fn commit(&mut self) {
        self.context.request_commit();
    }

    fn operator(&mut self, name: &str, args: &[Value], _: &HeaderList) -> Result<Value, Fault> {
        match name {
            "stream_time" => return Ok(self.context.stream_time().0.into()),
            "wall_clock" => return Ok(self.context.wall_time().0.into()),
            "task_id" => return Ok(self.context.task_id().to_string().into()),
            "has_metadata" => return Ok(self.context.metadata().is_some().into()),
            "meta" => return self.metadata(args[0].as_str()?),
            _ => {}
        }
        let store = args[0].as_str()?;
        let unknown = || {
            let message = format!("store `{store}` is not connected to this processor");
            Fault::new(FaultKind::GaveUp, message)
        };
        let handle = self.stores.get(store).ok_or_else(unknown)?;
        handle.call(self.context, &StoreCall { op: name, args: &args[1..], now: self.now })
    }
}

impl Call<'_, '_, '_> {
    fn metadata(&self, part: &str) -> Result<Value, Fault> {
        let Some(metadata) = self.context.metadata() else {
            return Ok(Value::Null);
        };
        Ok(match part {
            "topic" => (&*metadata.topic).into(),
            "partition" => i64::from(metadata.partition).into(),
            "offset" => metadata.offset.0.into(),
            other => return Err(unsupported(format_args!("metadata `{other}`"))),
        })
    }
}
