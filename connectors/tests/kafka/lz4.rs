//! RocksDB and librdkafka both compress with LZ4, and both bring it along: one program has to have it once, and both have to work.

use rocksdb::{DB, DBCompressionType, Options};

use crate::contract::support::*;
use crate::scoped::Scoped;
use crate::{bench_of, broker, cluster};

const ENTRIES: usize = 20_000;

fn entry(n: usize) -> (String, String) {
    (format!("key-{n:08}"), format!("{n} ").repeat(50))
}

fn bytes() -> u64 {
    (0..ENTRIES).map(entry).map(|(key, value)| (key.len() + value.len()) as u64).sum()
}

fn through_rocksdb() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_compression_type(DBCompressionType::Lz4);
    let db = DB::open(&options, directory.path()).unwrap();
    for (key, value) in (0..ENTRIES).map(entry) {
        db.put(key, value).unwrap();
    }
    db.flush().unwrap();
    db.compact_range::<&[u8], &[u8]>(None, None);
    let stored: usize = db.live_files().unwrap().iter().map(|file| file.size).sum();
    assert!((stored as u64) < bytes() / 4, "{stored} of {} bytes: not compressed", bytes());
    for (key, value) in (0..ENTRIES).map(entry) {
        assert_eq!(db.get(key).unwrap().as_deref(), Some(value.as_bytes()));
    }
}

fn through_kafka() {
    let bench = bench_of(Scoped::named(cluster(&[("compression.type", "lz4")]), "lz4"));
    bench.create("t", 1);
    let mut producer = bench.plain();
    let (slot, _) = producer.topic("t").unwrap();
    for (key, value) in (0..ENTRIES).map(entry) {
        let record = thalweg_connectors::NewRecord { key: Some(key.as_bytes()), ..text(&value) };
        producer.send(slot, 0, &record).unwrap();
    }
    producer.flush().unwrap();
    let reads = bench.read("t", 0, thalweg_connectors::Offset(0));
    assert_eq!(reads.len(), ENTRIES);
    for (n, read) in reads.into_iter().enumerate() {
        assert_eq!((read.key, read.value), (Some(entry(n).0), Some(entry(n).1)));
    }
}

/// The size of the largest log of a topic of this process, as the broker has it.
fn stored_by_the_broker() -> u64 {
    let arguments = ["--bootstrap-server", broker::address(), "--describe"];
    let said = broker::run("org.apache.kafka.tools.LogDirsCommand", &arguments, "");
    let json = said.lines().find(|line| line.starts_with('{')).unwrap();
    let told: serde_json::Value = serde_json::from_str(json).unwrap();
    let logs = told["brokers"][0]["logDirs"][0]["partitions"].as_array().unwrap();
    let ours = format!("s{}lz4", std::process::id());
    let of_ours = logs.iter().filter(|l| l["partition"].as_str().unwrap().starts_with(&ours));
    of_ours.map(|log| log["size"].as_u64().unwrap()).max().unwrap()
}

#[test]
fn rocksdb_and_kafka_compress_with_lz4_in_one_process_at_once() {
    std::thread::scope(|scope| {
        let rocksdb = scope.spawn(through_rocksdb);
        through_kafka();
        rocksdb.join().unwrap();
    });
    let stored = stored_by_the_broker();
    assert!(stored < bytes() / 4, "{stored} of {} bytes: not compressed", bytes());
}
