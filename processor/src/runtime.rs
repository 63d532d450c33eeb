//! Running a topology: the one module that owns threads.
//!
//! [`Streams::start`] checks everything that can be checked, works out the plan, makes the topics it needs and starts the workers.
//! Each worker is a thread that calls `run_once` until it is asked to stop, the run has come to its end, or it fails; a failure of
//! one ends all, the others cleanly.
//!
//! | module | what it is |
//! | --- | --- |
//! | `config` | what a run is told |
//! | `error` | why it does not start, why it ended |
//! | `prepare` | a replay made fresh; where a run begins and ends |
//! | `state` | engines in the state directory or in memory |

mod config;
mod error;
mod prepare;
mod state;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, Builder, JoinHandle};
use std::time::Duration;

use thalweg_connectors::{Backend, Clock, SharedBackend};
use thalweg_txn::Guarantee;

use crate::error::caught;
use crate::metrics::{Metrics, StreamsState};
use crate::plan::Plan;
use crate::topology::Topology;
use crate::worker::{Cycle, Worker};

pub use config::{
    MissingOutputs, ReplayFrom, RuntimeConfig, StartAt, StateConfig, StateEngine, Until,
};
pub(crate) use error::chain;
pub use error::{RunError, StartError};
#[cfg(test)]
pub(crate) use prepare::surroundings;
pub(crate) use state::{Engines, Needs};

/// How often a worker that is to end looks whether its group has settled, so that its last commit can be made: for 10 s, longer
/// than a group needs to notice that a member is silent.
const CLOSE_ATTEMPTS: usize = 1000;
const CLOSE_RETRY: Duration = Duration::from_millis(10);

/// What to run, on what.
pub struct StreamsSpec {
    /// The topology.
    pub topology: Topology,
    /// Where its topics live.
    pub backend: SharedBackend,
    /// Tells time.
    pub clock: Arc<dyn Clock>,
    /// How.
    pub config: Arc<RuntimeConfig>,
}

/// How a run went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Summary {
    /// Records processed.
    pub records_processed: u64,
    /// Records dropped: late, null key, undecodable and so on.
    pub records_dropped: u64,
    /// Commits that had something to commit.
    pub commits: u64,
    /// Changelog records that were restored.
    pub records_restored: u64,
    /// It came to its end by itself; else it was asked to stop.
    pub reached_end: bool,
    /// Every worker's last commit succeeded; else what it held is processed again at the next start.
    pub committed: bool,
}

/// What the threads of a run share.
#[derive(Debug, Default)]
struct Control {
    stop: AtomicBool,
    reached_end: AtomicBool,
    /// The first failure.
    failure: Mutex<Option<RunError>>,
}

/// Asks a run to stop; can be cloned and kept by whoever hears signals.
#[derive(Clone, Debug)]
pub struct StopHandle {
    control: Arc<Control>,
    metrics: Arc<Metrics>,
}

impl StopHandle {
    /// Asks for a clean shutdown: commit, close, leave. Returns at once; asking again is fine.
    pub fn stop(&self) {
        self.control.stop.store(true, Ordering::SeqCst);
        self.metrics.set_stopping();
    }
}

/// A topology at work. Dropping it stops it and waits.
#[derive(Debug)]
pub struct Streams {
    handle: StopHandle,
    plan: Arc<Plan>,
    threads: Vec<JoinHandle<()>>,
}

impl Streams {
    /// Starts it.
    ///
    /// # Errors
    /// Everything that can be known before the first record: see [`StartError`].
    pub fn start(spec: StreamsSpec) -> Result<Self, StartError> {
        let around = prepare::surroundings(spec, state::open)?;
        let (plan, metrics) = (Arc::clone(&around.plan), Arc::clone(&around.metrics));
        let handle = StopHandle { control: Arc::default(), metrics };
        let workers = 0..around.config.workers;
        let workers: Vec<Worker> =
            workers.map(|index| Worker::new(around.clone(), index)).collect::<Result<_, _>>()?;
        let mut streams = Self { handle, plan, threads: Vec::new() };
        for (index, worker) in workers.into_iter().enumerate() {
            let thread = spawn(worker, index, streams.handle.clone())?;
            streams.threads.push(thread);
        }
        Ok(streams)
    }

