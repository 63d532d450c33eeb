#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::PathBuf;
use std::time::Duration;

use thalweg_connectors::OffsetReset;
use thalweg_processor::{Guarantee, OnError, Semantics, TimestampPolicy};

use super::keys::KEYS;
use super::layers::Sources;
use super::problem::{ConfigError, Problem};
use super::secret::Secret;
use super::settings::Settings;

/// Sources with an application id, and no file.
fn sources() -> Sources {
    Sources {
        code: vec![("application.id".to_owned(), "in-code".to_owned())],
        ..Sources::default()
    }
}

fn with_set(assignments: &[&str]) -> Sources {
    Sources { assignments: assignments.iter().map(|&a| a.to_owned()).collect(), ..sources() }
}

fn with_variables(variables: &[(&str, &str)]) -> Sources {
    let variables = variables.iter();
    Sources { variables: variables.map(|(n, v)| (n.into(), v.into())).collect(), ..sources() }
}

struct TomlFile {
    _directory: tempfile::TempDir,
    path: PathBuf,
}

fn toml_file(text: &str) -> TomlFile {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("thalweg.toml");
    std::fs::write(&path, text).unwrap();
    TomlFile { _directory: directory, path }
}

fn with_file(file: &TomlFile) -> Sources {
    Sources { file: Some(file.path.clone()), ..sources() }
}

fn problems(sources: &Sources) -> Vec<String> {
    let error: ConfigError = Settings::load(sources).unwrap_err();
    error.problems().iter().map(Problem::to_string).collect()
}

#[test]
fn without_any_source_only_the_application_id_is_missing() {
    assert_eq!(
        problems(&Sources::default()),
        [
            "`application.id` is not set; set it with `--application-id`, `THALWEG_APPLICATION_ID` or in `thalweg.toml`"
        ]
    );
}

#[test]
fn every_default_is_a_value_that_its_key_takes() {
    let settings = Settings::load(&sources()).unwrap();
    assert_eq!(settings.shown().count(), KEYS.len());
    for key in KEYS.iter().filter(|key| key.default.is_some()) {
        let (_, shown, origin) = settings.shown().find(|(k, ..)| k.name == key.name).unwrap();
        assert_eq!((Some(shown), origin), (key.default, "the default"));
    }
}

#[test]
fn every_layer_is_laid_over_the_one_before() {
    let file =
        toml_file("broker = 'mem://file'\nnum.stream.threads = 3\n[application]\nid = 'in-file'\n");
    let settings = |sources: &Sources| {
        let settings = Settings::load(sources).unwrap();
        (settings.broker.to_string(), settings.workers, settings.application_id)
    };
    let row = |broker: &str, workers, id: &str| (broker.to_owned(), workers, id.to_owned());

    let mut sources = sources();
    assert_eq!(settings(&sources), row("log://.thalweg/log", 1, "in-code"));
    sources.code.push(("broker".to_owned(), "mem://code".to_owned()));
    assert_eq!(settings(&sources), row("mem://code", 1, "in-code"));
    sources.file = Some(file.path.clone());
    assert_eq!(settings(&sources), row("mem://file", 3, "in-file"));
    sources.variables = vec![
        ("THALWEG_BROKER".into(), "mem://env".into()),
        ("THALWEG_NUM_STREAM_THREADS".into(), "4".into()),
    ];
    assert_eq!(settings(&sources), row("mem://env", 4, "in-file"));
    sources.assignments = vec!["broker=mem://set".to_owned()];
    assert_eq!(settings(&sources), row("mem://set", 4, "in-file"));
    sources.flags = vec![("--workers", "5".to_owned()), ("--application-id", "in-flag".to_owned())];
    assert_eq!(settings(&sources), row("mem://set", 5, "in-flag"));
}

#[test]
fn toml_keys_may_be_nested_dotted_or_quoted() {
    for text in [
        "commit.interval.ms = 70",
        "[commit]\ninterval.ms = 70",
        "[commit.interval]\nms = 70",
        "'commit.interval.ms' = 70",
        "commit = { interval = { ms = '70' } }",
    ] {
        let settings = Settings::load(&with_file(&toml_file(text))).unwrap();
        assert_eq!(settings.commit_interval, Some(Duration::from_millis(70)), "{text}");
    }
}

