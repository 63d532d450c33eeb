//! A broker that wants to be spoken to in another way than in plain text.

use std::time::Duration;

use crate::own_broker::OwnBroker;
use crate::support::{Place, Program};

#[test]
fn a_listener_that_wants_sasl_or_tls_is_not_waited_for_in_silence() {
    let broker = OwnBroker::take();
    for address in [broker.sasl(), broker.tls()] {
        let little = ["--set", "request.timeout.ms=1000", "--set", "task.timeout.ms=2000"];
        let mut place = Place::new(Program::WordCount, &little);
        place.broker = Some(format!("kafka://{address}"));
        let ended = place.start(&["run"]).end();
        let said = ended.log.join("\n");
        assert_eq!(ended.status.code(), Some(1), "{said}");
        assert!(ended.took < Duration::from_secs(15), "{:?}", ended.took);
        let error = said.split("error: ").nth(1).expect("it says why it ended");
        let parts = [
            "do their listeners want TLS or SASL? kafka:// speaks plain text only",
            "give it the address of a PLAINTEXT listener",
            &address,
        ];
        assert!(parts.iter().all(|part| error.contains(part)), "{said}");
    }
}

#[test]
fn what_asks_for_sasl_or_tls_is_refused_before_anything_is_sent() {
    let settings = [
        "security.protocol=SASL_SSL",
        "producer.security.protocol=SSL",
        "sasl.mechanism=SCRAM-SHA-512",
        "consumer.ssl.ca.location=/etc/ca.pem",
    ];
    for setting in settings {
        let mut place = Place::new(Program::WordCount, &["--set", setting]);
        place.broker = Some("kafka://127.0.0.1:9".to_owned());
        let ended = place.start(&["run"]).end();
        let said = ended.log.join("\n");
        assert_eq!(ended.status.code(), Some(2), "{said}");
        let name = setting.split('=').next().unwrap();
        assert!(said.contains(&format!("setting \"{name}\" asks for TLS or SASL")), "{said}");
        assert!(said.contains("remove it to connect without"), "{said}");
        assert!(ended.took < Duration::from_secs(10), "{:?}", ended.took);
    }
}
