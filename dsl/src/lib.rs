//! Stream processing of the Kafka Streams kind: topologies written in a fluent, typed language run one task per partition, with local
//! state and exactly-once commits.
//!
//! ```
//! use thalweg::{StreamsBuilder, TaskConfig, TestDriver, Topic};
//!
//! let lines = Topic::<(), String>::new("lines");
//! let totals = Topic::<String, i64>::new("word-totals");
//!
//! let builder = StreamsBuilder::new();
//! builder
//!     .stream(&lines)
//!     .flat_map_values(|(), line| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
//!     .group_by("by-word", |(), word| word.clone())
//!     .count("word-counts")
//!     .to(&totals);
//! let topology = builder.build()?;
//!
//! // in a test: no broker, and the test sets the time
//! let mut driver = TestDriver::new(&topology, TaskConfig::new("word-count"))?;
//! driver.input(&lines).pipe((), "to be or not to be".to_owned(), 1)?;
//! let counts = driver.output(&totals).read_pairs()?;
//! assert_eq!(counts.last(), Some(&("be".to_owned(), 2)));
//! # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # The ideas
//!
//! - A [`Topic`] says how its records are read and written. It is declared once and used everywhere: source, sink, test. Stores are
//!   declared in the same way.
//! - Whatever travels through a topology is a [`Datum`]. The standard types are; one of yours needs a line,
//!   [`datum!`](datum)`(Order)`. A delete is `None` in the type, never a null in disguise.
//! - What is durable (a store, a repartition topic) has a name of your choice. A stream whose keys were changed is of another type
//!   ([`Rekeyed`]), and the compiler asks for the name of its repartition topic.
//! - Operators record and never fail; [`StreamsBuilder::build`] returns every mistake at once.
//! - On the wire all is as in Kafka Streams: internal topics, stores and generated names, so that either can take over from the other.
//!
//! # Where to go next
//!
//! [`StreamsBuilder`] starts streams and tables; [`KStream`], [`KTable`] and [`KGroupedStream`] have the operators;
//! [`Processor`] is for logic of your own; [`App`] makes a topology a program; [`TestDriver`] tests it.
//!
//! This crate knows no threads, clients or transactions: those are in `thalweg-processor` and below.

mod app;
mod builder;
mod cogroup_member;
mod cogrouped;
mod config;
mod custom_windows;
mod cut;
mod emit;
mod error;
mod foreign_joins;
mod global_table;
mod graph;
mod grouped;
mod grouped_table;
mod grouping;
mod join_windows;
mod joins;
mod marker;
mod name;
mod nodes;
mod options;
mod place;
mod repartition;
mod serdes;
mod session_windows;
mod sessions_grouped;
mod sliding_windows;
mod stream;
mod stream_joins;
mod table;
mod table_joins;
mod table_ops;
mod table_rows;
mod table_source;
mod table_store;
mod table_suppress;
mod windows;
mod windows_grouped;

pub use app::{App, AppError, AppErrorClass, ConfigError, Problem, Secret, feed};
pub use builder::StreamsBuilder;
pub use cogrouped::{
    CogroupWindows, KCogroupedStream, SessionCogroupedStream, WindowedCogroupedStream,
};
pub use config::{BuildConfig, Optimization, StoreType};
pub use custom_windows::{CustomWindows, UnlimitedWindows, WindowScheme};
pub use emit::EmitStrategy;
pub use error::BuildError;
pub use global_table::GlobalKTable;
pub use grouped::KGroupedStream;
pub use grouped_table::KGroupedTable;
pub use join_windows::JoinWindows;
pub use marker::{Copartitioned, Keys, KeysInPlace, Rekeyed};
pub use name::Name;
pub use options::{
    Consumed, Grouped, IntoGrouped, IntoMaterialized, Joined, Materialized, Produced,
    Repartitioned, Stores, StreamJoined, Suppressed, WhenFull,
};
pub use session_windows::{SessionWindowedSerde, SessionWindows};
pub use sessions_grouped::SessionWindowedStream;
pub use sliding_windows::SlidingWindows;
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
    RecordMetadata, RunError, Semantics, SentRecord, Session, SessionKey, Setup, StartError, Store,
    StoreDecl, Summary, TaskConfig, TaskError, TaskId, TestDriver, TestDriverBuilder, TestEntry,
    TestInput, TestOutput, TestStore, TimerId, TimestampPolicy, Timestamped, TimestampedKeyValue,
    TimestampedWindow, Topology, TopologyError, UsageError, Window, WindowedKey,
};