#[test]
fn all_problems_of_all_sources_are_reported_at_once() {
    let file = toml_file("aplication.id = 'x'\n[commit]\ninterval.ms = 'often'\nnum = [1]\n");
    let path = file.path.display();
    let sources = Sources {
        code: vec![("topology.optimisation".to_owned(), "none".to_owned())],
        file: Some(file.path.clone()),
        variables: vec![
            ("HOME".into(), "x".into()),
            ("THALWEG_LOG".into(), "debug".into()),
            ("THALWEG_BROKERS".into(), "mem://".into()),
            ("THALWEG_PROCESSING_GUARANTEE".into(), "exactly-once".into()),
        ],
        assignments: vec!["state.dir".to_owned(), "buffered=1".to_owned()],
        flags: vec![("--workers", "0".to_owned()), ("--http", "0.0.0.0".to_owned())],
    };
    assert_eq!(
        problems(&sources),
        [
            "unknown key `topology.optimisation` in the application's code; the nearest known one is `topology.optimization`".to_owned(),
            format!("unknown key `aplication.id` in `{path}`; the nearest known one is `application.id`"),
            format!("unknown key `commit.num` in `{path}`; the nearest known one is `commit.interval.ms`"),
            "unknown key `THALWEG_BROKERS` in the environment; the nearest known one is `THALWEG_BROKER`".to_owned(),
            "`--set` takes `key=value`, and argument 1 of it has no `=`".to_owned(),
            "unknown key `buffered` in `--set`; the nearest known one is `buffered.records.per.partition`".to_owned(),
            "`application.id` is not set; set it with `--application-id`, `THALWEG_APPLICATION_ID` or in `thalweg.toml`".to_owned(),
            format!("`commit.interval.ms` cannot be `often` (from `{path}`); it takes a whole number from 1 to 86400000"),
            "`http.address` cannot be `0.0.0.0` (from `--http`); it takes a port of the loopback interface, or an address with a port such as `127.0.0.1:8080`".to_owned(),
            "`num.stream.threads` cannot be `0` (from `--workers`); it takes a whole number from 1 to 1024".to_owned(),
            "`processing.guarantee` cannot be `exactly-once` (from the environment variable `THALWEG_PROCESSING_GUARANTEE`); it takes `at_least_once`, `exactly_once`".to_owned(),
        ]
    );
    let text = Settings::load(&sources).unwrap_err().to_string();
    assert!(text.starts_with("bad configuration, 11 problems:\n  unknown key"), "{text}");
}

#[test]
fn a_value_that_a_key_does_not_take_is_refused() {
    for (key, values) in [
        ("application.id", &["", "a b", "a/b", "..", "ä"][..]),
        ("auto.offset.reset", &["", "Earliest", "end"]),
        ("broker", &["", "localhost:9092", "://"]),
        ("commit.interval.ms", &["0", "-1", "1.5", "1s", "86400001"]),
        ("default.timestamp.extractor", &["", "now"]),
        ("http.address", &["", "http", "8.8.8.8", "70000", "localhost"]),
        ("max.task.idle.ms", &["-2", "never"]),
        ("num.stream.threads", &["0", "1025", "two"]),
        ("state.dir", &[""]),
        ("statestore.cache.max.bytes", &["-1", "10MB"]),
        ("topology.optimization", &["all", "reuse.ktable.source.topics"]),
    ] {
        for value in values {
            let error = problems(&with_set(&[&format!("{key}={value}")]));
            let start = format!("`{key}` cannot be `{value}` (from `--set`); it takes ");
            assert!(error.len() == 1 && error[0].starts_with(&start), "{error:?}");
        }
    }
}

#[test]
fn settings_of_clients_are_handed_on_from_all_sources() {
    let path = "clients.toml";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(path);
    std::fs::write(&file, "[consumer]\nfetch.min.bytes = 2\nclient.rack = \"a\"\n").unwrap();
    let sources = Sources {
        code: vec![
            ("application.id".to_owned(), "app".to_owned()),
            ("producer.linger.ms".to_owned(), "1".to_owned()),
            ("main.consumer.fetch.max.wait.ms".to_owned(), "3".to_owned()),
        ],
        file: Some(file),
        variables: vec![("THALWEG_PRODUCER_LINGER_MS".into(), "4".into())],
        assignments: vec!["consumer.client.rack=b".to_owned()],
        flags: Vec::new(),
    };
    let clients = Settings::load(&sources).unwrap().clients;
    for (name, value) in [
        ("consumer.fetch.min.bytes", "2"),
        ("consumer.client.rack", "b"),
        ("main.consumer.fetch.max.wait.ms", "3"),
        ("producer.linger.ms", "4"),
        ("session.timeout.ms", "6000"),
        ("heartbeat.interval.ms", "200"),
        ("request.timeout.ms", "30000"),
        ("replication.factor", "-1"),
    ] {
        assert_eq!(clients.get(name).map(String::as_str), Some(value), "{name}");
    }
    assert_eq!(clients.len(), 8);
    assert!(Settings::load(&with_set(&["application.id=a", "consumer.=1"])).is_err());
}

