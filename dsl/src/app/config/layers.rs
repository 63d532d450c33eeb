//! Reads the sources of a configuration and lays them over each other:
//! defaults < the application's code < `thalweg.toml` < environment < `--set` and flags.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::keys::{self, KEYS, Key, OTHER_VARIABLES, VARIABLE_PREFIX};
use super::problem::{Origin, Problem};

/// The configuration file that is read when none is named.
pub(crate) const DEFAULT_FILE: &str = "thalweg.toml";

/// Where a configuration comes from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// What the application's code sets.
    pub(crate) code: Vec<(String, String)>,
    /// A file that must be there; `None`: [`DEFAULT_FILE`] if it is there.
    pub(crate) file: Option<PathBuf>,
    /// The environment.
    pub(crate) variables: Vec<(OsString, OsString)>,
    /// `key=value`, as given to `--set`.
    pub(crate) assignments: Vec<String>,
    /// Flags that were given: flag and value.
    pub(crate) flags: Vec<(&'static str, String)>,
}

/// A value as it was written, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Written {
    pub(crate) text: String,
    pub(crate) origin: Origin,
}

/// Values of one source, or the topmost of all.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    /// Of the known keys.
    pub(crate) keys: BTreeMap<&'static str, Written>,
    /// Settings for Kafka's clients, by name.
    pub(crate) clients: BTreeMap<String, String>,
}

/// The topmost value of every key that anybody set, and everything that was wrong with the sources.
pub(crate) fn read(sources: &Sources) -> (Layer, Vec<Problem>) {
    let mut problems = Vec::new();
    let mut merged = Layer::default();
    for key in KEYS {
        if let Some(text) = key.default {
            put(&mut merged, key, text.to_owned(), Origin::Default, &mut problems);
        }
    }
    let layers = [
        assigned(&sources.code, &Origin::Code, &mut problems),
        from_file(sources.file.as_deref(), &mut problems),
        from_variables(&sources.variables, &mut problems),
        from_command_line(sources, &mut problems),
    ];
    for layer in layers {
        merged.keys.extend(layer.keys);
        merged.clients.extend(layer.clients);
    }
    (merged, problems)
}

fn put(
    layer: &mut Layer,
    key: &'static Key,
    text: String,
    origin: Origin,
    problems: &mut Vec<Problem>,
) {
    if let Some(there) = layer.keys.get(key.name)
        && there.text != text
    {
        problems.push(Problem::Twice {
            key: key.name,
            first: there.origin.to_string(),
            second: origin.to_string(),
        });
    }
    layer.keys.insert(key.name, Written { text, origin });
}

fn assigned(pairs: &[(String, String)], origin: &Origin, problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::default();
    for (name, text) in pairs {
        match keys::find(name) {
            Some(key) => put(&mut layer, key, text.clone(), origin.clone(), problems),
            None if keys::is_client_setting(name) => {
                layer.clients.insert(name.clone(), text.clone());
            }
            None => problems.push(unknown(name, origin)),
        }
    }
    layer
}

fn unknown(name: &str, origin: &Origin) -> Problem {
    Problem::UnknownKey {
        key: name.to_owned(),
        origin: origin.to_string(),
        nearest: keys::nearest(name).map(str::to_owned),
    }
}

fn from_file(named: Option<&Path>, problems: &mut Vec<Problem>) -> Layer {
    let path = named.unwrap_or(Path::new(DEFAULT_FILE));
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if named.is_none() && e.kind() == std::io::ErrorKind::NotFound => {
            return Layer::default();
        }
        Err(e) => {
            problems.push(Problem::Unreadable {
                path: path.display().to_string(),
                reason: e.to_string(),
            });
            return Layer::default();
        }
    };
    match text.parse::<toml::Table>() {
        Ok(table) => {
            let mut pairs = Vec::new();
            flatten("", table, &mut pairs);
            let pairs: Vec<_> =
                pairs.into_iter().map(|(name, value)| (name, plain(&value))).collect();
            assigned(&pairs, &Origin::File(path.to_owned()), problems)
        }
        Err(e) => {
            let before = &text[..e.span().map_or(0, |span| span.start)];
            problems.push(Problem::NotToml {
                path: path.display().to_string(),
                line: before.matches('\n').count() + 1,
                column: before.rsplit('\n').next().unwrap_or_default().chars().count() + 1,
                reason: e.message().to_owned(),
            });
            Layer::default()
        }
    }
}

/// Turns nested tables into dotted names.
fn flatten(prefix: &str, table: toml::Table, pairs: &mut Vec<(String, toml::Value)>) {
    for (name, value) in table {
        let name = format!("{prefix}{name}");
        match value {
            toml::Value::Table(inner) if !inner.is_empty() => {
                flatten(&format!("{name}."), inner, pairs);
            }
            other => pairs.push((name, other)),
        }
    }
}

/// A TOML value as one would write it elsewhere.
fn plain(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

fn from_variables(variables: &[(OsString, OsString)], problems: &mut Vec<Problem>) -> Layer {
    let mut layer = Layer::default();
    for (name, value) in variables {
        let Some(name) = name.to_str().filter(|n| n.starts_with(VARIABLE_PREFIX)) else {
            continue;
        };
        if OTHER_VARIABLES.contains(&name) {
            continue;
        }
        let origin = Origin::Variable(name.to_owned());
        let Some(key) = KEYS.iter().find(|key| key.variable() == name) else {
            let dotted = name[VARIABLE_PREFIX.len()..].replace('_', ".");
            let setting = dotted.to_ascii_lowercase();
            if let Some(text) = value.to_str().filter(|_| keys::is_client_setting(&setting)) {
                layer.clients.insert(setting, text.to_owned());
                continue;
            }
            problems.push(Problem::UnknownKey {
                key: name.to_owned(),
                origin: "the environment".to_owned(),
                nearest: keys::nearest(&dotted).and_then(keys::find).map(Key::variable),
            });
            continue;
        };
        match value.to_str() {
            Some(text) => put(&mut layer, key, text.to_owned(), origin, problems),
            None => problems.push(Problem::BadValue {
                key: key.name,
                value: "bytes that are not UTF-8".to_owned(),
                origin: origin.to_string(),
                allowed: "a text".to_owned(),
            }),
        }
    }
    layer
}

fn from_command_line(sources: &Sources, problems: &mut Vec<Problem>) -> Layer {
    let mut pairs = Vec::new();
    for (at, assignment) in sources.assignments.iter().enumerate() {
        match assignment.split_once('=') {
            Some((name, text)) => pairs.push((name.trim().to_owned(), text.trim().to_owned())),
            None => problems.push(Problem::NotAnAssignment { nth: at + 1 }),
        }
    }
    let mut layer = assigned(&pairs, &Origin::Set, problems);
    for (flag, text) in &sources.flags {
        if let Some(key) = KEYS.iter().find(|key| key.flag == Some(flag)) {
            put(&mut layer, key, text.clone(), Origin::Flag(flag), problems);
        }
    }
    layer
}
