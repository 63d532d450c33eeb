//! Topologies of the DSL: each step becomes the call of the library's DSL that it stands for.
//!
//! There is one stream type and one table type, both over [`Value`]: whether keys may have moved is left to the graph, so streams are
//! widened to [`Rekeyed`], and the names that the reference would have generated are asked for where a step gives none. All closures
//! are the variants that can fail.
//!
//! | module | steps |
//! | --- | --- |
//! | `sources` | streams, tables, stores |
//! | `stateless` | record by record, of streams and tables |
//! | `routing` | split, repartition, to |
//! | `grouping` | grouping and windows |
//! | `aggregating` | count, reduce, aggregate |
//! | `joining`, `table_joining` | joins |
//! | `globals` | global tables and stores, joins with them |
//! | `suppressing` | suppression |
//! | `processing` | custom processors |

mod aggregating;
mod globals;
mod grouping;
mod joining;
mod options;
mod processing;
mod routing;
mod sources;
mod stateless;
mod suppressing;
mod table_joining;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use thalweg::{
    BuildConfig, GlobalKTable, KCogroupedStream, KGroupedStream, KGroupedTable, KStream, KTable,
    Optimization, Rekeyed, SessionCogroupedStream, SessionWindowedStream, StoreType,
    StreamsBuilder, TimeWindowedStream, WindowedCogroupedStream,
};

use super::failure::{Stop, unsupported};
use super::functions::Calls;
use super::run::Built;
use super::settings::Settings;
use super::{Config, Fault, Scenario, Section, Value};

pub(crate) type Stream = KStream<Value, Value, Rekeyed>;
pub(crate) type Table = KTable<Value, Value>;

/// What a step's id stands for.
#[derive(Clone)]
enum Thing {
    Stream(Stream),
    Table(Table),
    GlobalTable(GlobalKTable<Value, Value>),
    Grouped(KGroupedStream<Value, Value>),
    GroupedTable(KGroupedTable<Value, Value>),
    Windowed(TimeWindowedStream<Value, Value, Value>),
    Sessions(SessionWindowedStream<Value, Value, Value>),
    Cogrouped(KCogroupedStream<Value, Value>),
    WindowedCogrouped(WindowedCogroupedStream<Value, Value, Value>),
    SessionCogrouped(SessionCogroupedStream<Value, Value, Value>),
}

impl Thing {
    fn kind(&self) -> &'static str {
        match self {
            Self::Stream(_) => "stream",
            Self::Table(_) => "table",
            Self::GlobalTable(_) => "global table",
            Self::Grouped(_) => "grouped stream",
            Self::GroupedTable(_) => "grouped table",
            Self::Windowed(_) => "windowed stream",
            Self::Sessions(_) => "stream cut into sessions",
            Self::Cogrouped(_) => "cogrouped stream",
            Self::WindowedCogrouped(_) => "cogrouped stream cut into windows",
            Self::SessionCogrouped(_) => "cogrouped stream cut into sessions",
        }
    }
}

/// What a step makes: most a thing, some nothing.
type Made = Result<Option<Thing>, Stop>;

/// The topology under construction.
struct Interpreter {
    builder: StreamsBuilder,
    config: Config,
    calls: Calls,
    things: RefCell<BTreeMap<String, Thing>>,
    branches: RefCell<BTreeMap<String, Vec<String>>>,
    /// What went wrong inside the closure of a branch.
    trouble: RefCell<Option<Stop>>,
}

/// A step, and the stream that `$in` stands for.
#[derive(Clone, Copy)]
struct Step<'s> {
    section: &'s Section,
    input: Option<&'s Stream>,
}

/// Builds the topology of a scenario.
pub(crate) fn build(
    scenario: &Scenario,
    settings: &Settings,
    calls: &Calls,
) -> Result<Built, Stop> {
    let interpreter = Rc::new(Interpreter {
        builder: builder(&scenario.config),
        config: scenario.config.clone(),
        calls: calls.clone(),
        things: RefCell::default(),
        branches: RefCell::default(),
        trouble: RefCell::default(),
    });
    interpreter.run_all(&scenario.topology, None)?;
    let topology = interpreter.builder.build_with(&build_config(settings))?;
    Ok(Built { topology, branches: interpreter.branches.take() })
}

