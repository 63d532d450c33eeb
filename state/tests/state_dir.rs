//! The state directory: who may use it, and what it keeps.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use thalweg_state::{ErrorClass, StateDir, StateDirOptions, StateError, UnsafeReason};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn reason(result: Result<StateDir, StateError>) -> UnsafeReason {
    match result.unwrap_err() {
        StateError::UnsafeDirectory { reason, .. } => reason,
        other => panic!("{other}"),
    }
}

#[test]
fn directories_are_made_for_their_owner_alone() {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("deep/state");
    let dir = StateDir::open(&root, "app").unwrap();
    let task = dir.task_dir("0_1").unwrap();
    assert_eq!(task, root.join("app/0_1"));
    for path in [&root, &root.join("app"), &task] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    for file in [".lock", ".instance"] {
        assert_eq!(mode(&root.join("app").join(file)), 0o600, "{file}");
    }
}

#[test]
fn second_holder_is_refused_with_the_directory_and_the_pid_of_the_first() {
    let temp = tempfile::tempdir().unwrap();
    let first = StateDir::open(temp.path(), "app").unwrap();
    let error = StateDir::open(temp.path(), "app").unwrap_err();
    assert_eq!(error.class(), ErrorClass::Fatal);
    let message = error.to_string();
    assert!(message.contains(&format!("process {}", std::process::id())), "{message}");
    assert!(message.contains(&temp.path().join("app").display().to_string()), "{message}");
    StateDir::open(temp.path(), "another-app").unwrap();
    drop(first);
    StateDir::open(temp.path(), "app").unwrap();
}

#[test]
fn instance_id_is_kept_over_restarts_and_differs_between_directories() {
    let temp = tempfile::tempdir().unwrap();
    let id = StateDir::open(temp.path(), "app").unwrap().instance_id().to_owned();
    assert_eq!(StateDir::open(temp.path(), "app").unwrap().instance_id(), id);
    assert_ne!(StateDir::open(temp.path(), "app2").unwrap().instance_id(), id);
    assert_eq!(id.len(), 36);
}

#[test]
fn torn_instance_file_is_made_anew() {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("app")).unwrap();
    fs::write(temp.path().join("app/.instance"), "5c1").unwrap();
    let id = StateDir::open(temp.path(), "app").unwrap().instance_id().to_owned();
    assert_eq!(StateDir::open(temp.path(), "app").unwrap().instance_id(), id);
}

#[test]
fn discarded_task_is_gone_and_leftover_trash_is_removed_at_the_next_start() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path(), "app").unwrap();
    fs::write(dir.task_dir("0_1").unwrap().join("file"), "x").unwrap();
    dir.task_dir("0_0").unwrap();
    // As a crash in the middle of removing leaves it.
    fs::create_dir(dir.path().join(".trash-0_1-0")).unwrap();
    fs::write(dir.path().join(".trash-0_1-0/file"), "x").unwrap();
    dir.discard_task("0_1").unwrap();
    dir.discard_task("0_1").unwrap();
    assert_eq!(dir.tasks().unwrap(), ["0_0"]);
    assert!(dir.path().join(".trash-0_1-0/file").exists());
    drop(dir);
    let dir = StateDir::open(temp.path(), "app").unwrap();
    assert!(!dir.path().join(".trash-0_1-0").exists());
    assert_eq!(dir.tasks().unwrap(), ["0_0"]);
}

#[test]
fn foreign_files_are_ignored() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path(), "app").unwrap();
    dir.task_dir("1_0").unwrap();
    fs::write(dir.path().join("notes.txt"), "x").unwrap();
    fs::create_dir(dir.path().join("with space")).unwrap();
    assert_eq!(dir.tasks().unwrap(), ["1_0"]);
}

#[test]
fn names_that_lead_elsewhere_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let dir = StateDir::open(temp.path(), "app").unwrap();
    for name in ["", ".", "..", "a/b", "/etc", ".lock", "a\0b", "ä", &"x".repeat(256)] {
        assert!(matches!(dir.task_dir(name), Err(StateError::BadName { .. })), "{name:?}");
        assert!(matches!(dir.discard_task(name), Err(StateError::BadName { .. })), "{name:?}");
        let opened = StateDir::open(temp.path(), name);
        assert!(matches!(opened, Err(StateError::BadName { .. })), "{name:?}");
    }
}

#[test]
fn directory_that_anybody_may_write_to_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    drop(StateDir::open(temp.path(), "app").unwrap());
    set_mode(&temp.path().join("app"), 0o777);
    let error = StateDir::open(temp.path(), "app").unwrap_err();
    assert!(error.to_string().contains("chmod o-w"), "{error}");
    assert_eq!(error.class(), ErrorClass::Fatal);
    let lenient = StateDirOptions::default().allow_unsafe();
    drop(StateDir::open_with(temp.path(), "app", lenient).unwrap());

    set_mode(&temp.path().join("app"), 0o700);
    let dir = StateDir::open(temp.path(), "app").unwrap();
    set_mode(&dir.task_dir("0_0").unwrap(), 0o702);
    assert!(matches!(dir.task_dir("0_0"), Err(StateError::UnsafeDirectory { .. })));
}

#[test]
fn shared_parent_is_fine_only_if_nobody_can_replace_the_directory_in_it() {
    let temp = tempfile::tempdir().unwrap();
    set_mode(temp.path(), 0o1777);
    drop(StateDir::open(temp.path(), "app").unwrap());
    set_mode(temp.path(), 0o777);
    assert_eq!(reason(StateDir::open(temp.path(), "app")), UnsafeReason::WorldWritable);
}

#[test]
fn symbolic_links_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), temp.path().join("app")).unwrap();
    assert_eq!(reason(StateDir::open(temp.path(), "app")), UnsafeReason::Symlink);
    let dir = StateDir::open(temp.path(), "app2").unwrap();
    symlink(elsewhere.path(), dir.path().join("0_0")).unwrap();
    let error = dir.task_dir("0_0").unwrap_err();
    assert!(error.to_string().contains("symbolic link"), "{error}");
    assert!(fs::read_dir(elsewhere.path()).unwrap().next().is_none(), "nothing was written there");
}

#[test]
fn path_through_a_file_is_an_error_that_names_path_and_cause() {
    let temp = tempfile::tempdir().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "x").unwrap();
    assert_eq!(reason(StateDir::open(&file, "app")), UnsafeReason::NotADirectory);
    let below = file.join("state");
    let message = StateDir::open(&below, "app").unwrap_err().to_string();
    assert!(message.contains(&below.display().to_string()), "{message}");
    assert!(message.contains("Not a directory"), "{message}");
}

#[test]
fn read_only_directory_is_an_error_that_names_path_and_cause() {
    let temp = tempfile::tempdir().unwrap();
    let app = temp.path().join("app");
    fs::create_dir(&app).unwrap();
    set_mode(&app, 0o500);
    // Rights do not bind the superuser; for them the state is just opened.
    match StateDir::open(temp.path(), "app") {
        Ok(dir) => assert!(fs::write(dir.path().join("proof"), "x").is_ok()),
        Err(error) => {
            let message = error.to_string();
            assert!(message.contains(&app.display().to_string()), "{message}");
            assert!(message.contains("ermission denied"), "{message}");
        }
    }
    set_mode(&app, 0o700);
}
