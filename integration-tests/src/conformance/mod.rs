//! The conformance language: scenario files, their values, serdes and expressions, and the comparison of what happened with
//! what should have. `conformance/FORMAT.md` is its definition.
//!
//! The way of a scenario: [`Scenario::read`] parses the file, a runner builds the topology and drives it into an
//! [`Outcome`], [`compare`] turns outcome and expectation into [`Difference`]s, and [`Report`] prints them.

mod adapt;
mod builtin;
mod compare;
mod crash;
mod engine;
mod expected;
mod expr;
mod failure;
mod fault;
mod functions;
mod headers;
mod interp;
mod outcome;
mod papi;
mod processor;
mod program;
mod report;
mod run;
mod scenario;
mod section;
mod serde;
mod settings;
mod stores;
mod suite;
mod value;

pub use self::serde::{Plain, SerdeSpec};
pub use compare::{Aspect, Difference, compare};
pub use crash::Crash;
pub use engine::EngineKind;
pub use expected::{ExpectedFailures, Surprise};
pub use expr::{Env, Expr, Host, NoHost};
pub use fault::{Fault, FaultKind};
pub use headers::HeaderList;
pub use outcome::{ErrorKind, Failure, Outcome, Phase, QueryResult, StoreDump, is_unordered_query};
pub use program::{Block, Forward, Outgoing, Port, Program, Punctuator, Statement, TimeKind};
pub use report::{Case, Report, Verdict};
pub use run::{RunOptions, run};
pub use scenario::{Api, Checks, Config, InputItem, InputTopic, OutputTopic, Query, Scenario};
pub use section::Section;
pub use suite::{run_all, scenario_files};
pub use value::{Value, Win};
