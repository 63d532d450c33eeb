//! Small applications: counting words, counting after a repartition hop, a stream joined with a table.

use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::Topic;

use crate::{
    BoxError, Handle, InternalTopic, Processor, ProcessorContext, Punctuation, PunctuationType,
    Record, SinkDef, SourceDef, Store, TimestampExtractor, TopicRef, Topology, TopologyBuilder,
    supply,
};

type Strings = Record<String, String>;

pub(crate) fn lines() -> Topic<String, String> {
    Topic::new("lines")
}

fn counts() -> Store<String, i64> {
    Store::key_value("counts")
}

fn cached_counts() -> Store<String, i64> {
    Store::key_value("counts").cached()
}

/// Counts values. The value `poison` is an error, `panic` a panic, `commit` asks for a commit.
struct Count(Handle<String, i64>);

impl Processor for Count {
    type KIn = String;
    type VIn = String;
    type KOut = String;
    type VOut = i64;

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, i64>,
        record: Strings,
    ) -> Result<(), BoxError> {
        let word = record.value.clone();
        let count = context.store(&self.0).get(&word)?.unwrap_or(0) + 1;
        context.store(&self.0).put(&word, &count)?;
        match &*word {
            "poison" => return Err("a poisonous record".into()),
            "panic" => panic!("a panicking record"),
            "commit" => context.request_commit(),
            _ => {}
        }
        context.forward(Record::new(word, count, record.timestamp.0))?;
        Ok(())
    }
}

fn to_totals(builder: &mut TopologyBuilder, parent: &str) {
    let totals = Topic::<String, i64>::new("totals");
    let topic = TopicRef::External(Arc::from("totals"));
    let (topic, supplier) = SinkDef::<String, i64>::fixed(topic, Arc::new(totals)).build();
    builder.add_sink("totals", topic, supplier, &[parent]).unwrap();
}

fn add_count(builder: &mut TopologyBuilder, parent: &str, store: Store<String, i64>) {
    let def = crate::StoreDecl::def(&store).clone();
    let count = supply(move |setup| Ok(Count(setup.store(&store)?)));
    builder.add_processor("count", count, &[parent]).unwrap();
    builder.add_store(def, &["count"]).unwrap();
}

/// `lines` → count → `totals`, one task per partition.
pub(crate) fn counting() -> Topology {
    counting_in(counts())
}

/// The same; counts wait in the record cache before they go to the changelog.
pub(crate) fn counting_cached() -> Topology {
    counting_in(cached_counts())
}

fn counting_in(store: Store<String, i64>) -> Topology {
    let mut builder = TopologyBuilder::new();
    builder.add_source("lines", SourceDef::typed(&lines())).unwrap();
    add_count(&mut builder, "lines", store);
    to_totals(&mut builder, "count");
    builder.build().unwrap()
}

/// Hands lines on with the number 1, and a `tick` each second of wall-clock time.
struct Tick;

impl Processor for Tick {
    type KIn = String;
    type VIn = String;
    type KOut = String;
    type VOut = i64;

    fn init(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, i64>,
    ) -> Result<(), BoxError> {
        context.schedule(PunctuationType::WallClockTime, Duration::from_secs(1))?;
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, i64>,
        record: Strings,
    ) -> Result<(), BoxError> {
        Ok(context.forward(record.with_value(1))?)
    }

    fn punctuate(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, i64>,
        punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        Ok(context.forward(Record::new("tick".to_owned(), 0, punctuation.now))?)
    }
}

/// `lines` → `totals`, without a store, with ticks.
pub(crate) fn ticking() -> Topology {
    let mut builder = TopologyBuilder::new();
    builder.add_source("lines", SourceDef::typed(&lines())).unwrap();
    builder.add_processor("tick", supply(|_| Ok(Tick)), &["lines"]).unwrap();
    to_totals(&mut builder, "tick");
    builder.build().unwrap()
}

