//! Compares what happened with what should have, as section 10 of the format says.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::{Map, Value as Json};

use super::{Failure, Fault, Outcome, Phase, QueryResult, Scenario, StoreDump};

/// What a difference is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aspect {
    /// What the topology does.
    Behaviour,
    /// How things are named, or their bytes; what the topology does may still be right.
    NamesOrBytes,
}

/// One thing that is not as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What it is about.
    pub aspect: Aspect,
    /// Where, such as `topics.out[2]`.
    pub at: String,
    /// What should be there.
    pub expected: String,
    /// What is there.
    pub actual: String,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n      expected {}\n      got      {}", self.at, self.expected, self.actual)
    }
}

/// How many differences of one list are shown.
const SHOWN_PER_LIST_MAX: usize = 3;

/// Compares the outcome of a scenario with its expectation; nothing differs when it passes.
///
/// # Errors
/// When the expectation itself cannot be read.
pub fn compare(scenario: &Scenario, actual: &Outcome) -> Result<Vec<Difference>, Fault> {
    let wanted = Outcome::expected(&scenario.expect)?;
    let mut c = Comparison { scenario, expect: &scenario.expect, found: Vec::new() };
    if !c.error(wanted.error.as_ref(), actual.error.as_ref()) {
        return Ok(c.found);
    }
    let phase = wanted.error.as_ref().map(|e| e.phase);
    if phase != Some(Phase::Build) {
        c.names(&wanted, actual);
        c.lists("branches", &text_lists(&wanted.branches), &text_lists(&actual.branches));
    }
    if matches!(phase, None | Some(Phase::Run)) {
        c.lists("topics", &wanted.topics, &actual.topics);
        c.lists("calls", &wanted.calls, &actual.calls);
        c.lists(
            "topics_of_failed_step",
            &wanted.topics_of_failed_step,
            &actual.topics_of_failed_step,
        );
    }
    if phase.is_none() {
        c.stores(&wanted.stores, &actual.stores);
        c.queries(&wanted.queries, &actual.queries);
        let (expected, got) =
            (wanted.dropped_records.to_string(), actual.dropped_records.to_string());
        c.text(Aspect::Behaviour, "dropped_records", &expected, &got);
    }
    Ok(c.found)
}

struct Comparison<'s> {
    scenario: &'s Scenario,
    expect: &'s Map<String, Json>,
    found: Vec<Difference>,
}

