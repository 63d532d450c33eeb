//! Faults against a real broker: instances of an application are killed, stopped for too long, join and leave, while input comes
//! in. Then an independent reader recomputes from the input what the output has to be, record by record.
//!
//! | module | what it is |
//! | --- | --- |
//! | `application` | the topology, and one instance of it as a process |
//! | `plan` | which fault happens when, from a seed |
//! | `fleet` | the processes |
//! | `topics` | topics made, input fed, output read: plain librdkafka, nothing of ours |
//! | `ledger` | what the output has to be |
//! | `scenario` | a run of all that |

mod application;
mod fleet;
mod ledger;
mod plan;
mod scenario;
mod topics;

pub use application::{InstanceOptions, Topics, run_instance, start_instance};
pub use ledger::{Entry, Verdict, judge_echo, judge_totals};
pub use scenario::{Report, ScenarioOptions, run_scenario};
pub use topics::{Feeder, Reader, create_topics};

/// What a run reports when it cannot go on.
pub type ChaosResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
