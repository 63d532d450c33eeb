//! The wire of Thalweg: topics, partitions, offsets, headers and serdes; the ports through which the core reaches the outside;
//! and every backend, one cargo feature each.
//!
//! It knows nothing of tasks, stores or topologies. A user meets [`Topic`] and the serdes, re-exported by the crate `thalweg`.
//!
//! | module | what it is |
//! | --- | --- |
//! | `wire`, `headers`, `batch` | the vocabulary, borrowed wherever it can be |
//! | `datum`, `serde`, `topic` | typed topics |
//! | `partition` | murmur2, as Kafka's Java client has it |
//! | `ports` | what the core asks for: [`Consumer`], [`Producer`], [`Admin`], [`Membership`], [`Clock`] |
//! | `clock` | the machine's clock and a manual one |
//! | `kafka` | `kafka://`: Apache Kafka; librdkafka for data, a wire client of our own for membership |
//! | `local` | what the embedded backends share: clients, transactional ids, groups, planned faults |
//! | `log` | `log://`: a durable transactional log in a directory |
//! | `names` | names of topics: which are legal, which are similar |
//! | `producer_state` | where a producer stands, the same for every backend |
//! | `mem` | `mem://`: a broker in memory |
//! | `url` | [`open`]: a backend by its URL |

mod batch;
mod clock;
mod datum;
mod headers;
#[cfg(feature = "kafka")]
mod kafka;
mod local;
mod log;
mod mem;
mod names;
mod partition;
mod ports;
mod producer_state;
mod serde;
mod topic;
mod url;
mod wire;

pub use batch::{BatchSlice, RecordBatch, Records};
pub use clock::{ManualClock, SystemClock};
pub use datum::{Datum, SerdeProbe, SerdeProbeFallback};
pub use headers::{Headers, HeadersIter, HeadersRef};
#[cfg(feature = "kafka")]
pub use kafka::{KafkaBackend, KafkaConfig, librdkafka_version};
pub use local::{Call, Fault, FaultPlan};
pub use log::{Durability, LogBroker, LogMemory, LogOptions};
pub use mem::MemBroker;
pub use names::topic_hint;
pub use partition::{murmur2, partition_for};
pub use ports::*;
#[cfg(feature = "json")]
pub use serde::JsonSerde;
#[cfg(feature = "uuid")]
pub use serde::UuidText;
pub use serde::{
    Boolean, DefaultSerde, F32Be, F64Be, Field, I16Be, I32Be, I64Be, Nullable, RawBytes, Serde,
    SerdeError, SharedSerde, Utf8, Void,
};
pub use topic::{Accepts, Is, Topic};
pub use url::{open, open_with};
pub use wire::{NewRecord, Offset, RecordRef, Timestamp, TopicPartition};
