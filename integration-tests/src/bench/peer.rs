//! One run of one workload against a broker, as the contract wants it.

use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thalweg_connectors::{
    Backend, ConsumerOptions, Isolation, SharedBackend, SystemClock, TopicPartition,
};
use thalweg_processor::{
    Guarantee, RuntimeConfig, StateConfig, StateEngine, Streams, StreamsSpec, StreamsState,
    TaskConfig,
};

use super::BenchResult;
use super::workload::{Names, StoreChoice, Workload};

/// How often the numbers of the run are looked at, as in the Java peer.
const LOOK: Duration = Duration::from_millis(5);

/// What a run is told.
#[derive(Clone, Debug)]
pub struct PeerOptions<'a> {
    /// The workload.
    pub workload: Workload,
    /// Group and prefix of internal topics.
    pub application_id: String,
    /// Its topics.
    pub names: Names<'a>,
    /// How commits are made.
    pub guarantee: Guarantee,
    /// Workers.
    pub threads: usize,
    /// Where RocksDB puts its files.
    pub state_dir: PathBuf,
    /// The record cache over all workers.
    pub cache_bytes: usize,
    /// Records in the input topic.
    pub records: u64,
    /// When to give up.
    pub timeout: Duration,
    /// End as soon as everything is restored.
    pub until_running: bool,
}

/// Milliseconds since the process was started: by the driver's clock when it says when.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch {
    started: Instant,
    before: u64,
}

impl Stopwatch {
    /// Starts now, or when `t0_ms` (epoch) was.
    pub fn since(t0_ms: Option<u64>) -> Self {
        let now =
            SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64;
        Self { started: Instant::now(), before: t0_ms.map_or(0, |t0| now.saturating_sub(t0)) }
    }

    fn ms(&self) -> u64 {
        self.before + self.started.elapsed().as_millis() as u64
    }
}

/// Runs the workload until everything is processed, closes, and makes the contract's line.
///
/// # Errors
/// When the application fails, or is not through in time.
pub fn run_peer(
    options: &PeerOptions<'_>,
    backend: &SharedBackend,
    watch: Stopwatch,
) -> BenchResult<String> {
    let table = match options.workload {
        Workload::Join if !options.until_running => size(&**backend, options.names.table)?,
        _ => 0,
    };
    let target = options.workload.target(options.records, table);
    let streams = start(options, backend)?;
    let run = Run { streams: &streams, watch, timeout: options.timeout };
    let running_ms = run.wait("it runs", |run| run.streams.state() == StreamsState::Running)?;
    let (half_ms, processed_ms) = if options.until_running {
        (None, None)
    } else {
        let half = run.wait("half is processed", |run| run.processed() >= target / 2)?;
        (Some(half), Some(run.wait("all is processed", |run| run.processed() >= target)?))
    };
    let until_running_ms = watch.ms();
    let metrics = Arc::clone(streams.metrics());
    streams.stop();
    streams.join()?;
    let done_ms = if options.until_running { until_running_ms } else { watch.ms() };
    let snapshot = metrics.snapshot();
    let line = serde_json::json!({
        "running_ms": running_ms,
        "half_ms": half_ms,
        "processed_ms": processed_ms,
        "done_ms": done_ms,
        "processed": snapshot.records_processed,
        "commits": snapshot.commits,
        "restored": snapshot.records_restored(),
    });
    Ok(line.to_string())
}

struct Run<'a> {
    streams: &'a Streams,
    watch: Stopwatch,
    timeout: Duration,
}

impl Run<'_> {
    fn processed(&self) -> u64 {
        self.streams.metrics().snapshot().records_processed
    }

    /// Waits for something; tells when it came.
    fn wait(&self, what: &str, there: impl Fn(&Self) -> bool) -> BenchResult<u64> {
        while !there(self) {
            if self.streams.is_finished() {
                return Err(format!("the application ended before {what}").into());
            }
            if self.watch.ms() as u128 > self.timeout.as_millis() {
                let processed = self.processed();
                return Err(format!("timed out before {what}; {processed} are processed").into());
            }
            thread::sleep(LOOK);
        }
        Ok(self.watch.ms())
    }
}

