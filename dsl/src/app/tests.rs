#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bad_input;
mod refused;

use std::sync::Mutex;

use thalweg_connectors::{MemBroker, SystemClock, Topic};

use super::feed::{create_topic, read_all};
use super::*;
use crate::StreamsBuilder;

/// Counts the lines of `lines` by their text into `totals`.
fn counting() -> Topology {
    let builder = StreamsBuilder::new();
    builder
        .stream(&Topic::<(), String>::new("lines"))
        .group_by("by-line", |(), line: &String| line.clone())
        .count("counts")
        .to_stream()
        .to(&Topic::<String, i64>::new("totals"));
    builder.build().unwrap()
}

fn app() -> App {
    App::new(counting())
        .set("application.id", "counting")
        .topic("lines", 1)
        .topic("totals", 1)
        .input(LineFeed::to("lines"))
}

/// Runs a command line: exit code and standard error.
fn run(app: &App, arguments: &[&str]) -> (u8, String) {
    let arguments = ["counting"].iter().chain(arguments).map(Into::into).collect();
    app.obey(arguments, Vec::new())
}

fn broker(name: &str) -> (String, MemBroker) {
    let broker = MemBroker::named(name, Arc::new(SystemClock::new()));
    (format!("mem://{name}"), broker)
}

fn totals(broker: &MemBroker, suffix: &str) -> Vec<(String, i64)> {
    let topic = Topic::<String, i64>::new(format!("totals{suffix}"));
    read_table(broker, &topic).unwrap()
}

fn rows(expected: &[(&str, i64)]) -> Vec<(String, i64)> {
    expected.iter().map(|(word, n)| ((*word).to_owned(), *n)).collect()
}

struct TextFile {
    _directory: tempfile::TempDir,
    path: String,
}

fn text_file(text: &str) -> TextFile {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    std::fs::write(&path, text).unwrap();
    TextFile { path: path.display().to_string(), _directory: directory }
}

#[test]
fn a_run_until_the_end_feeds_its_input_first_and_processes_all_of_it() {
    let (url, broker) = broker("app-until-end");
    let text = text_file("a\nb\na\n");
    let arguments = ["run", "--until-end", "--broker", &url, "--input", &text.path];
    for _ in 0..2 {
        assert_eq!(run(&app(), &arguments), (0, String::new()));
        assert_eq!(totals(&broker, ""), rows(&[("a", 2), ("b", 1)]));
    }
}

#[test]
fn results_are_the_latest_value_per_key() {
    let (url, _) = broker("app-results");
    let text = text_file("a\nb\na\n");
    let out = text_file("");
    let totals = Topic::<String, i64>::new("totals");
    let app = app().results(&totals, |out, word, n| writeln!(out, "{n} {word}"));
    let arguments =
        ["run", "--until-end", "--broker", &url, "--input", &text.path, "--output", &out.path];
    assert_eq!(run(&app, &arguments), (0, String::new()));
    assert_eq!(std::fs::read_to_string(&out.path).unwrap(), "2 a\n1 b\n");
}

#[test]
fn replay_never_touches_live_topics() {
    let (url, broker) = broker("app-replay");
    let text = text_file("a\nb\na\n");
    run(&app(), &["run", "--until-end", "--broker", &url, "--input", &text.path]);
    let image = || -> Vec<_> {
        let mut admin = broker.admin().unwrap();
        let topics = admin.list().unwrap();
        let live = topics.into_iter().filter(|topic| !topic.name.contains("-replay-"));
        live.map(|topic| {
            let records = read_all(
                &broker,
                &Topic::<Option<Vec<u8>>, Option<Vec<u8>>>::new(topic.name.as_str()),
            );
            let mut consumer = broker
                .consumer(&thalweg_connectors::ConsumerOptions {
                    isolation: thalweg_connectors::Isolation::ReadCommitted,
                    client_id: "test".to_owned(),
                })
                .unwrap();
            let partitions: Vec<_> = (0..topic.partitions)
                .map(|p| thalweg_connectors::TopicPartition::new(topic.name.as_str(), p))
                .collect();
            let committed = ["counting", "counting-input"]
                .map(|group| consumer.committed(group, &partitions).unwrap());
            (topic, records.unwrap(), committed)
        })
        .collect()
    };
    let before = image();
    assert_eq!(before.len(), 4, "lines, totals, a changelog and a repartition topic");
    for (name, more) in [("one", None), ("two", None), ("one", Some("--replace"))] {
        let mut arguments = vec!["replay", "--from", "beginning", "--as", name, "--broker", &url];
        arguments.extend(more);
        assert_eq!(run(&app(), &arguments), (0, String::new()));
        assert_eq!(totals(&broker, &format!("-replay-{name}")), rows(&[("a", 2), ("b", 1)]));
    }
    assert_eq!(image(), before);
}

