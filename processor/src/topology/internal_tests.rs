#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use thalweg_connectors::{Topic, Utf8};

use super::InternalTopicKind::{Changelog, Repartition, SourceAsChangelog};
use crate::{
    Context, InternalTopic, Node, NodeResult, NodeSupplier, SourceDef, Store, StoreDecl, StoreDef,
    TimestampExtractor, TopicRef, Topology, TopologyBuilder,
};

struct Idle;

impl Node for Idle {
    fn process(&mut self, _slot: &mut dyn Any, _context: &mut Context<'_>) -> NodeResult {
        Ok(())
    }
}

fn idle() -> NodeSupplier {
    Arc::new(|_| Ok(Box::new(Idle)))
}

fn with_sources(topics: &[TopicRef]) -> TopologyBuilder {
    let mut b = TopologyBuilder::new();
    for topic in topics {
        let any = Topic::<String, String>::new("any");
        let serdes = (Arc::clone(any.key_serde()), Arc::clone(any.value_serde()));
        let def = SourceDef::new(vec![topic.clone()], serdes, TimestampExtractor::Default, None);
        b.add_source(topic.name(), def).unwrap();
    }
    b
}

fn with_store(def: StoreDef, source_as_changelog: bool) -> Topology {
    let input = TopicRef::External("in".into());
    let mut b = with_sources(std::slice::from_ref(&input));
    b.add_processor("p", idle(), &["in"]).unwrap();
    let name = Arc::clone(&def.name);
    b.add_store(def, &["p"]).unwrap();
    if source_as_changelog {
        b.source_as_changelog(&name, input).unwrap();
    }
    b.build().unwrap()
}

fn window(retention_ms: u64, size_ms: u64) -> Store<String, String, crate::Window> {
    let lengths = (Duration::from_millis(retention_ms), Duration::from_millis(size_ms));
    Store::window_with("w", lengths, Utf8, Utf8)
}

/// Expected sides are of the scenarios `window-time/tumbling`, `join-stream-stream/inner`, `naming/changelog-config` and
/// `optimization/reuse-source-on`.
#[test]
fn a_changelog_is_configured_as_kafka_streams_does() {
    let key_value = Store::<String, String>::key_value("c");
    let own = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    };
    let (log, create) = ("cleanup.policy", ("message.timestamp.type", "CreateTime"));
    let table = [
        (key_value.clone(), false, "app-c-changelog", Changelog, own(&[(log, "compact"), create])),
        (
            key_value
                .clone()
                .changelog_config(own(&[("min.insync.replicas", "2"), (log, "delete")])),
            false,
            "app-c-changelog",
            Changelog,
            own(&[(log, "delete"), create, ("min.insync.replicas", "2")]),
        ),
        (key_value, true, "in", SourceAsChangelog, own(&[(log, "compact"), create])),
    ];
    for (store, as_changelog, name, kind, config) in table {
        let topics = with_store(store.def().clone(), as_changelog).internal_topics_for("app");
        assert_eq!((topics.len(), &*topics[0].name, topics[0].kind), (1, name, kind));
        assert_eq!(topics[0].config, config);
    }
    let windows = [
        (window(2_000, 1_000).def().clone(), "compact,delete", "86402000"),
        (window(120, 60).retain_duplicates().def().clone(), "delete", "86400120"),
        (
            window(7_200_000, 1).changelog_config(own(&[("retention.ms", "123456")])).def().clone(),
            "compact,delete",
            "123456",
        ),
    ];
    for (def, policy, retention) in windows {
        let topics = with_store(def, false).internal_topics_for("app");
        assert_eq!(topics[0].config, own(&[(log, policy), create, ("retention.ms", retention)]));
    }
    let silent = Store::<String, String>::key_value("c").without_changelog();
    assert_eq!(with_store(silent.def().clone(), false).internal_topics_for("app"), []);
}

#[test]
fn a_repartition_topic_keeps_everything_until_it_is_consumed() {
    let mut b = with_sources(&[TopicRef::Internal("x-repartition".into())]);
    b.add_internal_topic("x-repartition", InternalTopic { partitions: Some(3) }).unwrap();
    let topics = b.build().unwrap().internal_topics_for("app");
    assert_eq!((&*topics[0].name, topics[0].kind), ("app-x-repartition", Repartition));
    assert_eq!(topics[0].partitions, Some(3));
    let config: Vec<_> = topics[0].config.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let expected = [
        ("cleanup.policy", "delete"),
        ("message.timestamp.type", "CreateTime"),
        ("retention.ms", "-1"),
        ("segment.bytes", "52428800"),
    ];
    assert_eq!(config, expected);
}

#[test]
fn copartition_groups_have_full_names_and_a_self_join_is_a_group_of_one() {
    let topics = ["r", "l", "alone"].map(|name| TopicRef::External(name.into()));
    let mut b = with_sources(&topics);
    let mut internal =
        with_sources(&[TopicRef::Internal("x-repartition".into()), topics[0].clone()]);
    internal.copartition(&["x-repartition", "r"]).unwrap();
    b.copartition(&["r", "l"]).unwrap();
    b.copartition(&["alone"]).unwrap();
    let groups = |b: TopologyBuilder| -> Vec<Vec<String>> {
        let groups = b.build().unwrap().copartition_groups_for("app");
        groups.iter().map(|g| g.iter().map(ToString::to_string).collect()).collect()
    };
    assert_eq!(groups(b), [vec!["alone"], vec!["l", "r"]]);
    assert_eq!(groups(internal), [["app-x-repartition", "r"]]);
}
