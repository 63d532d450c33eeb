//! The optimizations that can be switched on.

use thalweg::{BuildConfig, Optimization, StreamsBuilder, TaskConfig, TestDriver, Topology};

use crate::support::{pipe, text};

fn merged(builder: &StreamsBuilder) -> Topology {
    let config = BuildConfig::new().optimize(Optimization::MergeRepartitionTopics);
    builder.build_with(&config).unwrap()
}

fn topics(topology: &Topology) -> Vec<String> {
    topology.internal_topics().keys().map(ToString::to_string).collect()
}

#[test]
fn groupings_behind_one_change_of_keys_share_the_first_topic() {
    let builder = StreamsBuilder::new();
    let moved = builder.stream(&text("in")).select_key(|_, v| v.clone());
    let long = moved.filter(|_, v| v.as_ref().is_some_and(|v| v.len() > 1));
    moved.group_by_key_via("first").count("counts");
    long.group_by_key_via("second").reduce("last", |_, v| v.clone());
    let topology = merged(&builder);
    assert_eq!(topics(&topology), ["first-repartition"]);
    let names: Vec<_> = topology.nodes().map(|n| n.name.to_string()).collect();
    let expected = [
        "KSTREAM-SOURCE-0000000000",
        "KSTREAM-KEY-SELECT-0000000001",
        "first-repartition-filter",
        "first-repartition-sink",
        "first-repartition-source",
        "KSTREAM-FILTER-0000000002",
        "KSTREAM-AGGREGATE-0000000003",
        "KSTREAM-REDUCE-0000000007",
    ];
    assert_eq!(names, expected);
    let mut driver = TestDriver::new(&topology, TaskConfig::new("app")).unwrap();
    pipe(&mut driver, "in", &["k=x@1", "k=yy@2", "k=yy@3"]);
    assert_eq!(driver.read_raw("app-counts-changelog").len(), 3);
    assert_eq!(driver.read_raw("app-last-changelog").len(), 2);
}

#[test]
fn a_change_of_values_in_between_keeps_a_topic_where_it_is() {
    let builder = StreamsBuilder::new();
    let moved = builder.stream(&text("in")).select_key(|_, v| v.clone());
    moved.group_by_key_via("first").count("a");
    moved.map_values(|_, _| 1_i64).group_by_key_via("second").count("b");
    assert_eq!(topics(&merged(&builder)), ["first-repartition", "second-repartition"]);
}

#[test]
fn a_repartition_of_the_users_stays() {
    let builder = StreamsBuilder::new();
    let moved = builder.stream(&text("in")).select_key(|_, v| v.clone());
    moved.repartition("mine").group_by_key().count("a");
    moved.group_by_key_via("other").count("b");
    assert_eq!(topics(&merged(&builder)), ["mine-repartition", "other-repartition"]);
}

#[test]
fn several_changes_of_keys_in_front_of_a_merge_share_a_topic_behind_it() {
    let builder = StreamsBuilder::new();
    let left = builder.stream(&text("in")).select_key(|_, v| v.clone());
    let right = builder.stream(&text("other")).select_key(|_, v| v.clone());
    let both = left.merge(&right);
    both.group_by_key_via("first").count("a");
    both.group_by_key_via("second").count("b");
    let topology = merged(&builder);
    assert_eq!(topics(&topology), ["first-repartition"]);
    let mut driver = TestDriver::new(&topology, TaskConfig::new("app")).unwrap();
    pipe(&mut driver, "in", &["k=x@1"]);
    pipe(&mut driver, "other", &["k=x@2"]);
    assert_eq!(driver.read_raw("app-b-changelog").len(), 2);
}

#[test]
fn nothing_is_merged_unless_asked_for() {
    let builder = StreamsBuilder::new();
    let moved = builder.stream(&text("in")).select_key(|_, v| v.clone());
    moved.group_by_key_via("first").count("a");
    moved.group_by_key_via("second").count("b");
    let topology = builder.build().unwrap();
    assert_eq!(topics(&topology), ["first-repartition", "second-repartition"]);
}
