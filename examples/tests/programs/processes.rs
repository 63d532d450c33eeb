//! Signals, pipes, followed files, and two processes in one place.

use std::io::Write;
use std::process::Stdio;

use rustix::process::Signal;

use crate::support::Place;
use crate::word_count::PROGRAM;

const RUN: [&str; 3] = ["run", "--input", "-"];

#[test]
fn sigterm_sigint_and_sighup_commit_and_end_with_exit_code_0() {
    // Under `nohup` the programs ignore hang-ups, as they should.
    let hang_up = (!ignores_hang_up()).then_some(Signal::HUP);
    for signal in [Signal::TERM, Signal::INT].into_iter().chain(hang_up) {
        let place = Place::new();
        // No commit is due before the end.
        let arguments =
            [&RUN[..1], &["--input", "text", "--set", "commit.interval.ms=9000"]].concat();
        place.file("text", "a b a\n");
        let mut running = place.start(PROGRAM, &arguments);
        running.wait_for("input appended");
        running.signal(signal);
        let (status, log) = running.end();
        assert_eq!(status.code(), Some(0), "{log}");
        assert!(log.contains("stopping: committing what is processed"), "{log}");
        let results = place.results(PROGRAM, &["run", "--until-end"]);
        assert_eq!(results, "2 a\n1 b\n");
    }
}

fn ignores_hang_up() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1)
}

#[test]
fn signals_that_come_together_are_one_wish() {
    let place = Place::new();
    place.file("text", "a b a\n");
    let arguments = [&RUN[..1], &["--input", "text", "--set", "commit.interval.ms=9000"]].concat();
    let mut running = place.start(PROGRAM, &arguments);
    running.wait_for("input appended");
    for signal in [Signal::TERM, Signal::TERM, Signal::INT, Signal::HUP] {
        running.signal(signal);
    }
    let (status, log) = running.end();
    assert_eq!(status.code(), Some(0), "{log}");
    assert!(log.contains("a second signal, 1 s or more after the first, "), "{log}");
    assert_eq!(place.results(PROGRAM, &["run", "--until-end"]), "2 a\n1 b\n");
}

#[test]
fn log_lines_that_cannot_be_written_stop_nothing() {
    let place = Place::new();
    place.file("text", "a b a\n");
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let (reader, pipe) = std::io::pipe().unwrap();
    drop(reader);
    for (stderr, log) in [(Stdio::from(full), "full"), (Stdio::from(pipe), "closed")] {
        let broker = format!("log://{log}");
        let arguments = ["run", "--until-end", "--input", "text", "--broker", &broker];
        let mut command = place.command(PROGRAM, &arguments);
        let state = format!("state-{log}");
        let output = command.args(["--state-dir", &state]).stderr(stderr).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{log}");
        assert_eq!(output.stdout, b"2 a\n1 b\n", "{log}");
    }
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = place.command(PROGRAM, &["run", "--broker", "redis://h"]);
    assert_eq!(command.stderr(full).status().unwrap().code(), Some(2), "an error is lost too");
}

#[test]
fn a_file_is_followed_and_a_line_waits_for_its_end() {
    let place = Place::new();
    let path = place.file("text", "a\nb");
    let mut running = place.start(PROGRAM, &[&RUN[..1], &["--input", "text"]].concat());
    running.wait_for("lines=1 skipped=0 from_byte=0 to_byte=2");
    running.wait_for("the last line has no end yet and waits for it");
    let mut file = std::fs::File::options().append(true).open(path).unwrap();
    file.write_all(b"b\nc").unwrap();
    running.wait_for("lines=1 skipped=0 from_byte=2 to_byte=5");
    running.signal(Signal::TERM);
    assert_eq!(running.end().0.code(), Some(0));
    assert_eq!(place.results(PROGRAM, &["run", "--until-end"]), "1 a\n1 bb\n");
    // Where nothing more is waited for, the last line needs no end.
    let to_the_end = ["run", "--until-end", "--input", "text"];
    assert_eq!(place.results(PROGRAM, &to_the_end), "1 a\n1 bb\n1 c\n");
}

#[test]
fn a_file_that_is_replaced_while_it_is_followed_ends_the_run_with_a_commit() {
    let place = Place::new();
    place.file("text", "a\nb\n");
    let mut running = place.start(PROGRAM, &[&RUN[..1], &["--input", "text"]].concat());
    running.wait_for("input appended");
    place.file("new", "another text\n");
    std::fs::rename(place.path("new"), place.path("text")).unwrap();
    let (status, log) = running.end();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(log.contains("error: `text` is not the text any more of which 4 bytes"), "{log}");
    assert_eq!(place.results(PROGRAM, &["run", "--until-end"]), "1 a\n1 b\n");
}

#[test]
fn a_pipe_by_its_path_is_read_like_standard_input() {
    let place = Place::new();
    let mut command = place.command(PROGRAM, &["run", "--until-end", "--input", "/dev/stdin"]);
    let (reader, mut writer) = std::io::pipe().unwrap();
    let child = command.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    drop(command);
    writer.write_all(b"a b\na").unwrap();
    drop(writer);
    let output = child.unwrap().wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(output.stdout, b"2 a\n1 b\n");
}