#[test]
fn every_key_reaches_its_setting() {
    let settings = Settings::load(&with_set(&[
        "application.id=a.b_c-1",
        "auto.offset.reset=latest",
        "broker=log://some/dir",
        "buffered.records.per.partition=11",
        "commit.interval.ms=12",
        "default.timestamp.extractor=org.apache.kafka.streams.processor.WallclockTimestampExtractor",
        "deserialization.exception.handler=continue",
        "durability=sync",
        "errors.dead.letter.queue.topic.name=dead",
        "heartbeat.interval.ms=100",
        "http.address=localhost:8080",
        "http.token=0123456789abcdef",
        "max.poll.records=13",
        "max.task.idle.ms=-1",
        "num.stream.threads=14",
        "poll.ms=15",
        "processing.exception.handler=LogAndContinueProcessingExceptionHandler",
        "processing.guarantee=exactly_once_v2",
        "production.exception.handler=continue",
        "repartition.purge.interval.ms=16",
        "replication.factor=3",
        "request.timeout.ms=200",
        "semantics=java",
        "session.timeout.ms=7000",
        "state.dir=/some/where",
        "statestore.cache.max.bytes=17",
        "statestore.uncommitted.max.bytes=18",
        "task.timeout.ms=19",
        "topology.optimization=none",
        "transaction.timeout.ms=2000",
    ]))
    .unwrap();
    assert!(settings.shown().all(|(_, _, origin)| origin == "`--set`"), "a key is not tested");
    assert_eq!(settings.application_id, "a.b_c-1");
    assert_eq!(settings.offset_reset, OffsetReset::Latest);
    assert_eq!(settings.broker.expose(), "log://some/dir");
    assert_eq!(settings.buffered_records_max, 11);
    for (key, value) in [
        ("heartbeat.interval.ms", "100"),
        ("replication.factor", "3"),
        ("request.timeout.ms", "200"),
        ("session.timeout.ms", "7000"),
    ] {
        assert_eq!(settings.clients[key], value);
    }
    assert_eq!(settings.commit_interval, Some(Duration::from_millis(12)));
    assert_eq!(settings.timestamp_policy, TimestampPolicy::WallClock);
    assert_eq!(settings.on_deserialization_error, OnError::Continue);
    assert_eq!(settings.broker_url(), "log://some/dir?durability=sync");
    assert_eq!(settings.http_address, "127.0.0.1:8080".parse().ok());
    assert_eq!(settings.http_token.as_ref().map(Secret::expose), Some("0123456789abcdef"));
    assert_eq!(settings.poll_records_max, 13);
    assert_eq!(settings.task_idle_max, None);
    assert_eq!(settings.workers, 14);
    assert_eq!(settings.poll_timeout, Duration::from_millis(15));
    assert_eq!(settings.on_processing_error, OnError::Continue);
    assert_eq!(settings.on_production_error, OnError::Continue);
    assert_eq!(settings.dead_letter_topic.as_deref(), Some("dead"));
    assert_eq!(settings.guarantee, Guarantee::ExactlyOnce);
    assert_eq!(settings.purge_interval, Duration::from_millis(16));
    assert_eq!(settings.state_dir, PathBuf::from("/some/where"));
    assert_eq!(settings.semantics, Semantics::Java);
    assert_eq!(settings.cache_bytes_max, 17);
    assert_eq!(settings.uncommitted_bytes_max, 18);
    assert_eq!(settings.task_timeout, Duration::from_millis(19));
    assert_eq!(settings.transaction_timeout, Duration::from_secs(2));
}

#[test]
fn an_address_may_be_a_port() {
    for (text, address) in [
        ("8080", "127.0.0.1:8080"),
        (":8080", "127.0.0.1:8080"),
        ("localhost:0", "127.0.0.1:0"),
        ("127.0.0.9:1", "127.0.0.9:1"),
        ("[::1]:8080", "[::1]:8080"),
    ] {
        let settings = Settings::load(&with_set(&[&format!("http.address={text}")])).unwrap();
        assert_eq!(settings.http_address, address.parse().ok(), "{text}");
    }
}

#[test]
fn an_address_that_other_machines_reach_needs_a_token() {
    for address in ["0.0.0.0:8080", "[::]:8080", "192.0.2.1:80"] {
        let asked = format!("http.address={address}");
        let error = problems(&with_set(&[&asked]));
        assert!(error.len() == 1 && error[0].contains("set `http.token`"), "{error:?}");
        let settings = Settings::load(&with_set(&[&asked, "http.token=0123456789abcdef"])).unwrap();
        assert_eq!(settings.http_address, address.parse().ok());
    }
    for token in ["", "0123456789abcde", "with a blank in it", "nicht-mit-ümläuten"] {
        let error = problems(&with_set(&[&format!("http.token={token}")]));
        assert!(error[0].contains("at least 16 visible ASCII characters"), "{error:?}");
        assert!(token.is_empty() || !error[0].contains(token), "{error:?}");
    }
}

