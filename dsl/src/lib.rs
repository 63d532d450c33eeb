//! Stream processing of the Kafka Streams kind: topologies written in a fluent, typed language, run one task per partition with local
//! state and exactly-once commits.
//!
//! ```
//! use thalweg::{StreamsBuilder, Topic};
//!
//! let visits = Topic::<String, String>::new("visits");
//! let alarms = Topic::<String, String>::new("alarms");
//!
//! let builder = StreamsBuilder::new();
//! builder
//!     .stream(&visits)
//!     .filter(|_user, page| page.starts_with("/admin"))
//!     .map_values(|user, page| format!("{user} saw {page}"))
//!     .to(&alarms);
//! let topology = builder.build()?;
//! # let _ = topology;
//! # Ok::<_, thalweg::BuildError>(())
//! ```
//!
//! A [`Topic`] says how its records are read and written; it is declared once and used everywhere. Types that travel through a
//! topology are [`Datum`]s: the standard ones are, one of yours needs a line, [`datum!`](datum)`(Order)`. A delete is `None` in the type.
//! What is durable (stores, repartition topics) has a name of your choice.
//!
//! [`App`] makes a program of a topology, with a command line of its own; [`TestDriver`] runs one without a broker. How tasks run and
//! commit is not in this crate: see `thalweg-processor` and below.

mod app;
mod builder;
mod config;
mod error;
mod graph;
mod grouped;
mod grouped_table;
mod grouping;
mod joins;
mod marker;
mod name;
mod nodes;
mod options;
mod place;
mod repartition;
mod serdes;
mod stream;
mod table;
mod table_ops;
mod table_rows;
mod table_source;
mod table_store;
mod windows;
mod windows_grouped;

pub use app::{App, AppError, AppErrorClass, ConfigError, Problem, Secret, feed};
pub use builder::StreamsBuilder;
pub use config::{BuildConfig, Optimization, StoreType};
pub use error::BuildError;
pub use grouped::KGroupedStream;
pub use grouped_table::KGroupedTable;
pub use marker::{Copartitioned, Keys, KeysInPlace, Rekeyed};
pub use name::Name;
pub use options::{
    Consumed, Grouped, IntoGrouped, IntoMaterialized, Joined, Materialized, Produced,
    Repartitioned, Stores,
};
pub use stream::{
    Branched, Branches, FixedKeyContext, FixedKeyProcessor, FixedKeyRecord, KStream, Split,
    Terminal,
};
pub use table::KTable;
pub use windows::{
    GraceStated, GraceUnstated, TimeWindow, TimeWindowedSerde, TimeWindows, WindowKey, Windowed,
    WindowedBy,
};
pub use windows_grouped::TimeWindowedStream;

#[cfg(feature = "json")]
pub use thalweg_connectors::JsonSerde;
#[cfg(feature = "uuid")]
pub use thalweg_connectors::UuidText;
pub use thalweg_connectors::{
    Accepts, Backend, Boolean, Clock, Datum, DefaultSerde, F32Be, F64Be, Field, Headers, I16Be,
    I32Be, I64Be, MemBroker, Nullable, Offset, OffsetReset, PortError, RawBytes, Serde, SerdeError,
    SharedBackend, SharedSerde, SystemClock, Timestamp, Topic, Utf8, Void, datum, open,
};
pub use thalweg_processor::{
    BoxError, Change, ErrorClass, Extracted, Handle, KeyValue, LocalState, NodeError, OnError,
    Partitions, Processor, ProcessorContext, Punctuation, PunctuationType, Record, RecordContext,
    RecordMetadata, RunError, SentRecord, Setup, StartError, Store, StoreDecl, Summary, TaskConfig,
    TaskError, TaskId, TestDriver, TestDriverBuilder, TestEntry, TestInput, TestOutput, TestStore,
    TimerId, TimestampPolicy, Timestamped, TimestampedKeyValue, TimestampedWindow, Topology,
    TopologyError, UsageError, Window, WindowedKey,
};
