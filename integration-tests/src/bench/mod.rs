//! The benchmark peer: workloads of the benchmark contract, against a broker or inside one process.
//!
//! The command is `bench-peer`; `docs/performance.md` has its results and how they were measured.
//!
//! | module | what it is |
//! | --- | --- |
//! | `input` | the prepared records, the same in every run |
//! | `workload` | the topologies |
//! | `engine` | an application with one worker on a private `mem://` broker, fed and drained |
//! | `driver` | timed rounds, one JSON line each |
//! | `peer` | one run against a broker |
//! | `spike` | what the erased node arena costs against a loop written by hand |

mod driver;
mod engine;
mod input;
mod peer;
mod spike;
mod workload;

pub use driver::{DriverOptions, Round, run_rounds};
pub use peer::{PeerOptions, Stopwatch, run_peer};
pub use spike::{Spike, run_spike};
pub use workload::{Names, StoreChoice, Workload};

/// What a benchmark reports when it cannot go on.
pub type BenchResult<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;
