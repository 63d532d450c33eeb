//! Limits that make a worker commit or flush early.

use super::apps::{counting_cached, ticking};
use super::world::{World, config};
use crate::worker::{Cycle, Worker};

#[test]
fn an_open_transaction_is_committed_early_when_much_was_sent_also_without_stores() {
    for (bytes_max, commits) in [(60, 2), (20, 5), (64 << 20, 0)] {
        let world = World::of_lines(1, &["word-00"; 10]);
        let mut config = config();
        (config.transaction_bytes_max, config.turn_records_max) = (bytes_max, 1);
        let around = world.prepare(&ticking(), &config).unwrap();
        let mut worker = Worker::new(around.clone(), 0).unwrap();
        // The clock stands still: only the limit asks for a commit. A record has 15 bytes.
        while worker.run_once().unwrap() == Cycle::Worked {}
        assert_eq!(around.metrics.snapshot().commits, commits, "{bytes_max}");
        assert_eq!(world.totals().len() as u64, commits * (bytes_max as u64 / 15 + 1));
        worker.close().unwrap();
        assert_eq!(world.totals().len(), 10);
    }
}

#[test]
fn the_tasks_of_a_worker_share_its_record_cache() {
    // An update that waits takes 67 bytes or less: two of them fit into 160, but not into the half of it.
    for (partitions, flushed_early) in [(1, false), (2, true)] {
        let world = World::of_lines(partitions, &[]);
        let mut records = Vec::new();
        for key in ["a", "b", "c", "d"] {
            let of_key = thalweg_connectors::partition_for(key.as_bytes(), 2);
            if of_key == 0 {
                records.push((key, key, 1));
            }
        }
        records.truncate(2);
        records.push(records[0]);
        assert_eq!(records.len(), 3);
        world.write("lines", &records);
        let mut config = config();
        config.task.cache_max_bytes = 160;
        let mut worker = world.worker(&counting_cached(), &config);
        world.settle(&mut [&mut worker]).unwrap();
        let logged = world.read("app-counts-changelog").len();
        assert_eq!(logged, if flushed_early { 3 } else { 2 });
    }
}
