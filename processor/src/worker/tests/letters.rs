//! Dead letters that their topic refuses.

use std::collections::BTreeMap;

use thalweg_connectors::{Backend, NewTopic};

use super::apps::counting;
use super::world::{World, config};
use crate::OnError;

/// Goes over a bad record with dead letters of at most so many bytes; tells what became of the letter: its bytes, and whether it has
/// a stack trace.
fn letter_of(bytes_max: usize) -> Option<(usize, bool)> {
    let world = World::of_lines(1, &["a", "poison", "b"]);
    let limit = ("max.message.bytes".to_owned(), bytes_max.to_string());
    let (name, config_of) = ("dead".to_owned(), BTreeMap::from([limit]));
    let topic = NewTopic { name, partitions: 1, config: config_of };
    world.broker.admin().unwrap().create(&[topic]).unwrap();
    let mut config = config();
    config.task.on_processing_error = OnError::Continue;
    config.task.dead_letter_topic = Some("dead".into());
    world.settle(&mut [&mut world.worker(&counting(), &config)]).unwrap();
    assert_eq!(world.totals(), [("a".to_owned(), 1), ("b".to_owned(), 1)], "at most {bytes_max}");
    let mut letters = world.sizes("dead", "__streams.errors.stacktrace");
    assert!(letters.len() < 2, "{letters:?}");
    letters.pop()
}

#[test]
fn a_letter_that_is_too_large_goes_without_its_stack_trace_or_is_lost_and_the_run_goes_on() {
    let (whole, has_trace) = letter_of(1 << 20).unwrap();
    assert!(has_trace);
    let (smaller, has_trace) = letter_of(whole - 1).unwrap();
    assert!(smaller < whole && !has_trace);
    assert_eq!(letter_of(smaller), Some((smaller, false)));
    assert_eq!(letter_of(smaller - 1), None);
}
