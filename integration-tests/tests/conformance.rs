//! The scenarios recorded from Kafka Streams, run in the test driver: those that are not on the list of expected failures give what
//! Kafka Streams gave, and give it also when the application restarts in the middle.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use thalweg_integration_tests::conformance::{
    Crash, ExpectedFailures, Report, RunOptions, run, run_all, scenario_files,
};

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance").join(name)
}

fn expected() -> ExpectedFailures {
    ExpectedFailures::parse(&fs::read_to_string(file("expected-failures.txt")).unwrap())
}

fn report(options: RunOptions) -> Report {
    let files = scenario_files(&[file("scenarios")]).unwrap();
    run_all(&files, |scenario| run(scenario, options))
}

fn assert_no_surprise(options: RunOptions) {
    let report = report(options);
    let surprises = expected().surprises(&report);
    assert!(surprises.is_empty(), "{surprises:#?}\n{report}");
}

#[test]
fn every_scenario_passes_or_is_on_the_list_of_expected_failures() {
    assert_no_surprise(RunOptions::default());
}

#[test]
fn every_scenario_on_the_list_of_expected_failures_exists() {
    let report = report(RunOptions::default());
    let names: BTreeSet<&str> = report.cases().iter().map(|case| &*case.name).collect();
    let expected = expected();
    let unknown: Vec<&str> = expected.names().filter(|name| !names.contains(name)).collect();
    assert_eq!(unknown, [""; 0]);
}

#[test]
fn the_readme_says_how_many_scenarios_pass() {
    let all = scenario_files(&[file("scenarios")]).unwrap().len();
    let told = format!("{} of {all} scenarios recorded", all - expected().names().count());
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("README.md");
    assert!(fs::read_to_string(readme).unwrap().contains(&told), "README.md has to say: {told}");
}

#[test]
fn a_restart_in_the_middle_with_the_stores_of_the_last_commit_changes_nothing() {
    let crash = Some(Crash::StoresKept);
    assert_no_surprise(RunOptions { crash, ..RunOptions::default() });
}

#[test]
fn a_restart_in_the_middle_with_stores_rebuilt_from_their_changelogs_changes_nothing() {
    let crash = Some(Crash::StoresLost);
    assert_no_surprise(RunOptions { crash, ..RunOptions::default() });
}

#[cfg(feature = "native")]
#[test]
fn stores_on_rocksdb_give_what_stores_in_memory_give() {
    let engine = thalweg_integration_tests::conformance::EngineKind::RocksDb;
    assert_no_surprise(RunOptions { engine, ..RunOptions::default() });
}
