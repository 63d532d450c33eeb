//! Each rule of section 10, met and broken.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::conformance::ErrorKind;
use serde_json::json;

fn scenario(expect: Json) -> Scenario {
    let json = json!({
        "name": "f/s", "family": "f", "about": "", "topology": [], "inputs": {}, "input": [], "expect": expect,
        "outputs": {"out": {"key": "string", "value": "string"}, "raw": {"key": "raw", "value": "raw"}}
    });
    Scenario::parse(&json).unwrap()
}

/// Where an outcome, a perfect one changed by `change`, differs from the expectation.
fn differences(expect: Json, change: impl FnOnce(&mut Outcome)) -> Vec<Difference> {
    let scenario = scenario(expect);
    let mut outcome = Outcome::expected(&scenario.expect).unwrap();
    change(&mut outcome);
    compare(&scenario, &outcome).unwrap()
}

fn places(expect: Json, change: impl FnOnce(&mut Outcome)) -> Vec<String> {
    differences(expect, change).into_iter().map(|d| d.at).collect()
}

fn record(value: &str) -> Json {
    json!({"key": "k", "value": value, "timestamp": 1})
}

#[test]
fn records_are_compared_in_order_and_missing_ones_shown() {
    let expect =
        json!({"topics": {"out": [record("1"), record("2")], "raw": []}, "dropped_records": 0});
    assert_eq!(places(expect.clone(), |_| {}), [""; 0]);
    assert_eq!(
        places(expect.clone(), |o| o.topics.get_mut("out").unwrap().reverse()),
        ["topics.out[0]", "topics.out[1]"]
    );
    assert_eq!(
        places(expect.clone(), |o| o.topics.get_mut("out").unwrap().truncate(1)),
        ["topics.out[1]"]
    );
    assert_eq!(places(expect.clone(), |o| drop(o.topics.remove("raw"))), [""; 0]);
    let found = differences(expect, |o| o.topics.get_mut("raw").unwrap().push(record("3")));
    assert_eq!((found[0].aspect, found[0].expected.as_str()), (Aspect::NamesOrBytes, "nothing"));
}

#[test]
fn a_long_list_of_differences_is_cut() {
    let found = places(json!({"topics": {"out": []}}), |o| {
        o.topics.insert("out".into(), vec![record("x"); 10]);
    });
    assert_eq!(found, ["topics.out[0]", "topics.out[1]", "topics.out[2]", "topics.out, more"]);
}

#[test]
fn headers_match_in_order_and_any_matches_anything() {
    let expect =
        json!({"topics": {"out": [{"key": "k", "headers": [["a", {"any": true}], ["b", "1"]]}]}});
    let with = |headers: Json| {
        places(expect.clone(), |o| o.topics.get_mut("out").unwrap()[0]["headers"] = headers)
            .is_empty()
    };
    assert!(with(json!([["a", null], ["b", "1"]])));
    assert!(with(json!([["a", {"hex": "00"}], ["b", "1"]])));
    assert!(!with(json!([["b", "1"], ["a", "x"]])));
    assert!(!with(json!([["a", "x"]])));
}

#[test]
fn integers_and_doubles_differ_and_field_order_does_not_count() {
    assert!(!matches(&json!(1), &json!(1.0)));
    assert!(matches(&json!({"a": 1, "b": 2}), &json!({"b": 2, "a": 1})));
    assert!(!matches(&json!({"a": 1}), &json!({"a": 1, "headers": []})));
}

#[test]
fn key_value_stores_have_an_order_and_window_stores_are_sets() {
    let plain = json!({"stores": {"s": [{"key": "a", "value": 1}, {"key": "b", "value": 2}]}});
    assert_eq!(
        places(plain.clone(), |o| o.stores.get_mut("s").unwrap().entries.reverse()).len(),
        2
    );
    assert_eq!(places(plain, |o| o.stores.clear()), ["stores.s"]);
    let entry = |start: i64| json!({"key": {"key": "a", "start": start, "end": 30}, "value": 1});
    let windowed = json!({"stores": {"s": [entry(0), entry(10)]}});
    assert_eq!(
        places(windowed.clone(), |o| o.stores.get_mut("s").unwrap().entries.reverse()),
        [""; 0]
    );
    assert_eq!(
        places(windowed, |o| o.stores.get_mut("s").unwrap().entries[1] = entry(20)),
        ["stores.s[1]"]
    );
}

