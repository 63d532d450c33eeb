//! Topics that are not as the application needs them.

use thalweg_processor::ErrorClass;

use crate::app::{App, assert_says, chain, end_of};
use crate::broker;

/// Why it does not start.
fn refused(app: &App) -> String {
    let error = app.start().expect_err("it must not start");
    assert_eq!(error.class(), ErrorClass::Fatal, "{error}");
    chain(&error)
}

#[test]
fn a_source_topic_that_is_missing_at_the_start_is_named() {
    let app = App::new("no-source");
    app.create(&app.echo(), 2, &[]);
    let said = refused(&app);
    assert_says(&said, &[&format!("source topic `{}` does not exist", app.input())]);
    assert!(said.contains("did you mean") || said.contains("create it first"), "{said}");
    assert!(app.describe(&app.repartition()).is_none(), "nothing was made");
}

#[test]
fn an_output_topic_that_is_missing_at_the_start_is_named() {
    let app = App::new("no-output");
    app.create(&app.input(), 2, &[]);
    app.create(&app.echo(), 2, &[]);
    assert_says(&refused(&app), &[&format!("output topic `{}` does not exist", app.counts())]);
}

#[test]
fn a_source_topic_that_is_deleted_while_it_is_read_ends_the_run() {
    let app = App::with_topics("gone-source");
    let streams = app.start().unwrap();
    app.feed(&["a", "b"]);
    app.await_echoed(&streams, 2);
    app.delete(&app.input());
    let ended = end_of(streams);
    assert_eq!(ended.class(), ErrorClass::Fatal);
    let topic = format!("topic {:?} was deleted while it was read", app.input());
    assert_says(&chain(&ended), &[&topic, "make it again and reset the application"]);
    assert_eq!(app.read(&app.echo()).len(), 2, "what was committed is there");
}

#[test]
fn a_source_topic_that_gets_more_partitions_ends_the_run_and_does_not_fit_at_the_next_start() {
    let app = App::with_topics("grown-source");
    let streams = app.start().unwrap();
    app.feed(&["a", "b"]);
    app.await_echoed(&streams, 2);
    let (address, input) = (broker::address(), app.input());
    let command =
        ["--bootstrap-server", address, "--alter", "--topic", &input, "--partitions", "3"];
    broker::run("org.apache.kafka.tools.TopicCommand", &command, "");
    let ended = end_of(streams);
    assert_eq!(ended.class(), ErrorClass::Fatal);
    let what = format!("topic {input:?} has 3 partitions now and had 2");
    assert_says(&chain(&ended), &[&what, "start them again"]);
    let refused = refused(&app);
    assert_says(&refused, &["has 2 partitions, but 3 are needed", "reset the application"]);
}

#[test]
fn internal_topics_with_other_partitions_are_named_with_both_numbers() {
    for name in ["repartition", "changelog"] {
        let app = App::with_topics(&format!("wide-{name}"));
        let topic = match name {
            "repartition" => app.repartition(),
            _ => app.changelog(),
        };
        app.create(&topic, 3, &[]);
        let what = format!("internal topic `{topic}` has 3 partitions, but 2 are needed");
        assert_says(&refused(&app), &[&what, "reset the application"]);
        assert_eq!(app.describe(&topic).unwrap().partitions, 3, "it was left alone");
    }
}

#[test]
fn internal_topics_that_throw_away_what_is_needed_are_refused() {
    let cases = [
        ("repartition", "compact", "all records of a key but the last", "delete"),
        ("changelog", "delete", "the rows that do not change", "compact"),
    ];
    for (name, policy, loses, needed) in cases {
        let app = App::with_topics(&format!("policy-{name}"));
        let topic = match name {
            "repartition" => app.repartition(),
            _ => app.changelog(),
        };
        app.create(&topic, 2, &[("cleanup.policy", policy)]);
        let what = format!("internal topic `{topic}` has cleanup.policy={policy}");
        let (loses, needed) = (format!("would lose {loses}"), format!("set it to {needed}"));
        assert_says(&refused(&app), &[&what, &loses, &needed]);
    }
}

#[test]
fn internal_topics_are_made_as_kafka_streams_makes_them() {
    let mut app = App::new("made");
    app.partitions = 3;
    app.create_all(&[]);
    let streams = app.start().unwrap();
    let expected = [
        (app.repartition(), "delete", Some(("retention.ms", "-1"))),
        (app.changelog(), "compact", None),
        // A window and its grace, and a day.
        (app.windowed_changelog(), "compact,delete", Some(("retention.ms", "86470000"))),
    ];
    for (topic, policy, more) in expected {
        assert_eq!(app.describe(&topic).unwrap().partitions, 3, "{topic}");
        let settings = app.settings_of(&topic);
        assert_eq!(settings["cleanup.policy"], policy, "{topic}");
        assert_eq!(settings["message.timestamp.type"], "CreateTime", "{topic}");
        if let Some((name, value)) = more {
            assert_eq!(settings[name], value, "{topic}");
        }
    }
    drop(streams);
}
