//! The files of the workspace, and what cargo says about it.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One text file: its path below the root, with `/` as separator, and its content.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// Reads every text file of the workspace, in order of path. Hidden entries other than `.ci` and `.gitignore`,
/// and build output, are no part of it.
pub(crate) fn files() -> Vec<File> {
    let mut found = Vec::new();
    collect(&root(), "", &mut found);
    assert!(found.len() > 20, "only {} files found below {:?}", found.len(), root());
    found
}

pub(crate) fn read(path: &str) -> String {
    let full = root().join(path);
    std::fs::read_to_string(&full).unwrap_or_else(|e| panic!("cannot read {full:?}: {e}"))
}

pub(crate) fn read_toml(path: &str) -> toml::Table {
    read(path).parse().unwrap_or_else(|e| panic!("'{path}' is not TOML: {e}"))
}

/// Names of the entries of a folder that belong to the workspace, sorted, with whether each is a folder.
pub(crate) fn entries(folder: &Path) -> Vec<(String, bool)> {
    let mut entries: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap())
        .map(|entry| {
            (entry.file_name().into_string().unwrap(), entry.file_type().unwrap().is_dir())
        })
        .filter(|(name, _)| !name.starts_with('.') || name == ".ci" || name == ".gitignore")
        .filter(|(name, _)| name != "target")
        .collect();
    entries.sort();
    entries
}

fn collect(folder: &Path, prefix: &str, found: &mut Vec<File>) {
    for (name, is_folder) in entries(folder) {
        let path = format!("{prefix}{name}");
        let full = folder.join(&name);
        if is_folder {
            collect(&full, &format!("{path}/"), found);
        } else if let Ok(text) = std::fs::read_to_string(&full) {
            found.push(File { path, text });
        }
    }
}

/// Runs `cargo metadata` on the workspace with its lock file as it stands.
pub(crate) fn metadata(extra: &[&str]) -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(extra)
        .current_dir(root())
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo metadata failed: {errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The platform that `rustc` builds for by default.
pub(crate) fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}
