//! Topologies as data, and the tasks that run them: nodes, stores, punctuation, commits, restore, workers, and the Processor API.
//!
//! It knows no DSL and no concrete backend: the DSL compiles to a [`TopologyBuilder`]'s calls, and a backend comes in through the
//! ports of `thalweg-connectors`. From the worker to the commit all is synchronous and on one thread.
//!
//! | module | what it is |
//! | --- | --- |
//! | `topology` | nodes, stores and topics as data; sub-topologies |
//! | `node`, `context`, `processor` | what a node is and sees; the Processor API |
//! | `source`, `sink` | the edges: bytes to records and back |
//! | `stores`, `cache` | typed stores, the way of a write, the record cache |
//! | `punctuate` | timers on stream time and wall-clock time |
//! | `group`, `task` | buffered inputs merged by time; one task |
//! | `test_driver` | any topology without a broker |
//! | `collector`, `drops` | what tasks of a worker share: its producer and transaction; what is logged of dropped records |
//! | `plan` | from a topology to topics, partition counts and tasks |
//! | `worker`, `assignment`, `restore` | the loop that drives tasks: group, restore, process, commit, recover |
//! | `runtime`, `metrics` | threads, configuration, start and end of a run; its numbers |

mod assignment;
mod cache;
mod collector;
mod config;
mod context;
mod dead_letters;
mod drops;
mod error;
mod globals;
mod group;
mod metrics;
mod node;
mod plan;
mod processor;
mod punctuate;
mod record;
mod restore;
mod runtime;
mod setup;
mod sink;
mod source;
mod stores;
mod task;
mod test_driver;
mod topology;
mod worker;

pub use collector::Collector;
pub use config::{OnError, Semantics, TaskConfig, TimestampPolicy};
pub use context::Context;
pub use dead_letters::SourceBytes;
pub use error::{BoxError, ErrorClass, NodeError, NodeResult, TaskError, UsageError};
pub use metrics::{
    CommitLatency, Metrics, MetricsSnapshot, PartitionMetrics, RestoreMetrics, StreamsState,
};
pub use node::{Flushed, Node, slot_of, take};
pub use plan::{LostTopic, Plan, PlanError};
pub use processor::{Processor, ProcessorContext, Punctuation, supply};
pub use punctuate::{PunctuationType, TimerId};
pub use record::{Change, Record, RecordContext, RecordMetadata};
pub use runtime::{
    MissingOutputs, ReplayFrom, RunError, RuntimeConfig, StartAt, StartError, StateConfig,
    StateEngine, StopHandle, Streams, StreamsSpec, Summary, Until, promise,
};
pub use setup::Setup;
pub use sink::{PartitionerFn, Partitions, SinkDef, TopicExtractorFn};
pub use source::{Extracted, ExtractorFn, Source, SourceError, TimestampExtractor};
pub use stores::{
    Buffer, Entries, FlushedRows, Handle, KeyValue, Session, SessionEntries, SessionKey, Store,
    StoreDecl, StoreDef, StoreHandle, StoreSerdes, StoreShape, Timestamped, TimestampedKeyValue,
    TimestampedWindow, Updated, View, Window, WindowEntries, WindowedKey,
};
pub use task::{Task, TaskSpec};
pub use test_driver::{
    LocalState, SentRecord, StoredEntry, TestDriver, TestDriverBuilder, TestEntry, TestInput,
    TestOutput, TestStore,
};
pub use thalweg_txn::Guarantee;
pub use topology::{
    InternalTopic, InternalTopicDef, InternalTopicKind, NodeKind, NodeSupplier, SinkTopic,
    SourceDef, TaskId, TopicRef, Topology, TopologyBuilder, TopologyError, check_name,
};

/// A topology as data, for what shows or checks it: its nodes, stores and parts, by index, and its description.
pub mod data {
    pub use crate::topology::{
        NodeDef, NodeDescription, NodeDescriptionKind, NodeIx, SourceSupplier, StoreEntry, StoreNo,
        SubTopology, SubTopologyDescription, TopologyDescription,
    };
}