impl Comparison<'_> {
    fn report(
        &mut self,
        aspect: Aspect,
        at: String,
        expected: impl Into<String>,
        actual: impl Into<String>,
    ) {
        self.found.push(Difference {
            aspect,
            at,
            expected: expected.into(),
            actual: actual.into(),
        });
    }

    fn text(&mut self, aspect: Aspect, at: &str, expected: &str, actual: &str) {
        if expected != actual {
            self.report(aspect, at.to_owned(), expected, actual);
        }
    }

    /// Do both sides end the same way? If not, the rest says nothing.
    fn error(&mut self, wanted: Option<&Failure>, actual: Option<&Failure>) -> bool {
        let same = match (wanted, actual) {
            (None, None) => true,
            (Some(w), Some(a)) => w.agrees_with(a),
            _ => false,
        };
        if !same {
            let show = |failure: Option<&Failure>| {
                failure.map_or("no error".to_owned(), Failure::to_string)
            };
            self.report(Aspect::Behaviour, "error".into(), show(wanted), show(actual));
        }
        same
    }

    /// Descriptions and names, as far as the scenario checks them.
    fn names(&mut self, wanted: &Outcome, actual: &Outcome) {
        if self.expect.contains_key("describe") {
            self.describe(&wanted.describe, &actual.describe);
        }
        if self.expect.contains_key("store_names") {
            let sorted = |names: &[String]| names.iter().cloned().collect::<BTreeSet<_>>();
            let (w, a) = (sorted(&wanted.store_names), sorted(&actual.store_names));
            self.text(Aspect::NamesOrBytes, "store_names", &format!("{w:?}"), &format!("{a:?}"));
        }
        if self.expect.contains_key("internal_topics") {
            let names: BTreeSet<_> =
                wanted.internal_topics.keys().chain(actual.internal_topics.keys()).collect();
            for name in names {
                let (w, a) = (wanted.internal_topics.get(name), actual.internal_topics.get(name));
                if w != a {
                    self.report(
                        Aspect::NamesOrBytes,
                        format!("internal_topics.{name}"),
                        show(w),
                        show(a),
                    );
                }
            }
            let groups = |outcome: &Outcome| {
                let groups = outcome.copartition_groups.iter();
                format!("{:?}", groups.map(BTreeSet::from_iter).collect::<BTreeSet<_>>())
            };
            self.text(Aspect::NamesOrBytes, "copartition_groups", &groups(wanted), &groups(actual));
        }
    }

    /// Reports the first line that differs.
    fn describe(&mut self, wanted: &str, actual: &str) {
        let (w, a) = (normalized_description(wanted), normalized_description(actual));
        if w == a {
            return;
        }
        let (mut w, mut a) = (w.split('\n'), a.split('\n'));
        for line in 1.. {
            let (w, a) = (w.next(), a.next());
            if w != a {
                let show =
                    |line: Option<&str>| line.map_or("the end".to_owned(), |l| format!("{l:?}"));
                return self.report(
                    Aspect::NamesOrBytes,
                    format!("describe, line {line}"),
                    show(w),
                    show(a),
                );
            }
        }
    }

    /// Lists by name; a list that is absent is an empty one.
    fn lists(
        &mut self,
        field: &str,
        wanted: &BTreeMap<String, Vec<Json>>,
        actual: &BTreeMap<String, Vec<Json>>,
    ) {
        let names: BTreeSet<_> = wanted.keys().chain(actual.keys()).collect();
        for name in names {
            let raw =
                self.scenario.outputs.get(name).is_some_and(|o| o.key.is_raw() || o.value.is_raw());
            let aspect = if raw && field.starts_with("topics") {
                Aspect::NamesOrBytes
            } else {
                Aspect::Behaviour
            };
            let side =
                |lists: &BTreeMap<String, Vec<Json>>| lists.get(name).cloned().unwrap_or_default();
            self.list(aspect, &format!("{field}.{name}"), &side(wanted), &side(actual));
        }
    }

    fn list(&mut self, aspect: Aspect, at: &str, wanted: &[Json], actual: &[Json]) {
        let mut shown = 0;
        for index in 0..wanted.len().max(actual.len()) {
            let (w, a) = (wanted.get(index), actual.get(index));
            if w.zip(a).is_some_and(|(w, a)| matches(w, a)) {
                continue;
            }
            if shown == SHOWN_PER_LIST_MAX {
                let count = |n: usize| format!("{n} in all");
                return self.report(
                    aspect,
                    format!("{at}, more"),
                    count(wanted.len()),
                    count(actual.len()),
                );
            }
            shown += 1;
            self.report(aspect, format!("{at}[{index}]"), show(w), show(a));
        }
    }

    fn stores(
        &mut self,
        wanted: &BTreeMap<String, StoreDump>,
        actual: &BTreeMap<String, StoreDump>,
    ) {
        for (name, dump) in wanted {
            let at = format!("stores.{name}");
            match actual.get(name) {
                None => self.report(Aspect::Behaviour, at, "a store", "none of that name"),
                Some(got) if got.ordered => {
                    self.list(Aspect::Behaviour, &at, &dump.entries, &got.entries)
                }
                Some(got) => {
                    self.list(Aspect::Behaviour, &at, &sorted(&dump.entries), &sorted(&got.entries))
                }
            }
        }
    }

    fn queries(&mut self, wanted: &[QueryResult], actual: &[QueryResult]) {
        for index in 0..wanted.len().max(actual.len()) {
            let at = format!("queries[{index}]");
            match (wanted.get(index), actual.get(index)) {
                (Some(w), Some(a)) => match (&w.result, &a.result) {
                    (Json::Array(w), Json::Array(got)) if a.ordered => {
                        self.list(Aspect::Behaviour, &at, w, got)
                    }
                    (Json::Array(w), Json::Array(got)) => {
                        self.list(Aspect::Behaviour, &at, &sorted(w), &sorted(got));
                    }
                    (w, got) if matches(w, got) => {}
                    (w, got) => self.report(Aspect::Behaviour, at, w.to_string(), got.to_string()),
                },
                (w, a) => {
                    let show = |q: Option<&QueryResult>| show(q.map(|q| &q.result));
                    self.report(Aspect::Behaviour, at, show(w), show(a));
                }
            }
        }
    }
}

fn show(json: Option<&Json>) -> String {
    json.map_or("nothing".to_owned(), Json::to_string)
}

fn text_lists(lists: &BTreeMap<String, Vec<String>>) -> BTreeMap<String, Vec<Json>> {
    let sorted = |keys: &Vec<String>| {
        keys.iter().collect::<BTreeSet<_>>().into_iter().map(|k| k.as_str().into()).collect()
    };
    lists.iter().map(|(id, keys)| (id.clone(), sorted(keys))).collect()
}

/// Equal, where `{"any": true}` stands for anything and the order of an object's fields does not count.
fn matches(wanted: &Json, actual: &Json) -> bool {
    match (wanted, actual) {
        (Json::Object(w), _) if w.len() == 1 && w.get("any") == Some(&Json::Bool(true)) => true,
        (Json::Array(w), Json::Array(a)) => {
            w.len() == a.len() && w.iter().zip(a).all(|(w, a)| matches(w, a))
        }
        (Json::Object(w), Json::Object(a)) => {
            w.len() == a.len() && w.iter().all(|(k, w)| a.get(k).is_some_and(|a| matches(w, a)))
        }
        (w, a) => w == a,
    }
}

/// The elements in an order that depends on nothing but themselves.
fn sorted(items: &[Json]) -> Vec<Json> {
    let mut items = items.to_vec();
    items.sort_by_cached_key(canonical);
    items
}

fn canonical(json: &Json) -> String {
    match json {
        Json::Object(map) => {
            let fields: BTreeMap<_, _> = map.iter().map(|(k, v)| (k, canonical(v))).collect();
            format!("{fields:?}")
        }
        Json::Array(items) => format!("{:?}", items.iter().map(canonical).collect::<Vec<_>>()),
        other => other.to_string(),
    }
}

/// A description with the names in each list of children or parents sorted: their order is an accident of the reference.
fn normalized_description(text: &str) -> String {
    let sort = |line: &str| {
        for arrow in ["      --> ", "      <-- "] {
            if let Some(names) = line.strip_prefix(arrow) {
                let mut names: Vec<&str> = names.split(", ").collect();
                names.sort_unstable();
                return format!("{arrow}{}", names.join(", "));
            }
        }
        line.to_owned()
    };
    text.split('\n').map(sort).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
