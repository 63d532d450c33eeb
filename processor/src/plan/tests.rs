//! Partition counts, internal topics, and the mistakes that are found before the start.
#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

use std::collections::BTreeMap;
use std::sync::Arc;

use thalweg_connectors::{Admin, Backend, MemBroker, NewTopic, Share, Topic};

use super::{Plan, PlanError};
use crate::runtime::MissingOutputs;
use crate::{
    InternalTopic, SinkDef, SourceDef, TaskConfig, TimestampExtractor, TopicRef, Topology,
    TopologyBuilder,
};

type Text = Topic<String, String>;

fn internal(name: &str) -> TopicRef {
    TopicRef::Internal(Arc::from(name))
}

fn external(name: &str) -> TopicRef {
    TopicRef::External(Arc::from(name))
}

/// Edges of a topology: each source's topic is copied to a topic.
struct Flow(TopologyBuilder);

impl Flow {
    fn new() -> Self {
        Self(TopologyBuilder::new())
    }

    fn source(mut self, topic: TopicRef) -> Self {
        let name = topic.name().to_string();
        let typed = Text::new(name.as_str());
        let serdes = (Arc::clone(typed.key_serde()), Arc::clone(typed.value_serde()));
        let source = SourceDef::new(vec![topic], serdes, TimestampExtractor::Default, None);
        self.0.add_source(&name, source).unwrap();
        self
    }

    fn sink(mut self, from: &[&str], topic: TopicRef) -> Self {
        let typed = Arc::new(Text::new("any"));
        let (topic, supplier) = SinkDef::<String, String>::fixed(topic, typed).build();
        let name = format!("{from:?} to {topic:?}");
        self.0.add_sink(&name, topic, supplier, from).unwrap();
        self
    }

    fn hop(mut self, name: &str, partitions: Option<i32>) -> Self {
        self.0.add_internal_topic(name, InternalTopic { partitions }).unwrap();
        self
    }

    fn together(mut self, sources: &[&str]) -> Self {
        self.0.copartition(sources).unwrap();
        self
    }

    fn build(self) -> Topology {
        self.0.build().unwrap()
    }
}

fn admin(topics: &[(&str, i32)]) -> Box<dyn Admin> {
    let mut admin = MemBroker::new().admin().unwrap();
    let topic = |(name, partitions): &(&str, i32)| NewTopic {
        name: (*name).to_owned(),
        partitions: *partitions,
        config: BTreeMap::new(),
    };
    admin.create(&topics.iter().map(topic).collect::<Vec<_>>()).unwrap();
    admin
}

fn resolve(topology: &Topology, topics: &[(&str, i32)]) -> Result<Plan, PlanError> {
    Plan::resolve(topology, &TaskConfig::new("app"), &mut *admin(topics))
}

#[test]
fn a_repartition_topic_has_as_many_partitions_as_the_tasks_that_write_it() {
    let topology = Flow::new()
        .source(external("a"))
        .source(external("b"))
        .hop("h-repartition", None)
        .sink(&["a", "b"], internal("h-repartition"))
        .source(internal("h-repartition"))
        .hop("i-repartition", None)
        .sink(&["h-repartition"], internal("i-repartition"))
        .source(internal("i-repartition"))
        .build();
    let plan = resolve(&topology, &[("a", 2), ("b", 5)]).unwrap();
    assert_eq!(plan.partitions()["app-h-repartition"], 5);
    assert_eq!(plan.partitions()["app-i-repartition"], 5, "counts are passed on downstream");
    let upstream: Vec<Vec<u32>> =
        (0..3).map(|n| plan.part(n).upstream.iter().copied().collect()).collect();
    assert_eq!(upstream, [vec![], vec![0], vec![1]]);
}

#[test]
fn an_explicit_number_of_partitions_stands() {
    let topology = Flow::new()
        .source(external("a"))
        .hop("h-repartition", Some(7))
        .sink(&["a"], internal("h-repartition"))
        .source(internal("h-repartition"))
        .build();
    let plan = resolve(&topology, &[("a", 2)]).unwrap();
    assert_eq!(plan.shares().len(), 9);
    assert!(plan.shares().contains(&Share { group: 1, partition: 6 }));
    let names: Vec<_> =
        plan.internal_topics().iter().map(|t| (t.name.as_str(), t.partitions)).collect();
    assert_eq!(names, [("app-h-repartition", 7)]);
}

/// Two sources, one of them behind a repartition hop, that are read together.
fn join(hop: Option<i32>) -> Topology {
    Flow::new()
        .source(external("orders"))
        .hop("h-repartition", hop)
        .sink(&["orders"], internal("h-repartition"))
        .source(internal("h-repartition"))
        .source(external("users"))
        .together(&["h-repartition", "users"])
        .build()
}

