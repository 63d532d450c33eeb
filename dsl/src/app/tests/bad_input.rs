//! What is wrong outside ends a run with a clear message, an exit code other than 0, and nothing lost: with the fault removed, the
//! next start goes on and the results are exact.

use std::collections::BTreeMap;

use thalweg_connectors::{Clock, TopicPartition};

use super::*;

/// Everywhere that an embedded application can run.
fn places(name: &str) -> Vec<Place> {
    let mut places = vec![Place::new(format!("mem://{name}"))];
    if cfg!(feature = "log") {
        let directory = tempfile::tempdir().unwrap();
        let mut place = Place::new(format!("log://{}", directory.path().join("log").display()));
        place.directory = directory;
        places.push(place);
    }
    places
}

struct Place {
    url: String,
    directory: tempfile::TempDir,
}

impl Place {
    fn new(url: String) -> Self {
        Self { url, directory: tempfile::tempdir().unwrap() }
    }

    fn file(&self, name: &str, content: &[u8]) -> String {
        let path = self.directory.path().join(name);
        std::fs::write(&path, content).unwrap();
        path.display().to_string()
    }

    fn run(&self, app: &App, more: &[&str]) -> (u8, String) {
        let state = self.directory.path().join("state").display().to_string();
        let mut arguments = vec!["run", "--until-end", "--guarantee", "exactly_once"];
        arguments.extend(["--broker", &self.url, "--state-dir", &state]);
        arguments.extend(more);
        run(app, &arguments)
    }

    fn totals(&self) -> BTreeMap<String, i64> {
        let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
        let backend = thalweg_connectors::open(&self.url, clock).unwrap();
        let topic = Topic::<String, i64>::new("totals");
        read_table(&*backend, &topic).unwrap().into_iter().collect()
    }
}

fn expected(rows: &[(&str, i64)]) -> BTreeMap<String, i64> {
    rows.iter().map(|(word, n)| ((*word).to_owned(), *n)).collect()
}

/// Counts lines; panics at the line `fragile` while `is_broken`.
fn panicking(is_broken: bool) -> App {
    let builder = StreamsBuilder::new();
    builder
        .stream(&Topic::<(), String>::new("lines"))
        .peek(move |(), line| {
            assert!(!(is_broken && line == "fragile"), "cannot stand a fragile line");
        })
        .group_by("by-line", |(), line: &String| line.clone())
        .count("counts")
        .to(&Topic::<String, i64>::new("totals"));
    App { topology: builder.build().unwrap(), ..app() }
}

#[test]
fn a_panic_in_a_closure_loses_nothing() {
    for place in places("bad-panic") {
        let text = place.file("text", b"a\nb\nfragile\na\n");
        let (code, error) = place.run(&panicking(true), &["--input", &text]);
        assert_eq!(code, 1, "{error}");
        for part in [
            "error: `counting` failed; everything committed is kept\n",
            "user code panicked in task 0_0 at lines-0@2: cannot stand a fragile line",
        ] {
            assert!(error.contains(part), "{error}");
        }
        assert_eq!(place.run(&panicking(false), &["--input", &text]), (0, String::new()));
        assert_eq!(place.totals(), expected(&[("a", 2), ("b", 1), ("fragile", 1)]));
    }
}

#[test]
fn undecodable_bytes_lose_nothing_else() {
    for place in places("bad-bytes") {
        let text = place.file("text", b"a\n\xff\xfe canary\na\n");
        let (code, error) = place.run(&app(), &["--input", &text]);
        assert_eq!(code, 1, "{error}");
        assert!(
            error.contains("cannot deserialize the value of lines-0@1 in task 0_0\n"),
            "{error}"
        );
        assert!(error.contains("not a valid `String`") && !error.contains("canary"), "{error}");
        // It fails again as long as nothing has changed, and passes when the record may be dropped.
        assert_eq!(place.run(&app(), &["--input", &text]).0, 1);
        let go_on = ["--input", &text, "--set", "deserialization.exception.handler=continue"];
        assert_eq!(place.run(&app(), &go_on), (0, String::new()));
        assert_eq!(place.totals(), expected(&[("a", 2)]));
    }
}