/// Tells each time that a punctuation comes, on several timers on stream time; `commit` asks for a commit.
#[derive(Default)]
struct StreamTick(Vec<(crate::TimerId, &'static str)>);

impl Processor for StreamTick {
    type KIn = String;
    type VIn = String;
    type KOut = String;
    type VOut = i64;

    fn init(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, i64>,
    ) -> Result<(), BoxError> {
        for (name, start, every) in [("a", 0, 3), ("b", 2, 5), ("c", 0, 3), ("d", 7, 100)] {
            let (start, every) =
                (thalweg_connectors::Timestamp(start), Duration::from_millis(every));
            let timer = context.schedule_at(PunctuationType::StreamTime, start, every)?;
            self.0.push((timer, name));
        }
        Ok(())
    }

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, i64>,
        record: Strings,
    ) -> Result<(), BoxError> {
        if record.value == "commit" {
            context.request_commit();
        }
        Ok(context.forward(record.with_value(-1))?)
    }

    fn punctuate(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, i64>,
        punctuation: Punctuation,
    ) -> Result<(), BoxError> {
        let (timer, name) = *self.0.iter().find(|(t, _)| *t == punctuation.timer).unwrap();
        if name == "c" && punctuation.now.0 >= 6 {
            context.cancel(timer);
        }
        Ok(context.forward(Record::new(name.to_owned(), punctuation.now.0, punctuation.now))?)
    }
}

/// `lines` → `totals`, without a store, with ticks on stream time.
pub(crate) fn ticking_on_stream_time() -> Topology {
    let mut builder = TopologyBuilder::new();
    builder.add_source("lines", SourceDef::typed(&lines())).unwrap();
    builder.add_processor("tick", supply(|_| Ok(StreamTick::default())), &["lines"]).unwrap();
    to_totals(&mut builder, "tick");
    builder.build().unwrap()
}

/// Makes the value the key.
struct ByValue;

impl Processor for ByValue {
    type KIn = String;
    type VIn = String;
    type KOut = String;
    type VOut = String;

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, String>,
        record: Strings,
    ) -> Result<(), BoxError> {
        let key = record.value.clone();
        Ok(context.forward(record.with_key(key))?)
    }
}

/// `lines` → by value → repartition → count → `totals`.
pub(crate) fn rekeyed(partitions: Option<i32>) -> Topology {
    let mut builder = TopologyBuilder::new();
    let hop = TopicRef::Internal(Arc::from("by-value-repartition"));
    builder.add_internal_topic("by-value-repartition", InternalTopic { partitions }).unwrap();
    builder.add_source("lines", SourceDef::typed(&lines())).unwrap();
    builder.add_processor("by-value", supply(|_| Ok(ByValue)), &["lines"]).unwrap();
    let typed = Topic::<String, String>::new("by-value");
    let (serdes, typed) =
        ((Arc::clone(typed.key_serde()), Arc::clone(typed.value_serde())), Arc::new(typed));
    let (topic, supplier) = SinkDef::<String, String>::fixed(hop.clone(), typed).build();
    builder.add_sink("hop", topic, supplier, &["by-value"]).unwrap();
    let source = SourceDef::new(vec![hop], serdes, TimestampExtractor::Default, None);
    builder.add_source("hopped", source).unwrap();
    add_count(&mut builder, "hopped", counts());
    to_totals(&mut builder, "count");
    builder.build().unwrap()
}

fn users() -> Store<String, String> {
    Store::key_value("users")
}

struct Table(Handle<String, String>);

impl Processor for Table {
    type KIn = String;
    type VIn = String;
    type KOut = String;
    type VOut = String;

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, String>,
        record: Strings,
    ) -> Result<(), BoxError> {
        Ok(context.store(&self.0).put(&record.key, &record.value)?)
    }
}

struct Join(Handle<String, String>);

impl Processor for Join {
    type KIn = String;
    type VIn = String;
    type KOut = String;
    type VOut = String;

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, String>,
        record: Strings,
    ) -> Result<(), BoxError> {
        let user = context.store(&self.0).get(&record.key)?.unwrap_or_else(|| "nobody".to_owned());
        Ok(context.forward(record.with_value(user))?)
    }
}

/// `orders` joined with the table `users` → `enriched`. The table's topic is its changelog when asked so.
pub(crate) fn joined(source_as_changelog: bool) -> Topology {
    let topic = |name: &str| Topic::<String, String>::new(name);
    let mut builder = TopologyBuilder::new();
    builder.add_source("orders", SourceDef::typed(&topic("orders"))).unwrap();
    builder.add_source("users", SourceDef::typed(&topic("users"))).unwrap();
    builder.copartition(&["orders", "users"]).unwrap();
    let table = supply(|setup| Ok(Table(setup.store(&users())?)));
    builder.add_processor("table", table, &["users"]).unwrap();
    let join = supply(|setup| Ok(Join(setup.store(&users())?)));
    builder.add_processor("join", join, &["orders"]).unwrap();
    let mut store = crate::StoreDecl::def(&users()).clone();
    if source_as_changelog {
        store.logging = None;
    }
    builder.add_store(store, &["table", "join"]).unwrap();
    if source_as_changelog {
        builder.source_as_changelog("users", TopicRef::External(Arc::from("users"))).unwrap();
    }
    let out = TopicRef::External(Arc::from("enriched"));
    let (sink, supplier) =
        SinkDef::<String, String>::fixed(out, Arc::new(topic("enriched"))).build();
    builder.add_sink("enriched", sink, supplier, &["join"]).unwrap();
    builder.build().unwrap()
}
