//! The log on real files.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use super::support::*;
use super::{commit, log_on};
use thalweg_connectors::*;

/// Where the child of [`a_second_process_is_told_who_has_the_log`] finds the directory.
const DIRECTORY: &str = "THALWEG_TEST_LOG_DIRECTORY";

fn open_at(path: &Path, durability: Durability) -> PortResult<Bench> {
    let clock = Arc::new(ManualClock::new(START));
    let options = LogOptions::default().durability(durability);
    let log = LogBroker::open(path, &options, Arc::clone(&clock) as _)?;
    Ok(Bench::new(log, clock))
}

fn open_in(path: &Path) -> Bench {
    open_at(path, Durability::Process).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

#[test]
fn a_log_is_reopened_with_everything_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("new/log");
    for run in 0..3 {
        let bench = open_in(&path);
        bench.create("t", 1);
        assert_eq!(bench.values("t").len(), run);
        commit(&bench, "a", run as i64);
    }
    let committed = open_in(&path).committed("g", "t").unwrap().unwrap();
    assert_eq!(committed.offset, Offset(2));
}

#[test]
fn a_crash_leaves_what_was_committed() {
    let directory = tempfile::tempdir().unwrap();
    let [live, image] = ["live", "image"].map(|d| directory.path().join(d));
    let bench = open_in(&live);
    bench.create("t", 1);
    commit(&bench, "a", 1);
    bench.produce("t", &["b"]);
    let mut producer = bench.transactional("id");
    producer.begin().unwrap();
    send(producer.as_mut(), "t", &["lost"]);
    producer.flush().unwrap();
    // What a killed process leaves: the files as they are while the log is open.
    copy(&live, &image);
    producer.commit().unwrap();
    assert_eq!(bench.values("t"), ["a", "b", "lost"]);

    let bench = open_in(&image);
    assert_eq!(bench.values("t"), ["a", "b"]);
    assert_eq!(bench.committed("g", "t").unwrap().unwrap().offset, Offset(1));
    commit(&bench, "c", 2);
    assert_eq!(bench.values("t"), ["a", "b", "c"]);
}

#[test]
fn everybody_in_a_process_shares_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    let first = open_in(&path);
    let second = open_in(&directory.path().join(".").join("log"));
    first.create("t", 1);
    second.produce("t", &["a"]);
    assert_eq!(first.values("t"), ["a"]);
    let other = open_at(&path, Durability::Sync).map(drop).unwrap_err();
    assert_eq!(other.kind(), PortErrorKind::Refused);
    assert!(other.to_string().contains("durability process"), "{other}");
    drop(first);
    let mut producer = second.plain();
    drop(second);
    assert!(open_at(&path, Durability::Sync).is_err(), "a client is left");
    send(producer.as_mut(), "t", &["b"]);
    producer.flush().unwrap();
    drop(producer);
    let synced = open_at(&path, Durability::Sync).unwrap();
    assert_eq!(synced.values("t"), ["a", "b"]);
}

#[test]
fn a_second_process_is_told_who_has_the_log() {
    if let Some(path) = std::env::var_os(DIRECTORY) {
        let refused = open_at(Path::new(&path), Durability::Process);
        let refused = refused.map(drop).unwrap_err();
        println!("{:?}: {refused}", refused.kind());
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let bench = open_in(&path);
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "files::a_second_process_is_told_who_has_the_log"])
        .arg("--nocapture")
        .env(DIRECTORY, &path)
        .output()
        .unwrap();
    let said = String::from_utf8(child.stdout).unwrap();
    let expected = format!(
        "Busy: another process (process id {}) has the log {} open: stop it or use another directory",
        std::process::id(),
        path.display()
    );
    assert!(said.contains(&expected), "{said}");
    drop(bench);
    open_in(&path);
}

#[test]
fn a_path_that_cannot_be_a_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    for path in [file.clone(), file.join("below")] {
        let refused = open_at(&path, Durability::Process).map(drop).unwrap_err();
        assert_eq!(refused.kind(), PortErrorKind::Refused);
        assert!(refused.to_string().contains(&*path.to_string_lossy()));
    }
}

#[test]
fn damaged_files_are_an_error_and_no_panic() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().canonicalize().unwrap();
    let bench = open_in(&path);
    bench.create("t", 1);
    commit(&bench, "a", 1);
    drop(bench);
    for entry in fs::read_dir(path.join("db")).unwrap() {
        let file = entry.unwrap().path();
        if file.file_name().unwrap().to_string_lossy().starts_with("MANIFEST") {
            fs::write(&file, [7; 1000]).unwrap();
        }
    }
    let damaged = open_at(&path, Durability::Process).map(drop).unwrap_err();
    assert_eq!(damaged.kind(), PortErrorKind::Corrupt);
    assert!(damaged.to_string().contains(&*path.to_string_lossy()));
}

#[test]
fn a_url_opens_a_log_by_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a/b c");
    let url = format!("log://{}", path.display());
    let clock = Arc::new(ManualClock::new(START));
    let backend = open(&url, Arc::clone(&clock) as _).unwrap();
    assert_eq!(backend.scheme(), "log");
    assert_eq!(backend.promise(), "survives a killed process");
    drop(backend);
    let backend = open(&format!("{url}?durability=sync"), clock).unwrap();
    assert_eq!(backend.promise(), "survives a killed process and the loss of power");
    assert!(path.join("db").is_dir());
}

#[test]
fn memory_and_files_behave_alike_after_much_is_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let on_files = open_in(directory.path());
    let on_memory = log_on(&LogMemory::new(), Durability::Process).unwrap();
    for bench in [&on_files, &on_memory] {
        bench.create("t", 1);
        for round in 1..=20 {
            bench.produce("t", &["a", "b", "c"]);
            let mut admin = bench.backend.admin().unwrap();
            let before = [(tp("t", 0), Offset(round * 3 - 2))].into();
            admin.delete_records(&before).unwrap();
            let offsets: Vec<_> =
                bench.read("t", 0, Offset(round * 3 - 2)).iter().map(|r| r.offset).collect();
            assert_eq!(offsets, [round * 3 - 2, round * 3 - 1]);
        }
    }
}