#[test]
fn a_misspelt_key_starts_nothing() {
    for place in places("bad-key") {
        let text = place.file("text", b"a\n");
        let file = place.file("thalweg.toml", b"[procesing]\nguarantee = 'exactly_once'\n");
        let (code, error) = place.run(&app(), &["--input", &text, "--config", &file]);
        let message = "unknown key `procesing.guarantee` in `";
        assert!(code == 2 && error.contains(message), "{error}");
        assert!(error.contains("; the nearest known one is `processing.guarantee`\n"), "{error}");
        assert_eq!(place.run(&app(), &["--input", &text]), (0, String::new()));
        assert_eq!(place.totals(), expected(&[("a", 1)]));
    }
}

#[test]
fn an_unknown_topic_is_named_and_once_it_is_there_all_is_counted() {
    let mut undeclared = app();
    undeclared.topics.retain(|(name, _)| name == "lines");
    for place in places("bad-topic") {
        let text = place.file("text", b"a\nb\n");
        let (code, error) = place.run(&undeclared, &["--input", &text]);
        assert_eq!(code, 1, "{error}");
        assert!(error.contains("because: output topic `totals` does not exist"), "{error}");
        assert_eq!(place.run(&app(), &["--input", &text]), (0, String::new()));
        assert_eq!(place.totals(), expected(&[("a", 1), ("b", 1)]));
    }
}

#[cfg(feature = "log")]
#[test]
fn an_unwritable_state_directory_is_named_and_loses_nothing() {
    let place = places("bad-state").pop().unwrap();
    let text = place.file("text", b"a\n");
    let blocked = format!("{text}/state");
    let arguments = ["run", "--until-end", "--broker", &place.url, "--state-dir", &blocked];
    let (code, error) = run(&app(), &[&arguments[..], &["--input", &text]].concat());
    assert_eq!(code, 1, "{error}");
    assert!(error.starts_with("error: cannot start `counting`\n  because: "), "{error}");
    assert!(error.contains(&blocked), "{error}");
    assert_eq!(place.run(&app(), &["--input", &text]), (0, String::new()));
    assert_eq!(place.totals(), expected(&[("a", 1)]));
}

#[cfg(feature = "log")]
#[test]
fn a_broker_directory_that_cannot_be_made_is_named() {
    let place = places("bad-log").pop().unwrap();
    let text = place.file("text", b"a\n");
    let url = format!("log://{text}/log");
    let (code, error) = run(&app(), &["run", "--broker", &url]);
    assert_eq!(code, 1, "{error}");
    assert!(
        error.starts_with(&format!("error: cannot open the broker `{url}`\n  because: ")),
        "{error}"
    );
}

#[test]
fn a_topic_with_another_number_of_partitions_is_taken_as_it_is() {
    let (url, broker) = broker("bad-partitions");
    create_topic(&broker, "lines", 3).unwrap();
    let text = text_file("a\nb\na\n");
    let arguments = ["run", "--until-end", "--broker", &url, "--input", &text.path];
    assert_eq!(run(&app(), &arguments), (0, String::new()));
    assert_eq!(totals(&broker, ""), rows(&[("a", 2), ("b", 1)]));
    let partitions: Vec<_> = (0..3).map(|p| TopicPartition::new("lines", p)).collect();
    let options = thalweg_connectors::ConsumerOptions {
        isolation: thalweg_connectors::Isolation::ReadCommitted,
        client_id: "test".to_owned(),
    };
    let mut consumer = broker.consumer(&options).unwrap();
    assert_eq!(consumer.committed("counting", &partitions).unwrap().len(), 3);
}
