//! What a task's stores are: names, kinds, and where they live.

/// Identifies a store inside one task's state: its index in the list given to
/// [`TaskState::open`](crate::TaskState::open).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreIx(pub u16);

/// Describes one store of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreSpec {
    /// The durable name, chosen by the user.
    pub name: String,
    /// What the store offers.
    pub kind: StoreKind,
    /// Whether the store lives in the task's engine. A store that does not is kept in memory and
    /// rebuilt from its changelog at each start, so its position is never written.
    pub persistent: bool,
    /// How restore turns a changelog value into the store's local value.
    pub format: ValueFormat,
}

impl StoreSpec {
    /// Describes a persistent key-value store.
    #[must_use]
    pub fn key_value(name: impl Into<String>) -> Self {
        Self::new(name, StoreKind::KeyValue)
    }

    /// Describes a persistent window store.
    #[must_use]
    pub fn window(name: impl Into<String>, window: WindowSpec) -> Self {
        Self::new(name, StoreKind::Window(window))
    }

    /// Describes a persistent session store; its times are ends of sessions.
    #[must_use]
    pub fn session(name: impl Into<String>, session: WindowSpec) -> Self {
        Self::new(name, StoreKind::Session(session))
    }

    /// Describes a persistent store of plain values.
    #[must_use]
    pub fn new(name: impl Into<String>, kind: StoreKind) -> Self {
        Self { name: name.into(), kind, persistent: true, format: ValueFormat::Plain }
    }

    /// Keeps the store in memory, whatever the task's engine.
    #[must_use]
    pub fn in_memory(mut self) -> Self {
        self.persistent = false;
        self
    }

    /// Makes restore put the record's timestamp in front of each value, as stores of values with
    /// timestamps keep them ([`values`](crate::values)).
    #[must_use]
    pub fn timestamped(mut self) -> Self {
        self.format = ValueFormat::Timestamped;
        self
    }
}

/// What a store offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreKind {
    /// One value per key.
    KeyValue,
    /// One value, or several, per key and window start, kept for a limited time.
    Window(WindowSpec),
    /// One value per key and session, kept for a limited time after the session's end.
    Session(WindowSpec),
}

impl StoreKind {
    /// Can entries be read in the order of time?
    pub(crate) fn has_time_index(self) -> bool {
        match self {
            Self::KeyValue => false,
            Self::Window(spec) | Self::Session(spec) => spec.time_index,
        }
    }
}

/// How the local value of a store is made from the value of its changelog record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValueFormat {
    /// They are the same bytes.
    Plain,
    /// The local value is the record's timestamp followed by the changelog's value.
    Timestamped,
}

/// How long a window or session store keeps what. A session counts by its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct WindowSpec {
    /// Entries that started this long before the store's stream time can no longer be read.
    pub retention_ms: i64,
    /// Entries are removed a whole segment at a time.
    pub segment_ms: i64,
    /// Whether a put is refused as soon as its window start is out of retention (the rule of Kafka
    /// Streams' in-memory store), or only when its whole segment is (its RocksDB store).
    pub exact_expiry: bool,
    /// Whether entries can be read in the order of time ([`TaskState::by_time`](crate::TaskState::by_time)): costs a second,
    /// short entry. Not with duplicates.
    pub time_index: bool,
    /// Whether several values with the same key and start are kept side by side.
    pub retain_duplicates: bool,
}

impl WindowSpec {
    /// The shortest segment Kafka Streams makes by default.
    const SEGMENT_MS_MIN: i64 = 60_000;

    /// Describes a store with the given retention and Kafka Streams' default segments: half of the
    /// retention, but at least a minute. Negative retention counts as none.
    #[must_use]
    pub fn new(retention_ms: i64) -> Self {
        let retention_ms = retention_ms.max(0);
        Self {
            retention_ms,
            segment_ms: (retention_ms / 2).max(Self::SEGMENT_MS_MIN),
            exact_expiry: false,
            time_index: false,
            retain_duplicates: false,
        }
    }

    /// Sets the length of a segment; anything below 1 counts as 1.
    #[must_use]
    pub fn segment_ms(mut self, segment_ms: i64) -> Self {
        self.segment_ms = segment_ms.max(1);
        self
    }

    /// Refuses puts exactly at the end of retention, as Kafka Streams' in-memory store does.
    #[must_use]
    pub fn exact_expiry(mut self) -> Self {
        self.exact_expiry = true;
        self
    }

    /// Lets entries be read in the order of time.
    #[must_use]
    pub fn time_index(mut self) -> Self {
        self.time_index = !self.retain_duplicates;
        self
    }

    /// Keeps every value put under the same key and start.
    #[must_use]
    pub fn retain_duplicates(mut self) -> Self {
        self.time_index = false;
        self.retain_duplicates = true;
        self
    }
}
