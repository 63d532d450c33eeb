//! A right that the application does not have.

use std::time::{Duration, Instant};

use thalweg_processor::ErrorClass;

use crate::app::{App, assert_says, chain, end_of};
use crate::broker;
use crate::own_broker::OwnBroker;

#[test]
fn an_output_that_may_not_be_written_any_more_ends_the_run_and_is_named() {
    let own = OwnBroker::take();
    let app = App::on(&own.address(), "no-right");
    app.create_all(&[]);
    let streams = app.start().unwrap();
    app.feed(&["a", "b"]);
    app.await_echoed(&streams, 2);

    // What nothing is said of is allowed; from now on something is said of the output.
    let (address, output) = (own.address(), app.echo());
    let read_only = ["--allow-principal", "User:ANONYMOUS", "--operation", "Read"];
    let command = ["--bootstrap-server", &address, "--add", "--topic", &output];
    broker::run("org.apache.kafka.tools.AclCommand", &[&command[..], &read_only].concat(), "");
    let fed = Instant::now();
    app.feed(&["c"]);
    let ended = end_of(streams);
    assert!(fed.elapsed() < Duration::from_secs(20), "it is not tried for long");
    assert_eq!(ended.class(), ErrorClass::Fatal);
    let parts =
        [&*output, "Topic authorization failed", "the client may not do this to the topic (ACL)"];
    assert_says(&chain(&ended), &parts);
    assert_eq!(app.read(&output).len(), 2, "nothing of its transaction counts");
}