#[test]
fn a_repartition_topic_takes_the_number_of_those_it_is_read_with() {
    let plan = resolve(&join(None), &[("orders", 2), ("users", 3)]).unwrap();
    assert_eq!(plan.partitions()["app-h-repartition"], 3);
}

#[test]
fn repartition_topics_that_are_read_together_take_the_largest_number() {
    let topology = Flow::new()
        .source(external("a"))
        .source(external("b"))
        .hop("ha-repartition", None)
        .hop("hb-repartition", None)
        .sink(&["a"], internal("ha-repartition"))
        .sink(&["b"], internal("hb-repartition"))
        .source(internal("ha-repartition"))
        .source(internal("hb-repartition"))
        .together(&["ha-repartition", "hb-repartition"])
        .build();
    let plan = resolve(&topology, &[("a", 2), ("b", 6)]).unwrap();
    let counts = plan.partitions();
    assert_eq!((counts["app-ha-repartition"], counts["app-hb-repartition"]), (6, 6));
}

#[test]
fn different_counts_of_topics_that_are_read_together_are_an_error_with_both() {
    let explicit = resolve(&join(Some(4)), &[("orders", 2), ("users", 3)]).unwrap_err();
    let text = explicit.to_string();
    assert!(text.contains("`users` has 3 and `app-h-repartition` has 4"), "{text}");
    let topology =
        Flow::new().source(external("a")).source(external("b")).together(&["a", "b"]).build();
    let text = resolve(&topology, &[("a", 1), ("b", 2)]).unwrap_err().to_string();
    assert!(text.contains("`a` has 1 and `b` has 2"), "{text}");
}

#[test]
fn a_repartition_topic_that_nobody_writes_needs_an_explicit_number() {
    let topology = Flow::new()
        .source(external("a"))
        .hop("h-repartition", None)
        .source(internal("h-repartition"));
    let text = resolve(&topology.build(), &[("a", 1)]).unwrap_err().to_string();
    assert!(text.contains("`app-h-repartition` follows from no source topic"), "{text}");
}

#[test]
fn a_missing_source_topic_is_named_with_similar_ones() {
    let topology = Flow::new().source(external("page-views")).build();
    let cases: [(&[(&str, i32)], &str); 3] = [
        (&[("page-view", 1), ("clicks", 1)], "did you mean \"page-view\"?"),
        (&[("zebra", 1)], "none of the 1 topics has a similar name (\"zebra\"); create it first"),
        (&[], "there are no topics yet; create it first"),
    ];
    for (topics, hint) in cases {
        let text = resolve(&topology, topics).unwrap_err().to_string();
        assert_eq!(text, format!("source topic `page-views` does not exist: {hint}"));
    }
}

#[test]
fn internal_topics_are_made_once_and_never_anew() {
    let mut admin = admin(&[("orders", 2), ("users", 3)]);
    let resolve = |admin: &mut dyn Admin, topology: &Topology| {
        Plan::resolve(topology, &TaskConfig::new("app"), admin).unwrap()
    };
    let plan = resolve(&mut *admin, &join(None));
    for _ in 0..2 {
        plan.create_topics(MissingOutputs::Fail, &mut *admin).unwrap();
    }
    admin.delete(&["users"]).unwrap();
    let users = NewTopic { name: "users".into(), partitions: 4, config: BTreeMap::new() };
    admin.create(&[users]).unwrap();
    let wider = resolve(&mut *admin, &join(None));
    let error = wider.create_topics(MissingOutputs::Fail, &mut *admin).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`app-h-repartition` has 3 partitions, but 4 are needed"), "{text}");
    let kept = admin.describe(&["app-h-repartition"]).unwrap();
    assert_eq!(kept["app-h-repartition"].partitions, 3);
}

#[test]
fn topic_of_dead_letters_has_to_be_there_like_any_output() {
    let mut admin = admin(&[("orders", 3), ("users", 3)]);
    let mut config = TaskConfig::new("app");
    config.dead_letter_topic = Some("dead".into());
    config.output_suffix = "-replay-x".into();
    let plan = Plan::resolve(&join(None), &config, &mut *admin).unwrap();
    let error = plan.create_topics(MissingOutputs::Fail, &mut *admin).unwrap_err().to_string();
    assert!(error.contains("output topic `dead-replay-x` does not exist"), "{error}");
    plan.create_topics(MissingOutputs::Create, &mut *admin).unwrap();
    assert_eq!(admin.describe(&["dead-replay-x"]).unwrap()["dead-replay-x"].partitions, 1);
}