#[test]
fn a_replay_without_a_name_is_named_after_the_present_time() {
    let (url, broker) = broker("app-replay-name");
    let text = text_file("a\n");
    run(&app(), &["run", "--until-end", "--broker", &url, "--input", &text.path]);
    assert_eq!(run(&app(), &["replay", "--from", "0", "--broker", &url]), (0, String::new()));
    let topics = broker.admin().unwrap().list().unwrap();
    let replayed =
        topics.iter().find_map(|topic| topic.name.strip_prefix("totals-replay-")).unwrap();
    let (day, time) = replayed.split_once('-').unwrap();
    assert!(day.len() == 8 && time.len() == 6, "{replayed}");
    assert!(day.starts_with("20") && day.bytes().chain(time.bytes()).all(|b| b.is_ascii_digit()));
}

#[test]
fn a_replay_of_a_topic_that_only_a_run_creates_says_so() {
    let (url, _) = broker("app-replay-of-nothing");
    let (code, text) = run(&app(), &["replay", "--from", "beginning", "--broker", &url]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("because: source topic `lines` does not exist"), "{text}");
    assert!(text.contains("\n  hint: mem:// is empty when a process starts; "), "{text}");
}

#[test]
fn a_replay_name_that_is_taken_is_refused_until_it_is_removed() {
    let (url, broker) = broker("app-replay-taken");
    let text = text_file("a\n");
    run(&app(), &["run", "--until-end", "--broker", &url, "--input", &text.path]);
    let topics = |part: &str| {
        let topics = broker.admin().unwrap().list().unwrap();
        topics.iter().filter(|topic| topic.name.contains(part)).count()
    };
    let live = topics("");
    let replay = |name: &str| {
        run(&app(), &["replay", "--from", "beginning", "--as", name, "--broker", &url])
    };
    for name in ["one", "one-more"] {
        assert_eq!(replay(name), (0, String::new()));
    }
    let (code, error) = replay("one");
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("there is a replay `one` already; "), "{error}");
    assert!(error.contains("`--replace`"), "{error}");

    let of_the_other = topics("-replay-one-more");
    let removed = run(&app(), &["replays", "--remove", "one", "--broker", &url]);
    assert_eq!(removed, (0, String::new()));
    assert_eq!(topics("-replay-"), of_the_other);
    assert_eq!(topics("") - of_the_other, live);

    let both = ["replays", "--remove", "one-more", "--remove", "nope", "--broker", &url];
    assert_eq!(run(&app(), &both).0, 2);
    assert_eq!(topics("-replay-"), of_the_other, "all names are looked at before one is removed");
    assert_eq!(replay("one"), (0, String::new()));
}

#[test]
fn the_range_of_a_replay_goes_by_the_order_of_the_records() {
    let (url, broker) = broker("app-replay-order");
    let text = text_file("1\n2\n5\nlate: 1\n6\nlate: 3\n");
    let feed = LineFeed::to("lines").timestamp(|line| {
        let seconds: Result<i64, _> = line.trim_start_matches("late: ").parse();
        seconds.map(|seconds| thalweg_connectors::Timestamp(seconds * 1000))
    });
    let app = App { inputs: vec![feed], ..app() };
    let live = ["run", "--until-end", "--broker", &url, "--input", &text.path];
    assert_eq!(run(&app, &live), (0, String::new()));
    let range = ["--from", "1970-01-01T00:00:02Z", "--until", "1970-01-01T00:00:06Z"];
    let replay = [&["replay", "--as", "range", "--broker", &url], &range[..]].concat();
    assert_eq!(run(&app, &replay), (0, String::new()));
    let replayed = totals(&broker, "-replay-range");
    assert_eq!(replayed, rows(&[("2", 1), ("5", 1), ("late: 1", 1)]));
}

