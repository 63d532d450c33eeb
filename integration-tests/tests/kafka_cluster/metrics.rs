//! What three processes of an application say of themselves under `/metrics` and `/health/ready`, together.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thalweg_integration_tests::chaos::create_topics;

use crate::page::Page;
use crate::support::process::DEADLINE;
use crate::support::text::{counted_by_the_shell, end_of_lines, sources_of_rocksdb};
use crate::support::{Place, Process, Program};
use crate::{alone, assert_copies, broker};

const PARTITIONS: i32 = 6;
const BYTES: usize = 8 << 20;
const ID: &str = "told-of";
const COPIES: &str = "replication.factor=2";

fn page(process: &mut Process) -> Option<Page> {
    let (status, text) = process.get("/metrics")?;
    assert_eq!(status, 200);
    Some(Page::read(&text))
}

fn pages(processes: &mut [&mut Process]) -> Vec<Page> {
    processes.iter_mut().map(|process| page(process).unwrap()).collect()
}

fn is_ready(process: &mut Process) -> bool {
    let Some((status, state)) = process.get("/health/ready") else { return false };
    assert_eq!(status == 200, state == "running\n", "{status}: {state}");
    assert!(matches!(status, 200 | 503), "{status}: {state}");
    status == 200
}

/// Waits until the pages of all are as wanted.
fn until(
    what: &str,
    processes: &mut [&mut Process],
    wanted: impl Fn(&[Page]) -> bool,
) -> Vec<Page> {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let pages = pages(processes);
        if wanted(&pages) {
            return pages;
        }
        assert!(Instant::now() < deadline, "it is not so that {what}: {pages:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn total(pages: &[Page], name: &str) -> u64 {
    pages.iter().map(|page| page.sum(name)).sum::<f64>() as u64
}

/// The lag of each input partition; panics when two tell of one.
fn lags(pages: &[Page]) -> BTreeMap<(String, i32), u64> {
    let mut lags = BTreeMap::new();
    for (labels, lag) in pages.iter().flat_map(|page| page.of("thalweg_records_lag")) {
        let partition = (labels["topic"].clone(), labels["partition"].parse().unwrap());
        assert_eq!(lags.insert(partition.clone(), *lag as u64), None, "{partition:?} twice");
    }
    lags
}

fn all_partitions() -> Vec<(String, i32)> {
    let topics = ["lines".to_owned(), format!("{ID}-by-word-repartition")];
    topics.iter().flat_map(|topic| (0..PARTITIONS).map(move |p| (topic.clone(), p))).collect()
}

/// Each partition is told of once, and nothing is left to do.
fn is_drained(pages: &[Page]) -> bool {
    // A partition that moves may be told of twice for a moment.
    let told: usize = pages.iter().map(|page| page.of("thalweg_records_lag").len()).sum();
    told == all_partitions().len() && lags(pages).values().all(|lag| *lag == 0)
}

fn tasks(pages: &[Page]) -> Vec<u64> {
    pages.iter().map(|page| page.one("thalweg_tasks") as u64).collect()
}

/// Waits until a process is ready, and tells how often it was not. Whoever is ready has nothing left to restore.
fn await_ready(process: &mut Process) -> usize {
    let (deadline, mut not_ready) = (Instant::now() + DEADLINE, 0);
    while !is_ready(process) {
        not_ready += usize::from(process.get("/health/live").is_some());
        assert!(Instant::now() < deadline, "it is never ready");
        std::thread::sleep(Duration::from_millis(2));
    }
    let page = page(process).unwrap();
    assert_eq!(page.sum("thalweg_restore_remaining_records_total"), 0.0, "{page:#?}");
    assert!(page.one("thalweg_tasks") > 0.0, "{page:#?}");
    not_ready
}

/// What moves is counted where it leaves and where it comes.
fn assert_balanced(pages: &[Page], held: u64) {
    for [assigned, revoked] in [
        ["thalweg_task_assigned_total", "thalweg_task_revoked_total"],
        ["thalweg_partition_assigned_total", "thalweg_partition_revoked_total"],
    ] {
        assert_eq!(total(pages, assigned) - total(pages, revoked), held, "{assigned}: {pages:#?}");
    }
    assert_eq!(tasks(pages).iter().sum::<u64>(), held);
}

fn assert_commits_took_time(page: &Page) {
    let [last, max, avg, sum] = ["last_seconds", "max_seconds", "avg_seconds", "seconds_total"]
        .map(|name| page.one(&format!("thalweg_commit_latency_{name}")));
    let commits = page.one("thalweg_commit_total");
    assert!(commits > 0.0 && last > 0.0 && last <= max && avg <= max && max <= sum, "{page:#?}");
    assert!((avg * commits - sum).abs() < sum / 100.0 + 0.001, "{page:#?}");
}

#[test]
fn three_processes_tell_of_each_partition_once_and_of_what_moves_between_them() {
    let _alone = alone();
    create_topics(broker::address(), &["lines", "word-totals"], PARTITIONS).unwrap();
    let id = format!("application.id={ID}");
    let options = ["--set", &id, "--set", "session.timeout.ms=3000", "--set", COPIES];
    let mut place = Place::new(Program::WordCount, &options);
    place.broker = Some(format!("kafka://{}", broker::address()));
    let mut text = sources_of_rocksdb();
    text.truncate(end_of_lines(&text, BYTES));
    let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64;
    let counts = counted_by_the_shell(&place.append("text", &text));
    let words = counts.values().sum::<i64>() as u64;

    // One alone, with much to do.
    let mut a = place.start_in("state-a", &["run", "--input", "text"]);
    assert!(await_ready(&mut a) > 0, "it cannot be ready at once");
    until("it is behind, and tells how fast it reads", &mut [&mut a], |pages| {
        let is_behind = lags(pages).values().sum::<u64>() > 0;
        is_behind && total(pages, "thalweg_records_consumed_rate") > 0
    });
    assert_copies(ID, 2);
    let pages = until("it has done all", &mut [&mut a], is_drained);
    assert_eq!(lags(&pages).into_keys().collect::<Vec<_>>(), all_partitions());
    assert_eq!(total(&pages, "thalweg_process_total"), lines + words);
    assert_eq!(total(&pages, "thalweg_records_consumed_total"), lines + words);
    assert_eq!((total(&pages, "thalweg_dropped_records_total"), tasks(&pages)), (0, vec![12]));
    assert_balanced(&pages, 12);
    assert_commits_took_time(&pages[0]);

    // Two more: what they count has to be restored first.
    let mut b = place.start_in("state-b", &["run"]);
    assert!(await_ready(&mut b) > 0, "it has to restore");
    let mut c = place.start_in("state-c", &["run"]);
    assert!(await_ready(&mut c) > 0, "it has to restore");
    let third = |pages: &[Page]| tasks(pages) == [4, 4, 4] && is_drained(pages);
    let pages = until("each has a third", &mut [&mut a, &mut b, &mut c], third);
    assert_eq!(lags(&pages).into_keys().collect::<Vec<_>>(), all_partitions());
    assert_balanced(&pages, 12);
    let rebalances = pages.iter().map(|page| page.one("thalweg_rebalance_total"));
    let rebalances: Vec<f64> = rebalances.collect();
    assert!(rebalances[0] >= 3.0 && rebalances[1] >= 2.0 && rebalances[2] >= 1.0, "{rebalances:?}");
    assert_eq!(total(&pages, "thalweg_partition_lost_total"), 0);
    for (page, name) in pages[1..].iter().zip(["b", "c"]) {
        assert!(page.sum("thalweg_restore_total") > 0.0, "{name} has restored nothing: {page:#?}");
        let length = page.sum("thalweg_restore_changelog_length");
        assert!(length >= page.sum("thalweg_restore_total"), "{name}: {page:#?}");
    }

    // Something new is processed by all three, each a part.
    let before = total(&pages, "thalweg_process_total");
    place.append("text", b"one more\n");
    until("it is counted", &mut [&mut a, &mut b, &mut c], |pages| {
        total(pages, "thalweg_process_total") == before + 3 && is_drained(pages)
    });

    // What a process leaves behind when it is killed is told of by the others.
    c.kill();
    let pages = until("two have all", &mut [&mut a, &mut b], |pages| {
        tasks(pages) == [6, 6] && is_drained(pages)
    });
    assert_eq!(lags(&pages).into_keys().collect::<Vec<_>>(), all_partitions());
    for process in [a, b] {
        process.stop_and_kill(DEADLINE).succeeded();
    }
}
