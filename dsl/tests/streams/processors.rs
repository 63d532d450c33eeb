//! Custom processors inside the DSL.

use std::time::Duration;

use thalweg::{
    BoxError, FixedKeyContext, FixedKeyProcessor, FixedKeyRecord, Handle, Processor,
    ProcessorContext, Punctuation, PunctuationType, Record, Store, Stores, StreamsBuilder,
    TopologyError,
};

use crate::support::{nodes, pipe, read, start, text};

type Text = Option<String>;

/// Numbers the records of each key, and forwards under the number.
struct Number {
    counts: Handle<String, i64>,
}

impl Processor for Number {
    type KIn = Text;
    type VIn = Text;
    type KOut = Text;
    type VOut = Text;

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, Text, Text>,
        record: Record<Text, Text>,
    ) -> Result<(), BoxError> {
        let key = record.key.clone().ok_or("no key")?;
        let count = context.store(&self.counts).get(&key)?.unwrap_or(0) + 1;
        context.store(&self.counts).put(&key, &count)?;
        Ok(context.forward(record.with_key(Some(format!("{key}{count}"))))?)
    }
}

fn counts() -> Store<String, i64> {
    Store::key_value("counts")
}

#[test]
fn a_processor_brings_its_store_and_its_keys_may_move() {
    let builder = StreamsBuilder::new();
    let numbered = builder
        .stream(&text("in"))
        .process(&counts(), |setup| Ok(Number { counts: setup.store(&counts())? }));
    numbered.to(&text("out"));
    numbered.group_by_key_via("moved").count("per-key");
    let topology = builder.build().unwrap();
    assert!(topology.internal_topics().contains_key("moved-repartition"));
    let mut driver = thalweg::TestDriver::new(&topology, thalweg::TaskConfig::new("app")).unwrap();
    pipe(&mut driver, "in", &["a=x@1", "b=y@2", "a=z@3"]);
    assert_eq!(read(&driver, "out"), ["a1=x@1", "b1=y@2", "a2=z@3"]);
}

#[test]
fn processors_can_share_a_store_that_is_added_by_itself() {
    let builder = StreamsBuilder::new();
    builder.add_store(&counts());
    let number = |setup: &mut thalweg::Setup<'_>| Ok(Number { counts: setup.store(&counts())? });
    builder.stream(&text("in")).process(["counts"], number).to(&text("out"));
    builder.stream(&text("other")).process(["counts"], number).to(&text("out"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=x@1"]);
    pipe(&mut driver, "other", &["a=y@2"]);
    assert_eq!(read(&driver, "out"), ["a1=x@1", "a2=y@2"]);
}

#[test]
fn a_store_that_nobody_adds_is_a_mistake() {
    let builder = StreamsBuilder::new();
    let number = |setup: &mut thalweg::Setup<'_>| Ok(Number { counts: setup.store(&counts())? });
    builder.stream(&text("in")).process(["counts"], number);
    let error = builder.build().unwrap_err();
    assert!(matches!(error.errors(), [TopologyError::UnknownStore { .. }]), "{error}");
}

/// Appends the key to the value; on stream time it repeats the last record.
struct Append {
    last: Option<FixedKeyRecord<Text, Text>>,
}

impl FixedKeyProcessor for Append {
    type Key = Text;
    type VIn = Text;
    type VOut = Text;

    fn init(
        &mut self,
        context: &mut FixedKeyContext<'_, '_, '_, Text, Text>,
    ) -> Result<(), BoxError> {
        context.schedule(PunctuationType::StreamTime, Duration::from_millis(10))?;
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut FixedKeyContext<'_, '_, '_, Text, Text>,
        record: FixedKeyRecord<Text, Text>,
    ) -> Result<(), BoxError> {
        let key = record.key().clone().unwrap_or_default();
        let value = record.value.as_ref().map(|v| format!("{v}{key}"));
        let record = record.with_value(value);
        self.last = Some(record.clone());
        Ok(context.forward(record)?)
    }

    fn punctuate(
        &mut self,
        context: &mut FixedKeyContext<'_, '_, '_, Text, Text>,
        punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        let Some(last) = self.last.take() else { return Ok(()) };
        let again = last.with_value(Some(format!("again at {}", punctuation.now)));
        Ok(context.forward(again)?)
    }
}

#[test]
fn a_fixed_key_processor_keeps_the_keys_in_place() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in"));
    let appended = stream.process_values(Stores::none(), |_| Ok(Append { last: None }));
    appended.to(&text("out"));
    appended.group_by_key().count("counts");
    let topology = builder.build().unwrap();
    assert!(topology.internal_topics().is_empty());
    let mut driver = thalweg::TestDriver::new(&topology, thalweg::TaskConfig::new("app")).unwrap();
    pipe(&mut driver, "in", &["a=x@5", "b=y@25"]);
    assert_eq!(read(&driver, "out"), ["a=xa@5", "a=again at 5@5", "b=yb@25", "b=again at 25@25"]);
}

#[test]
fn processors_are_numbered_and_named() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in"));
    let append = |_: &mut thalweg::Setup<'_>| Ok(Append { last: None });
    stream
        .process_values(Stores::none(), append)
        .process_values(Stores::none(), append)
        .named("append")
        .process_values(Stores::none(), append);
    let names = nodes(&builder);
    assert_eq!(
        names[1..],
        ["KSTREAM-PROCESSVALUES-0000000001", "append", "KSTREAM-PROCESSVALUES-0000000002"]
    );
}