#[test]
fn what_there_is_to_replay_is_told() {
    let (url, broker) = broker("app-replay-range");
    let there_is = || {
        let sources = Sources {
            code: vec![("application.id".to_owned(), "counting".to_owned())],
            assignments: vec![format!("broker={url}")],
            ..Sources::default()
        };
        let settings = Settings::load(&sources).unwrap();
        let topology = counting();
        let replays = Replays { topology: &topology, settings: &settings, backend: &broker };
        replays.there_is().unwrap()
    };
    create_topic(&broker, "lines", 2).unwrap();
    create_topic(&broker, "totals", 1).unwrap();
    assert_eq!(there_is(), "`lines` is empty");
    let feed =
        LineFeed::to("lines").timestamp(|line| line.parse().map(thalweg_connectors::Timestamp));
    let text: String = (1..=1000).map(|n| format!("{n}000\n")).collect();
    feed.append(&broker, "g", io::Cursor::new(text)).unwrap();
    let told = there_is();
    assert!(told.starts_with("`lines` has the offsets 0 to "), "{told}");
    assert!(told.ends_with(", about 1970-01-01T00:00:01Z to 1970-01-01T00:16:40Z"), "{told}");
}

#[test]
fn an_output_that_cannot_be_written_is_named_before_anything_is_done() {
    let (url, broker) = broker("app-output");
    let text = text_file("a\n");
    let arguments = ["run", "--until-end", "--broker", &url, "--input", &text.path];
    let output = format!("{}/away/out", text.path);
    let (code, error) = run(&app(), &[&arguments[..], &["--output", &output]].concat());
    assert_eq!(code, 1, "{error}");
    let message = format!("error: cannot write the results to `{output}`\n  because: ");
    assert!(error.starts_with(&message), "{error}");
    assert!(broker.admin().unwrap().list().unwrap().is_empty(), "nothing was begun");

    // What an earlier run wrote stays when this one fails.
    let out = text_file("what was\n");
    let away = ["--input", "/away", "--output", &out.path];
    let (code, error) =
        run(&app(), &[&["run", "--until-end", "--broker", &url], &away[..]].concat());
    assert_eq!(code, 1, "{error}");
    assert_eq!(std::fs::read_to_string(&out.path).unwrap(), "what was\n");
}

#[test]
fn wrong_options_end_with_exit_code_2_and_one_message() {
    let (url, _) = broker("app-options");
    let without_input = App { inputs: Vec::new(), ..app() };
    let two_inputs = app().input(LineFeed::to("more"));
    for (app, arguments, message) in [
        (
            &app(),
            &["run", "--workers", "0", "--set", "x=1"][..],
            "error: bad configuration, 2 problems:\n  unknown key `x`",
        ),
        (
            &app(),
            &["run", "--broker", "kafka:/h"],
            "error: bad configuration: `broker` cannot be `kafka:/h` (from `--broker`)",
        ),
        (
            &app(),
            &["run", "--broker", "pulsar://h"],
            "error: cannot open the broker `pulsar://h`\n  because: no backend is called pulsar://",
        ),
        (
            &app(),
            &["run", "--broker", "redis://h:1"],
            "error: cannot open the broker `redis://h:1`\n  because: redis:// is not supported yet; ",
        ),
        (
            &app(),
            &[
                "run",
                "--guarantee",
                "exactly_once",
                "--set",
                "commit.interval.ms=20000",
                "--broker",
                &url,
            ],
            "error: cannot start `counting`\n  because: `commit.interval.ms` (20",
        ),
        (
            &without_input,
            &["run", "--input", "x", "--broker", &url],
            "error: `--input` cannot be used: the application declares no input",
        ),
        (
            &two_inputs,
            &["run", "--input", "x", "--broker", &url],
            "error: `--input` cannot be used: write TOPIC=FILE, where the topic is one of `lines`, `more`",
        ),
        (
            &app(),
            &["run", "--output", "x"],
            "error: the following required arguments were not provided:\n  --until-end",
        ),
        (&app(), &[], "Usage: counting"),
    ] {
        let (code, text) = run(app, arguments);
        assert_eq!(code, 2, "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
}

#[test]
fn a_replay_that_cannot_be_ends_with_exit_code_2_and_touches_nothing() {
    let (url, broker) = broker("app-replay-options");
    create_topic(&broker, "lines", 1).unwrap();
    create_topic(&broker, "totals", 1).unwrap();
    let (from, before) = ("2025-06-01T14:00:00Z", "2025-06-01T13:00:00Z");
    let name = "error: `--as` cannot be used: a name is 1 to 50 letters";
    let until = "error: `--until` cannot be used: it has to be later than `--from`";
    for (arguments, message) in [
        (&["replay", "--from", "0", "--as", "a/b"][..], name),
        (&["replay", "--from", "0", "--as", ".."], name),
        (&["replay", "--from", "0", "--as", ""], name),
        (&["replay", "--from", from, "--until", before], until),
        (&["replay", "--from", from, "--until", from], until),
        (&["replay", "--from", "0", "--warm-up", "1m"], "error: cannot start `counting-replay-"),
        (
            &["replays", "--remove", "away"],
            "error: `--remove` cannot be used: there is no replay `away`",
        ),
    ] {
        let (code, text) = run(&app(), &[arguments, &["--broker", &url]].concat());
        assert_eq!(code, 2, "{arguments:?}: {text}");
        assert!(text.contains(message), "{arguments:?}: {text}");
    }
    let names: Vec<_> =
        broker.admin().unwrap().list().unwrap().into_iter().map(|t| t.name).collect();
    assert_eq!(names, ["lines", "totals"]);
}

#[test]
fn a_topic_that_nobody_declares_is_not_made() {
    let (url, broker) = broker("app-unknown-topic");
    let undeclared = App { topics: vec![("lines".to_owned(), 1)], ..app() };
    create_topic(&broker, "total", 1).unwrap();
    let (code, text) = run(&undeclared, &["run", "--broker", &url]);
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("because: output topic `totals` does not exist: did you mean \"total\"?"),
        "{text}"
    );
    let hint =
        "\n  hint: declare it in the program, `App::topic(\"totals\", PARTITIONS)`, and `run`";
    assert!(text.contains(hint), "{text}");

    let (url, _) = self::broker("app-unknown-source");
    let undeclared = App { topics: vec![("totals".to_owned(), 1)], ..app() };
    let (code, text) = run(&undeclared, &["run", "--broker", &url]);
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("because: source topic `lines` does not exist"), "{text}");
}

