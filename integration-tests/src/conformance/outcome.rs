//! What happened when a scenario ran.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Value as Json};

use super::{Fault, FaultKind};

/// Everything an expectation can speak of. Records and entries are in the JSON form of the scenario files.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Where and how the run failed.
    pub error: Option<Failure>,
    /// The records of every topic in `outputs`, in order.
    pub topics: BTreeMap<String, Vec<Json>>,
    /// What the failing item had already sent.
    pub topics_of_failed_step: BTreeMap<String, Vec<Json>>,
    /// The dumped stores.
    pub stores: BTreeMap<String, StoreDump>,
    /// The results of the queries, those within the input first.
    pub queries: Vec<QueryResult>,
    /// The logged calls per step.
    pub calls: BTreeMap<String, Vec<Json>>,
    /// The keys of the map that a split returned, per step.
    pub branches: BTreeMap<String, Vec<String>>,
    /// How many records were skipped.
    pub dropped_records: u64,
    /// The description of the topology.
    pub describe: String,
    /// The names of all stores.
    pub store_names: Vec<String>,
    /// Kind, partitions and configuration of every internal topic.
    pub internal_topics: BTreeMap<String, Json>,
    /// Topics that have to have the same number of partitions.
    pub copartition_groups: Vec<Vec<String>>,
}

/// The content of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoreDump {
    /// Does the order count? It does for key-value stores.
    pub ordered: bool,
    /// `{key, value, timestamp?, headers?}`.
    pub entries: Vec<Json>,
}

/// The result of a query.
#[derive(Debug, Clone, PartialEq)]
pub struct QueryResult {
    /// Does the order of a list count? See [`is_unordered_query`].
    pub ordered: bool,
    /// The result.
    pub result: Json,
}

/// Is the order of the result left to the store? It is across the keys of a window store.
pub fn is_unordered_query(operator: &str, window_store: bool) -> bool {
    window_store && matches!(operator, "fetch_range" | "fetch_all" | "all")
}

/// How a run failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// When.
    pub phase: Phase,
    /// At which input item, in phase [`Phase::Run`].
    pub input_index: Option<usize>,
    /// In which way.
    pub kind: ErrorKind,
    /// The details, for people.
    pub message: String,
}

/// When a run can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// While the steps are applied or the topology is built.
    Build,
    /// While the task is initialized.
    Start,
    /// At an input item.
    Run,
}

/// The kinds of error that an implementation has to tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Bad or duplicate names, unknown parents or stores, topics registered twice, missing explicit names.
    InvalidTopology,
    /// Negative durations, retention too short, advance larger than size.
    IllegalParameter,
    /// A bad configuration value, or a serde that is missing.
    BadConfig,
    /// A record could not be read.
    Undeserializable,
    /// A value did not fit its serde.
    Unserializable,
    /// A function of the user failed.
    UserFunction,
    /// A negative timestamp, a null topic name, an empty window.
    IllegalArgument,
    /// A function of the user failed in the processor of a global store.
    GlobalUserFunction,
    /// A strict buffer is full, a child is unknown, a store is not connected.
    GaveUp,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidTopology => "invalid topology",
            Self::IllegalParameter => "illegal parameter",
            Self::BadConfig => "bad configuration",
            Self::Undeserializable => "undeserializable record",
            Self::Unserializable => "unserializable value",
            Self::UserFunction => "failed user function",
            Self::IllegalArgument => "illegal argument at run time",
            Self::GlobalUserFunction => "failed user function of a global store",
            Self::GaveUp => "framework gave up",
        })
    }
}

impl ErrorKind {
    /// The kind of an error that the reference implementation threw.
    pub fn of_reference(phase: Phase, class: &str, root: &str) -> Option<Self> {
        Some(match (class, root) {
            (_, "ConfigException") => Self::BadConfig,
            ("TopologyException", _) => Self::InvalidTopology,
            ("IllegalArgumentException", _) if phase == Phase::Build => Self::IllegalParameter,
            ("IllegalStateException", _) if phase == Phase::Run => Self::GlobalUserFunction,
            ("StreamsException", "SerializationException") => Self::Undeserializable,
            ("StreamsException", "ClassCastException") => Self::Unserializable,
            ("StreamsException", "IllegalArgumentException") => Self::IllegalArgument,
            ("StreamsException", "StreamsException") => Self::GaveUp,
            (
                "StreamsException",
                "IllegalStateException"
                | "NullPointerException"
                | "NumberFormatException"
                | "ArithmeticException",
            ) => Self::UserFunction,
            _ => return None,
        })
    }

    /// The kind of a run that failed with a fault of the scenario language; `None` for a faulty scenario.
    pub fn of_fault(fault: &Fault) -> Option<Self> {
        match fault.kind {
            FaultKind::Scenario | FaultKind::Unsupported => None,
            kind => Self::of_reference(Phase::Run, "StreamsException", kind.reference_name()),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.phase, self.input_index) {
            (Phase::Run, Some(index)) => write!(f, "{} at input {index}", self.kind)?,
            (Phase::Run, None) => write!(f, "{} at run time", self.kind)?,
            (Phase::Build, _) => write!(f, "{} when built", self.kind)?,
            (Phase::Start, _) => write!(f, "{} when started", self.kind)?,
        }
        write!(f, " ({})", self.message)
    }
}

