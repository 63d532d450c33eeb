//! What a dependency may be, as `deny.toml` states it: licences, bans, sources.

use serde_json::Value;
use toml::Table;

use crate::assert_none;
use crate::spdx::satisfied;
use crate::tree::{host, metadata, read_toml};

fn strings<'a>(table: &'a Table, section: &str, key: &str) -> Vec<&'a str> {
    let list = table[section][key].as_array().unwrap();
    list.iter().map(|value| value.as_str().unwrap()).collect()
}

fn licence_violations(metadata: &Value, allowed: &[&str]) -> Vec<String> {
    let mut violations = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        match package["license"].as_str().map(|licence| (licence, satisfied(licence, allowed))) {
            Some((_, Ok(true))) => {}
            Some((licence, Ok(false))) => {
                violations
                    .push(format!("'{name}' has the licence '{licence}', which is not allowed"));
            }
            Some((_, Err(error))) => violations.push(format!("'{name}': {error}")),
            None => violations.push(format!("'{name}' states no licence")),
        }
    }
    violations
}

fn source_violations(lock: &Table, registries: &[&str]) -> Vec<String> {
    let mut violations = Vec::new();
    for package in lock["package"].as_array().unwrap() {
        let name = package["name"].as_str().unwrap();
        // The workspace's own crates have no source.
        let Some(source) = package.get("source").and_then(toml::Value::as_str) else {
            if name != "thalweg" && !name.starts_with("thalweg-") {
                violations.push(format!("'{name}' comes from a folder"));
            }
            continue;
        };
        let registry = source.strip_prefix("registry+");
        if !registry.is_some_and(|registry| registries.contains(&registry)) {
            violations.push(format!("'{name}' comes from '{source}'"));
        }
    }
    violations
}

fn ban_violations(lock: &Table, banned: &[&str]) -> Vec<String> {
    let packages = lock["package"].as_array().unwrap().iter();
    packages
        .map(|package| package["name"].as_str().unwrap())
        .filter(|name| banned.contains(name))
        .map(|name| format!("'{name}' is banned by deny.toml"))
        .collect()
}

#[test]
fn every_dependency_has_an_allowed_licence() {
    let deny = read_toml("deny.toml");
    let metadata = metadata(&["--all-features", "--filter-platform", &host()]);
    assert!(metadata["packages"].as_array().unwrap().len() > 10);
    assert_none(&licence_violations(&metadata, &strings(&deny, "licenses", "allow")));
}

#[test]
fn every_dependency_comes_from_an_allowed_registry() {
    let deny = read_toml("deny.toml");
    let lock = read_toml("Cargo.lock");
    assert_none(&source_violations(&lock, &strings(&deny, "sources", "allow-registry")));
}

#[test]
fn no_banned_crate_is_in_the_lock_file() {
    let deny = read_toml("deny.toml");
    let banned = deny["bans"]["deny"].as_array().unwrap();
    let banned: Vec<_> = banned.iter().map(|ban| ban["crate"].as_str().unwrap()).collect();
    assert_none(&ban_violations(&read_toml("Cargo.lock"), &banned));
}

#[test]
fn dependencies_against_the_policy_are_found() {
    let metadata = serde_json::json!({"packages": [
        {"name": "good", "license": "MIT OR GPL-3.0"},
        {"name": "copyleft", "license": "GPL-3.0"},
        {"name": "silent", "license": null},
    ]});
    assert_eq!(
        licence_violations(&metadata, &["MIT"]),
        [
            "'copyleft' has the licence 'GPL-3.0', which is not allowed",
            "'silent' states no licence"
        ]
    );

    let lock = r#"
        package = [
            { name = "thalweg-state" },
            { name = "good", source = "registry+https://index" },
            { name = "fork", source = "git+https://somewhere/fork" },
            { name = "mirror", source = "registry+https://elsewhere" },
            { name = "folder" },
        ]
    "#;
    let lock: Table = lock.parse().unwrap();
    assert_eq!(
        source_violations(&lock, &["https://index"]),
        [
            "'fork' comes from 'git+https://somewhere/fork'",
            "'mirror' comes from 'registry+https://elsewhere'",
            "'folder' comes from a folder",
        ]
    );
    assert_eq!(ban_violations(&lock, &["fork"]), ["'fork' is banned by deny.toml"]);
}