#[test]
fn what_fails_is_reported_with_its_causes_and_without_secrets() {
    let (code, text) = run(&app(), &["run", "--broker", "redis://me:canary@h:1"]);
    assert_eq!(code, 2, "{text}");
    assert!(
        text.starts_with(
            "error: cannot open the broker `redis://me:***@h:1`\n  because: redis:// "
        ),
        "{text}"
    );
    let (code, text) = run(&app(), &["run", "--broker", "log://x?durability=canary&token=canary"]);
    assert_eq!(code, 2, "{text}");
    assert!(!text.replace("durability=canary", "").contains("canary"), "{text}");
}

#[test]
fn a_run_in_another_program_ends_when_its_future_says_so() {
    let (url, broker) = broker("app-embedded");
    let broker = Arc::new(broker);
    create_topic(&*broker, "lines", 1).unwrap();
    LineFeed::to("lines").append(&*broker, "g", io::Cursor::new("a\n")).unwrap();
    create_topic(&*broker, "totals", 1).unwrap();
    let seen = Arc::clone(&broker);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let app = app().set("broker", url).set("processing.guarantee", "exactly_once");
    let summary = runtime.block_on(app.run_until(async move {
        let mut tick = tokio::time::interval(std::time::Duration::from_millis(5));
        while totals(&seen, "").is_empty() {
            tick.tick().await;
        }
    }));
    let summary = summary.unwrap().unwrap();
    assert!(!summary.reached_end);
    assert_eq!(totals(&broker, ""), rows(&[("a", 1)]));
}

#[test]
fn a_failing_input_stops_the_run_with_a_commit_and_is_reported() {
    let (url, broker) = broker("app-input-fails");
    let file = text_file("1 a\nx b\n");
    let feed = LineFeed::to("lines").timestamp(|line| {
        let time = line.split(' ').next().unwrap_or_default();
        time.parse().map(thalweg_connectors::Timestamp)
    });
    let app = App { inputs: vec![feed], ..app() };
    let (code, text) = run(&app, &["run", "--broker", &url, "--input", &file.path]);
    assert_eq!(code, 1, "{text}");
    let message = format!("error: cannot take {}:2 (byte 4): no timestamp found; ", file.path);
    assert!(text.starts_with(&message) && text.contains("\n  because: "), "{text}");
    assert_eq!(totals(&broker, ""), rows(&[]));

    let arguments = ["run", "--until-end", "--broker", &url, "--input", &file.path];
    let go_on = ["--set", "deserialization.exception.handler=continue"];
    assert_eq!(run(&app, &[&arguments[..], &go_on].concat()), (0, String::new()));
    assert_eq!(totals(&broker, ""), rows(&[("1 a", 1)]));
}

#[test]
fn describe_and_config_need_no_broker() {
    let seen = Mutex::new(Vec::new());
    for command in ["describe", "config", "--version", "--help"] {
        seen.lock().unwrap().push(run(&app(), &[command]));
    }
    assert!(seen.into_inner().unwrap().iter().all(|(code, text)| *code == 0 && text.is_empty()));
}
