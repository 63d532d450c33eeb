//! Topologies of the low-level API.

use std::cell::Cell;
use std::sync::Arc;

use thalweg_connectors::{OffsetReset, Topic};
use thalweg_processor::{SinkDef, SourceDef, TopicRef, Topology, TopologyBuilder};

use super::failure::{Stop, unsupported};
use super::functions::{Calls, partitioner, timestamp_extractor, topic_extractor};
use super::processor::supplier;
use super::stores::AnyStore;
use super::{Config, Fault, Scenario, Section, SerdeSpec, Value};

/// The serdes of steps that have none; remembers when there is none either.
#[derive(Debug)]
pub(crate) struct Defaults {
    key: Option<SerdeSpec>,
    value: Option<SerdeSpec>,
    missing: Cell<Option<&'static str>>,
}

impl Defaults {
    pub(crate) fn of(config: &Config) -> Self {
        let (key, value) = (config.default_key, config.default_value);
        Self { key, value, missing: Cell::new(None) }
    }

    pub(crate) fn key(&self, known: Option<SerdeSpec>) -> SerdeSpec {
        self.known(known.or(self.key), "default.key.serde")
    }

    pub(crate) fn value(&self, known: Option<SerdeSpec>) -> SerdeSpec {
        self.known(known.or(self.value), "default.value.serde")
    }

    fn known(&self, serde: Option<SerdeSpec>, setting: &'static str) -> SerdeSpec {
        serde.unwrap_or_else(|| {
            self.missing.set(Some(setting));
            SerdeSpec::STRING
        })
    }

    /// The setting that would have to name a serde: found missing when the application starts, as in the reference.
    pub(crate) fn missing(&self) -> Option<&'static str> {
        self.missing.get()
    }
}

/// The topic of a step with the step's serdes.
pub(crate) fn topic_of(
    step: &Section,
    name: &str,
    defaults: &Defaults,
) -> Result<Topic<Value, Value>, Fault> {
    let (key, value) = (defaults.key(step.serde("key")?), defaults.value(step.serde("value")?));
    Ok(Topic::with(name, key, value))
}

/// Where a source starts without committed offsets, if the step says so.
pub(crate) fn offset_reset(step: &Section) -> Result<Option<OffsetReset>, Fault> {
    Ok(match step.text_opt("offset_reset")? {
        None => None,
        Some("earliest") => Some(OffsetReset::Earliest),
        Some("latest") => Some(OffsetReset::Latest),
        Some(other) => return Err(unsupported(format_args!("offset reset `{other}`"))),
    })
}

/// Builds the topology of a scenario in the low-level API.
pub(crate) fn build(
    scenario: &Scenario,
    defaults: &Defaults,
    calls: &Calls,
) -> Result<Topology, Stop> {
    let mut builder = TopologyBuilder::new();
    for step in &scenario.topology {
        apply(&mut builder, step, defaults, calls)?;
    }
    Ok(builder.build()?)
}

fn apply(
    builder: &mut TopologyBuilder,
    step: &Section,
    defaults: &Defaults,
    calls: &Calls,
) -> Result<(), Stop> {
    match step.op()? {
        "add_source" => add_source(builder, step, defaults),
        "add_processor" => add_processor(builder, step, defaults),
        "add_sink" => add_sink(builder, step, defaults, calls),
        "add_state_store" => {
            Ok(store_of(step, defaults)?.add_to(builder, &step.texts("processors")?)?)
        }
        "connect" => Ok(builder.connect(step.text("processor")?, &step.texts("stores")?)?),
        "add_read_only_store" => add_read_only_store(builder, step, defaults),
        other => Err(unsupported(format_args!("step `{other}`")).into()),
    }
}

fn store_of(section: &Section, defaults: &Defaults) -> Result<AnyStore, Fault> {
    let serdes = (defaults.key(section.serde("key")?), defaults.value(section.serde("value")?));
    AnyStore::parse(section, serdes)
}

fn source(step: &Section, topics: &[&str], defaults: &Defaults) -> Result<SourceDef, Fault> {
    let (key, value) = (defaults.key(step.serde("key")?), defaults.value(step.serde("value")?));
    let topics = topics.iter().map(|t| TopicRef::External((*t).into())).collect();
    let serdes = (key.shared(), value.shared());
    Ok(SourceDef::new(topics, serdes, timestamp_extractor(step)?, offset_reset(step)?))
}

fn add_source(
    builder: &mut TopologyBuilder,
    step: &Section,
    defaults: &Defaults,
) -> Result<(), Stop> {
    if step.has("pattern") {
        return Err(unsupported("sources by pattern").into());
    }
    let def = source(step, &step.texts("topics")?, defaults)?;
    builder.add_source(step.text("name")?, def)?;
    Ok(())
}

fn add_processor(
    builder: &mut TopologyBuilder,
    step: &Section,
    defaults: &Defaults,
) -> Result<(), Stop> {
    let name = step.text("name")?;
    let program = supplier(step.program()?);
    builder.add_processor(name, program, &step.texts("parents")?)?;
    for own in step.sections("own_stores")? {
        store_of(&own, defaults)?.add_to(builder, &[name])?;
    }
    Ok(())
}

fn add_sink(
    builder: &mut TopologyBuilder,
    step: &Section,
    defaults: &Defaults,
    calls: &Calls,
) -> Result<(), Stop> {
    let name = step.text_opt("topic")?.unwrap_or_default();
    let encoder = Arc::new(topic_of(step, name, defaults)?);
    let mut sink = match step.expr_opt("topic_expr")? {
        Some(expr) => SinkDef::extracted("EXTRACTOR", topic_extractor(expr), encoder),
        None => SinkDef::fixed(TopicRef::External(name.into()), encoder),
    };
    if let Some(partitioner) = partitioner(step, calls)? {
        sink = sink.partitioner(partitioner);
    }
    let (topic, supplier) = sink.build();
    builder.add_sink(step.text("name")?, topic, supplier, &step.texts("parents")?)?;
    Ok(())
}

/// A store that a processor keeps in step with a topic, which is its changelog at the same time.
fn add_read_only_store(
    builder: &mut TopologyBuilder,
    step: &Section,
    defaults: &Defaults,
) -> Result<(), Stop> {
    let (source_name, processor_name) = (step.text("source_name")?, step.text("processor_name")?);
    let (topic, store) = (step.text("topic")?, store_of(step, defaults)?);
    builder.add_source(source_name, source(step, &[topic], defaults)?)?;
    let program = supplier(step.program()?);
    builder.add_processor(processor_name, program, &[source_name])?;
    store.add_to(builder, &[processor_name])?;
    builder.source_as_changelog(step.text("store")?, TopicRef::External(topic.into()))?;
    Ok(())
}
