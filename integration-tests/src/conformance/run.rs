//! Runs a scenario in the library's test driver and notes what happened.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value as Json, json};
use thalweg_connectors::{Headers, NewRecord, Timestamp};
use thalweg_processor::{
    InternalTopicDef, InternalTopicKind, LocalState, SentRecord, StoreShape, TaskError, TestDriver,
    Topology,
};

use super::crash::Crash;
use super::engine::{EngineKind, Engines};
use super::failure::{Stop, kind_of};
use super::functions::Calls;
use super::interp;
use super::papi::{self, Defaults};
use super::settings::Settings;
use super::stores::{self, StoreCall};
use super::value::hex_text;
use super::{
    Api, ErrorKind, Failure, Fault, HeaderList, InputItem, Outcome, OutputTopic, Phase, Query,
    QueryResult, Scenario, StoreDump, Value, is_unordered_query,
};

/// How to run scenarios.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RunOptions {
    /// Restart in the middle of the input, unless that [shows](Crash::shows_in).
    pub crash: Option<Crash>,
    /// What persistent stores are kept in.
    pub engine: EngineKind,
}

/// A topology, and what building it told.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) topology: Topology,
    pub(crate) branches: BTreeMap<String, Vec<String>>,
}

/// Runs a scenario.
///
/// # Errors
/// A scenario that is faulty, or needs what the library does not have yet.
pub fn run(scenario: &Scenario, options: RunOptions) -> Result<Outcome, Fault> {
    let (calls, defaults) = (Calls::default(), Defaults::of(&scenario.config));
    let built = Settings::of(&scenario.config)
        .and_then(|settings| Ok((build(scenario, &settings, &defaults, &calls)?, settings)));
    let (built, settings) = match built {
        Ok(built) => built,
        Err(Stop::Broken(fault)) => return Err(fault),
        Err(Stop::Refused(kind, message)) => return Ok(refused(Phase::Build, kind, message)),
        Err(Stop::RefusedAtStart(kind, message)) => {
            return Ok(refused(Phase::Start, kind, message));
        }
    };
    let mut outcome = Outcome { branches: built.branches, ..Outcome::default() };
    names(scenario, &built.topology, &mut outcome);
    let engines = Engines::of(options.engine)?;
    match start(scenario, &built.topology, &settings, &defaults, &engines)? {
        Ok(driver) => {
            let run = Run { scenario, driver, options, outcome: &mut outcome };
            run.finish()?;
        }
        Err(failure) => outcome.error = Some(failure),
    }
    outcome.calls = calls.take();
    Ok(outcome)
}

fn refused(phase: Phase, kind: ErrorKind, message: String) -> Outcome {
    let error = Failure { phase, input_index: None, kind, message };
    Outcome { error: Some(error), ..Outcome::default() }
}

fn build(
    scenario: &Scenario,
    settings: &Settings,
    defaults: &Defaults,
    calls: &Calls,
) -> Result<Built, Stop> {
    match scenario.api {
        Api::Topology => {
            let topology = papi::build(scenario, defaults, calls)?;
            Ok(Built { topology, branches: BTreeMap::new() })
        }
        Api::Dsl => interp::build(scenario, settings, calls),
    }
}

/// What can be told without running.
fn names(scenario: &Scenario, topology: &Topology, outcome: &mut Outcome) {
    let application_id = &scenario.config.application_id;
    outcome.describe = topology.describe().to_string();
    let topics = topology.internal_topics_for(application_id);
    outcome.internal_topics = topics.iter().map(|t| (t.name.to_string(), topic_json(t))).collect();
    let groups = topology.copartition_groups_for(application_id).into_iter();
    outcome.copartition_groups =
        groups.map(|group| group.iter().map(ToString::to_string).collect()).collect();
}