fn builder(config: &Config) -> StreamsBuilder {
    let builder = StreamsBuilder::new();
    if let Some(key) = config.default_key {
        builder.default_key_serde::<Value>(key);
    }
    if let Some(value) = config.default_value {
        builder.default_value_serde::<Value>(value);
    }
    builder
}

fn build_config(settings: &Settings) -> BuildConfig {
    let mut config = BuildConfig::new();
    if settings.stores_in_memory {
        config = config.default_store(StoreType::InMemory);
    }
    if settings.explicit_names {
        config = config.explicit_names();
    }
    if settings.optimizations.reuse_source_topics {
        config = config.optimize(Optimization::ReuseSourceTopics);
    }
    if settings.optimizations.single_store_self_join {
        config = config.optimize(Optimization::SingleStoreSelfJoins);
    }
    if settings.optimizations.merge_repartition_topics {
        config = config.optimize(Optimization::MergeRepartitionTopics);
    }
    config
}

impl Interpreter {
    fn run_all(self: &Rc<Self>, steps: &[Section], input: Option<&Stream>) -> Result<(), Stop> {
        for section in steps {
            let made = self.make(Step { section, input })?;
            if let (Some(id), Some(thing)) = (section.id()?, made) {
                self.things.borrow_mut().insert(id.to_owned(), thing);
            }
        }
        Ok(())
    }

    fn make(self: &Rc<Self>, step: Step<'_>) -> Made {
        match step.section.op()? {
            "stream" | "table" | "add_state_store" => self.source(step),
            "filter" | "filter_not" | "map" | "map_values" | "flat_map" | "flat_map_values"
            | "select_key" | "peek" | "foreach" | "merge" | "to_stream" => self.stateless(step),
            "split" | "repartition" | "to" | "to_table" => self.routing(step),
            "group_by_key" | "group_by" | "windowed_by" | "cogroup" => self.grouping(step),
            "count" | "reduce" | "aggregate" => self.aggregating(step),
            "stream_table_join" => self.joining(step),
            "table_join" => self.table_joining(step),
            "fk_join" => self.foreign_joining(step),
            "global_table" | "add_global_store" | "global_join" => self.globals(step),
            "suppress" => self.suppressing(step),
            "stream_join" => self.joining_streams(step),
            "process" | "process_values" => self.processing(step),
            other => Err(unsupported(format_args!("step `{other}`")).into()),
        }
    }

    fn thing(&self, step: Step<'_>, field: &str) -> Result<Thing, Fault> {
        let id = step.section.text(field)?;
        if id == "$in" {
            let input = step.input.ok_or_else(|| Fault::scenario("`$in` outside of a branch"))?;
            return Ok(Thing::Stream(input.clone()));
        }
        let unknown = || Fault::scenario(format!("no step `{id}` for {:?}", step.section));
        self.things.borrow().get(id).cloned().ok_or_else(unknown)
    }

    fn stream(&self, step: Step<'_>, field: &str) -> Result<Stream, Fault> {
        match self.thing(step, field)? {
            Thing::Stream(stream) => Ok(stream),
            other => Err(step.not_of(&other)),
        }
    }

    fn table(&self, step: Step<'_>, field: &str) -> Result<Table, Fault> {
        match self.thing(step, field)? {
            Thing::Table(table) => Ok(table),
            other => Err(step.not_of(&other)),
        }
    }
}

impl Step<'_> {
    /// The fault of a step on what it does not work on, or not yet.
    fn not_of(self, thing: &Thing) -> Fault {
        match self.section.op() {
            Ok(op) => unsupported(format_args!("step `{op}` of a {}", thing.kind())),
            Err(fault) => fault,
        }
    }

    fn name(&self) -> Result<Option<&str>, Fault> {
        self.section.text_opt("name")
    }
}

fn stream(stream: Stream) -> Made {
    Ok(Some(Thing::Stream(stream)))
}

fn table(table: Table) -> Made {
    Ok(Some(Thing::Table(table)))
}
