//! The table of known keys: everything an application can be told, and nothing that has no effect.

/// What values a key takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A name that can be part of a topic's name and of a directory's.
    Id,
    /// A backend's URL.
    Url,
    /// One of these words.
    Choice(&'static [Word]),
    /// A whole number within these bounds.
    Integer {
        /// The lowest.
        min: i64,
        /// The highest.
        max: i64,
    },
    /// A path of the file system.
    Path,
    /// A socket address of this machine, or a port.
    Address,
    /// A text that is never shown, and that fits into a header of HTTP.
    Token,
}

/// A word that a key takes, and other words for the same.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Word {
    /// The word that is shown.
    pub(crate) name: &'static str,
    /// Other words, such as Kafka Streams' names of classes.
    pub(crate) also: &'static [&'static str],
}

const fn word(name: &'static str) -> Word {
    Word { name, also: &[] }
}

const fn words(name: &'static str, also: &'static [&'static str]) -> Word {
    Word { name, also }
}

/// A key of the configuration.
#[derive(Debug)]
pub(crate) struct Key {
    /// Its dotted name: Kafka Streams' where that has one.
    pub(crate) name: &'static str,
    /// What values it takes.
    pub(crate) kind: Kind,
    /// Its default, as it would be written; `None`: see `reason`.
    pub(crate) default: Option<&'static str>,
    /// Why the default is what it is.
    pub(crate) reason: &'static str,
    /// What it does.
    pub(crate) doc: &'static str,
    /// The flag that sets it, besides `--set`.
    pub(crate) flag: Option<&'static str>,
}

impl Key {
    /// The environment variable that sets it.
    pub(crate) fn variable(&self) -> String {
        format!("{VARIABLE_PREFIX}{}", self.name.to_ascii_uppercase().replace('.', "_"))
    }
}

/// How all environment variables of an application begin.
pub(crate) const VARIABLE_PREFIX: &str = "THALWEG_";

/// Variables with that prefix that set no key.
pub(crate) const OTHER_VARIABLES: [&str; 1] = ["THALWEG_LOG"];

const HANDLER: [Word; 2] = [
    words(
        "fail",
        &[
            "DefaultProductionExceptionHandler",
            "LogAndFailExceptionHandler",
            "LogAndFailProcessingExceptionHandler",
        ],
    ),
    words(
        "continue",
        &["LogAndContinueExceptionHandler", "LogAndContinueProcessingExceptionHandler"],
    ),
];

const BYTES_MAX: i64 = 1 << 40;
const DAY_MS: i64 = 86_400_000;

/// All keys, sorted by name.
pub(crate) const KEYS: &[Key] = &[
    Key {
        name: "application.id",
        kind: Kind::Id,
        default: None,
        reason: "two applications must never share it by accident",
        doc: "name of the application: its consumer group, the prefix of its internal topics, its state's directory",
        flag: Some("--application-id"),
    },
    Key {
        name: "auto.offset.reset",
        kind: Kind::Choice(&[word("earliest"), word("latest"), word("none")]),
        default: Some("earliest"),
        reason: "nothing is skipped",
        doc: "where reading starts when the application has committed no offset",
        flag: None,
    },
    Key {
        name: "broker",
        kind: Kind::Url,
        default: Some("log://.thalweg/log"),
        reason: "needs nothing installed and survives a killed process",
        doc: "where topics live: `log://DIRECTORY`, `kafka://HOST:PORT` or `mem://NAME`",
        flag: Some("--broker"),
    },
    Key {
        name: "buffered.records.per.partition",
        kind: Kind::Integer { min: 1, max: 1 << 31 },
        default: Some("1000"),
        reason: "as in Kafka Streams",
        doc: "a partition with more records waiting is paused",
        flag: None,
    },
    Key {
        name: "commit.interval.ms",
        kind: Kind::Integer { min: 1, max: DAY_MS },
        default: None,
        reason: "30000, and 100 under exactly_once, as in Kafka Streams",
        doc: "time between commits",
        flag: None,
    },
    Key {
        name: "default.timestamp.extractor",
        kind: Kind::Choice(&[
            words("fail_on_invalid", &["FailOnInvalidTimestamp"]),
            words("log_and_skip", &["LogAndSkipOnInvalidTimestamp"]),
            words("use_partition_time", &["UsePartitionTimeOnInvalidTimestamp"]),
            words("wall_clock", &["WallclockTimestampExtractor"]),
        ]),
        default: Some("fail_on_invalid"),
        reason: "nothing is lost silently",
        doc: "what a source does with a negative timestamp; `wall_clock` ignores the record's own",
        flag: None,
    },
    Key {
        name: "deserialization.exception.handler",
        kind: Kind::Choice(&HANDLER),
        default: Some("fail"),
        reason: "nothing is lost silently",
        doc: "what happens to a record that cannot be decoded, or to a line of `--input` without key or time; `continue` drops and counts it",
        flag: None,
    },
    Key {
        name: "durability",
        kind: Kind::Choice(&[word("process"), word("sync")]),
        default: Some("process"),
        reason: "a commit then waits for no disk",
        doc: "what a commit on `log://` survives: a killed process, or with `sync` the loss of power too",
        flag: None,
    },
    Key {
        name: "errors.dead.letter.queue.topic.name",
        kind: Kind::Id,
        default: None,
        reason: "nowhere unless asked for",
        doc: "the topic that source records go to when a handler was asked about them; it has to be there",
        flag: None,
    },
    Key {
        name: "heartbeat.interval.ms",
        kind: Kind::Integer { min: 50, max: DAY_MS },
        default: Some("200"),
        reason: "changes of the group are heard of with a heartbeat, and until all have heard nobody commits",
        doc: "how often a worker tells its group on Kafka that it lives",
        flag: None,
    },
    Key {
        name: "http.address",
        kind: Kind::Address,
        default: None,
        reason: "off unless asked for",
        doc: "address or port of `/health/live`, `/health/ready` and `/metrics`",
        flag: Some("--http"),
    },
    Key {
        name: "http.token",
        kind: Kind::Token,
        default: None,
        reason: "not needed on the loopback interface",
        doc: "what `/metrics` asks for, as `Authorization: Bearer TOKEN`; any `http.address` that other machines reach needs it",
        flag: None,
    },
    Key {
        name: "max.poll.records",
        kind: Kind::Integer { min: 1, max: 1 << 20 },
        default: Some("4000"),
        reason: "several times Kafka's: a poll of an embedded backend copies nothing",
        doc: "about how many records one poll takes over",
        flag: None,
    },
    Key {
        name: "max.task.idle.ms",
        kind: Kind::Integer { min: -1, max: DAY_MS },
        default: Some("0"),
        reason: "as in Kafka Streams: a task waits for what is known to be there",
        doc: "how much longer a task waits for an input that has been read to its end; -1 never waits",
        flag: None,
    },
    Key {
        name: "num.stream.threads",
        kind: Kind::Integer { min: 1, max: 1024 },
        default: Some("1"),
        reason: "as in Kafka Streams",
        doc: "number of workers, each a thread that runs tasks",
        flag: Some("--workers"),
    },
    Key {
        name: "poll.ms",
        kind: Kind::Integer { min: 0, max: DAY_MS },
        default: Some("100"),
        reason: "as in Kafka Streams",
        doc: "how long an idle worker waits for records",
        flag: None,
    },
    Key {
        name: "processing.exception.handler",
        kind: Kind::Choice(&HANDLER),
        default: Some("fail"),
        reason: "nothing is lost silently",
        doc: "what happens to a record that user code returned an error for; `continue` drops and counts it",
        flag: None,
    },
    Key {
        name: "processing.guarantee",
        kind: Kind::Choice(&[word("at_least_once"), words("exactly_once", &["exactly_once_v2"])]),
        default: Some("at_least_once"),
        reason: "as in Kafka Streams: it runs on every backend",
        doc: "what a commit promises",
        flag: Some("--guarantee"),
    },
    Key {
        name: "production.exception.handler",
        kind: Kind::Choice(&HANDLER),
        default: Some("fail"),
        reason: "nothing is lost silently",
        doc: "what happens to a result that cannot be written or that the producer refuses, such as one that is too large; `continue` drops and counts it",
        flag: None,
    },
    Key {
        name: "repartition.purge.interval.ms",
        kind: Kind::Integer { min: 1, max: DAY_MS },
        default: Some("30000"),
        reason: "as in Kafka Streams",
        doc: "how often consumed repartition records are deleted",
        flag: None,
    },
    Key {
        name: "replication.factor",
        kind: Kind::Integer { min: -1, max: 32_767 },
        default: Some("-1"),
        reason: "as in Kafka Streams: what the cluster gives by default",
        doc: "how many copies Kafka keeps of a topic that the application creates",
        flag: None,
    },
    Key {
        name: "request.timeout.ms",
        kind: Kind::Integer { min: 100, max: DAY_MS },
        default: Some("30000"),
        reason: "as in Kafka's clients",
        doc: "how long a request to Kafka may take",
        flag: None,
    },
    Key {
        name: "semantics",
        kind: Kind::Choice(&[word("corrected"), word("java")]),
        default: Some("corrected"),
        reason: "results that look like accidents of Kafka Streams help nobody",
        doc: "what is done where Kafka Streams' results look like an accident; `java` copies them",
        flag: None,
    },
    Key {
        name: "session.timeout.ms",
        kind: Kind::Integer { min: 1000, max: DAY_MS },
        default: Some("6000"),
        reason: "heartbeats do not depend on how long a record takes, so failures can be noticed soon",
        doc: "a worker that Kafka does not hear for so long is taken out of its group",
        flag: None,
    },
    Key {
        name: "state.dir",
        kind: Kind::Path,
        default: Some(".thalweg"),
        reason: "beside the application, and not in a directory that is emptied",
        doc: "directory of local state; each application has one of its own below it",
        flag: Some("--state-dir"),
    },
    Key {
        name: "statestore.cache.max.bytes",
        kind: Kind::Integer { min: 0, max: BYTES_MAX },
        default: Some("10485760"),
        reason: "as in Kafka Streams",
        doc: "size of the record caches of all workers; 0 sends every update downstream",
        flag: None,
    },
    Key {
        name: "statestore.uncommitted.max.bytes",
        kind: Kind::Integer { min: 1, max: BYTES_MAX },
        default: Some("67108864"),
        reason: "as in Kafka Streams: memory stays bounded",
        doc: "a task with more uncommitted bytes in its stores asks for a commit",
        flag: None,
    },
    Key {
        name: "task.timeout.ms",
        kind: Kind::Integer { min: 0, max: DAY_MS },
        default: Some("300000"),
        reason: "as in Kafka Streams",
        doc: "how long a worker tries again before it gives up; at most 30 s of it at the start",
        flag: None,
    },
    Key {
        name: "topology.optimization",
        kind: Kind::Choice(&[word("none")]),
        default: Some("none"),
        reason: "topics of a running application do not change by themselves",
        doc: "which optimizations change the topology; there are none yet",
        flag: None,
    },
    Key {
        name: "transaction.timeout.ms",
        kind: Kind::Integer { min: 1000, max: 900_000 },
        default: Some("10000"),
        reason: "as in Kafka Streams; 15 minutes is the most that Kafka grants",
        doc: "how long a transaction may stay open before the backend aborts it",
        flag: None,
    },
];

/// How settings of Kafka's clients begin, as in Kafka Streams. They are handed on to the backend, which knows them.
const CLIENT_PREFIXES: [&str; 5] = ["consumer.", "main.consumer.", "producer.", "sasl.", "ssl."];
/// The setting of all clients that has no such beginning.
const SECURITY_PROTOCOL: &str = "security.protocol";

/// Is it a setting for Kafka's clients?
pub(crate) fn is_client_setting(name: &str) -> bool {
    let begins = |prefix: &&str| name.len() > prefix.len() && name.starts_with(*prefix);
    name == SECURITY_PROTOCOL || CLIENT_PREFIXES.iter().any(begins)
}

/// The key of that name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.binary_search_by(|key| key.name.cmp(name)).ok().map(|at| &KEYS[at])
}

