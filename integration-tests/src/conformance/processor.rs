//! A scenario's program as a processor of the library: one that may change the key, and one that may not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg::{FixedKeyContext, FixedKeyProcessor, FixedKeyRecord};
use thalweg_connectors::{Headers, Timestamp};
use thalweg_processor::{
    BoxError, NodeSupplier, Processor, ProcessorContext, Punctuation, PunctuationType, Record,
    RecordMetadata, Setup, StoreHandle, TimerId, UsageError, supply,
};

use super::failure::unsupported;
use super::stores::{AnyHandle, OpensStores, StoreCall, connected};
use super::{Fault, FaultKind, HeaderList, Outgoing, Port, Program, Punctuator, TimeKind, Value};

type FreeContext<'a, 'c> = ProcessorContext<'a, 'c, Value, Value>;
type FixedContext<'x, 'a, 'c> = FixedKeyContext<'x, 'a, 'c, Value, Value>;
type FixedRecord = FixedKeyRecord<Value, Value>;

/// Makes the processor of a program for each task.
pub(crate) fn supplier(program: Program) -> NodeSupplier {
    let program = Arc::new(program);
    supply(move |setup| FreeProgram::build(&program, setup))
}

/// A program, its stores and its timers in one task.
struct Core {
    program: Arc<Program>,
    stores: BTreeMap<String, AnyHandle>,
    scheduled: BTreeMap<TimerId, Arc<Punctuator>>,
    by_name: BTreeMap<String, TimerId>,
}

/// A program that may change the key.
pub(crate) struct FreeProgram(Core);

/// A program that may not.
pub(crate) struct FixedProgram(Core);

impl Core {
    fn build(program: &Arc<Program>, setup: &mut Setup<'_>) -> Result<Self, UsageError> {
        let (program, stores) = (Arc::clone(program), connected(setup)?);
        Ok(Self { program, stores, scheduled: BTreeMap::new(), by_name: BTreeMap::new() })
    }

    fn init(&mut self, context: impl Surroundings) -> Result<(), BoxError> {
        let program = Arc::clone(&self.program);
        let mut call = Call { core: self, context };
        program.punctuators.iter().try_for_each(|punctuator| call.schedule(punctuator))
    }

    fn process(
        &mut self,
        context: impl Surroundings,
        record: Record<Value, Value>,
    ) -> Result<(), BoxError> {
        let Record { key, value, timestamp, headers } = record;
        let program = Arc::clone(&self.program);
        let mut call = Call { core: self, context };
        program.run(&mut call, key, value, timestamp.0, HeaderList::from(&headers))
    }

    fn punctuate(
        &mut self,
        context: impl Surroundings,
        Punctuation { timer, now }: Punctuation,
    ) -> Result<(), BoxError> {
        let Some(punctuator) = self.scheduled.get(&timer).map(Arc::clone) else {
            return Ok(());
        };
        punctuator.run(&mut Call { core: self, context }, now.0)
    }
}

impl FreeProgram {
    pub(crate) fn build(program: &Arc<Program>, setup: &mut Setup<'_>) -> Result<Self, UsageError> {
        Core::build(program, setup).map(Self)
    }
}

impl Processor for FreeProgram {
    type KIn = Value;
    type VIn = Value;
    type KOut = Value;
    type VOut = Value;

    fn init(&mut self, context: &mut FreeContext<'_, '_>) -> Result<(), BoxError> {
        self.0.init(Free(context))
    }

    fn process(
        &mut self,
        context: &mut FreeContext<'_, '_>,
        record: Record<Value, Value>,
    ) -> Result<(), BoxError> {
        self.0.process(Free(context), record)
    }

    fn punctuate(
        &mut self,
        context: &mut FreeContext<'_, '_>,
        punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        self.0.punctuate(Free(context), punctuation)
    }
}

impl FixedProgram {
    pub(crate) fn build(program: &Arc<Program>, setup: &mut Setup<'_>) -> Result<Self, UsageError> {
        Core::build(program, setup).map(Self)
    }
}

impl FixedKeyProcessor for FixedProgram {
    type Key = Value;
    type VIn = Value;
    type VOut = Value;

    fn init(&mut self, context: &mut FixedContext<'_, '_, '_>) -> Result<(), BoxError> {
        self.0.init(Fixed { context, record: None })
    }

    fn process(
        &mut self,
        context: &mut FixedContext<'_, '_, '_>,
        record: FixedRecord,
    ) -> Result<(), BoxError> {
        let FixedKeyRecord { value, timestamp, headers, .. } = record.clone();
        let free = Record { key: record.key().clone(), value, timestamp, headers };
        self.0.process(Fixed { context, record: Some(record) }, free)
    }

    fn punctuate(
        &mut self,
        context: &mut FixedContext<'_, '_, '_>,
        punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        self.0.punctuate(Fixed { context, record: None }, punctuation)
    }
}

/// The context of a program that may change the key.
struct Free<'x, 'a, 'c>(&'x mut FreeContext<'a, 'c>);

/// The context of a program that may not, and the record that new ones are made of.
struct Fixed<'x, 'y, 'a, 'c> {
    context: &'x mut FixedContext<'y, 'a, 'c>,
    record: Option<FixedRecord>,
}

