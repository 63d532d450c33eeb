//! From the start of a process to the state `running`, on a broker that is there, with topics that are there.

use std::time::{Duration, Instant};

use crate::support::process::DEADLINE;
use crate::support::{Place, Program};
use crate::{alone, broker};

/// How often it is asked whether it runs.
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// How often it is started; the fastest counts: whatever else the machine does can only make it slower.
const STARTS: usize = 7;

fn starts_within(guarantee: &str, limit: Duration) {
    let _alone = alone();
    let mut place = Place::new(Program::WordCount, &["--guarantee", guarantee]);
    place.broker = Some(format!("kafka://{}", broker::address()));
    place.append("text", b"one two\ntwo three\n");
    // Makes the topics, and something that has to be restored by nobody.
    place.run(&["run", "--until-end", "--input", "text", "--output", "results"]);
    let start = || {
        let mut process = place.start(&["run"]);
        while process.get("/health/ready").is_none_or(|(status, _)| status != 200) {
            assert!(process.age() < DEADLINE, "it does not run");
            process.watch_until(Instant::now() + LOOK_INTERVAL);
        }
        let took = process.age();
        process.stop_and_kill(DEADLINE).succeeded();
        took
    };
    let mut took: Vec<Duration> = (0..STARTS).map(|_| start()).collect();
    took.sort_unstable();
    println!("{guarantee}: running after {took:.0?}");
    assert!(took[0] <= limit, "{guarantee}: it takes {took:?}");
}

#[test]
fn at_least_once_it_runs_within_half_a_second() {
    starts_within("at_least_once", Duration::from_millis(500));
}

#[test]
fn exactly_once_it_runs_within_1200_ms() {
    starts_within("exactly_once", Duration::from_millis(1200));
}
