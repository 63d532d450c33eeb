#![allow(clippy::unwrap_used, reason = "a test may panic")]
use super::*;
use crate::ports::ProducerOptions;

fn from(settings: &[(&str, &str)]) -> PortResult<KafkaConfig> {
    let settings = settings.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
    KafkaConfig::from_settings("localhost:9092", &settings.collect())
}

fn refusal(settings: &[(&str, &str)]) -> (PortErrorKind, String) {
    let error = from(settings).unwrap_err();
    (error.kind(), error.to_string())
}

#[test]
fn addresses_have_a_host_and_a_port() {
    let parse = |place| KafkaConfig::from_settings(place, &BTreeMap::new()).map(|c| c.bootstrap);
    assert_eq!(parse("a:1,b-2.c:65535/").unwrap(), ["a:1", "b-2.c:65535"]);
    assert_eq!(parse("a, [::1]:7,[::1]").unwrap(), ["a:9092", "[::1]:7", "[::1]:9092"]);
    for bad in ["", "/", "a:", "a:0", "a:65536", "a:x", ":1", "a,,b", "a b:1", "a:1/topic"] {
        assert_eq!(parse(bad).unwrap_err().kind(), PortErrorKind::Refused, "{bad}");
    }
    for secret in ["canary:x@a:1", "a:1?sasl.password=canary", "canary!:1", "a:canary"] {
        assert!(!parse(secret).unwrap_err().to_string().contains("canary"), "{secret}");
    }
}

#[test]
fn connections_that_stand_still_are_closed_in_time_to_save_a_transaction() {
    let idle = |config: &KafkaConfig, transactional_id: Option<&str>| {
        let given = config.for_producer(&ProducerOptions {
            transactional_id: transactional_id.map(str::to_owned),
            transaction_timeout: Duration::from_secs(10),
            client_id: "app-0".into(),
        });
        given.get("connections.max.idle.ms").cloned()
    };
    let config = from(&[]).unwrap();
    assert_eq!(idle(&config, Some("app")).unwrap(), "5000");
    assert_eq!(idle(&config, None), None);
    let config = from(&[("producer.connections.max.idle.ms", "7000")]).unwrap();
    assert_eq!(idle(&config, Some("app")).unwrap(), "7000", "the user's word counts");
}

#[test]
fn kafkas_names_lead_to_librdkafkas() {
    let config = from(&[
        ("linger.ms", "7"),
        ("fetch.max.wait.ms", "33"),
        ("buffer.memory", "2049"),
        ("producer.max.request.size", "2000000"),
        ("socket.keepalive.enable", "true"),
        ("session.timeout.ms", "9000"),
        ("consumer.max.poll.interval.ms", "5000"),
        ("main.consumer.max.poll.interval.ms", "4000"),
        ("consumer.fetch.min.bytes", "2"),
        ("main.consumer.fetch.min.bytes", "3"),
        ("fetch.min.bytes", "1"),
        ("replication.factor", "3"),
        ("group.protocol", "classic"),
        ("enable.auto.commit", "false"),
        ("security.protocol", "PLAINTEXT"),
    ]);
    let config = config.unwrap();
    let pairs = |map: &BTreeMap<String, String>| {
        map.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>()
    };
    assert_eq!(
        pairs(&config.consumer),
        ["fetch.min.bytes=3", "fetch.wait.max.ms=33", "socket.keepalive.enable=true"]
    );
    assert_eq!(
        pairs(&config.producer),
        [
            "linger.ms=7",
            "message.max.bytes=2000000",
            "queue.buffering.max.kbytes=3",
            "socket.keepalive.enable=true"
        ]
    );
    assert_eq!(config.session_timeout, Duration::from_secs(9));
    assert_eq!(config.rebalance_timeout, Duration::from_secs(4));
    assert_eq!(config.replication_factor, 3);
}

#[test]
fn what_asks_for_safety_is_refused_and_never_dropped() {
    for (name, value) in [
        ("security.protocol", "SSL"),
        ("consumer.security.protocol", "canary"),
        ("ssl.truststore.location", "canary"),
        ("sasl.jaas.config", "canary"),
        ("main.consumer.sasl.password", "canary"),
        ("producer.ssl.key.password", "canary"),
    ] {
        let (kind, message) = refusal(&[(name, value)]);
        assert_eq!(kind, PortErrorKind::Unsupported, "{name}");
        assert!(message.contains(name) && message.contains("TLS or SASL"), "{message}");
        assert!(!message.contains("canary"), "{message}");
    }
}

#[test]
fn what_is_refused_says_why_and_keeps_the_value_to_itself() {
    let cases = [
        ("bootstrap.servers", "the URL names the brokers"),
        ("producer.transactional.id", "it is made of"),
        ("producer.transaction.timeout.ms", "the application decides"),
        ("consumer.linger.ms", "it is a producer's"),
        ("producer.fetch.min.bytes", "it is a consumer's"),
        ("group.protocol", "it can only be \"classic\""),
        ("enable.auto.commit", "it can only be \"false\""),
        ("lingr.ms", "there is no such setting; did you mean \"linger.ms\"?"),
        ("wholly.else", "there is no such setting"),
        ("linger.ms", "its value is not one"),
        ("session.timeout.ms", "its value is not a whole number"),
        ("consumer.log_level", "it is not for applications to set"),
        ("consumer.rebalance_cb", "it is not for applications to set"),
        ("restore.consumer.fetch.min.bytes", "state is restored by the main consumer"),
    ];
    for (name, why) in cases {
        let (kind, message) = refusal(&[(name, "canary")]);
        assert_eq!(kind, PortErrorKind::Refused, "{name}");
        assert!(message.starts_with(&format!("setting {name:?} for kafka://: {why}")), "{message}");
        assert!(!message.contains("canary"), "{message}");
    }
    for (settings, name) in [
        (&[("session.timeout.ms", "1499"), ("heartbeat.interval.ms", "500")][..], "session"),
        (&[("heartbeat.interval.ms", "2001")], "session"),
        (&[("consumer.request.timeout.ms", "0")], "request"),
    ] {
        let (kind, message) = refusal(settings);
        assert_eq!(kind, PortErrorKind::Refused);
        assert!(message.starts_with(&format!("setting \"{name}.timeout.ms\"")), "{message}");
    }
    let config = from(&[("producer.client.rack.canary", "x")]).unwrap_err();
    assert_eq!(config.kind(), PortErrorKind::Refused);
    let shown = format!("{:?}", from(&[("linger.ms", "12345")]).unwrap());
    assert!(shown.contains("linger.ms") && !shown.contains("12345"), "{shown}");
}