/// What a program needs of a context, whichever it is.
trait Surroundings: OpensStores {
    fn forward(
        &mut self,
        record: Record<Value, Value>,
        child: Option<&str>,
    ) -> Result<(), BoxError>;
    fn schedule(
        &mut self,
        kind: PunctuationType,
        start: Option<Timestamp>,
        every: Duration,
    ) -> Result<TimerId, UsageError>;
    fn cancel(&mut self, timer: TimerId);
    fn request_commit(&mut self);
    fn metadata(&self) -> Option<RecordMetadata>;
    fn stream_time(&self) -> Timestamp;
    fn wall_time(&self) -> Timestamp;
    fn task(&self) -> String;
}

/// What both contexts offer under the same names.
macro_rules! in_common {
    ($this:ident => $context:expr) => {
        fn schedule(
            &mut $this,
            kind: PunctuationType,
            start: Option<Timestamp>,
            every: Duration,
        ) -> Result<TimerId, UsageError> {
            match start {
                Some(start) => $context.schedule_at(kind, start, every),
                None => $context.schedule(kind, every),
            }
        }

        fn cancel(&mut $this, timer: TimerId) {
            $context.cancel(timer);
        }

        fn request_commit(&mut $this) {
            $context.request_commit();
        }

        fn metadata(&$this) -> Option<RecordMetadata> {
            $context.metadata()
        }

        fn stream_time(&$this) -> Timestamp {
            $context.stream_time()
        }

        fn wall_time(&$this) -> Timestamp {
            $context.wall_time()
        }

        fn task(&$this) -> String {
            $context.task_id().to_string()
        }
    };
}

impl OpensStores for Free<'_, '_, '_> {
    fn open<'s, H: StoreHandle>(&'s mut self, handle: &'s H) -> H::View<'s> {
        self.0.store(handle)
    }
}

impl Surroundings for Free<'_, '_, '_> {
    fn forward(
        &mut self,
        record: Record<Value, Value>,
        child: Option<&str>,
    ) -> Result<(), BoxError> {
        match child {
            Some(child) => self.0.forward_to(child, record)?,
            None => self.0.forward(record)?,
        }
        Ok(())
    }

    in_common!(self => self.0);
}

impl OpensStores for Fixed<'_, '_, '_, '_> {
    fn open<'s, H: StoreHandle>(&'s mut self, handle: &'s H) -> H::View<'s> {
        self.context.store(handle)
    }
}

impl Surroundings for Fixed<'_, '_, '_, '_> {
    /// The key of the record stays, whatever the program says.
    fn forward(&mut self, new: Record<Value, Value>, child: Option<&str>) -> Result<(), BoxError> {
        let none = || Fault::new(FaultKind::NullPointer, "no record to take the key from");
        let mut record = self.record.clone().ok_or_else(none)?.with_value(new.value);
        (record.timestamp, record.headers) = (new.timestamp, new.headers);
        match child {
            Some(child) => self.context.forward_to(child, record)?,
            None => self.context.forward(record)?,
        }
        Ok(())
    }

    in_common!(self => self.context);
}

/// One call of a program.
struct Call<'p, S> {
    core: &'p mut Core,
    context: S,
}

impl<S: Surroundings> Port for Call<'_, S> {
    type Error = BoxError;

    fn forward(&mut self, outgoing: Outgoing<'_>) -> Result<(), BoxError> {
        let record = Record {
            key: outgoing.key,
            value: outgoing.value,
            timestamp: Timestamp(outgoing.timestamp_ms),
            headers: Headers::from(outgoing.headers),
        };
        self.context.forward(record, outgoing.child)
    }

    fn schedule(&mut self, punctuator: &Arc<Punctuator>) -> Result<(), BoxError> {
        let kind = match punctuator.time {
            TimeKind::Stream => PunctuationType::StreamTime,
            TimeKind::WallClock => PunctuationType::WallClockTime,
        };
        let every = Duration::from_millis(u64::try_from(punctuator.interval_ms).unwrap_or(0));
        let timer = self.context.schedule(kind, punctuator.start_ms.map(Timestamp), every)?;
        self.core.scheduled.insert(timer, Arc::clone(punctuator));
        self.core.by_name.insert(punctuator.name.clone(), timer);
        Ok(())
    }

    fn cancel(&mut self, name: &str) -> Result<(), BoxError> {
        let unknown = || Fault::new(FaultKind::NullPointer, format!("no punctuator `{name}`"));
        let timer = *self.core.by_name.get(name).ok_or_else(unknown)?;
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
            "task_id" => return Ok(self.context.task().into()),
            // Where the library says that there is no source record, the reference has metadata of none.
            "has_metadata" => return Ok(true.into()),
            "meta" => return self.metadata(args[0].as_str()?),
            _ => {}
        }
        let store = args[0].as_str()?;
        let unknown = || {
            let message = format!("store `{store}` is not connected to this processor");
            Fault::new(FaultKind::GaveUp, message)
        };
        let handle = self.core.stores.get(store).ok_or_else(unknown)?;
        handle.call(&mut self.context, &StoreCall { op: name, args: &args[1..] })
    }
}

impl<S: Surroundings> Call<'_, S> {
    fn metadata(&self, part: &str) -> Result<Value, Fault> {
        let metadata = self.context.metadata();
        let metadata = metadata.as_ref();
        Ok(match part {
            "topic" => metadata.map(|m| &*m.topic).into(),
            "partition" => metadata.map_or(-1, |m| i64::from(m.partition)).into(),
            "offset" => metadata.map_or(-1, |m| m.offset.0).into(),
            other => return Err(unsupported(format_args!("metadata `{other}`"))),
        })
    }
}
