//! Beside the Java client.

use std::collections::BTreeMap;

use thalweg_connectors::*;

use crate::broker;
use crate::cluster;
use crate::contract::support::{at, tp};

const PARTITIONS: i32 = 7;

fn keys() -> Vec<String> {
    let mut keys: Vec<_> = (0..500).map(|n| format!("key-{n}")).collect();
    keys.extend(["ä€😀", "x", "ab", "abc", "abcd"].map(String::from));
    keys.push("long ".repeat(100));
    keys
}

/// The keys of each partition, as they lie there.
fn read(backend: &SharedBackend, topic: &str, count: usize) -> BTreeMap<i32, Vec<String>> {
    let options = ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "r".into() };
    let mut consumer = backend.consumer(&options).unwrap();
    let all: Vec<_> = (0..PARTITIONS).map(|p| (tp(topic, p), Offset(0))).collect();
    consumer.assign(&all).unwrap();
    let mut keys = BTreeMap::<i32, Vec<String>>::new();
    while keys.values().map(Vec::len).sum::<usize>() < count {
        let mut fetched = Vec::new();
        consumer.poll(std::time::Duration::from_secs(30), 1000, &mut fetched).unwrap();
        assert!(!fetched.is_empty(), "only {keys:?}");
        for run in fetched {
            let key = |i| String::from_utf8(run.records.get(i).key.unwrap().to_vec()).unwrap();
            let keys = keys.entry(run.partition.partition).or_default();
            keys.extend((0..run.records.len()).map(key));
        }
    }
    keys
}

#[test]
fn java_puts_keys_where_we_do_and_reads_what_we_write() {
    let backend = cluster(&[]);
    let (topic, keys) = (format!("java-{}", std::process::id()), keys());
    let new = NewTopic { name: topic.clone(), partitions: PARTITIONS, config: BTreeMap::new() };
    backend.admin().unwrap().create(&[new]).unwrap();

    let input: String = keys.iter().map(|key| format!("{key}\tvalue\n")).collect();
    let (server, property) = (["--bootstrap-server", broker::address()], "--reader-property");
    let mut arguments = vec!["--topic", &topic, property, "parse.key=true"];
    arguments.extend(server);
    broker::run("org.apache.kafka.tools.ConsoleProducer", &arguments, &input);
    let placed = read(&backend, &topic, keys.len());
    for (partition, keys) in &placed {
        for key in keys {
            assert_eq!(partition_for(key.as_bytes(), PARTITIONS), *partition, "{key:?}");
        }
    }
    assert_eq!(placed.values().map(Vec::len).sum::<usize>(), keys.len());

    // The other way round: Java's consumer says the partition of what we have placed.
    let options = ProducerOptions {
        transactional_id: None,
        transaction_timeout: std::time::Duration::from_secs(60),
        client_id: "w".into(),
    };
    let mut producer = backend.producer(&options).unwrap();
    let (slot, partitions) = producer.topic(&topic).unwrap();
    for key in &keys {
        let record = NewRecord { key: Some(key.as_bytes()), ..at("ours", 7) };
        producer.send(slot, partition_for(key.as_bytes(), partitions), &record).unwrap();
    }
    producer.flush().unwrap();
    let total = (2 * keys.len()).to_string();
    let mut arguments = vec!["--topic", &topic, "--from-beginning", "--max-messages", &total];
    arguments.extend(server);
    for property in ["print.key=true", "print.partition=true"] {
        arguments.extend(["--formatter-property", property]);
    }
    let printed = broker::run("org.apache.kafka.tools.consumer.ConsoleConsumer", &arguments, "");
    let mut seen = BTreeMap::<&str, Vec<(&str, &str)>>::new();
    for line in printed.lines() {
        let [partition, key, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line:?}");
        };
        seen.entry(key).or_default().push((partition, value));
    }
    for key in &keys {
        let [(java, "value"), (ours, "ours")] = seen[key.as_str()][..] else {
            panic!("{key:?}: {:?}", seen[key.as_str()]);
        };
        assert_eq!(java, ours, "{key:?}");
    }
}
