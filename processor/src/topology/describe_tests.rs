#![allow(clippy::unwrap_used, reason = "a test panics on failure")]

use std::any::Any;
use std::sync::Arc;

use thalweg_connectors::Topic;

use super::{NodeDescriptionKind, hash_ordered};
use crate::{
    Context, Node, NodeResult, NodeSupplier, SinkTopic, SourceDef, Store, StoreDecl,
    TimestampExtractor, TopicRef, TopologyBuilder,
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

fn source(topics: &[TopicRef]) -> SourceDef {
    let topic = Topic::<String, String>::new("any");
    let serdes = (Arc::clone(topic.key_serde()), Arc::clone(topic.value_serde()));
    SourceDef::new(topics.to_vec(), serdes, TimestampExtractor::Default, None)
}

fn external(name: &str) -> TopicRef {
    TopicRef::External(name.into())
}

/// The graph of the scenario `composition/merge-rekeyed`, with a dynamic sink at its end.
fn merged() -> TopologyBuilder {
    let mut b = TopologyBuilder::new();
    let hop = TopicRef::Internal("mg-repartition".into());
    b.add_source("KSTREAM-SOURCE-0000000000", source(&[external("a")])).unwrap();
    b.add_source("KSTREAM-SOURCE-0000000001", source(&[external("c2"), external("c1")])).unwrap();
    b.add_processor("KSTREAM-KEY-SELECT-0000000002", idle(), &["KSTREAM-SOURCE-0000000000"])
        .unwrap();
    let both = ["KSTREAM-SOURCE-0000000001", "KSTREAM-KEY-SELECT-0000000002"];
    b.add_processor("KSTREAM-MERGE-0000000003", idle(), &both).unwrap();
    b.add_processor("mg-repartition-filter", idle(), &["KSTREAM-MERGE-0000000003"]).unwrap();
    b.add_sink(
        "mg-repartition-sink",
        SinkTopic::Fixed(hop.clone()),
        idle(),
        &["mg-repartition-filter"],
    )
    .unwrap();
    b.add_source("mg-repartition-source", source(&[hop])).unwrap();
    b.add_processor("KSTREAM-AGGREGATE-0000000004", idle(), &["mg-repartition-source"]).unwrap();
    let store = Store::<String, i64>::key_value("c");
    b.add_store(store.def().clone(), &["KSTREAM-AGGREGATE-0000000004"]).unwrap();
    let extracted = SinkTopic::Extracted("EXTRACTOR".into());
    b.add_sink("out", extracted, idle(), &["KSTREAM-AGGREGATE-0000000004"]).unwrap();
    b
}

#[test]
fn the_text_is_that_of_kafka_streams() {
    let text = "\
Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [a])
      --> KSTREAM-KEY-SELECT-0000000002
    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
      --> KSTREAM-MERGE-0000000003
      <-- KSTREAM-SOURCE-0000000000
    Source: KSTREAM-SOURCE-0000000001 (topics: [c1, c2])
      --> KSTREAM-MERGE-0000000003
    Processor: KSTREAM-MERGE-0000000003 (stores: [])
      --> mg-repartition-filter
      <-- KSTREAM-SOURCE-0000000001, KSTREAM-KEY-SELECT-0000000002
    Processor: mg-repartition-filter (stores: [])
      --> mg-repartition-sink
      <-- KSTREAM-MERGE-0000000003
    Sink: mg-repartition-sink (topic: mg-repartition)
      <-- mg-repartition-filter

  Sub-topology: 1
    Source: mg-repartition-source (topics: [mg-repartition])
      --> KSTREAM-AGGREGATE-0000000004
    Processor: KSTREAM-AGGREGATE-0000000004 (stores: [c])
      --> out
      <-- mg-repartition-source
    Sink: out (extractor class: EXTRACTOR)
      <-- KSTREAM-AGGREGATE-0000000004

";
    assert_eq!(merged().build().unwrap().describe().to_string(), text);
}

#[test]
fn a_description_can_be_walked() {
    let description = merged().build().unwrap().describe();
    let names: Vec<_> = description.sub_topologies[1].nodes.iter().map(|n| &*n.name).collect();
    assert_eq!(names, ["mg-repartition-source", "KSTREAM-AGGREGATE-0000000004", "out"]);
    let stores = NodeDescriptionKind::Processor { stores: vec!["c".into()] };
    assert_eq!(description.sub_topologies[1].nodes[1].kind, stores);
}

#[test]
fn a_node_without_children_goes_to_none() {
    let mut b = TopologyBuilder::new();
    b.add_source("s", source(&[external("t")])).unwrap();
    b.add_processor("p", idle(), &["s"]).unwrap();
    let text = b.build().unwrap().describe().to_string();
    assert!(
        text.ends_with("    Processor: p (stores: [])\n      --> none\n      <-- s\n\n"),
        "{text}"
    );
}

/// Orders that Kafka Streams printed; names that fall together stay as they were declared.
#[test]
fn several_stores_are_in_the_order_of_a_java_hash_set() {
    for (expected, fall_together) in [
        (["KSTREAM-JOINTHIS-0000000004-store", "KSTREAM-OUTERSHARED-0000000004-store"], true),
        (["KSTREAM-OUTEROTHER-0000000005-store", "KSTREAM-OUTERSHARED-0000000004-store"], false),
        (["KSTREAM-OUTERSHARED-0000000018-store", "KSTREAM-JOINTHIS-0000000018-store"], false),
        (["js-outer-shared-join-store", "js-outer-other-join-store"], false),
        (["gj-Buffer", "vt"], false),
    ] {
        let names: Vec<Arc<str>> = expected.iter().map(|name| Arc::from(*name)).collect();
        let turned: Vec<_> = names.iter().rev().cloned().collect();
        assert_eq!(hash_ordered(names.clone()), names);
        let from_turned = hash_ordered(turned.clone());
        assert_eq!(from_turned, if fall_together { turned } else { names });
    }
}
