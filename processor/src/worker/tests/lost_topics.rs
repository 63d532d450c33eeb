//! Internal topics that are deleted, or made anew, behind the application's back: it says so, and goes on only when it was reset.

use std::collections::BTreeMap;

use thalweg_connectors::{
    Backend, CommittedOffset, GroupMetadata, NewTopic, Offset, ProducerOptions, TopicPartition,
    partition_for,
};

use super::apps::{counting, rekeyed, ticking};
use super::world::{World, config, running_counts};
use crate::worker::Worker;
use crate::{PlanError, RunError, StartError, TaskError, Topology};

const WORDS: [&str; 6] = ["a", "b", "a", "c", "a", "b"];
const CHANGELOG: &str = "app-counts-changelog";

/// Why a run ends, or does not start.
#[derive(Debug)]
enum Ended {
    Start(StartError),
    Run(RunError),
}

/// Runs to rest; tells how many records were restored.
fn try_run(world: &World, topology: &Topology) -> Result<u64, Ended> {
    let around = world.prepare(topology, &config()).map_err(Ended::Start)?;
    let mut worker = Worker::new(around.clone(), 0).unwrap();
    world.settle(&mut [&mut worker]).map_err(Ended::Run)?;
    Ok(around.metrics.snapshot().records_restored())
}

fn run(world: &World, topology: &Topology) -> u64 {
    try_run(world, topology).unwrap()
}

fn delete(world: &World, topics: &[&str]) {
    world.broker.admin().unwrap().delete(topics).unwrap();
}

fn create(world: &World, topic: &str) {
    create_with(world, topic, 1);
}

fn create_with(world: &World, topic: &str, partitions: i32) {
    let topic = NewTopic { name: topic.to_owned(), partitions, config: BTreeMap::new() };
    world.broker.admin().unwrap().create(&[topic]).unwrap();
}

fn is_there(world: &World, topic: &str) -> bool {
    world.broker.admin().unwrap().describe(&[topic]).unwrap().contains_key(topic)
}

/// The message of a start that finds that a topic is missing.
fn missing(world: &World, topology: &Topology) -> String {
    match try_run(world, topology) {
        Err(Ended::Start(StartError::Plan(PlanError::LostTopic(lost)))) => lost.to_string(),
        other => panic!("{other:?}"),
    }
}

/// The message of a run that finds that a topic is another one.
fn made_anew(world: &World, topology: &Topology) -> String {
    match try_run(world, topology) {
        Err(Ended::Run(RunError::Task { source: TaskError::LostTopic(lost), .. })) => {
            lost.to_string()
        }
        other => panic!("{other:?}"),
    }
}

/// Commits offset 0 of `lines`, as tools do that reset an application.
fn commit_without_facts(world: &World, offset: i64) {
    let options = ProducerOptions {
        transactional_id: None,
        transaction_timeout: std::time::Duration::from_secs(60),
        client_id: "tool".to_owned(),
    };
    let group = GroupMetadata { group: "app".into(), member: String::new(), generation: -1 };
    let at = CommittedOffset { offset: Offset(offset), metadata: String::new() };
    let offsets = [(TopicPartition::new("lines", 0), at)].into();
    world.broker.producer(&options).unwrap().commit_offsets(&offsets, &group).unwrap();
}

#[test]
fn a_changelog_that_is_missing_ends_the_start_and_is_not_made_anew() {
    // With the local state, and on a machine without any.
    for keep in [true, false] {
        let (world, topology) = (World::of_lines(1, &WORDS), counting());
        run(&world, &topology);
        delete(&world, &[CHANGELOG]);
        if !keep {
            world.disk.wipe();
        }
        for _ in 0..2 {
            let said = missing(&world, &topology);
            let topic =
                "internal topic `app-counts-changelog` was there at the last commit and is missing";
            assert!(said.contains(topic) && said.contains("reset the application"), "{said}");
        }
        assert!(!is_there(&world, CHANGELOG));
    }
}

#[test]
fn a_repartition_topic_that_is_missing_ends_the_start_though_its_offsets_went_with_it() {
    let (world, topology) = (World::of_lines(1, &WORDS), rekeyed(None));
    run(&world, &topology);
    let topics = world.broker.admin().unwrap().list().unwrap();
    let repartition = topics.into_iter().find(|t| t.name.ends_with("-repartition")).unwrap().name;
    delete(&world, &[&repartition]);
    assert!(missing(&world, &topology).contains(&repartition));
    assert!(!is_there(&world, &repartition));
}

