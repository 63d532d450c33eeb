//! Dependencies between the crates of the workspace, and how manifests declare dependencies.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::assert_none;
use crate::tree::{metadata, read, read_toml};

const ANY: &[&str] = &["*"];

/// Who may depend on whom, in the order of the picture in ARCHITECTURE.md. A new arrow needs a decision record.
const ARROWS: &[(&str, &[&str])] = &[
    ("thalweg-connectors", &[]),
    ("thalweg-state", &[]),
    ("thalweg-txn", &["thalweg-connectors"]),
    ("thalweg-processor", &["thalweg-state", "thalweg-txn", "thalweg-connectors"]),
    ("thalweg", &["thalweg-processor", "thalweg-state", "thalweg-connectors"]),
    ("thalweg-examples", ANY),
    ("thalweg-integration-tests", ANY),
];

const CORE: [&str; 3] = ["processor", "txn", "state"];
const MEMBERS: [&str; 7] =
    ["connectors", "state", "txn", "processor", "dsl", "examples", "integration-tests"];

/// Package name to the names of the packages it depends on, build and dev dependencies included.
fn dependencies(metadata: &Value) -> BTreeMap<String, Vec<String>> {
    let name = |value: &Value| value["name"].as_str().unwrap().to_owned();
    let packages = metadata["packages"].as_array().unwrap();
    packages
        .iter()
        .map(|p| (name(p), p["dependencies"].as_array().unwrap().iter().map(name).collect()))
        .collect()
}

fn undrawn_arrows(dependencies: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let mut violations = Vec::new();
    for (from, targets) in dependencies {
        let Some((_, drawn)) = ARROWS.iter().find(|(name, _)| name == from) else {
            violations.push(format!("package '{from}' is not part of the architecture"));
            continue;
        };
        let inside = targets.iter().filter(|to| dependencies.contains_key(*to) && *to != from);
        for to in inside.filter(|to| *drawn != ANY && !drawn.contains(&to.as_str())) {
            violations.push(format!("'{from}' must not depend on '{to}'"));
        }
    }
    violations
}

#[test]
fn crates_depend_on_each_other_only_as_drawn() {
    let dependencies = dependencies(&metadata(&["--no-deps"]));
    let names: Vec<_> = dependencies.keys().map(String::as_str).collect();
    let mut expected: Vec<_> = ARROWS.iter().map(|(name, _)| *name).collect();
    expected.sort_unstable();
    assert_eq!(names, expected);
    assert_none(&undrawn_arrows(&dependencies));
}

#[test]
fn an_arrow_that_is_not_drawn_is_found() {
    let metadata = serde_json::json!({"packages": [
        {"name": "thalweg-state", "dependencies": [{"name": "thalweg-connectors"}, {"name": "bytes"}]},
        {"name": "thalweg-connectors", "dependencies": [{"name": "thalweg-examples", "kind": "dev"}]},
        {"name": "thalweg-txn", "dependencies": [{"name": "thalweg-connectors"}]},
        {"name": "thalweg-examples", "dependencies": [{"name": "thalweg-txn"}]},
        {"name": "thalweg-common", "dependencies": []},
    ]});
    assert_eq!(
        undrawn_arrows(&dependencies(&metadata)),
        [
            "package 'thalweg-common' is not part of the architecture",
            "'thalweg-connectors' must not depend on 'thalweg-examples'",
            "'thalweg-state' must not depend on 'thalweg-connectors'",
        ]
    );
}

/// Dependencies are declared once, in the workspace manifest, and the workspace's lints bind every crate.
fn manifest_violations(path: &str, manifest: &toml::Table) -> Vec<String> {
    let inherits = |value: &toml::Value| {
        value.get("workspace").and_then(toml::Value::as_bool).unwrap_or(false)
    };
    let mut violations = Vec::new();
    if !manifest.get("lints").is_some_and(inherits) {
        violations.push(format!("{path}: lints are not those of the workspace"));
    }
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(table) = manifest.get(section).and_then(toml::Value::as_table) else {
            continue;
        };
        for (name, _) in table.iter().filter(|(_, value)| !inherits(value)) {
            violations.push(format!("{path}: '{name}' in [{section}] is not `workspace = true`"));
        }
    }
    violations
}

#[test]
fn manifests_take_dependencies_and_lints_from_the_workspace() {
    for member in MEMBERS {
        let path = format!("{member}/Cargo.toml");
        assert_none(&manifest_violations(&path, &read_toml(&path)));
    }
}

#[test]
fn a_dependency_declared_in_a_crate_is_found() {
    let manifest = "[dependencies]\nbytes = \"1\"\nserde = { workspace = true }\n";
    assert_eq!(
        manifest_violations("x/Cargo.toml", &manifest.parse().unwrap()),
        [
            "x/Cargo.toml: lints are not those of the workspace",
            "x/Cargo.toml: 'bytes' in [dependencies] is not `workspace = true`",
        ]
    );
}

#[test]
fn core_crates_carry_the_same_bans() {
    let bans = read("processor/clippy.toml");
    for name in CORE {
        assert_eq!(read(&format!("{name}/clippy.toml")), bans, "in '{name}'");
    }
    let table = read_toml("processor/clippy.toml");
    for key in ["disallowed-methods", "disallowed-types"] {
        assert!(!table[key].as_array().unwrap().is_empty(), "{key}");
    }
    for (key, value) in read_toml("clippy.toml") {
        assert_eq!(table.get(&key), Some(&value), "'{key}' differs from the root's clippy.toml");
    }
}
