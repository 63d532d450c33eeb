//! The conformance runner: scenario files, the interpreter that turns them into topologies of the library, and the comparison of
//! what happened with what should have. `conformance/FORMAT.md` is the definition of the language.
//!
//! The way of a scenario: [`Scenario::read`] parses the file, [`run()`] builds the topology and drives it into an [`Outcome`],
//! [`compare`] turns outcome and expectation into [`Difference`]s, and [`Report`] prints them. What a scenario needs and the library
//! does not have yet is an unsupported [`Fault`]: reported, counted as failed, and on the committed list of expected failures.
//!
//! | module | what it is |
//! | --- | --- |
//! | `scenario`, `section` | the files |
//! | `value`, `serde`, `adapt` | dynamic values and serdes, and how the library sees them |
//! | `expr`, `builtin`, `program` | expressions and the small programs of processors |
//! | `interp`, `papi` | steps of the DSL and of the low-level API, as calls of the library |
//! | `functions`, `processor`, `stores` | closures, processors and stores made of a scenario's parts |
//! | `run`, `settings`, `engine`, `crash` | driving a topology, its configuration, where its stores live, restarts |
//! | `failure`, `fault` | from the library's errors to the kinds that expectations name |
//! | `outcome`, `compare`, `suite`, `report`, `expected` | judging |

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