#[test]
fn one_source_cannot_say_two_things() {
    let both = Sources {
        flags: vec![("--application-id", "b".to_owned())],
        ..with_set(&["application.id=a"])
    };
    assert_eq!(
        problems(&both),
        ["`application.id` is set twice to different values, in `--set` and in `--application-id`"]
    );
    let file = toml_file("'poll.ms' = 1\npoll.ms = 2\n");
    assert_eq!(problems(&with_file(&file)).len(), 1);
    assert!(Settings::load(&with_set(&["poll.ms=1", "poll.ms=1"])).is_ok());
}

#[test]
fn a_durability_that_has_no_effect_is_refused() {
    assert_eq!(
        problems(&with_set(&["durability=sync", "broker=mem://"])),
        ["`durability` has an effect on `log://` only, and `broker` is `mem://`"]
    );
    assert_eq!(
        problems(&with_set(&["durability=sync", "broker=log://a?durability=process"])),
        ["`durability` is also a part of `broker`, which is `log://a?durability=process`"]
    );
}

#[test]
fn a_named_file_has_to_be_there_and_to_be_toml() {
    let file = toml_file("broker = 'mem://'\n password = canary\n");
    assert_eq!(
        problems(&with_file(&file)),
        [format!(
            "`{}` is not TOML: line 2, column 13: string values must be quoted, expected literal string",
            file.path.display()
        )]
    );
    let away = Sources { file: Some(file.path.with_file_name("away.toml")), ..sources() };
    let problems = problems(&away);
    assert!(problems[0].starts_with("cannot read the configuration file `"), "{problems:?}");
}

#[test]
fn secrets_never_stand_in_messages() {
    let file = toml_file("my.password = 'canary'\nbroker = 'canary?password=canary'\n");
    let mut sources = with_file(&file);
    sources.assignments = vec![
        "my.key.password=canary".to_owned(),
        "durability=sync".to_owned(),
        "canary".to_owned(),
    ];
    sources.variables = vec![("THALWEG_MY_PASSWORD".into(), "canary".into())];
    let error = Settings::load(&sources).unwrap_err();
    assert_eq!(error.problems().len(), 5, "{error}");
    let printed = format!("{error} {error:?}");
    assert!(!printed.contains("canary"), "{printed}");

    for assignments in [
        &["broker=kafka://me:canary@h:9092"][..],
        &["broker=kafka://me:canary@h:9092", "durability=sync"],
        &["broker=kafka://me:canary@h:9092", "sasl.password=canary", "ssl.key.password=canary"],
        &["broker=kafka://me:canary@h:9092", "http.token=canary-canary-canary"],
    ] {
        let printed = match Settings::load(&with_set(assignments)) {
            Ok(settings) => {
                let shown: Vec<_> = settings.shown().collect();
                format!("{settings:?} {shown:?}")
            }
            Err(error) => format!("{error} {error:?}"),
        };
        assert!(!printed.contains("canary"), "{printed}");
        assert!(printed.contains("kafka://me:***@h:9092"), "{printed}");
    }
}

#[test]
fn a_variable_is_named_after_its_key() {
    let settings = Settings::load(&with_variables(&[
        ("THALWEG_APPLICATION_ID", "from-env"),
        ("THALWEG_MAX_TASK_IDLE_MS", "20"),
    ]))
    .unwrap();
    assert_eq!(settings.application_id, "from-env");
    assert_eq!(settings.task_idle_max, Some(Duration::from_millis(20)));
}

#[test]
fn state_and_log_have_to_lie_apart() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name).display().to_string();
    std::fs::create_dir(at("log")).unwrap();
    for (log, state, id, is_refused) in [
        ("log", "", "log", true),
        ("log", "log", "app", true),
        ("log", "log/deeper", "app", true),
        ("app/log", "", "app", true),
        ("log", "", "app", false),
        ("log", "", "log-2", false),
        ("log", "away", "log", false),
    ] {
        let (log, state) = (at(log), at(state));
        let set = [format!("broker=log://{log}"), format!("state.dir={state}")];
        let mut sources = with_set(&[&set[0], &set[1]]);
        sources.code = vec![("application.id".to_owned(), id.to_owned())];
        assert_eq!(Settings::load(&sources).is_err(), is_refused, "{log} {state} {id}");
        if is_refused {
            let problem = &problems(&sources)[0];
            assert!(problem.contains(&log) && problem.contains(&state), "{problem}");
        }
    }
    let mut defaults = sources();
    defaults.code = vec![("application.id".to_owned(), "log".to_owned())];
    let problem = &problems(&defaults)[0];
    assert!(problem.starts_with("the state directory `.thalweg/log` "), "{problem}");
}
