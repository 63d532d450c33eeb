//! Kafka's settings by the names that Kafka's clients and Kafka Streams give them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::config::KafkaConfig;
use super::ffi;
use crate::ports::{PortError, PortErrorKind, PortResult};

/// Whom a setting is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum For {
    Both,
    Consumer,
    Producer,
}

/// What becomes of a setting.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Librdkafka has it under this name.
    Is(&'static str),
    /// The same, in KiB instead of bytes.
    Kib(&'static str),
    /// It sets a field of the configuration.
    Field(fn(&mut KafkaConfig, u32) -> PortResult<()>),
    /// It has no effect here: the reason.
    Nothing(&'static str),
    /// This value and no other; the reason.
    Only(&'static str, &'static str),
    /// It cannot be set: the reason.
    Never(&'static str),
}

use Does::{Field, Is, Kib, Never, Nothing, Only};
use For::{Both, Consumer, Producer};

/// The names of Kafka's clients that are not simply librdkafka's own.
const NAMES: &[(&str, For, Does)] = &[
    ("acks", Producer, Is("acks")),
    ("allow.auto.create.topics", Consumer, Only("false", "topics are never created by reading")),
    (
        "auto.offset.reset",
        Consumer,
        Never("the application decides: set auto.offset.reset without a prefix"),
    ),
    ("batch.size", Producer, Is("batch.size")),
    ("bootstrap.servers", Both, Never("the URL names the brokers: kafka://host:port,host:port")),
    ("buffer.memory", Producer, Kib("queue.buffering.max.kbytes")),
    ("check.crcs", Consumer, Is("check.crcs")),
    ("client.id", Both, Nothing("clients are named after their workers")),
    ("client.rack", Consumer, Is("client.rack")),
    ("compression.type", Producer, Is("compression.type")),
    ("delivery.timeout.ms", Producer, Field(|c, ms| millis(&mut c.delivery_timeout, ms))),
    ("enable.auto.commit", Consumer, Only("false", "offsets are committed with the results")),
    ("enable.idempotence", Producer, Is("enable.idempotence")),
    ("fetch.max.bytes", Consumer, Is("fetch.max.bytes")),
    ("fetch.max.wait.ms", Consumer, Is("fetch.wait.max.ms")),
    ("fetch.min.bytes", Consumer, Is("fetch.min.bytes")),
    ("group.id", Consumer, Never("the group is the application's id")),
    ("group.instance.id", Consumer, Never("static membership is not supported yet")),
    ("group.protocol", Consumer, Only("classic", "it is the only protocol that is supported yet")),
    ("heartbeat.interval.ms", Consumer, Field(|c, ms| millis(&mut c.heartbeat_interval, ms))),
    ("isolation.level", Consumer, Never("it follows from the processing guarantee")),
    ("linger.ms", Producer, Is("linger.ms")),
    ("max.block.ms", Producer, Nothing("a full buffer waits for delivery.timeout.ms")),
    (
        "max.in.flight.requests.per.connection",
        Producer,
        Is("max.in.flight.requests.per.connection"),
    ),
    ("max.partition.fetch.bytes", Consumer, Is("max.partition.fetch.bytes")),
    ("max.poll.interval.ms", Consumer, Field(|c, ms| millis(&mut c.rebalance_timeout, ms))),
    ("max.poll.records", Consumer, Nothing("set max.poll.records without a prefix")),
    ("max.request.size", Producer, Is("message.max.bytes")),
    (
        "partition.assignment.strategy",
        Consumer,
        Never("work is shared by tasks, not by partitions"),
    ),
    (
        "partitioner.class",
        Producer,
        Never("records go where Kafka's default partitioner puts them"),
    ),
    ("receive.buffer.bytes", Both, Is("socket.receive.buffer.bytes")),
    ("replication.factor", Both, Field(replication)),
    ("request.timeout.ms", Both, Field(|c, ms| millis(&mut c.request_timeout, ms))),
    ("retries", Producer, Is("retries")),
    ("retry.backoff.ms", Both, Is("retry.backoff.ms")),
    ("send.buffer.bytes", Both, Is("socket.send.buffer.bytes")),
    ("session.timeout.ms", Consumer, Field(|c, ms| millis(&mut c.session_timeout, ms))),
    (
        "transaction.timeout.ms",
        Producer,
        Never("the application decides: set transaction.timeout.ms without a prefix"),
    ),
    ("transactional.id", Producer, Never("it is made of the application's id and the worker")),
];

/// Librdkafka's names that would break what the ports promise.
const OURS: [&str; 9] = [
    "auto.commit.enable",
    "delivery.report.only.error",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "log.queue",
    "log_level",
    "message.timeout.ms",
    "plugin.library.paths",
    "log.connection.close",
];

/// Prefixes of Kafka Streams, from the weakest to the strongest.
const PREFIXES: [(&str, For); 4] =
    [("", Both), ("consumer.", Consumer), ("main.consumer.", Consumer), ("producer.", Producer)];

fn millis(field: &mut Duration, ms: u32) -> PortResult<()> {
    *field = Duration::from_millis(ms.into());
    Ok(())
}

fn replication(config: &mut KafkaConfig, copies: u32) -> PortResult<()> {
    config.replication_factor =
        i16::try_from(copies).map_err(|_| refused("replication.factor", "it is at most 32767"))?;
    Ok(())
}

impl KafkaConfig {
    /// A configuration from what stands behind `kafka://` and from Kafka's settings, by Kafka's names, with the prefixes
    /// `consumer.`, `main.consumer.` and `producer.` where Kafka Streams has them.
    ///
    /// No message repeats a value.
    ///
    /// # Errors
    /// [`PortErrorKind::Refused`] for an address that is none, an unknown setting, or a value that it does not take;
    /// [`PortErrorKind::Unsupported`] for encryption and authentication, which this version does not have.
    pub fn from_settings(place: &str, settings: &BTreeMap<String, String>) -> PortResult<Self> {
        let mut config = Self { bootstrap: addresses(place)?, ..Self::new("") };
        for name in settings.keys() {
            check_plain_text(name, &settings[name])?;
        }
        for (prefix, target) in PREFIXES {
            for (name, value) in settings {
                if let Some(bare) = bare(name, prefix) {
                    config.set(name, bare, target, value)?;
                }
            }
        }
        if let Some(name) = settings
            .keys()
            .find(|n| n.starts_with("restore.consumer.") || n.starts_with("global.consumer."))
        {
            return Err(refused(
                name,
                "state is restored by the main consumer: use main.consumer.",
            ));
        }
        config.check_together()?;
        Ok(config)
    }

    fn check_together(&self) -> PortResult<()> {
        if self.heartbeat_interval * 3 > self.session_timeout {
            let why = "it has to be at least three times heartbeat.interval.ms";
            return Err(refused("session.timeout.ms", why));
        }
        if self.request_timeout.is_zero() {
            return Err(refused("request.timeout.ms", "it has to be longer than 0"));
        }
        Ok(())
    }

    fn set(&mut self, name: &str, bare: &str, target: For, value: &str) -> PortResult<()> {
        if OURS.contains(&bare) || bare.ends_with("_cb") {
            return Err(refused(name, "it is not for applications to set"));
        }
        if bare == "security.protocol" {
            return Ok(()); // it was checked to be plain text
        }
        let Some((_, whose, does)) = NAMES.iter().find(|(known, ..)| *known == bare) else {
            return self.hand_on(name, bare, target, value);
        };
        let whose = match (whose, target) {
            (Both, target) => target,
            (whose, Both) => *whose,
            (whose, target) if *whose == target => target,
            (Consumer, _) => return Err(refused(name, "it is a consumer's, not a producer's")),
            (Producer, _) => return Err(refused(name, "it is a producer's, not a consumer's")),
        };
        match *does {
            Is(theirs) => self.hand_on(name, theirs, whose, value),
            Kib(theirs) => {
                let bytes: u64 = number(name, value)?;
                self.hand_on(name, theirs, whose, &bytes.div_ceil(1024).to_string())
            }
            // Kafka Streams' own default.
            Field(_) if bare == "replication.factor" && value == "-1" => Ok(()),
            Field(set) => set(self, number(name, value)?),
            Nothing(why) => {
                tracing::warn!(setting = name, "has no effect: {why}");
                Ok(())
            }
            Only(one, _) if value == one => Ok(()),
            Only(one, why) => Err(refused(name, &format!("it can only be {one:?}: {why}"))),
            Never(why) => Err(refused(name, why)),
        }
    }

    /// Hands a setting on to librdkafka, which is asked whether it takes it.
    fn hand_on(&mut self, name: &str, theirs: &str, whose: For, value: &str) -> PortResult<()> {
        if let Err(failure) = ffi::check_setting(theirs, value) {
            return Err(match failure.text.contains("No such configuration property") {
                true => refused(name, &format!("there is no such setting{}", similar(theirs))),
                false => refused(name, "its value is not one that librdkafka takes"),
            });
        }
        if whose != Producer {
            self.consumer.insert(theirs.to_owned(), value.to_owned());
        }
        if whose != Consumer {
            self.producer.insert(theirs.to_owned(), value.to_owned());
        }
        Ok(())
    }
}

/// The name without the prefix; `None` when it has another one.
fn bare<'a>(name: &'a str, prefix: &str) -> Option<&'a str> {
    if !prefix.is_empty() {
        return name.strip_prefix(prefix);
    }
    let prefixed =
        ["consumer.", "main.consumer.", "restore.consumer.", "global.consumer.", "producer."];
    (!prefixed.iter().any(|p| name.starts_with(p))).then_some(name)
}

fn refused(name: &str, why: &str) -> PortError {
    PortError::new(PortErrorKind::Refused, format!("setting {name:?} for kafka://: {why}"))
}

fn number<N: std::str::FromStr>(name: &str, value: &str) -> PortResult<N> {
    value.parse().map_err(|_| refused(name, "its value is not a whole number in range"))
}

fn similar(name: &str) -> String {
    let known = NAMES.iter().map(|(known, ..)| (strsim::jaro_winkler(known, name), *known));
    let best = known.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(likeness, _)| *likeness > 0.85);
    best.map_or(String::new(), |(_, known)| format!("; did you mean {known:?}?"))
}