fn start(options: &PeerOptions<'_>, backend: &SharedBackend) -> BenchResult<Streams> {
    let mut task = TaskConfig::new(options.application_id.as_str());
    task.cache_max_bytes = options.cache_bytes;
    let mut config = RuntimeConfig::new(task);
    config.guarantee = options.guarantee;
    config.workers = options.threads;
    let directory = Some(options.state_dir.clone());
    config.state = StateConfig { directory, engine: StateEngine::Disk };
    Ok(Streams::start(StreamsSpec {
        topology: options.workload.topology(StoreChoice::Rocksdb, options.names)?,
        backend: Arc::clone(backend),
        clock: Arc::new(SystemClock::new()),
        config: Arc::new(config),
    })?)
}

/// Records of a topic that was only ever appended to.
fn size(backend: &dyn Backend, topic: &str) -> BenchResult<u64> {
    let about = backend.admin()?.describe(&[topic])?;
    let about = about.get(topic).ok_or_else(|| format!("there is no topic `{topic}`"))?;
    let partitions: Vec<_> = (0..about.partitions).map(|p| TopicPartition::new(topic, p)).collect();
    let options =
        ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "bench".to_owned() };
    let ends = backend.consumer(&options)?.end_offsets(&partitions, Isolation::ReadCommitted)?;
    Ok(ends.values().map(|end| end.0 as u64).sum())
}

#[cfg(all(test, feature = "native"))]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics on failure")]

    use std::collections::BTreeMap;

    use thalweg_connectors::{MemBroker, NewTopic, Offset, ProducerOptions};

    use super::super::input::Input;
    use super::*;

    const PARTITIONS: i32 = 4;
    const RECORDS: usize = 2000;

    fn fill(backend: &dyn Backend, topic: &str, records: usize) {
        let options = ProducerOptions {
            transactional_id: None,
            transaction_timeout: Duration::from_secs(60),
            client_id: "fill".to_owned(),
        };
        let (input, mut producer) = (Input::new(50), backend.producer(&options).unwrap());
        let (slot, partitions) = producer.topic(topic).unwrap();
        for record in (0..records).map(|index| input.record(index)) {
            let partition = thalweg_connectors::partition_for(record.key.unwrap(), partitions);
            producer.send(slot, partition, &record).unwrap();
        }
        producer.flush().unwrap();
    }

    #[test]
    fn every_workload_comes_to_its_end_and_commits_all_its_input() {
        for (workload, guarantee) in [
            (Workload::Passthrough, Guarantee::AtLeastOnce),
            (Workload::Count, Guarantee::ExactlyOnce),
            (Workload::Wordcount, Guarantee::ExactlyOnce),
            (Workload::Windowed, Guarantee::AtLeastOnce),
            (Workload::Join, Guarantee::ExactlyOnce),
        ] {
            let backend: SharedBackend = Arc::new(MemBroker::new());
            let topics = ["in", "table", "out"].map(|name| NewTopic {
                name: name.to_owned(),
                partitions: PARTITIONS,
                config: BTreeMap::new(),
            });
            backend.admin().unwrap().create(&topics).unwrap();
            fill(&*backend, "table", 50);
            fill(&*backend, "in", RECORDS);
            let folder = tempfile::tempdir().unwrap();
            let options = PeerOptions {
                workload,
                application_id: "bench-test".to_owned(),
                names: Names::LOCAL,
                guarantee,
                threads: 2,
                state_dir: folder.path().to_owned(),
                cache_bytes: 10 << 20,
                records: RECORDS as u64,
                timeout: Duration::from_secs(60),
                until_running: false,
            };
            let line = run_peer(&options, &backend, Stopwatch::since(None)).unwrap();
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            let target = workload.target(RECORDS as u64, 50);
            assert_eq!(line["processed"].as_u64(), Some(target), "{}", workload.name());
            let order = ["running_ms", "half_ms", "processed_ms", "done_ms"];
            let order = order.map(|field| line[field].as_u64().unwrap());
            assert!(order.is_sorted(), "{line}");
            assert!(size(&*backend, "out").unwrap() > 0, "{}", workload.name());
            let inputs: Vec<_> = (0..PARTITIONS).map(|p| TopicPartition::new("in", p)).collect();
            let reader =
                ConsumerOptions { isolation: Isolation::ReadCommitted, client_id: "t".to_owned() };
            let mut reader = backend.consumer(&reader).unwrap();
            let committed = reader.committed("bench-test", &inputs).unwrap();
            let sum: i64 = committed.values().map(|c| c.offset).map(|Offset(o)| o).sum();
            assert_eq!(sum, RECORDS as i64, "{}", workload.name());
        }
    }
}