#[test]
fn a_directory_that_is_given_free_soon_is_waited_for() {
    let place = Place::new();
    let first = place.start(PROGRAM, &RUN);
    let mut second = place.command(PROGRAM, &["run", "--until-end"]);
    let second = second.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    first.signal(Signal::KILL);
    assert_eq!(first.end().0.code(), None);
    let output = second.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_run_says_at_its_start_what_it_promises() {
    let running = Place::new().start(PROGRAM, &RUN);
    let promise = "exactly-once on log://.thalweg/log: outputs, state and offsets commit together";
    let lines: Vec<&str> = running.log().lines().filter(|line| line.contains(promise)).collect();
    assert!(matches!(lines[..], [line] if line.contains(" INFO ")), "{}", running.log());
}

#[test]
fn the_examples_are_exactly_once_unless_told_otherwise() {
    let place = Place::new();
    let programs = [
        PROGRAM,
        env!("CARGO_BIN_EXE_page-views"),
        env!("CARGO_BIN_EXE_enrichment"),
        env!("CARGO_BIN_EXE_page-views-fixed"),
    ];
    let line = |guarantee: &str, origin: &str| {
        format!("processing.guarantee = {guarantee}    # from {origin}\n")
    };
    for program in programs {
        let config = place.results(program, &["config"]);
        assert!(config.contains(&line("exactly_once", "the application's code")), "{config}");
        let config = place.results(program, &["config", "--guarantee", "at_least_once"]);
        assert!(config.contains(&line("at_least_once", "`--guarantee`")), "{config}");
    }
    place.file("thalweg.toml", "processing.guarantee = 'at_least_once'\n");
    let config = place.results(PROGRAM, &["config"]);
    assert!(config.contains(&line("at_least_once", "`thalweg.toml`")), "{config}");
}

#[test]
fn a_second_process_on_one_directory_is_refused_and_the_first_goes_on() {
    let place = Place::new();
    let mut first = place.start(PROGRAM, &RUN);
    let second = place.run(PROGRAM, &["run", "--until-end"]);
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    let message = "error: cannot open the broker `log://.thalweg/log`\n  because: ";
    assert!(second.stderr.contains(message), "{}", second.stderr);

    let elsewhere = ["run", "--until-end", "--broker", "log://elsewhere"];
    let second = place.run(PROGRAM, &elsewhere);
    assert_eq!(second.code, Some(1), "{}", second.stderr);
    let message = "error: cannot start `word-count`\n  because: ";
    assert!(second.stderr.contains(message), "{}", second.stderr);
    assert!(second.stderr.contains(".thalweg/word-count"), "{}", second.stderr);

    first.type_in("a\nb\na\n");
    first.signal(Signal::TERM);
    assert_eq!(first.end().0.code(), Some(0));
}

#[test]
fn a_killed_process_leaves_everything_for_the_next_one() {
    let place = Place::new();
    let text: String = (0..20_000).map(|n| format!("w{} x\n", n % 100)).collect();
    place.file("text", text);
    let arguments = [&RUN[..1], &["--input", "text"]].concat();
    let mut running = place.start(PROGRAM, &arguments);
    running.wait_for("input appended");
    running.signal(Signal::KILL);
    assert_eq!(running.end().0.code(), None);
    let results = place.results(PROGRAM, &[&arguments[..], &["--until-end"]].concat());
    assert!(results.ends_with("20000 x\n"), "{results}");
    assert_eq!(results.lines().filter(|line| line.starts_with("200 w")).count(), 100);
}

#[test]
fn an_unwritable_state_directory_is_named() {
    let place = Place::new();
    place.file("text", "a\n");
    for directory in ["text/state", "/proc/self/state"] {
        let run = ["run", "--until-end", "--input", "text"];
        let ended = place.run(PROGRAM, &[&run[..], &["--state-dir", directory]].concat());
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("error: cannot start `word-count`\n"), "{}", ended.stderr);
        assert!(ended.stderr.contains(directory), "{}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{}", ended.stderr);
    }
    assert_eq!(place.results(PROGRAM, &["run", "--until-end", "--input", "text"]), "1 a\n");
}

#[test]
fn what_the_environment_says_wrong_is_named() {
    let place = Place::new();
    let mut command = place.command(PROGRAM, &["config"]);
    command.env("THALWEG_NUM_STREAM_THREDS", "canary").env("THALWEG_POLL_MS", "soon");
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains("the nearest known one is `THALWEG_NUM_STREAM_THREADS`\n"), "{text}");
    assert!(
        text.contains(
            "`poll.ms` cannot be `soon` (from the environment variable `THALWEG_POLL_MS`)"
        ),
        "{text}"
    );
    assert!(!text.contains("canary"), "{text}");
}

#[test]
fn a_file_beside_the_program_is_its_configuration() {
    let place = Place::new();
    place.file("thalweg.toml", "broker = 'redis://me:canary@h'\n[state]\ndir = 'elsewhere'\n");
    let config = place.results(PROGRAM, &["config"]);
    assert!(config.contains("state.dir = elsewhere    # from `thalweg.toml`\n"), "{config}");
    assert!(config.contains("broker = redis://me:***@h    # from `thalweg.toml`\n"), "{config}");
    assert!(
        config.contains("application.id = word-count    # from the application's code\n"),
        "{config}"
    );
    let ended = place.run(PROGRAM, &["run"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    for text in [config, ended.stderr, ended.stdout] {
        assert!(!text.contains("canary"), "{text}");
    }
}
