//! A store as the topology keeps it.

use std::any::Any;
use std::any::type_name;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use thalweg_connectors::SharedSerde;
use thalweg_state::{StoreKind, StoreSpec, WindowSpec};

use crate::config::Semantics;

/// Index of a store in its task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct LocalStore(pub(crate) usize);

/// What a store offers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum StoreShape {
    /// One value per key.
    KeyValue,
    /// Updates that wait, by key. Logged when the task commits, in the format of Kafka Streams' buffers.
    Buffer,
    /// Values per key and window start.
    Window {
        /// How long a window can be read after its start, in ms of stream time.
        retention_ms: i64,
        /// How long a window is, in ms: turns a start into a window.
        size_ms: i64,
        /// Keeps several values per key and start.
        retain_duplicates: bool,
    },
    /// Values per key and session.
    Session {
        /// How long a session can be read after its end, in ms of stream time.
        retention_ms: i64,
    },
}

/// The serdes of a store, kept with its definition for tools that know its types.
pub struct StoreSerdes<K, V> {
    /// The key's.
    pub key: SharedSerde<K>,
    /// The value's, without timestamp.
    pub value: SharedSerde<V>,
}

impl<K, V> Clone for StoreSerdes<K, V> {
    fn clone(&self) -> Self {
        Self { key: Arc::clone(&self.key), value: Arc::clone(&self.value) }
    }
}

/// Everything about a store but its data.
#[derive(Clone)]
#[non_exhaustive]
pub struct StoreDef {
    /// Its durable name: the changelog is `<application.id>-<name>-changelog`.
    pub name: Arc<str>,
    /// What it offers.
    pub shape: StoreShape,
    /// Does each value carry a timestamp?
    pub timestamped: bool,
    /// On RocksDB, or in memory?
    pub persistent: bool,
    /// Topic configuration of its changelog; `None`: no changelog.
    pub logging: Option<BTreeMap<String, String>>,
    /// Do updates wait in the record cache?
    pub caching: bool,
    /// Do records of its changelog have the headers of the record under way? Those of a join's records do, in Kafka Streams.
    pub logs_headers: bool,
    /// Does a window store keep entries one ms longer than Kafka Streams does, unless its accidents are copied?
    pub keeps_edge: bool,
    /// Can windows or sessions be read in the order of time? It costs a second, short entry each.
    pub time_index: bool,
    /// A [`StoreSerdes`] of its types.
    pub serdes: Arc<dyn Any + Send + Sync>,
    identity: Arc<()>,
    types: [&'static str; 2],
    declared_at: &'static Location<'static>,
}

impl StoreDef {
    /// A persistent store with a changelog and without caching. The caller's line is where it is declared.
    #[track_caller]
    pub fn new<K: 'static, V: 'static>(
        name: impl Into<Arc<str>>,
        shape: StoreShape,
        timestamped: bool,
        serdes: StoreSerdes<K, V>,
    ) -> Self {
        Self {
            name: name.into(),
            shape,
            timestamped,
            persistent: true,
            logging: Some(BTreeMap::new()),
            caching: false,
            keeps_edge: false,
            logs_headers: false,
            time_index: false,
            serdes: Arc::new(serdes),
            identity: Arc::new(()),
            types: [type_name::<K>(), type_name::<V>()],
            declared_at: Location::caller(),
        }
    }

    /// Is this a clone of the same declaration, with the same options?
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.identity, &other.identity) && self.differences(other).is_empty()
    }

    /// Where it was declared: file, line and column.
    pub fn declared_at(&self) -> &'static Location<'static> {
        self.declared_at
    }

    /// In what two declarations differ, in words; empty when they are alike.
    pub fn differences(&self, other: &Self) -> String {
        let (mine, others) = (self.traits(), other.traits());
        let differ = mine.iter().zip(&others).filter(|((_, mine), (_, others))| mine != others);
        let told = differ.map(|((of, mine), (_, others))| format!("{of} ({mine}, {others})"));
        told.collect::<Vec<_>>().join(", ")
    }

    fn traits(&self) -> [(&'static str, String); 10] {
        let (retention, size, duplicates) = match self.shape {
            StoreShape::Window { retention_ms, size_ms, retain_duplicates } => {
                (format!("{retention_ms} ms"), format!("{size_ms} ms"), retain_duplicates)
            }
            StoreShape::Session { retention_ms } => {
                (format!("{retention_ms} ms"), String::new(), false)
            }
            StoreShape::KeyValue | StoreShape::Buffer => (String::new(), String::new(), false),
        };
        let is = |is: bool| if is { "on" } else { "off" }.to_owned();
        let place = if self.persistent { "persistent" } else { "in memory" };
        let changelog = self.logging.as_ref().map(|config| format!("with {config:?}"));
        [
            ("kind", self.kind_name().to_owned()),
            ("key type", self.types[0].to_owned()),
            ("value type", self.types[1].to_owned()),
            ("retention", retention),
            ("window size", size),
            ("duplicates", is(duplicates)),
            ("place", place.to_owned()),
            ("changelog", changelog.unwrap_or_else(|| is(false))),
            ("caching", is(self.caching)),
            ("order of time", is(self.time_index)),
        ]
    }

    /// What messages call it.
    pub fn kind_name(&self) -> &'static str {
        match (self.shape, self.timestamped) {
            (StoreShape::Buffer, _) => "buffer",
            (StoreShape::KeyValue, false) => "key-value store",
            (StoreShape::KeyValue, true) => "timestamped key-value store",
            (StoreShape::Window { .. }, false) => "window store",
            (StoreShape::Window { .. }, true) => "timestamped window store",
            (StoreShape::Session { .. }, _) => "session store",
        }
    }

    /// The serdes, when they are of these types.
    pub fn serdes<K: 'static, V: 'static>(&self) -> Option<&StoreSerdes<K, V>> {
        self.serdes.downcast_ref()
    }

    /// The changelog's full name.
    pub fn changelog_topic(&self, application_id: &str) -> String {
        format!("{application_id}-{}-changelog", self.name)
    }

    /// What the state crate is told.
    pub(crate) fn spec(&self, semantics: Semantics) -> StoreSpec {
        let kept = |retention_ms: i64| {
            let spec = WindowSpec::new(retention_ms);
            let spec = if self.time_index { spec.time_index() } else { spec };
            if self.persistent { spec } else { spec.exact_expiry() }
        };
        let kind = match self.shape {
            StoreShape::Session { retention_ms } => {
                // A session stays open, and has to be found, up to and including the end of its retention.
                let more = i64::from(semantics != Semantics::Java);
                StoreKind::Session(kept(retention_ms.saturating_add(more)))
            }
            StoreShape::KeyValue | StoreShape::Buffer => StoreKind::KeyValue,
            StoreShape::Window { retention_ms, retain_duplicates, .. } => {
                let more = i64::from(self.keeps_edge && semantics != Semantics::Java);
                let spec = kept(retention_ms.saturating_add(more));
                StoreKind::Window(if retain_duplicates { spec.retain_duplicates() } else { spec })
            }
        };
        let mut spec = StoreSpec::new(&*self.name, kind);
        if self.timestamped {
            spec = spec.timestamped();
        }
        if self.persistent { spec } else { spec.in_memory() }
    }
}

impl fmt::Debug for StoreDef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.kind_name(), self.name)
    }
}
