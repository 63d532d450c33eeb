//! The names of nodes and stores are those of Kafka Streams, and so is the description.

use thalweg::{Joined, Materialized, Name, StreamsBuilder};

use crate::support::text;

#[test]
fn generated_names_are_numbered_as_in_kafka_streams() {
    let builder = StreamsBuilder::new();
    let table = builder.table(&text("tab"), Name::kafka_generated());
    let counts = builder
        .stream(&text("in"))
        .group_by(Name::kafka_generated(), |_, v| v.clone())
        .count(Name::kafka_generated());
    counts.to(&crate::support::numbers("counts"));
    builder
        .stream(&text("in2"))
        .left_join_table_via(Joined::kafka_generated(), &table, |_, v, _| v.clone())
        .to(&text("out"));
    let topology = builder.build().unwrap();
    let names: Vec<_> = topology.nodes().map(|n| n.name.to_string()).collect();
    assert_eq!(
        names,
        [
            "KSTREAM-SOURCE-0000000001",
            "KTABLE-SOURCE-0000000002",
            "KSTREAM-SOURCE-0000000003",
            "KSTREAM-KEY-SELECT-0000000004",
            "KSTREAM-FILTER-0000000008",
            "KSTREAM-SINK-0000000007",
            "KSTREAM-SOURCE-0000000009",
            "KSTREAM-AGGREGATE-0000000006",
            "KTABLE-TOSTREAM-0000000010",
            "KSTREAM-SINK-0000000011",
            "KSTREAM-SOURCE-0000000012",
            "KSTREAM-LEFTJOIN-0000000013",
            "KSTREAM-SINK-0000000014"
        ]
    );
    let stores: Vec<_> = topology.stores().map(|s| s.def.name.to_string()).collect();
    assert_eq!(stores, ["tab-STATE-STORE-0000000000", "KSTREAM-AGGREGATE-STATE-STORE-0000000005"]);
}

#[test]
fn given_names_name_nodes_stores_and_topics() {
    let builder = StreamsBuilder::new();
    let table = builder.table(&text("in"), "rows").filter(|_, _| true).named("all");
    table
        .group_by("by-value", |k, v: &String| (v.clone(), k.clone()))
        .count(Materialized::named("counts"))
        .named("counting")
        .to(&crate::support::numbers("out"))
        .named("sink");
    let topology = builder.build().unwrap();
    let names: Vec<_> = topology.nodes().map(|n| n.name.to_string()).collect();
    assert_eq!(
        names,
        [
            "KSTREAM-SOURCE-0000000000",
            "KTABLE-SOURCE-0000000001",
            "all",
            "by-value",
            "counting-sink",
            "counting-source",
            "counting",
            "KTABLE-TOSTREAM-0000000007",
            "sink"
        ]
    );
    let stores: Vec<_> = topology.stores().map(|s| s.def.name.to_string()).collect();
    assert_eq!(stores, ["rows", "counts"]);
    assert!(topology.internal_topics().contains_key("by-value-repartition"));
}
