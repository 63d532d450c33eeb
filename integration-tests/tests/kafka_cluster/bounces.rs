//! One broker of three after the other is ended and started again: leaders move, and the coordinators of group and transactions.

use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::brokers::script;
use crate::world::{World, until};
use crate::{alone, assert_copies, broker};

const PARTITIONS: i32 = 6;
const PER_SECOND: u64 = 500;
/// Without a word to the others: `kill -9`.
const HARD: [&str; 2] = ["stop-broker", "--hard"];
/// How long a broker stays away after it has ended, and how long all are there then: replicas catch up within.
const PAUSE: Duration = Duration::from_secs(3);

/// Does something to one broker of the cluster.
fn do_to(what: &[&str], broker: &str) {
    let port = broker::address().split(',').next().unwrap().rsplit(':').next().unwrap();
    let output = Command::new(script()).args(what).args([broker, "--port", port]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn brokers_end_and_come_back_and_every_record_comes_out_exactly_once() {
    let _alone = alone();
    let mut world = World::new("bounced", PARTITIONS);
    let instances = ["a", "b"].map(|name| world.start(name, broker::address()));
    world.await_shared(&[&instances[0], &instances[1]]);
    // As many as the cluster gives by default.
    assert_copies(world.id(), 3);
    world.while_feeding(PER_SECOND, || {
        // All of them, so that the group's coordinator is among them, and those of the transactions.
        for (broker, how) in [("1", &["stop-broker"][..]), ("2", &HARD), ("3", &HARD)] {
            do_to(how, broker);
            thread::sleep(PAUSE);
            do_to(&["start-broker"], broker);
            let begun = Instant::now();
            for instance in &instances {
                let commits = || instance.metrics().snapshot().commits;
                let before = commits();
                until("it commits again", || commits() > before);
            }
            println!("broker {broker} is back, {:.1?} later all commit", begun.elapsed());
            thread::sleep(PAUSE);
        }
    });
    world.await_output();
    world.await_shared(&[&instances[0], &instances[1]]);
    world.assert_exact(instances.into());
}
