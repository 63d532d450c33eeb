//! Global stores: filled before any task begins, from all partitions, by every worker.

use std::sync::Arc;

use thalweg_connectors::Topic;

use super::world::{World, config};
use crate::error::ErrorClass;
use crate::worker::Worker;
use crate::{
    BoxError, Handle, Processor, ProcessorContext, Record, SinkDef, SourceDef, Store, StoreDecl,
    TopicRef, Topology, TopologyBuilder, supply,
};

type Strings = Record<String, String>;

fn names() -> Store<String, String> {
    Store::key_value("names")
}

/// Keeps what it is given; `poison` is an error.
struct Keep(Handle<String, String>);

impl Processor for Keep {
    type KIn = String;
    type VIn = String;
    type KOut = String;
    type VOut = String;

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, String>,
        record: Strings,
    ) -> Result<(), BoxError> {
        if record.value == "poison" {
            return Err("a poisonous name".into());
        }
        Ok(context.store(&self.0).put(&record.key, &record.value)?)
    }
}

/// Replaces each line by the name of it.
struct Name(Handle<String, String>);

impl Processor for Name {
    type KIn = String;
    type VIn = String;
    type KOut = String;
    type VOut = String;

    fn process(
        &mut self,
        context: &mut ProcessorContext<'_, '_, String, String>,
        record: Strings,
    ) -> Result<(), BoxError> {
        if record.value == "write" {
            context.store(&self.0).put(&record.key, &record.value)?;
        }
        let name = context.store(&self.0).get(&record.value)?.unwrap_or_default();
        Ok(context.forward(record.with_value(name))?)
    }
}

/// `lines` → the global names of them → `named`.
fn naming() -> Topology {
    let mut builder = TopologyBuilder::new();
    let source = SourceDef::typed(&Topic::<String, String>::new("names"));
    let keep = supply(|setup| Ok(Keep(setup.store(&names())?)));
    let store = names().def().clone();
    builder.add_global_store(("names-in", source), ("keep", keep), store).unwrap();
    let lines = SourceDef::typed(&Topic::<String, String>::new("lines"));
    builder.add_source("lines", lines).unwrap();
    let name = supply(|setup| Ok(Name(setup.store(&names())?)));
    builder.add_processor("name", name, &["lines"]).unwrap();
    let topic = TopicRef::External(Arc::from("named"));
    let encoder = Arc::new(Topic::<String, String>::new("named"));
    let (topic, supplier) = SinkDef::<String, String>::fixed(topic, encoder).build();
    builder.add_sink("named", topic, supplier, &["name"]).unwrap();
    builder.build().unwrap()
}

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn world() -> World {
    let world = World::new(&[("lines", 2), ("names", 3), ("named", 2)]);
    let lines: Vec<_> = KEYS.iter().map(|key| (*key, *key, 1)).collect();
    world.write("lines", &lines);
    let names: Vec<_> = KEYS.iter().map(|key| (*key, "old", 5)).collect();
    world.write("names", &names);
    world.write("names", &KEYS.map(|key| (key, "new", 3)));
    world
}

fn named(world: &World) -> Vec<(String, String)> {
    let mut named = world.texts("named");
    named.sort();
    named
}

fn all(name: &str) -> Vec<(String, String)> {
    KEYS.iter().map(|key| ((*key).to_owned(), name.to_owned())).collect()
}

#[test]
fn tasks_begin_when_the_global_store_holds_all_partitions_of_its_topic() {
    for workers in [1, 2] {
        let world = world();
        let mut config = config();
        config.workers = workers;
        let around = world.prepare(&naming(), &config).unwrap();
        let worker = |index| Worker::new(around.clone(), index).unwrap();
        let mut workers: Vec<_> = (0..workers).map(worker).collect();
        let mut all_workers: Vec<_> = workers.iter_mut().collect();
        world.settle(&mut all_workers).unwrap();
        assert_eq!(named(&world), all("new"));
        // Later names come in as well.
        world.write("names", &KEYS.map(|key| (key, "newest", 1)));
        world.settle(&mut all_workers).unwrap();
        world.write("lines", &KEYS.map(|key| (key, key, 2)));
        world.settle(&mut all_workers).unwrap();
        let mut expected = [all("new"), all("newest")].concat();
        expected.sort();
        assert_eq!(named(&world), expected);
        workers.into_iter().for_each(|worker| worker.close().unwrap());
    }
}

#[test]
fn global_store_is_there_again_after_a_restart_and_after_a_lost_disk() {
    let world = world();
    let mut worker = world.worker(&naming(), &config());
    world.settle(&mut [&mut worker]).unwrap();
    worker.abandon();
    world.disk.wipe();
    world.write("lines", &[("g", "a", 9)]);
    let mut worker = world.worker(&naming(), &config());
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(named(&world).last(), Some(&("g".to_owned(), "new".to_owned())));
}

#[test]
fn record_that_the_global_store_cannot_take_ends_the_worker_unless_the_handler_covers_it() {
    let world = world();
    world.write("names", &[("a", "poison", 1)]);
    let mut worker = world.worker(&naming(), &config());
    let error = world.settle(&mut [&mut worker]).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "the global stores cannot follow their topics");
    assert!(named(&world).is_empty(), "no task has begun");
    worker.abandon();

    let mut skipping = config();
    skipping.task.on_processing_error = crate::OnError::Continue;
    skipping.task.processing_handler_covers_globals = true;
    let mut worker = world.worker(&naming(), &skipping);
    world.settle(&mut [&mut worker]).unwrap();
    assert_eq!(named(&world), all("new"));
}

#[test]
fn global_store_can_only_be_written_by_its_own_processor() {
    let world = world();
    world.write("lines", &[("a", "write", 2)]);
    let mut worker = world.worker(&naming(), &config());
    let error = world.settle(&mut [&mut worker]).unwrap_err();
    let crate::RunError::Task { source, .. } = &error else { panic!("{error}") };
    assert_eq!(source.class(), ErrorClass::User);
    let mut text = String::new();
    let mut cause: Option<&dyn std::error::Error> = Some(&error);
    while let Some(error) = cause {
        text = format!("{text}{error}; ");
        cause = error.source();
    }
    assert!(text.contains("the global store `names` can only be read"), "{text}");
}