    /// The plan it runs by.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// Where it stands.
    pub fn state(&self) -> StreamsState {
        self.handle.metrics.state()
    }

    /// Its numbers.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.handle.metrics
    }

    /// Something to stop it with from elsewhere.
    pub fn stop_handle(&self) -> StopHandle {
        self.handle.clone()
    }

    /// Asks for a clean shutdown: see [`StopHandle::stop`].
    pub fn stop(&self) {
        self.handle.stop();
    }

    /// Have all its workers ended?
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Waits until it has ended.
    ///
    /// # Errors
    /// The first failure of a worker.
    pub fn join(mut self) -> Result<Summary, RunError> {
        self.wait();
        let control = &self.handle.control;
        let failure = control.failure.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(failure) = failure {
            return Err(failure);
        }
        let numbers = self.handle.metrics.snapshot();
        Ok(Summary {
            records_processed: numbers.records_processed,
            records_dropped: numbers.records_dropped,
            commits: numbers.commits,
            records_restored: numbers.records_restored(),
            reached_end: control.reached_end.load(Ordering::SeqCst),
            committed: self.handle.metrics.is_all_committed(),
        })
    }

    fn wait(&mut self) {
        for thread in self.threads.drain(..) {
            // Panics are caught inside.
            thread.join().ok();
        }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        if !self.threads.is_empty() {
            self.stop();
            self.wait();
        }
    }
}

fn spawn(worker: Worker, index: usize, handle: StopHandle) -> Result<JoinHandle<()>, StartError> {
    #[expect(clippy::disallowed_methods, reason = "this module owns the threads")]
    let thread = Builder::new().name(format!("worker-{index}")).spawn(move || {
        let ended = caught(|| drive(worker, &handle))
            .unwrap_or_else(|message| Err(RunError::Panicked { worker: index, message }));
        if let Err(error) = ended {
            fail(&handle, index, error);
        }
    });
    thread.map_err(StartError::Thread)
}

/// The life of a worker.
fn drive(mut worker: Worker, handle: &StopHandle) -> Result<(), RunError> {
    while !handle.control.stop.load(Ordering::SeqCst) {
        match worker.run_once() {
            Ok(Cycle::Worked | Cycle::Idle) => {}
            Ok(Cycle::Finished) => {
                handle.control.reached_end.store(true, Ordering::SeqCst);
                break;
            }
            Err(error) => {
                worker.abandon();
                return Err(error);
            }
        }
    }
    for _ in 0..CLOSE_ATTEMPTS {
        if let Some(closed) = worker.try_close() {
            return closed;
        }
        #[expect(clippy::disallowed_methods, reason = "this module owns the threads")]
        thread::sleep(CLOSE_RETRY);
    }
    worker.close()
}

/// Notes the first failure and asks all workers to stop.
fn fail(handle: &StopHandle, worker: usize, error: RunError) {
    tracing::error!(worker, error = %error.chain(), "worker ended");
    let mut first = handle.control.failure.lock().unwrap_or_else(PoisonError::into_inner);
    first.get_or_insert(error);
    handle.metrics.set_failed();
    handle.control.stop.store(true, Ordering::SeqCst);
}

/// What a run on a backend promises, in one line for its start.
///
/// ```
/// use thalweg_connectors::MemBroker;
/// use thalweg_txn::Guarantee;
/// let line = thalweg_processor::promise("mem://", &MemBroker::new(), Guarantee::ExactlyOnce);
/// assert!(line.starts_with("exactly-once on mem://: outputs, state and offsets commit together"));
/// ```
pub fn promise(url: &str, backend: &dyn Backend, guarantee: Guarantee) -> String {
    let (name, what) = match guarantee {
        Guarantee::ExactlyOnce => ("exactly-once", "outputs, state and offsets commit together"),
        Guarantee::AtLeastOnce => (
            "at-least-once",
            "no record is lost, those since the last commit are processed again after a failure",
        ),
    };
    format!("{name} on {url}: {what}; {}", backend.promise())
}