#[test]
fn a_changelog_that_was_made_anew_ends_the_run_and_local_state_stays() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    delete(&world, &[CHANGELOG]);
    create(&world, CHANGELOG);
    // The stored position lies inside the new one: only the topic's identity tells.
    world.write(CHANGELOG, &[("b", "\0\0\0\0\0\0\0\x07", 0); 20]);
    let said = made_anew(&world, &topology);
    assert!(said.contains("`app-counts-changelog` was deleted and made anew"), "{said}");
    assert_eq!(world.totals(), running_counts(&WORDS), "nothing was processed");
    // The same on a machine without local state, which would not notice by itself.
    world.disk.wipe();
    made_anew(&world, &topology);
}

#[test]
fn a_task_that_never_committed_does_not_make_another_changelog_the_one_that_others_rely_on() {
    let (world, mut config) = (World::of_lines(2, &[]), config());
    config.workers = 2;
    let around = world.prepare(&counting(), &config).unwrap();
    let mut first = Worker::new(around.clone(), 0).unwrap();
    let mut second = Worker::new(around, 1).unwrap();
    world.settle(&mut [&mut first, &mut second]).unwrap();
    // Only the first one's task gets records.
    let own = first.slots.keys().next().unwrap().partition;
    let word =
        ["a", "b", "c", "d", "e"].into_iter().find(|word| partition_for(word.as_bytes(), 2) == own);
    let word = word.expect("one of them is on either partition");
    world.write("lines", &[(word, word, 0)]);
    world.settle(&mut [&mut first, &mut second]).unwrap();
    assert_eq!(world.totals(), [(word.to_owned(), 1)]);
    delete(&world, &[CHANGELOG]);
    create_with(&world, CHANGELOG, 2);
    second.close().unwrap();
    let ended = world.settle(&mut [&mut first]).unwrap_err();
    assert!(matches!(ended, RunError::Task { source: TaskError::LostTopic(_), .. }), "{ended:?}");
    assert!(ended.chain().contains("was deleted and made anew"), "{ended:?}");
}

#[test]
fn state_of_another_topic_is_kept_when_offsets_were_committed_by_somebody_else() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    delete(&world, &[CHANGELOG]);
    create(&world, CHANGELOG);
    commit_without_facts(&world, 0);
    assert!(made_anew(&world, &topology).contains("state directories"));
    // That is what the message says to do.
    world.disk.wipe();
    run(&world, &topology);
    assert_eq!(world.totals().split_off(WORDS.len()), running_counts(&WORDS));
}

#[test]
fn an_application_without_committed_offsets_starts_anew() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    run(&world, &topology);
    // The offsets go with the topic.
    delete(&world, &["lines", CHANGELOG]);
    create(&world, "lines");
    create(&world, CHANGELOG);
    world.write(CHANGELOG, &[("b", "\0\0\0\0\0\0\0\x07", 0); 20]);
    world.write("lines", &[("a", "a", 50), ("b", "b", 51)]);
    assert_eq!(run(&world, &topology), 20);
    let last = world.totals().split_off(WORDS.len());
    assert_eq!(last, [("a".to_owned(), 1), ("b".to_owned(), 8)]);
}

#[test]
fn a_topic_that_is_new_in_the_topology_is_made() {
    let world = World::of_lines(1, &WORDS);
    run(&world, &ticking());
    let before = world.totals().len();
    world.write("lines", &[("a", "a", 50)]);
    run(&world, &counting());
    assert!(is_there(&world, CHANGELOG));
    assert_eq!(world.totals().split_off(before), [("a".to_owned(), 1)]);
    // From now on it is relied on.
    delete(&world, &[CHANGELOG]);
    missing(&world, &counting());
}

#[test]
fn a_changelog_that_is_lost_while_it_is_written_ends_the_run() {
    let (world, topology) = (World::of_lines(1, &WORDS), counting());
    let around = world.prepare(&topology, &config()).unwrap();
    let mut worker = Worker::new(around, 0).unwrap();
    world.settle(&mut [&mut worker]).unwrap();
    delete(&world, &[CHANGELOG]);
    world.write("lines", &[("a", "a", 50)]);
    let ended = world.settle(&mut [&mut worker]).unwrap_err();
    let said = format!("{ended:?}");
    assert!(said.contains("app-counts-changelog"), "{said}");
    assert_eq!(world.totals(), running_counts(&WORDS));
}