impl Failure {
    /// Reads the expected failure.
    ///
    /// # Errors
    /// A faulty scenario when its class is none that the format knows.
    pub fn expected(error: &Json) -> Result<Self, Fault> {
        let text = |field: &str| error[field].as_str().unwrap_or_default();
        let unknown = || Fault::scenario(format!("unknown kind of expected error: {error}"));
        let phase = match text("phase") {
            "build" => Phase::Build,
            "start" => Phase::Start,
            "run" => Phase::Run,
            _ => return Err(unknown()),
        };
        Ok(Self {
            phase,
            input_index: error["input_index"].as_u64().map(|i| i as usize),
            kind: ErrorKind::of_reference(phase, text("class"), text("root"))
                .ok_or_else(unknown)?,
            message: text("message").to_owned(),
        })
    }

    /// Do phase, index and kind agree?
    pub fn agrees_with(&self, other: &Self) -> bool {
        (self.phase, self.input_index, self.kind) == (other.phase, other.input_index, other.kind)
    }
}

impl Outcome {
    /// The outcome that an expectation describes: what a perfect run returns.
    ///
    /// # Errors
    /// A faulty scenario.
    pub fn expected(expect: &Map<String, Json>) -> Result<Self, Fault> {
        let field = |name: &str| expect.get(name).unwrap_or(&Json::Null);
        let lists = |name: &str| -> BTreeMap<String, Vec<Json>> {
            let map = field(name).as_object().into_iter().flatten();
            map.map(|(k, v)| (k.clone(), v.as_array().cloned().unwrap_or_default())).collect()
        };
        let stores = lists("stores").into_iter().map(|(name, entries)| {
            let ordered = !entries.iter().any(|e| e["key"]["start"].is_i64());
            (name, StoreDump { ordered, entries })
        });
        let queries = field("queries").as_array().into_iter().flatten().cloned();
        Ok(Self {
            error: expect.get("error").map(Failure::expected).transpose()?,
            topics: lists("topics"),
            topics_of_failed_step: lists("topics_of_failed_step"),
            stores: stores.collect(),
            queries: queries.map(|result| QueryResult { ordered: true, result }).collect(),
            calls: lists("calls"),
            branches: lists("branches").into_iter().map(|(id, keys)| (id, texts(&keys))).collect(),
            dropped_records: field("dropped_records").as_u64().unwrap_or_default(),
            describe: field("describe").as_str().unwrap_or_default().to_owned(),
            store_names: texts(field("store_names").as_array().map_or(&[][..], Vec::as_slice)),
            internal_topics: field("internal_topics")
                .as_object()
                .cloned()
                .unwrap_or_default()
                .into_iter()
                .collect(),
            copartition_groups: field("copartition_groups")
                .as_array()
                .into_iter()
                .flatten()
                .map(|group| texts(group.as_array().map_or(&[][..], Vec::as_slice)))
                .collect(),
        })
    }
}

fn texts(items: &[Json]) -> Vec<String> {
    items.iter().filter_map(Json::as_str).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::ErrorKind::*;
    use super::Phase::*;
    use super::*;

    #[test]
    fn kinds_follow_the_table_of_the_format() {
        let cases = [
            (Build, "TopologyException", "TopologyException", InvalidTopology),
            (Build, "IllegalArgumentException", "IllegalArgumentException", IllegalParameter),
            (Build, "ConfigException", "ConfigException", BadConfig),
            (Start, "StreamsException", "ConfigException", BadConfig),
            (Run, "StreamsException", "SerializationException", Undeserializable),
            (Run, "StreamsException", "ClassCastException", Unserializable),
            (Run, "StreamsException", "IllegalStateException", UserFunction),
            (Run, "StreamsException", "NumberFormatException", UserFunction),
            (Run, "StreamsException", "IllegalArgumentException", IllegalArgument),
            (Run, "IllegalStateException", "IllegalStateException", GlobalUserFunction),
            (Run, "StreamsException", "StreamsException", GaveUp),
        ];
        for (phase, class, root, kind) in cases {
            assert_eq!(ErrorKind::of_reference(phase, class, root), Some(kind), "{class} {root}");
        }
        assert_eq!(ErrorKind::of_reference(Run, "OutOfMemoryError", "OutOfMemoryError"), None);
    }

    #[test]
    fn a_fault_of_the_language_is_an_error_that_scenarios_can_expect() {
        let kind = |kind| ErrorKind::of_fault(&Fault::new(kind, ""));
        assert_eq!(kind(FaultKind::NullPointer), Some(UserFunction));
        assert_eq!(kind(FaultKind::ClassCast), Some(Unserializable));
        assert_eq!(kind(FaultKind::Serialization), Some(Undeserializable));
        assert_eq!(kind(FaultKind::Scenario), None);
    }
}
