//! What the tests share: a place with a log and state, processes that work there, and what they leave behind.

pub(crate) mod kills;
pub(crate) mod process;
pub(crate) mod random;
pub(crate) mod text;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use thalweg::feed::{Received, read_all};
use thalweg::{Offset, SharedBackend, SystemClock, Topic};

pub(crate) use process::{Ended, Process};

/// An example, as a program of its own.
#[derive(Clone, Copy)]
pub(crate) enum Program {
    WordCount,
    PageViews,
}

/// A directory with a log and state, and the application that works there.
pub(crate) struct Place {
    program: Program,
    directory: Option<TempDir>,
    /// A broker that lies elsewhere; `None`: the log in the directory.
    pub(crate) broker: Option<String>,
    options: Vec<String>,
}

impl Place {
    pub(crate) fn new(program: Program, options: &[&str]) -> Self {
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        Self { program, directory: Some(directory), broker: None, options }
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.as_ref().unwrap().path()
    }

    /// Appends to a file that the application reads; makes it when it is not there.
    pub(crate) fn append(&self, name: &str, content: &[u8]) -> PathBuf {
        let path = self.path().join(name);
        let mut file = File::options().create(true).append(true).open(&path).unwrap();
        file.write_all(content).unwrap();
        path
    }

    /// Starts the application with these arguments, beside the options of the place.
    pub(crate) fn start(&self, arguments: &[&str]) -> Process {
        self.start_in("state", arguments)
    }

    /// Starts an instance that has a state directory of its own.
    pub(crate) fn start_in(&self, state: &str, arguments: &[&str]) -> Process {
        let mut command = Command::new(match self.program {
            Program::WordCount => env!("CARGO_BIN_EXE_example-word-count"),
            Program::PageViews => env!("CARGO_BIN_EXE_example-page-views"),
        });
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("THALWEG_") {
                command.env_remove(name);
            }
        }
        // A warning for each late record would be the most of the log.
        command.env("THALWEG_LOG", "info,thalweg_processor::drops=error");
        command.current_dir(self.path()).args(arguments).args(&self.options);
        let broker = self.broker.as_deref().unwrap_or("log://log");
        command.args(["--broker", broker, "--state-dir", state, "--http", "0"]);
        Process::start(command)
    }

    /// Runs the application to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end().succeeded()
    }

    /// Opens the broker; a log only while no process has it open.
    pub(crate) fn open(&self) -> SharedBackend {
        let log = || format!("log://{}", self.path().join("log").display());
        let url = self.broker.clone().unwrap_or_else(log);
        thalweg::open(&url, Arc::new(SystemClock::new())).unwrap()
    }

    /// All committed records of a topic.
    pub(crate) fn read<K: 'static, V: 'static>(&self, topic: &Topic<K, V>) -> Vec<Received<K, V>> {
        read_all(&*self.open(), topic).unwrap()
    }
}

/// What a failed test leaves behind is kept.
impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking()
            && let Some(directory) = self.directory.take()
        {
            eprintln!("log and state are kept in {}", directory.keep().display());
        }
    }
}

/// The rows that a changelog adds up to.
pub(crate) fn folded(place: &Place, changelog: &str) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut rows = BTreeMap::new();
    for record in place.read(&raw(changelog)) {
        match record.value {
            Some(value) => rows.insert(record.key.unwrap(), value),
            None => rows.remove(&record.key.unwrap()),
        };
    }
    rows
}

/// How often each word came.
pub(crate) type Counts = BTreeMap<Vec<u8>, i64>;

/// All that the word count wrote to its output.
pub(crate) fn word_totals(place: &Place) -> Vec<(Vec<u8>, i64, Offset)> {
    let records = place.read(&Topic::<Vec<u8>, i64>::new("word-totals"));
    records.into_iter().map(|r| (r.key, r.value, r.offset)).collect()
}

/// What the word count wrote as its results.
pub(crate) fn word_results(place: &Place) -> Counts {
    let results = std::fs::read(place.path().join("results")).unwrap();
    results.split(|byte| *byte == b'\n').filter_map(text::count_and_word).collect()
}

/// A record without its type: key, value, and what else it carries.
pub(crate) type Raw = Received<Option<Vec<u8>>, Option<Vec<u8>>>;

/// A topic as bytes.
pub(crate) fn raw(name: &str) -> Topic<Option<Vec<u8>>, Option<Vec<u8>>> {
    Topic::new(name)
}

/// What two runs have to agree on: everything but the offset, where markers count.
pub(crate) fn content(record: &Raw) -> impl PartialEq + std::fmt::Debug + '_ {
    let Received { partition, timestamp, headers, key, value, .. } = record;
    (*partition, key.as_deref(), value.as_deref(), *timestamp, headers)
}

/// The last value of each key, after a check that the values of each key strictly increase: nothing was doubled and nothing
/// taken back.
pub(crate) fn increasing<K: Ord + std::fmt::Debug + Clone>(
    records: impl IntoIterator<Item = (K, i64, Offset)>,
) -> BTreeMap<K, i64> {
    let mut last = BTreeMap::new();
    for (key, value, offset) in records {
        if let Some(before) = last.insert(key.clone(), value) {
            assert!(before < value, "{key:?}: {value} at {offset} follows {before}");
        }
    }
    last
}

/// Says where two tables differ, shortly.
pub(crate) fn assert_same<K: Ord + std::fmt::Debug>(
    found: &BTreeMap<K, i64>,
    expected: &BTreeMap<K, i64>,
) {
    let keys = found.keys().chain(expected.keys());
    let different: Vec<_> = keys
        .filter(|key| found.get(key) != expected.get(key))
        .map(|key| format!("{key:?}: {:?} instead of {:?}", found.get(key), expected.get(key)))
        .take(20)
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}
