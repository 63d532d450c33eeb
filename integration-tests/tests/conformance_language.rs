//! The conformance language is understood: every committed scenario parses, and its expectation is one that can be met.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use thalweg_integration_tests::conformance::{
    Expr, Outcome, Program, Scenario, Section, SerdeSpec, compare, scenario_files,
};

fn scenarios() -> Vec<Scenario> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/scenarios");
    let files: Vec<PathBuf> = scenario_files(std::slice::from_ref(&root)).unwrap();
    let of_the_format = files.iter().filter(|file| file.parent() == Some(&root));
    assert_eq!(of_the_format.count(), 272, "the scenarios of the format are all there");
    files
        .iter()
        .map(|file| Scenario::read(file).unwrap_or_else(|fault| panic!("{fault}")))
        .collect()
}

/// Parses every expression, program and serde below a step.
fn understand(name: &str, json: &Json) {
    let Json::Object(fields) = json else {
        return json.as_array().into_iter().flatten().for_each(|item| understand(name, item));
    };
    for (field, value) in fields {
        let parsed = match field.as_str() {
            "fn" | "sub" | "init" | "merger" | "key_fn" | "topic_expr" | "partitioner" | "expr" => {
                Expr::parse(value).map(drop)
            }
            "key" | "value" | "other_value" => SerdeSpec::parse(value).map(drop),
            "processor" if value.is_object() => {
                Section::of(value).and_then(|s| Program::parse(&s)).map(drop)
            }
            _ => {
                understand(name, value);
                Ok(())
            }
        };
        parsed.unwrap_or_else(|fault| panic!("{name}, field `{field}`: {fault}"));
    }
}

#[test]
fn every_step_of_every_scenario_is_understood() {
    for scenario in scenarios() {
        for step in &scenario.topology {
            let op = step.op().unwrap();
            let named = step.id().unwrap().is_some() || !matches!(op, "to" | "foreach" | "connect");
            assert!(named, "{}: step `{op}` has no id", scenario.name);
            for field in step.fields().collect::<Vec<_>>() {
                if let Some(value) = step.json(field) {
                    let wrapped = serde_json::json!({ field: value });
                    understand(&scenario.name, &wrapped);
                }
            }
        }
    }
}

#[test]
fn a_perfect_run_of_every_scenario_passes() {
    for scenario in scenarios() {
        let outcome = Outcome::expected(&scenario.expect).unwrap();
        assert_eq!(compare(&scenario, &outcome).unwrap(), [], "{}", scenario.name);
    }
}

#[test]
fn an_empty_run_fails_every_scenario_that_expects_anything() {
    for scenario in scenarios() {
        let expects_nothing = scenario.expect.iter().all(|(_, v)| match v {
            Json::Object(map) => map.values().all(|v| v.as_array().is_some_and(Vec::is_empty)),
            other => *other == 0,
        });
        let differences = compare(&scenario, &Outcome::default()).unwrap();
        assert_eq!(differences.is_empty(), expects_nothing, "{}", scenario.name);
    }
}
