//! Streams joined with global tables.

use thalweg::{LocalState, StreamsBuilder, TaskConfig, TestDriver};

use crate::support::{pipe, text, texts};

fn joined(left: bool, partitions: i32) -> TestDriver {
    let builder = StreamsBuilder::new();
    let names = builder.global_table(&text("names"), "names");
    assert_eq!(names.queryable_store_name(), Some("names"));
    let select = |_: &Option<String>, v: &Option<String>| v.clone().filter(|v| v != "none");
    let value = |v: &Option<String>| v.clone().unwrap_or_default();
    let stream = builder.stream(&text("in"));
    match left {
        true => stream.left_join_global(&names, select, move |_, v, _, row| {
            Some(format!("{}+{}", value(v), row.map_or("nothing", |row: &String| row)))
        }),
        false => stream.join_global(&names, select, move |_, v, made, row: &String| {
            Some(format!("{}/{}+{row}", value(v), value(made)))
        }),
    }
    .to(&text("out"));
    let topology = builder.build().unwrap();
    let driver = TestDriver::builder(&topology, TaskConfig::new("app"));
    driver.default_partitions(partitions).start().unwrap()
}

#[test]
fn record_looks_up_the_key_made_of_it_and_keeps_its_own() {
    for partitions in [1, 3] {
        let mut driver = joined(false, partitions);
        let mut out = driver.output(&text("out"));
        pipe(&mut driver, &text("names"), &[("x", "X", 5), ("y", "Y", 6), ("x", "XX", 1)]);
        let records = [("1", "x", 1), ("", "y", 2), ("2", "z", 3), ("3", "none", 4), ("4", "", 5)];
        pipe(&mut driver, &text("in"), &records);
        let mut found = texts(&mut out);
        found.sort();
        assert_eq!(found, ["1=x/x+XX@1", "=y/y+Y@2"]);
        assert_eq!(
            driver.dropped_records(),
            2,
            "the one whose made key is null, and the null value"
        );
    }
}

#[test]
fn left_join_takes_records_without_a_row_or_a_made_key() {
    let mut driver = joined(true, 1);
    let mut out = driver.output(&text("out"));
    pipe(&mut driver, &text("names"), &[("x", "X", 5)]);
    pipe(&mut driver, &text("in"), &[("1", "x", 1), ("2", "z", 3), ("3", "none", 4), ("4", "", 5)]);
    assert_eq!(texts(&mut out), ["1=x+X@1", "2=z+nothing@3", "3=none+nothing@4"]);
    assert_eq!(driver.dropped_records(), 1);
}

#[test]
fn global_table_is_filled_anew_after_a_restart_and_forgets_deleted_rows() {
    for state in [LocalState::Kept, LocalState::Lost] {
        let mut driver = joined(true, 1);
        let mut out = driver.output(&text("out"));
        let names = [("x", "X", 5), ("y", "Y", 6), ("x", "", 1), ("", "no key", 2)];
        pipe(&mut driver, &text("names"), &names);
        driver.restart(state).unwrap();
        pipe(&mut driver, &text("in"), &[("1", "x", 1), ("2", "y", 2)]);
        assert_eq!(texts(&mut out), ["1=x+nothing@1", "2=y+Y@2"]);
        assert_eq!(driver.dropped_records(), 1, "the one without a key");
    }
}

#[test]
fn global_store_has_no_tasks_and_no_changelog() {
    let builder = StreamsBuilder::new();
    builder.global_table(&text("names"), "names");
    builder.stream(&text("in")).to(&text("out"));
    let topology = builder.build().unwrap();
    let described = topology.describe().to_string();
    let part = "Sub-topology: 0 for global store (will not generate tasks)\n    Source: KSTREAM-SOURCE-0000000000 (topics: [names])";
    assert!(described.contains(part), "{described}");
    assert!(topology.internal_topics_for("app").is_empty());
}
