//! Names and numbers of nodes are those of Kafka Streams, call for call.

use thalweg::{Consumed, Grouped, Produced, Repartitioned, StreamsBuilder, TopologyError};

use crate::support::{nodes, text};

#[test]
fn one_counter_numbers_all_generated_names() {
    let builder = StreamsBuilder::new();
    let source = builder.stream(&text("in"));
    let last = source
        .filter(|_, _| true)
        .filter_not(|_, _| false)
        .map(|k, v| (k.clone(), v.clone()))
        .map_values(|_, v| v.clone())
        .flat_map(|k, v| [(k.clone(), v.clone())])
        .flat_map_values(|_, v| [v.clone()])
        .select_key(|k, _| k.clone())
        .peek(|_, _| ())
        .merge(&source);
    last.for_each(|_, _| ());
    last.to(&text("out"));
    let expected = [
        "SOURCE-0000000000",
        "FILTER-0000000001",
        "FILTER-0000000002",
        "MAP-0000000003",
        "MAPVALUES-0000000004",
        "FLATMAP-0000000005",
        "FLATMAPVALUES-0000000006",
        "KEY-SELECT-0000000007",
        "PEEK-0000000008",
        "MERGE-0000000009",
        "FOREACH-0000000010",
        "SINK-0000000011",
    ];
    assert_eq!(nodes(&builder), expected.map(|name| format!("KSTREAM-{name}")));
}

#[test]
fn a_given_name_uses_its_number_up() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(Consumed::from(&text("in")).named("source"));
    let stream = stream.filter(|_, _| true).named("only-good").peek(|_, _| ());
    stream.for_each(|_, _| ()).named("end");
    stream.to(Produced::to(&text("out")).named("sink"));
    stream.map_values(|_, v| v.clone()).to(&text("out"));
    let expected = [
        "source",
        "only-good",
        "KSTREAM-PEEK-0000000002",
        "end",
        "sink",
        "KSTREAM-MAPVALUES-0000000005",
        "KSTREAM-SINK-0000000006",
    ];
    assert_eq!(nodes(&builder), expected);
}

#[test]
fn a_repartition_topic_burns_three_numbers_whatever_its_name() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in")).repartition("mine");
    let stream = stream.repartition(Repartitioned::kafka_generated());
    stream.to(&text("out"));
    let expected = [
        "KSTREAM-SOURCE-0000000000",
        "mine-repartition-filter",
        "mine-repartition-sink",
        "mine-repartition-source",
        "KSTREAM-FILTER-0000000006",
        "KSTREAM-SINK-0000000005",
        "KSTREAM-SOURCE-0000000007",
        "KSTREAM-SINK-0000000008",
    ];
    let topology = builder.build().unwrap();
    let names: Vec<_> = topology.nodes().map(|n| n.name.to_string()).collect();
    assert_eq!(names, expected);
    let topics: Vec<_> = topology.internal_topics().keys().map(ToString::to_string).collect();
    assert_eq!(topics, ["KSTREAM-REPARTITION-0000000004-repartition", "mine-repartition"]);
}

#[test]
fn the_name_of_a_grouping_is_that_of_its_key_selector_and_topic() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in"));
    stream.group_by("by-value", |_, v| v.clone()).count("counts");
    stream.group_by_key_via(Grouped::named("unused")).count("by-key");
    let expected = [
        "KSTREAM-SOURCE-0000000000",
        "by-value",
        "by-value-repartition-filter",
        "by-value-repartition-sink",
        "by-value-repartition-source",
        "KSTREAM-AGGREGATE-0000000002",
        "KSTREAM-AGGREGATE-0000000006",
    ];
    assert_eq!(nodes(&builder), expected);
}

#[test]
fn illegal_names_are_mistakes_of_the_topology() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(Consumed::from(&text("in")).named("a/b"));
    stream.filter(|_, _| true).named("").to(&text("no spaces"));
    let error = builder.build().unwrap_err();
    let names: Vec<_> = error
        .errors()
        .iter()
        .map(|e| match e {
            TopologyError::IllegalName { name, .. } => name.as_str(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(names, ["a/b", "", ""]);
}