fn topic_json(topic: &InternalTopicDef) -> Json {
    let kind = match topic.kind {
        InternalTopicKind::Repartition => "repartition",
        InternalTopicKind::Changelog => "changelog",
        InternalTopicKind::SourceAsChangelog => "source_as_changelog",
    };
    let config: Map<_, Json> =
        topic.config.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect();
    let mut json = json!({"kind": kind, "config": config});
    if let Some(partitions) = topic.partitions {
        json["partitions"] = partitions.into();
    }
    json
}

/// Starts the topology, or says with which failure the task did not start.
fn start(
    scenario: &Scenario,
    topology: &Topology,
    settings: &Settings,
    defaults: &Defaults,
    engines: &Engines,
) -> Result<Result<TestDriver, Failure>, Fault> {
    let failure = |kind, message| Failure { phase: Phase::Start, input_index: None, kind, message };
    if let Some(setting) = defaults.missing() {
        let message = format!("a serde is needed, and `{setting}` names none");
        return Ok(Err(failure(ErrorKind::BadConfig, message)));
    }
    let builder = TestDriver::builder(topology, settings.tasks.clone())
        .engine(engines.factory())
        .wall_clock(scenario.config.initial_wall_clock_ms);
    match builder.start() {
        Ok(driver) => Ok(Ok(driver)),
        Err(error) => Ok(Err(failure(judged(&error)?, chain(&error)))),
    }
}

/// The kind of a failure that a scenario may expect; else the run is broken.
fn judged(error: &TaskError) -> Result<ErrorKind, Fault> {
    kind_of(error).ok_or_else(|| Fault::scenario(chain(error)))
}

/// An error with all its causes.
fn chain(error: &TaskError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text = format!("{text}: {error}");
        source = error.source();
    }
    text
}

struct Run<'s> {
    scenario: &'s Scenario,
    driver: TestDriver,
    options: RunOptions,
    outcome: &'s mut Outcome,
}

