//! `kafka://HOST:PORT[,HOST:PORT…]`: Apache Kafka.
//!
//! Data goes through librdkafka: one consumer per worker that never subscribes, one producer per worker. Membership goes through
//! a wire client of ours, because librdkafka has no custom assignors; it also commits offsets outside of transactions.
//!
//! | module | what it is |
//! | --- | --- |
//! | `config` | what a connection is told |
//! | `backend` | the port [`Backend`](crate::Backend) |
//! | `consumer`, `producer`, `admin` | the data plane, on librdkafka |
//! | `ffi` | the calls that the binding does not wrap; all `unsafe` is there |
//! | `wire` | requests and replies over a socket: coordinator, offsets, groups |
//! | `membership`, `assignor` | a member of a group, and who works on what |

mod assignor;
mod config;
mod membership;
mod wire;

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
