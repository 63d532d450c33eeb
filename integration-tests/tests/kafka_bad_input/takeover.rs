//! Somebody else's producer has the same transactional id.

use std::time::Duration;

use thalweg_connectors::ProducerOptions;
use thalweg_processor::{ErrorClass, Streams};

use crate::app::{App, assert_says, chain, end_of, until};

/// Takes over the id of the application's only worker.
fn take_over(app: &App, id: &str) {
    let options = ProducerOptions {
        transactional_id: Some(id.to_owned()),
        transaction_timeout: Duration::from_secs(10),
        client_id: "thief".to_owned(),
    };
    let mut thief = app.backend().producer(&options).unwrap();
    until("it is taken over", || thief.init_transactions().is_ok());
}

fn recoveries(streams: &Streams) -> u64 {
    streams.metrics().snapshot().recoveries
}

#[test]
fn a_stolen_transactional_id_costs_a_transaction_once_and_ends_the_run_when_it_goes_on() {
    let app = App::with_topics("stolen");
    let streams = app.start().unwrap();
    app.feed(&["a"]);
    app.await_echoed(&streams, 1);
    let id = app.transactional_id();
    take_over(&app, &id);
    app.feed(&["b", "a"]);
    app.await_echoed(&streams, 3);
    assert!(recoveries(&streams) >= 1, "it was fenced");

    let mut fed = 3;
    while !streams.is_finished() {
        take_over(&app, &id);
        app.feed(&["c"]);
        fed += 1;
        until("it has gone on, or ended", || {
            streams.is_finished() || app.read(&app.counts()).len() == fed
        });
        assert!(fed < 20, "it goes on and on");
    }
    let ended = end_of(streams);
    assert_eq!(ended.class(), ErrorClass::Fatal);
    let what = format!("another producer took over transactional id `{id}` 5 times within 60 s");
    assert_says(&chain(&ended), &[&what, "a copy of this state directory", "give each its own"]);

    // Nothing was lost, and nothing is doubled.
    app.run_over(&["d"], fed + 1);
}
