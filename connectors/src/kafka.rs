//! `kafka://HOST:PORT[,HOST:PORT…]`: Apache Kafka.
//!
//! Data goes through librdkafka: one consumer per worker that never subscribes, one producer per worker. Membership goes through
//! a wire client of ours, because librdkafka has no custom assignors; it also commits offsets outside of transactions.
//!
//! | module | what it is |
//! | --- | --- |
//! | `config`, `settings` | what a connection is told, by Kafka's names |
//! | `backend` | the port [`Backend`](crate::Backend) |
//! | `consumer`, `producer`, `admin` | the data plane, on librdkafka |
//! | `topics`, `watch`, `error` | which topics there are, and whether they stay; what errors mean |
//! | `ffi` | the calls that the binding does not wrap; all `unsafe` is there |
//! | `wire` | requests and replies over a socket: coordinator, offsets, groups |
//! | `membership`, `assignor` | a member of a group, and who works on what |

mod admin;
mod assignor;
mod backend;
mod config;
mod consumer;
mod error;
mod ffi;
mod membership;
mod producer;
mod settings;
mod topics;
mod watch;
mod wire;

pub use backend::KafkaBackend;
pub use config::KafkaConfig;

/// The version of librdkafka that is linked in.
pub fn librdkafka_version() -> String {
    rdkafka::util::get_rdkafka_version().1
}

#[cfg(test)]
mod tests {
    #[test]
    fn librdkafka_is_linked_and_new_enough() {
        let version = super::librdkafka_version();
        let mut numbers = version.split('.').map(str::parse::<u32>);
        assert_eq!(numbers.next(), Some(Ok(2)), "{version}");
    }
}