#[test]
fn queries_across_the_keys_of_a_window_store_are_sets() {
    let expect = json!({"queries": [[1, 2], null]});
    let reversed = |ordered| {
        places(expect.clone(), |o| o.queries[0] = QueryResult { ordered, result: json!([2, 1]) })
            .is_empty()
    };
    assert!(reversed(false));
    assert!(!reversed(true));
    assert_eq!(places(expect.clone(), |o| o.queries[1].result = json!(0)), ["queries[1]"]);
    assert_eq!(places(expect, |o| drop(o.queries.pop())), ["queries[1]"]);
    assert!(crate::conformance::is_unordered_query("all", true));
    assert!(!crate::conformance::is_unordered_query("all", false));
    assert!(!crate::conformance::is_unordered_query("fetch", true));
}

#[test]
fn an_error_agrees_in_phase_index_and_kind_but_not_in_words() {
    let error = json!({
        "phase": "run", "input_index": 2, "class": "StreamsException", "root": "NullPointerException", "message": "m"
    });
    let expect = json!({"error": error, "topics": {"out": [record("1")]}, "topics_of_failed_step": {"out": [record("2")]}});
    assert_eq!(
        places(expect.clone(), |o| o.error.as_mut().unwrap().message = "other".into()),
        [""; 0]
    );
    assert_eq!(
        places(expect.clone(), |o| o.error.as_mut().unwrap().input_index = Some(1)),
        ["error"]
    );
    assert_eq!(
        places(expect.clone(), |o| o.error.as_mut().unwrap().kind = ErrorKind::GaveUp),
        ["error"]
    );
    assert_eq!(
        places(expect.clone(), |o| o.error.as_mut().unwrap().phase = Phase::Start),
        ["error"]
    );
    assert_eq!(places(expect.clone(), |o| o.error = None), ["error"]);
    assert_eq!(
        places(expect.clone(), |o| o.topics_of_failed_step.clear()),
        ["topics_of_failed_step.out[0]"]
    );
    assert_eq!(places(expect, |o| o.dropped_records = 9), [""; 0]);
    let fine = json!({"topics": {}, "dropped_records": 1});
    assert_eq!(places(fine.clone(), |o| o.dropped_records = 0), ["dropped_records"]);
    let failure = Failure {
        phase: Phase::Start,
        input_index: None,
        kind: ErrorKind::BadConfig,
        message: String::new(),
    };
    assert_eq!(places(fine, |o| o.error = Some(failure)), ["error"]);
}

#[test]
fn a_description_differs_by_line_but_not_by_the_order_of_children() {
    let describe = |children: &str| format!("Topologies:\n    Source: s\n      --> {children}\n\n");
    let expect = json!({"describe": describe("b, a"), "topics": {}});
    assert_eq!(places(expect.clone(), |o| o.describe = describe("a, b")), [""; 0]);
    let found = differences(expect.clone(), |o| o.describe = describe("a, c"));
    assert_eq!((found[0].at.as_str(), found[0].aspect), ("describe, line 3", Aspect::NamesOrBytes));
    assert_eq!(places(expect, |o| o.describe.truncate(20)), ["describe, line 2"]);
}

#[test]
fn names_are_compared_only_where_they_are_expected() {
    let topic = json!({"kind": "changelog", "config": {"b": "2", "a": "1"}});
    let expect = json!({"internal_topics": {"t": topic}, "copartition_groups": [["x", "y"], ["a"]], "topics": {}});
    assert_eq!(
        places(expect.clone(), |o| o.copartition_groups =
            vec![vec!["a".into()], vec!["y".into(), "x".into()]]),
        [""; 0]
    );
    assert_eq!(
        places(expect.clone(), |o| drop(o.copartition_groups.pop())),
        ["copartition_groups"]
    );
    assert_eq!(places(expect.clone(), |o| o.internal_topics.clear()), ["internal_topics.t"]);
    assert_eq!(places(expect, |o| o.store_names.push("s".into())), [""; 0]);
    let stores = json!({"store_names": ["b", "a"], "topics": {}});
    assert_eq!(places(stores.clone(), |o| o.store_names.reverse()), [""; 0]);
    assert_eq!(places(stores, |o| o.store_names.clear()), ["store_names"]);
    let branches = json!({"branches": {"sp": ["a", "b"]}, "calls": {"p": [1]}, "topics": {}});
    assert_eq!(
        places(branches.clone(), |o| o.branches.clear()),
        ["branches.sp[0]", "branches.sp[1]"]
    );
    assert_eq!(places(branches, |o| o.calls.clear()), ["calls.p[0]"]);
}