/// A name that is less like another one is not a misspelling of it.
const LIKENESS_MIN: f64 = 0.85;

/// The known name that is most like this one, if one is; a part of a name stands for the whole.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let lower = name.to_ascii_lowercase();
    let likeness = |key: &Key| match key.name.contains(&lower) && lower.len() > 2 {
        true => 1.0,
        false => strsim::jaro_winkler(&lower, key.name),
    };
    KEYS.iter()
        .filter(|key| likeness(key) >= LIKENESS_MIN)
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .map(|key| key.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_unique() {
        assert!(KEYS.is_sorted_by(|a, b| a.name < b.name));
    }

    #[test]
    fn every_key_is_found_by_its_name_and_has_its_own_variable() {
        for key in KEYS {
            assert_eq!(find(key.name).map(|found| found.name), Some(key.name));
            assert!(!OTHER_VARIABLES.contains(&key.variable().as_str()));
        }
        let mut variables: Vec<String> = KEYS.iter().map(Key::variable).collect();
        variables.dedup();
        assert_eq!(variables.len(), KEYS.len());
    }

    #[test]
    fn no_key_is_a_part_of_another_so_that_toml_tables_can_nest() {
        for (a, b) in KEYS.iter().zip(&KEYS[1..]) {
            assert!(!b.name.starts_with(&format!("{}.", a.name)));
        }
    }

    #[test]
    fn a_misspelt_name_finds_the_one_that_was_meant() {
        for (misspelt, meant) in [
            ("aplication.id", "application.id"),
            ("application_id", "application.id"),
            ("APPLICATION.ID", "application.id"),
            ("commit.intervall.ms", "commit.interval.ms"),
            ("num.threads", "num.stream.threads"),
            ("brokers", "broker"),
            ("guarantee", "processing.guarantee"),
            ("cache.max.bytes", "statestore.cache.max.bytes"),
            ("state.directory", "state.dir"),
            ("deserialisation.exception.handler", "deserialization.exception.handler"),
        ] {
            assert_eq!(nearest(misspelt), Some(meant), "{misspelt}");
        }
    }

    #[test]
    fn settings_of_clients_are_told_by_their_names() {
        for name in ["producer.linger.ms", "sasl.mechanism", "ssl.ca.location", "security.protocol"]
        {
            assert!(is_client_setting(name), "{name}");
        }
        for name in ["producer.", "ssl", "security.providers", "linger.ms"] {
            assert!(!is_client_setting(name), "{name}");
        }
    }

    #[test]
    fn a_name_that_is_like_none_finds_none() {
        for name in ["x", "zz", "", "window.size", "foo.bar.baz", "home"] {
            assert_eq!(nearest(name), None, "{name}");
        }
    }
}