impl Run<'_> {
    fn finish(mut self) -> Result<(), Fault> {
        let middle = self.scenario.input.len() / 2;
        let crash = self.options.crash.filter(|crash| crash.shows_in(self.scenario).is_none());
        for (index, item) in self.scenario.input.iter().enumerate() {
            if let Some(crash) = crash.filter(|_| index == middle) {
                self.restart(crash)?;
            }
            if let Err(error) = self.input(item)? {
                self.outcome.error = Some(Failure {
                    phase: Phase::Run,
                    input_index: Some(index),
                    kind: judged(&error)?,
                    message: chain(&error),
                });
                break;
            }
        }
        self.topics()?;
        if self.outcome.error.is_some() {
            return Ok(());
        }
        for name in &self.scenario.stores {
            let dump = self.dump(name)?;
            self.outcome.stores.insert(name.clone(), dump);
        }
        for query in &self.scenario.queries {
            self.query(query)?;
        }
        self.outcome.store_names = self.driver.store_names();
        self.outcome.dropped_records = self.driver.dropped_records();
        Ok(())
    }

    fn restart(&mut self, crash: Crash) -> Result<(), Fault> {
        let state = match crash {
            Crash::StoresKept => LocalState::Kept,
            Crash::StoresLost => LocalState::Lost,
        };
        let restarted = self.driver.restart(state);
        restarted.map_err(|e| Fault::scenario(format!("cannot restart: {}", chain(&e))))
    }

    fn input(&mut self, item: &InputItem) -> Result<Result<(), TaskError>, Fault> {
        match item {
            InputItem::Record { topic, key, value, timestamp_ms, headers } => {
                let headers = Headers::from(headers);
                let record = NewRecord {
                    key: key.as_deref(),
                    value: value.as_deref(),
                    timestamp: Timestamp(*timestamp_ms),
                    headers: headers.as_ref(),
                };
                Ok(self.driver.pipe_raw(topic, 0, &record))
            }
            InputItem::AdvanceWallClock { by_ms } => {
                let by = Duration::from_millis(u64::try_from(*by_ms).unwrap_or(0));
                Ok(self.driver.advance_wall_clock(by))
            }
            InputItem::Query(query) => self.query(query).map(Ok),
        }
    }

    fn query(&mut self, query: &Query) -> Result<(), Fault> {
        let Query { store, op, args } = query;
        let answer = stores::query(&mut self.driver, store, &StoreCall { op, args });
        let result = match answer {
            Ok(value) => value.to_json(),
            Err(fault) if ErrorKind::of_fault(&fault).is_none() => return Err(fault),
            Err(fault) => json!({"error": fault.kind.reference_name()}),
        };
        let ordered = !is_unordered_query(op, self.is_windowed(store)?);
        self.outcome.queries.push(QueryResult { ordered, result });
        Ok(())
    }

    fn is_windowed(&self, store: &str) -> Result<bool, Fault> {
        let def = self.driver.store_def(store).map_err(|e| Fault::scenario(e.to_string()))?;
        Ok(matches!(def.shape, StoreShape::Window { .. }))
    }

    fn dump(&mut self, name: &str) -> Result<StoreDump, Fault> {
        let windowed = self.is_windowed(name)?;
        let shape = self.driver.store_def(name).map(|def| def.shape);
        let size_ms = match shape {
            Ok(StoreShape::Window { size_ms, .. }) => size_ms,
            _ => 0,
        };
        let dumped = self.driver.dump::<Value, Value>(name);
        let dumped = dumped.map_err(|e| Fault::scenario(chain(&e)))?;
        let entries = dumped.into_iter().map(|entry| {
            let key = match (entry.window_start, entry.session_end) {
                (Some(start), Some(end)) => Value::win(entry.key, start.0, end.0),
                (Some(start), None) => {
                    Value::win(entry.key, start.0, start.0.saturating_add(size_ms))
                }
                (None, _) => entry.key,
            };
            let mut json = json!({"key": key.to_json(), "value": entry.value.to_json()});
            if let Some(timestamp) = entry.timestamp {
                json["timestamp"] = timestamp.0.into();
            }
            json
        });
        Ok(StoreDump { ordered: !windowed, entries: entries.collect() })
    }

    fn topics(&mut self) -> Result<(), Fault> {
        for (name, spec) in &self.scenario.outputs {
            let records = |sent: Vec<SentRecord>| {
                sent.iter().map(|r| record(r, spec)).collect::<Result<Vec<_>, _>>()
            };
            self.outcome.topics.insert(name.clone(), records(self.driver.read_raw(name))?);
            let failed = records(self.driver.read_failed_step(name))?;
            if !failed.is_empty() {
                self.outcome.topics_of_failed_step.insert(name.clone(), failed);
            }
        }
        Ok(())
    }
}

/// A record in the JSON form of the scenario files.
fn record(sent: &SentRecord, spec: &OutputTopic) -> Result<Json, Fault> {
    let mut json = Map::new();
    json.insert("key".into(), spec.key.read(sent.key.as_deref())?.to_json());
    json.insert("value".into(), spec.value.read(sent.value.as_deref())?.to_json());
    let timestamp = (sent.timestamp != Timestamp::NONE).then_some(sent.timestamp.0);
    json.insert("timestamp".into(), timestamp.into());
    let headers = HeaderList::from(&sent.headers);
    if !headers.is_empty() {
        let header = |(name, value): (&str, Option<&[u8]>)| {
            let value = match value {
                _ if spec.mask_headers.iter().any(|masked| masked == name) => json!({"any": true}),
                None => Json::Null,
                Some(bytes) if spec.hex_headers => json!({"hex": hex_text(bytes)}),
                Some(bytes) => String::from_utf8_lossy(bytes).into_owned().into(),
            };
            json!([name, value])
        };
        json.insert("headers".into(), headers.iter().map(header).collect());
    }
    Ok(Json::Object(json))
}
