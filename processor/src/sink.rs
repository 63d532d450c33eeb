//! Sinks: from typed records to bytes, a topic and a partition.

use std::any::Any;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use smallvec::SmallVec;
use thalweg_connectors::{
    Accepts, Field, NewRecord, PortError, Serde, SerdeError, SharedSerde, partition_for,
};

use crate::collector::ResolvedTopic;
use crate::config::OnError;
use crate::context::Context;
use crate::dead_letters::Failure;
use crate::error::{BoxError, NodeError, NodeErrorKind, NodeResult, UsageError};
use crate::node::{Node, slot_of};
use crate::record::{Record, RecordContext};
use crate::topology::{NodeSupplier, SinkTopic, TopicRef};

/// Where a partitioner sends a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Partitions {
    /// Where Kafka's default partitioner would.
    Default,
    /// To these partitions, one copy each.
    Only(SmallVec<[i32; 1]>),
    /// Nowhere.
    Drop,
}

/// Chooses partitions: topic, key, value, number of partitions.
pub type PartitionerFn<K, V> =
    Arc<dyn Fn(&str, &K, &V, i32) -> Result<Partitions, BoxError> + Send + Sync>;

/// Chooses a topic by record; `None` is an error of the record.
pub type TopicExtractorFn<K, V> =
    Arc<dyn Fn(&K, &V, &RecordContext) -> Result<Option<String>, BoxError> + Send + Sync>;

enum Target<K, V> {
    /// Resolved when the task starts.
    Fixed(Arc<str>, Option<ResolvedTopic>),
    Extracted(TopicExtractorFn<K, V>),
}

struct Sink<K, V> {
    target: Target<K, V>,
    encoder: Arc<dyn Accepts<K, V>>,
    /// The topic's own serdes, when its types are the records'.
    serdes: Option<(SharedSerde<K>, SharedSerde<V>)>,
    partitioner: Option<PartitionerFn<K, V>>,
    /// A replay's warm-up writes repartition topics, but no outputs.
    leaves_the_application: bool,
    key: Vec<u8>,
    value: Vec<u8>,
    types: PhantomData<fn(K, V)>,
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> Sink<K, V> {
    fn resolve(
        &self,
        record: &Record<K, V>,
        context: &mut Context<'_>,
    ) -> NodeResult<(Cow<'_, str>, ResolvedTopic)> {
        match &self.target {
            Target::Fixed(name, Some(topic)) => Ok((Cow::Borrowed(name), *topic)),
            Target::Fixed(name, None) => Ok((Cow::Borrowed(name), context.output.topic(name)?)),
            Target::Extracted(extract) => {
                let record_context = context.record_context();
                let name = extract(&record.key, &record.value, &record_context)
                    .map_err(NodeError::user)?;
                let name =
                    name.ok_or_else(|| UsageError::NoTopic(Arc::clone(context.node_name())))?;
                let name = name + &context.config().output_suffix;
                let topic = context.output.topic(&name)?;
                Ok((Cow::Owned(name), topic))
            }
        }
    }

    fn choose(
        &self,
        name: &str,
        topic: ResolvedTopic,
        record: &Record<K, V>,
    ) -> NodeResult<Partitions> {
        let Some(partitioner) = &self.partitioner else {
            return Ok(Partitions::Default);
        };
        let chosen = partitioner(name, &record.key, &record.value, topic.partitions)
            .map_err(NodeError::user)?;
        if let Partitions::Only(partitions) = &chosen
            && let Some(&partition) =
                partitions.iter().find(|p| !(0..topic.partitions).contains(*p))
        {
            let (topic, partitions) = (name.to_owned(), topic.partitions);
            return Err(UsageError::NoSuchPartition { topic, partition, partitions }.into());
        }
        Ok(chosen)
    }
}

/// A field's bytes: where they lie already, else as the serde writes them into the buffer.
fn bytes_of<'b, T: 'static>(
    serde: &dyn Serde<T>,
    value: &'b T,
    buffer: &'b mut Vec<u8>,
) -> Result<Option<&'b [u8]>, SerdeError> {
    match serde.bytes(value) {
        Some(bytes) => Ok(Some(bytes)),
        None => written(buffer, |out| serde.write(value, out)),
    }
}

