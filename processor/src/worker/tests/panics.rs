//! User code that panics, wherever it is called: the run ends with an error that names node and task, and nothing open is committed.

use std::any::Any;
use std::sync::Arc;

use thalweg_connectors::Topic;

use super::apps::lines;
use super::ends::replay;
use super::world::{World, config};
use crate::error::{NodeError, NodeResult};
use crate::runtime::{ReplayFrom, RunError, RuntimeConfig};
use crate::{
    Context, ErrorClass, Flushed, Handle, Node, NodeSupplier, SinkDef, SourceDef, Store, StoreDecl,
    TimestampExtractor, TopicRef, Topology, TopologyBuilder, take,
};

/// Where it goes wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    SourceSupplier,
    Supplier,
    Init,
    Remember,
    Flush,
    FlushError,
    Close,
}

/// Keeps the last value of each key in a cached store, and goes wrong.
struct Unruly {
    at: At,
    last: Handle<String, String>,
}

impl Node for Unruly {
    fn init(&mut self, _: &mut Context<'_>) -> NodeResult {
        assert_ne!(self.at, At::Init, "unruly");
        Ok(())
    }

    fn process(&mut self, slot: &mut dyn Any, context: &mut Context<'_>) -> NodeResult {
        let record = take::<String, String>(slot);
        context.store(&self.last).put(&record.key, &record.value)?;
        context.forward(record)
    }

    fn flush(&mut self, _: Flushed<'_>, _: &mut Context<'_>) -> NodeResult {
        assert_ne!(self.at, At::Flush, "unruly");
        match self.at {
            At::FlushError => Err(NodeError::user("unruly")),
            _ => Ok(()),
        }
    }

    fn remember(&self, _: &mut dyn FnMut(&'static str, i64)) {
        assert_ne!(self.at, At::Remember, "unruly");
    }

    fn close(&mut self) {
        assert_ne!(self.at, At::Close, "unruly");
    }
}

fn last() -> Store<String, String> {
    Store::key_value("last").cached()
}

fn to_totals(builder: &mut TopologyBuilder, parent: &str) {
    let totals = Arc::new(Topic::<String, String>::new("totals"));
    let (topic, supplier) =
        SinkDef::<String, String>::fixed(TopicRef::External("totals".into()), totals).build();
    builder.add_sink("totals", topic, supplier, &[parent]).unwrap();
}

fn unruly(at: At) -> Topology {
    let mut builder = TopologyBuilder::new();
    let mut source = SourceDef::typed(&lines());
    let supply = Arc::clone(&source.supplier);
    source.supplier = Arc::new(move |config| {
        assert_ne!(at, At::SourceSupplier, "unruly");
        supply(config)
    });
    builder.add_source("lines", source).unwrap();
    let supplier: NodeSupplier = Arc::new(move |setup| {
        assert_ne!(at, At::Supplier, "unruly");
        Ok(Box::new(Unruly { at, last: setup.owned_store(&last())? }))
    });
    builder.add_processor("unruly", supplier, &["lines"]).unwrap();
    builder.add_store(last().def().clone(), &["unruly"]).unwrap();
    to_totals(&mut builder, "unruly");
    builder.build().unwrap()
}

fn run(world: &World, topology: &Topology, config: &RuntimeConfig) -> Result<(), RunError> {
    let mut worker = world.worker(topology, config);
    let settled = world.settle(&mut [&mut worker]);
    match &settled {
        Ok(()) => worker.close().unwrap(),
        Err(_) => worker.abandon(),
    }
    settled
}

fn caching() -> RuntimeConfig {
    let mut config = config();
    config.task.cache_max_bytes = 1 << 20;
    config
}

#[test]
fn a_panic_or_an_error_outside_of_a_record_names_the_node_the_task_and_its_place() {
    for (at, expected) in [
        (At::SourceSupplier, "node `lines`: user code panicked in task 0_0: "),
        (At::Supplier, "node `unruly`: user code panicked in task 0_0: "),
        (At::Init, "node `unruly`: user code panicked in task 0_0: "),
        (At::Remember, "node `unruly`: user code panicked in task 0_0: "),
        // The update that waits longest leaves first: that of `b`.
        (At::Flush, "node `unruly`: user code panicked in task 0_0 at lines-0@2: "),
        (At::FlushError, "node `unruly` of task 0_0 failed at lines-0@2: unruly"),
    ] {
        let world = World::of_lines(1, &["a", "b"]);
        world.write("lines", &[("b", "b", 3), ("a", "a", 4)]);
        let error = run(&world, &unruly(at), &caching()).unwrap_err();
        assert_eq!(error.class(), ErrorClass::User);
        let text = error.chain();
        assert!(text.contains(expected), "{at:?}: {text}");
        assert_eq!(world.read("totals"), []);
    }
}

#[test]
fn a_panic_while_a_task_is_closed_takes_nothing_back() {
    let world = World::of_lines(1, &["a", "b"]);
    run(&world, &unruly(At::Close), &caching()).unwrap();
    assert_eq!(world.read("totals").len(), 2);
}

#[test]
fn a_panic_of_a_timestamp_extractor_in_a_replay_names_its_record() {
    let world = World::of_lines(1, &["a", "panic", "b"]);
    let mut builder = TopologyBuilder::new();
    let extractor = TimestampExtractor::Custom(Arc::new(|_: &String, value: &String, time, _| {
        assert_ne!(value, "panic");
        Ok(time)
    }));
    let topics = vec![TopicRef::External("lines".into())];
    let serdes = (Arc::clone(lines().key_serde()), Arc::clone(lines().value_serde()));
    builder.add_source("lines", SourceDef::new(topics, serdes, extractor, None)).unwrap();
    to_totals(&mut builder, "lines");
    let topology = builder.build().unwrap();
    let error = run(&world, &topology, &replay("r", ReplayFrom::Beginning)).unwrap_err();
    assert_eq!(error.class(), ErrorClass::User);
    assert!(error.chain().contains("user code panicked in task 0_0"), "{}", error.chain());
}
