//! Internal topics that somebody has deleted: the application does not go on as if they had been empty.

use thalweg_processor::{ErrorClass, PlanError, StartError};

use crate::app::{App, assert_says, chain, end_of};
use crate::broker;

/// What a start says that finds a topic missing, twice.
fn missing(app: &App, topic: &str) {
    for _ in 0..2 {
        let error = app.start().expect_err("it must not start");
        let is_lost =
            matches!(&error, StartError::Plan(PlanError::LostTopic(lost)) if lost.topic() == topic);
        assert!(is_lost, "{error:?}");
        let what = format!("internal topic `{topic}` was there at the last commit and is missing");
        let group = format!("delete the committed offsets of group `{}`", app.id);
        assert_says(&chain(&error), &[&what, "reset the application", &group]);
        assert!(app.describe(topic).is_none(), "it was not made anew");
    }
}

/// Runs Kafka's tool for groups on that of the application.
fn groups(app: &App, options: &[&str]) {
    let here = ["--bootstrap-server", broker::address(), "--group", &app.id];
    let all = [&here[..], options].concat();
    broker::run("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", &all, "");
}

#[test]
fn a_changelog_that_was_deleted_is_missed_with_and_without_local_state_until_a_reset() {
    let mut app = App::with_topics("lost-changelog");
    app.run_over(&["a", "b", "a"], 3);
    app.delete(&app.changelog());
    missing(&app, &app.changelog());
    app.lose_state();
    missing(&app, &app.changelog());

    // What the message says to do.
    groups(&app, &["--delete"]);
    app.delete(&app.repartition());
    app.run_over(&["a"], 3 + 4);
    let last = app.read(&app.counts()).into_iter().max().unwrap();
    assert_eq!(last, 3i64.to_be_bytes(), "it has counted all of its input, from the beginning");
}

#[test]
fn a_repartition_topic_that_was_deleted_is_missed_until_its_loss_is_accepted() {
    let app = App::with_topics("lost-repartition");
    app.run_over(&["a", "b", "a"], 3);
    app.delete(&app.repartition());
    missing(&app, &app.repartition());

    // Offsets that are committed anew rely on nothing.
    let go_on = ["--reset-offsets", "--to-current", "--all-topics", "--execute"];
    groups(&app, &go_on);
    app.run_over(&["a"], 4);
    let last = app.read(&app.counts()).into_iter().max().unwrap();
    assert_eq!(last, 3i64.to_be_bytes(), "it has counted on");
}

#[test]
fn a_changelog_that_was_made_anew_ends_the_run_and_local_state_is_kept() {
    let app = App::with_topics("other-changelog");
    app.run_over(&["a", "b", "a"], 3);
    app.delete(&app.changelog());
    app.create(&app.changelog(), 2, &[("cleanup.policy", "compact")]);
    for _ in 0..2 {
        let ended = end_of(app.start().unwrap());
        assert_eq!(ended.class(), ErrorClass::Fatal);
        let what = format!("internal topic `{}` was deleted and made anew", app.changelog());
        assert_says(&chain(&ended), &[&what, "reset the application"]);
    }
}

#[test]
fn internal_topics_that_are_deleted_while_they_are_in_use_end_the_run() {
    let used = ["changelog", "repartition"].map(|name| {
        let app = App::with_topics(&format!("gone-{name}"));
        let streams = app.start().unwrap();
        app.feed(&["a", "b", "a"]);
        app.await_echoed(&streams, 3);
        let topic = match name {
            "changelog" => app.changelog(),
            _ => app.repartition(),
        };
        (app, streams, topic)
    });
    for (app, _, topic) in &used {
        app.delete(topic);
        app.feed(&["c"]);
    }
    for (app, streams, topic) in used {
        let ended = end_of(streams);
        assert_eq!(ended.class(), ErrorClass::Fatal);
        assert_says(&chain(&ended), &[&topic]);
        assert!(app.describe(&topic).is_none(), "it was not made anew");
        missing(&app, &topic);
    }
}
