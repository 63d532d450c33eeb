//! Brokers that are away, silent, old, or something else.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_connectors::*;

use super::support::{config, shares};

/// Joins at this address, with little patience; returns what went wrong.
fn join(broker: &str) -> PortError {
    let config = KafkaConfig { request_timeout: Duration::from_millis(500), ..config(broker) };
    let begun = Instant::now();
    let joined = KafkaBackend::new(config).membership(&MembershipOptions {
        group: "orders".to_owned(),
        client_id: "worker".to_owned(),
        shares: shares(&[1]),
        topics: std::collections::BTreeMap::new(),
    });
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    joined.err().expect("nobody is there")
}

/// Something that is no broker, at an address of its own.
fn server(answer: impl Fn(&mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        // Kept open: a client that waits has to give up by itself.
        let mut open = Vec::new();
        for client in listener.incoming() {
            let mut client = client.unwrap();
            answer(&mut client);
            open.push(client);
        }
    });
    address
}

/// Reads a request; returns its correlation id.
fn request(client: &mut TcpStream) -> [u8; 4] {
    let mut length = [0; 4];
    client.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    client.read_exact(&mut frame).unwrap();
    frame[4..8].try_into().unwrap()
}

fn reply(client: &mut TcpStream, correlation: [u8; 4], body: &[u8]) {
    let length = (4 + body.len() as u32).to_be_bytes();
    client.write_all(&[&length[..], &correlation, body].concat()).unwrap();
}

#[test]
fn brokers_that_are_away_are_named() {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let (one, two) = (free(), free());
    let error = join(&format!("{one}, {two}"));
    assert_eq!(error.kind(), PortErrorKind::Retriable);
    let told = error.to_string();
    assert!(told.contains(&format!("{one}, {two}")) && told.contains("refused"), "{told}");
}

#[test]
fn a_broker_whose_name_is_wrong_is_named() {
    let error = join("no-such-host.invalid:9092");
    assert_eq!(error.kind(), PortErrorKind::Retriable);
    assert!(error.to_string().contains("no-such-host.invalid:9092"), "{error}");
}

#[test]
fn a_broker_that_does_not_answer_is_given_up_in_time() {
    let silent = server(|_| {});
    let error = join(&silent);
    assert_eq!(error.kind(), PortErrorKind::Retriable);
    let told = error.to_string();
    assert!(told.contains(&format!("{silent} did not answer ApiVersions within")), "{told}");
}

#[test]
fn a_server_of_another_kind_is_told_apart() {
    let web = server(|client| client.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap());
    let error = join(&web);
    assert_eq!(error.kind(), PortErrorKind::Unsupported);
    let told = error.to_string();
    assert!(told.contains(&web) && told.contains("plaintext port"), "{told}");
}

#[test]
fn a_broker_that_is_too_old_is_told_which_version_is_needed() {
    // Before 2.4 no broker knows this version of the first request; it says so in the oldest one: error 35, no versions.
    let oldest = server(|client| {
        let correlation = request(client);
        reply(client, correlation, &[0, 35, 0, 0, 0, 0]);
    });
    // Another knows the first, and only JoinGroup (11) up to version 2.
    let old = server(|client| {
        let correlation = request(client);
        let join_up_to_2 = [0, 11, 0, 0, 0, 2, 0];
        let body = [&[0, 0, 2][..], &join_up_to_2, &[0, 0, 0, 0, 0]].concat();
        reply(client, correlation, &body);
    });
    for broker in [oldest, old] {
        let error = join(&broker);
        assert_eq!(error.kind(), PortErrorKind::Unsupported, "{error}");
        let told = error.to_string();
        assert!(told.contains(&broker) && told.contains("use Apache Kafka 2.5 or newer"), "{told}");
    }
}