/// Refuses what would have to be encrypted or authenticated, rather than send it in plain text.
fn check_plain_text(name: &str, value: &str) -> PortResult<()> {
    let bare = PREFIXES.iter().rev().find_map(|(prefix, _)| name.strip_prefix(prefix));
    let bare = bare.unwrap_or(name);
    let plain = bare == "security.protocol" && value.eq_ignore_ascii_case("plaintext");
    let secure =
        bare == "security.protocol" || bare.starts_with("ssl.") || bare.starts_with("sasl.");
    if secure && !plain {
        return Err(PortError::new(
            PortErrorKind::Unsupported,
            format!(
                "setting {name:?} asks for TLS or SASL, which kafka:// does not have yet: \
                 nothing is sent in plain text instead; remove it to connect without"
            ),
        ));
    }
    Ok(())
}

/// The addresses of `host:port,host:port`, each with its port.
fn addresses(place: &str) -> PortResult<Vec<String>> {
    let refused = |why: &str| {
        let message = format!(
            "kafka:// needs the addresses of some brokers, such as kafka://host:9092,host:9092: {why}"
        );
        Err(PortError::new(PortErrorKind::Refused, message))
    };
    if place.contains('?') {
        return refused("it takes no options, settings have names of their own");
    }
    if place.contains('@') {
        return refused("it takes no user or password");
    }
    let place = place.strip_suffix('/').unwrap_or(place);
    let mut addresses = Vec::new();
    for address in place.split(',').map(str::trim) {
        let (host, port) = match address.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port),
            _ => (address, DEFAULT_PORT),
        };
        let legal = |c: char| c.is_ascii_alphanumeric() || "-._:[]%".contains(c);
        if host.is_empty() || !host.chars().all(legal) {
            return refused("one of them has no host, or one that is no name");
        }
        if port.parse::<u16>().is_ok_and(|port| port > 0) {
            addresses.push(format!("{host}:{port}"));
        } else {
            return refused("one of them has a port that is not a number from 1 to 65535");
        }
    }
    Ok(addresses)
}

/// Kafka's own.
const DEFAULT_PORT: &str = "9092";

#[cfg(test)]
mod tests;