/// What is written into the buffer; `None` for a null field.
fn written(
    buffer: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>) -> Result<Field, SerdeError>,
) -> Result<Option<&[u8]>, SerdeError> {
    buffer.clear();
    let field = write(buffer)?;
    Ok((field == Field::Bytes).then_some(&buffer[..]))
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> Node for Sink<K, V> {
    fn init(&mut self, context: &mut Context<'_>) -> NodeResult {
        if let Target::Fixed(name, resolved) = &mut self.target {
            *resolved = Some(context.output.topic(name)?);
        }
        Ok(())
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        match self.send(slot_of::<K, V>(slot), context) {
            Ok(()) => Ok(()),
            Err(error) => judge(error, context),
        }
    }
}

/// Asks the production handler about what cannot be written or sent. A value of another type than the serde's is a mistake of the
/// program: the node in front is told.
#[cold]
fn judge(error: NodeError, context: &mut Context<'_>) -> NodeResult {
    let error = match error.into_kind() {
        NodeErrorKind::Failed(error) => return Err(NodeError::failed(error)),
        NodeErrorKind::Answered(error) => return Err(NodeError::answered(error)),
        NodeErrorKind::User(error) => error,
    };
    let unwritable = error
        .downcast_ref::<SerdeError>()
        .is_some_and(|e| !matches!(e, SerdeError::WrongType { .. }));
    if !unwritable && !error.is::<PortError>() {
        return Err(NodeError::user(error));
    }
    let node = Arc::clone(context.node_name());
    let shared = &mut context.graph.shared;
    shared.send_dead_letter(context.output, &node, Failure::Production, &*error)?;
    match shared.config.on_production_error {
        OnError::Fail => Err(NodeError::answered(error)),
        OnError::Continue => {
            context.drop_record_with("it cannot be sent", error);
            Ok(())
        }
    }
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> Sink<K, V> {
    #[inline(always)]
    fn send(&mut self, slot: &mut Option<Record<K, V>>, context: &mut Context<'_>) -> NodeResult {
        let Some(record) = slot else { return Ok(()) };
        let output_from = context.config().output_from.filter(|_| self.leaves_the_application);
        if output_from.is_some_and(|from| record.timestamp < from) {
            return Ok(());
        }
        if let (Target::Fixed(_, Some(topic)), None, Some(serdes)) =
            (&self.target, &self.partitioner, &self.serdes)
        {
            // The usual case: the record stays in its slot.
            let (timestamp, headers) = (record.timestamp, record.headers.as_ref());
            let key = bytes_of(&*serdes.0, &record.key, &mut self.key)?;
            let value = bytes_of(&*serdes.1, &record.value, &mut self.value)?;
            let new = NewRecord { key, value, timestamp, headers };
            let partition = default_partition(&*self.encoder, key, *topic, context);
            return context.output.send_output(topic.slot, partition, &new);
        }
        self.send_chosen(slot, context)
    }
}

/// Where Kafka's default partitioner sends a record; one without a key stays with its task's partition number.
#[inline]
fn default_partition<K: 'static, V: 'static>(
    encoder: &dyn Accepts<K, V>,
    key: Option<&[u8]>,
    topic: ResolvedTopic,
    context: &Context<'_>,
) -> i32 {
    match key {
        _ if topic.partitions == 1 => 0,
        Some(key) => partition_for(encoder.partition_key(key), topic.partitions),
        None => context.task_id().partition % topic.partitions,
    }
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> Sink<K, V> {
    /// The way of a record whose topic or partition is chosen for it, or whose types are not the topic's own.
    #[inline(never)]
    fn send_chosen(
        &mut self,
        slot: &mut Option<Record<K, V>>,
        context: &mut Context<'_>,
    ) -> NodeResult {
        let Some(record) = slot else { return Ok(()) };
        let (topic, chosen) = match (&self.target, &self.partitioner) {
            (Target::Fixed(_, Some(topic)), None) => (*topic, Partitions::Default),
            _ => {
                let (name, topic) = self.resolve(record, context)?;
                (topic, self.choose(&name, topic, record)?)
            }
        };
        let (timestamp, headers) = (record.timestamp, mem::take(&mut record.headers));
        let Self { serdes, encoder, key: key_buffer, value: value_buffer, .. } = self;
        let (key, value) = match (serdes, &*slot) {
            // A record of the topic's own types stays in its slot.
            (Some((key, value)), Some(record)) => {
                let key = bytes_of(&**key, &record.key, key_buffer)?;
                (key, bytes_of(&**value, &record.value, value_buffer)?)
            }
            _ => {
                let Record { key, value, .. } =
                    slot.take().expect("the caller has looked into the slot");
                let key = written(key_buffer, |out| encoder.write_key(key, out))?;
                (key, written(value_buffer, |out| encoder.write_value(value, out))?)
            }
        };
        let new = NewRecord { key, value, timestamp, headers: headers.as_ref() };
        let send = |context: &mut Context<'_>, partition| {
            context.output.send_output(topic.slot, partition, &new)
        };
        match chosen {
            Partitions::Default => {
                send(context, default_partition(&**encoder, key, topic, context))
            }
            Partitions::Only(partitions) => partitions.iter().try_for_each(|p| send(context, *p)),
            Partitions::Drop => {
                context.drop_record("the partitioner chose no partition");
                Ok(())
            }
        }
    }
}

/// The topic of a sink, and how records get there.
pub struct SinkDef<K, V> {
    target: Result<TopicRef, (Arc<str>, TopicExtractorFn<K, V>)>,
    encoder: Arc<dyn Accepts<K, V>>,
    partitioner: Option<PartitionerFn<K, V>>,
}

impl<K: Clone + Send + 'static, V: Clone + Send + 'static> SinkDef<K, V> {
    /// Always to one topic.
    pub fn fixed(topic: TopicRef, encoder: Arc<dyn Accepts<K, V>>) -> Self {
        Self { target: Ok(topic), encoder, partitioner: None }
    }

    /// Where the extractor says; `name` stands for it in descriptions.
    pub fn extracted(
        name: impl Into<Arc<str>>,
        extractor: TopicExtractorFn<K, V>,
        encoder: Arc<dyn Accepts<K, V>>,
    ) -> Self {
        Self { target: Err((name.into(), extractor)), encoder, partitioner: None }
    }

    /// Chooses partitions itself.
    #[must_use]
    pub fn partitioner(mut self, partitioner: PartitionerFn<K, V>) -> Self {
        self.partitioner = Some(partitioner);
        self
    }

    /// Topic and supplier for [`TopologyBuilder::add_sink`](crate::TopologyBuilder::add_sink).
    pub fn build(self) -> (SinkTopic, NodeSupplier) {
        let topic = match &self.target {
            Ok(topic) => SinkTopic::Fixed(topic.clone()),
            Err((name, _)) => SinkTopic::Extracted(Arc::clone(name)),
        };
        let Self { target, encoder, partitioner } = self;
        let leaves_the_application = !matches!(&target, Ok(TopicRef::Internal(_)));
        let supplier: NodeSupplier = Arc::new(move |setup| {
            let target = match &target {
                Ok(TopicRef::External(name)) => {
                    Target::Fixed(format!("{name}{}", setup.output_suffix()).into(), None)
                }
                Ok(topic) => Target::Fixed(topic.resolve(setup.application_id()), None),
                Err((_, extractor)) => Target::Extracted(Arc::clone(extractor)),
            };
            Ok(Box::new(Sink {
                target,
                encoder: Arc::clone(&encoder),
                serdes: encoder.serdes(),
                partitioner: partitioner.clone(),
                leaves_the_application,
                key: Vec::new(),
                value: Vec::new(),
                types: PhantomData,
            }))
        });
        (topic, supplier)
    }
}
