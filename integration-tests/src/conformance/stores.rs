//! Stores of a scenario: how they are declared, and the store operators.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value as Json;
use thalweg::Stores;
use thalweg_connectors::Timestamp;
use thalweg_processor::{
    Handle, KeyValue, NodeError, NodeResult, Session, SessionKey, Setup, Store, StoreDecl as _,
    StoreDef, StoreHandle, StoreSerdes, StoreShape, TestDriver, TimestampedKeyValue,
    TimestampedWindow, TopologyBuilder, TopologyError, UsageError, View, Window,
};
use thalweg_state::Direction;

use super::adapt::Shared;
use super::failure::{store_fault, unsupported};
use super::{Fault, FaultKind, Section, SerdeSpec, Value};

/// A declared store.
#[derive(Debug, Clone)]
pub(crate) enum AnyStore {
    KeyValue(Store<Value, Value, KeyValue>),
    Timestamped(Store<Value, Value, TimestampedKeyValue>),
    Window(Store<Value, Value, Window>),
    TimestampedWindow(Store<Value, Value, TimestampedWindow>),
    Session(Store<Value, Value, Session>),
}

/// Does the same with a store of any kind.
macro_rules! each_kind {
    ($any:expr, $store:ident => $body:expr) => {
        match $any {
            AnyStore::KeyValue($store) => AnyStore::KeyValue($body),
            AnyStore::Timestamped($store) => AnyStore::Timestamped($body),
            AnyStore::Window($store) => AnyStore::Window($body),
            AnyStore::TimestampedWindow($store) => AnyStore::TimestampedWindow($body),
            AnyStore::Session($store) => AnyStore::Session($body),
        }
    };
}

/// Reads a duration of a scenario.
pub(crate) fn millis(section: &Section, field: &str) -> Result<Duration, Fault> {
    let ms = section.int(field)?;
    u64::try_from(ms)
        .map(Duration::from_millis)
        .map_err(|_| unsupported(format_args!("the negative `{field}` of {ms} ms")))
}

impl AnyStore {
    /// Reads a store definition; serdes that are absent are the defaults.
    pub(crate) fn parse(
        section: &Section,
        (key, value): (SerdeSpec, SerdeSpec),
    ) -> Result<Self, Fault> {
        let name = section.text("store")?;
        let window =
            || Ok::<_, Fault>((millis(section, "retention_ms")?, millis(section, "size_ms")?));
        let mut store = match section.text("type")? {
            "kv" if section.has("lru_max") => return Err(unsupported("LRU stores")),
            "kv" => Self::KeyValue(Store::key_value_with(name, key, value)),
            "timestamped_kv" => {
                Self::Timestamped(Store::timestamped_shared(name, key.shared(), value.shared()))
            }
            "window" => {
                let store = Store::window_with(name, window()?, key, value);
                let duplicates = section.flag("retain_duplicates")?.unwrap_or(false);
                Self::Window(if duplicates { store.retain_duplicates() } else { store })
            }
            "timestamped_window" => Self::TimestampedWindow(Store::timestamped_window_shared(
                name,
                window()?,
                key.shared(),
                value.shared(),
            )),
            "session" => Self::Session(Store::session_with(
                name,
                millis(section, "retention_ms")?,
                key,
                value,
            )),
            other => return Err(unsupported(format_args!("stores of type `{other}`"))),
        };
        if section.flag("in_memory")?.unwrap_or(false) {
            store = each_kind!(store, s => s.in_memory());
        }
        if section.flag("caching")?.unwrap_or(false) {
            store = each_kind!(store, s => s.cached());
        }
        match section.json("logging") {
            Some(Json::Bool(false)) => Ok(each_kind!(store, s => s.without_changelog())),
            Some(Json::Object(_)) => {
                let config = texts(&section.section("logging")?)?;
                Ok(each_kind!(store, s => s.changelog_config(config)))
            }
            _ => Ok(store),
        }
    }

    /// A store that reads what `def` defines; `None` when its types are others.
    pub(crate) fn of_def(def: &StoreDef) -> Option<Self> {
        let StoreSerdes { key, value } = def.serdes::<Value, Value>()?.clone();
        let (name, ms) = (def.name.clone(), |ms: i64| Duration::from_millis(ms.max(0) as u64));
        Some(match (def.shape, def.timestamped) {
            (StoreShape::KeyValue, false) => {
                Self::KeyValue(Store::key_value_with(name, Shared(key), Shared(value)))
            }
            (StoreShape::KeyValue, true) => {
                Self::Timestamped(Store::timestamped_shared(name, key, value))
            }
            (StoreShape::Window { retention_ms, size_ms, .. }, false) => {
                let times = (ms(retention_ms), ms(size_ms));
                Self::Window(Store::window_with(name, times, Shared(key), Shared(value)))
            }
            (StoreShape::Window { retention_ms, size_ms, .. }, true) => {
                let times = (ms(retention_ms), ms(size_ms));
                Self::TimestampedWindow(Store::timestamped_window_shared(name, times, key, value))
            }
            (StoreShape::Session { retention_ms }, _) => {
                Self::Session(Store::session_shared(name, ms(retention_ms), key, value))
            }
            _ => return None,
        })
    }

    pub(crate) fn def(&self) -> &StoreDef {
        match self {
            Self::KeyValue(store) => store.def(),
            Self::Timestamped(store) => store.def(),
            Self::Window(store) => store.def(),
            Self::TimestampedWindow(store) => store.def(),
            Self::Session(store) => store.def(),
        }
    }

    /// Adds it to the stores of a processor of the DSL.
    pub(crate) fn among(&self, stores: Stores) -> Stores {
        match self {
            Self::KeyValue(store) => stores.with(store),
            Self::Timestamped(store) => stores.with(store),
            Self::Window(store) => stores.with(store),
            Self::TimestampedWindow(store) => stores.with(store),
            Self::Session(store) => stores.with(store),
        }
    }

    /// Adds it to a topology of the low-level API.
    pub(crate) fn add_to(
        &self,
        builder: &mut TopologyBuilder,
        processors: &[&str],
    ) -> Result<(), TopologyError> {
        builder.add_store(self.def().clone(), processors).map(drop)
    }
}

/// The fields of an object, all of them text.
pub(crate) fn texts(section: &Section) -> Result<BTreeMap<String, String>, Fault> {
    section.fields().map(|f| Ok((f.to_owned(), section.text(f)?.to_owned()))).collect()
}

/// A store as a processor holds it.
#[derive(Debug, Clone)]
pub(crate) enum AnyHandle {
    KeyValue(Handle<Value, Value, KeyValue>),
    Timestamped(Handle<Value, Value, TimestampedKeyValue>),
    Window(Handle<Value, Value, Window>, i64),
    TimestampedWindow(Handle<Value, Value, TimestampedWindow>, i64),
    Session(Handle<Value, Value, Session>),
}

fn size_ms(def: &StoreDef) -> i64 {
    match def.shape {
        StoreShape::Window { size_ms, .. } => size_ms,
        _ => 0,
    }
}

/// The stores that are connected to a processor, by name.
pub(crate) fn connected(setup: &mut Setup<'_>) -> Result<BTreeMap<String, AnyHandle>, UsageError> {
    let defs: Vec<_> = setup.store_defs().cloned().collect();
    let mut handles = BTreeMap::new();
    for def in &defs {
        let handle = match AnyStore::of_def(def) {
            Some(AnyStore::KeyValue(store)) => AnyHandle::KeyValue(setup.store(&store)?),
            Some(AnyStore::Timestamped(store)) => AnyHandle::Timestamped(setup.store(&store)?),
            Some(AnyStore::Window(store)) => AnyHandle::Window(setup.store(&store)?, size_ms(def)),
            Some(AnyStore::TimestampedWindow(store)) => {
                AnyHandle::TimestampedWindow(setup.store(&store)?, size_ms(def))
            }
            Some(AnyStore::Session(store)) => AnyHandle::Session(setup.store(&store)?),
            None => continue,
        };
        handles.insert(def.name.to_string(), handle);
    }
    Ok(handles)
}

/// A store operator and its arguments, without the store.
pub(crate) struct StoreCall<'a> {
    pub(crate) op: &'a str,
    pub(crate) args: &'a [Value],
}

/// The context of a processor, as far as it opens stores.
pub(crate) trait OpensStores {
    fn open<'s, H: StoreHandle>(&'s mut self, handle: &'s H) -> H::View<'s>;
}

impl AnyHandle {
    /// Runs an operator in a processor.
    pub(crate) fn call(&self, context: &mut impl OpensStores, call: &StoreCall<'_>) -> Answer {
        match self {
            Self::KeyValue(handle) => plain(&mut context.open(handle), call),
            Self::Timestamped(handle) => timestamped(&mut context.open(handle), call),
            Self::Window(handle, size) => window(&mut context.open(handle), *size, call),
            Self::TimestampedWindow(handle, size) => {
                timestamped_window(&mut context.open(handle), *size, call)
            }
            Self::Session(handle) => session(&mut context.open(handle), call),
        }
    }
}

/// Runs an operator from outside, as queries do.
pub(crate) fn query(
    driver: &mut TestDriver,
    name: &str,
    call: &StoreCall<'_>,
) -> Result<Value, Fault> {
    let missing = |e: UsageError| Fault::scenario(format!("cannot query store `{name}`: {e}"));
    let def = driver.store_def(name).map_err(missing)?.clone();
    let store = AnyStore::of_def(&def)
        .ok_or_else(|| unsupported(format_args!("queries of `{name}`, a {}", def.kind_name())))?;
    let size = size_ms(&def);
    match &store {
        AnyStore::KeyValue(s) => plain(&mut driver.store(s).map_err(missing)?.view(), call),
        AnyStore::Timestamped(s) => {
            timestamped(&mut driver.store(s).map_err(missing)?.view(), call)
        }
        AnyStore::Window(s) => window(&mut driver.store(s).map_err(missing)?.view(), size, call),
        AnyStore::TimestampedWindow(s) => {
            timestamped_window(&mut driver.store(s).map_err(missing)?.view(), size, call)
        }
        AnyStore::Session(s) => session(&mut driver.store(s).map_err(missing)?.view(), call),
    }
}

type Answer = Result<Value, Fault>;

fn fault(error: NodeError) -> Fault {
    store_fault(&error)
}

fn bound(value: &Value) -> Option<&Value> {
    (!value.is_null()).then_some(value)
}

/// Collects entries as pairs.
fn pairs(entries: impl Iterator<Item = NodeResult<(Value, Value)>>) -> Answer {
    entries.map(|e| e.map(|(k, v)| Value::pair(k, v)).map_err(fault)).collect()
}

impl StoreCall<'_> {
    fn time(&self, index: usize) -> Result<Timestamp, Fault> {
        let missing =
            || Fault::new(FaultKind::NullPointer, format!("`{}` without a time", self.op));
        self.args.get(index).ok_or_else(missing)?.as_int().map(Timestamp)
    }

    fn times(&self, first: usize) -> Result<(Timestamp, Timestamp), Fault> {
        Ok((self.time(first)?, self.time(first + 1)?))
    }

    fn not_here(&self, kind: &str) -> Fault {
        unsupported(format_args!("operator `{}` on a {kind}", self.op))
    }
}

/// What both kinds of key-value store are read by.
macro_rules! key_value_read {
    ($view:expr, $call:expr) => {{
        let (view, args) = ($view, $call.args);
        match $call.op {
            "all" => pairs(view.all().map_err(fault)?.map(|e| e.map(|(k, v)| (k, v.value)))),
            "reverse_all" => {
                pairs(view.reverse_all().map_err(fault)?.map(|e| e.map(|(k, v)| (k, v.value))))
            }
            "range" => {
                let entries = view.range(bound(&args[0]), bound(&args[1])).map_err(fault)?;
                pairs(entries.map(|e| e.map(|(k, v)| (k, v.value))))
            }
            "reverse_range" => {
                let entries = view.reverse_range(bound(&args[0]), bound(&args[1]));
                pairs(entries.map_err(fault)?.map(|e| e.map(|(k, v)| (k, v.value))))
            }
            "prefix_scan" => {
                let entries = view.prefix(args[0].as_str()?.as_bytes()).map_err(fault)?;
                pairs(entries.map(|e| e.map(|(k, v)| (k, v.value))))
            }
            _ => Err($call.not_here("key-value store")),
        }
    }};
}

fn plain(view: &mut View<'_, Value, Value, KeyValue>, call: &StoreCall<'_>) -> Answer {
    let args = call.args;
    match call.op {
        "get" => view.get(&args[0]).map(Value::from).map_err(fault),
        "get_ts" => view.get(&args[0]).map(|_| Value::Null).map_err(fault),
        "put" => view.put(&args[0], &args[1]).map(|()| Value::Null).map_err(fault),
        "put_if_absent" => view.put_if_absent(&args[0], &args[1]).map(Value::from).map_err(fault),
        "delete" => view.delete(&args[0]).map(Value::from).map_err(fault),
        _ => key_value_read!(view, call),
    }
}

fn timestamped(
    view: &mut View<'_, Value, Value, TimestampedKeyValue>,
    call: &StoreCall<'_>,
) -> Answer {
    let args = call.args;
    match call.op {
        "get" => view.get(&args[0]).map(|v| v.map(|v| v.value).into()).map_err(fault),
        "get_ts" => view.get(&args[0]).map(|v| v.map(|v| v.timestamp.0).into()).map_err(fault),
        "put" => {
            let time = call.time(2)?;
            view.put(&args[0], &args[1], time).map(|()| Value::Null).map_err(fault)
        }
        "delete" => {
            let before = view.get(&args[0]).map_err(fault)?;
            view.delete(&args[0]).map_err(fault)?;
            Ok(before.map(|v| v.value).into())
        }
        _ => key_value_read!(view, call),
    }
}

/// What both kinds of window store are read by.
macro_rules! window_read {
    ($view:expr, $size:expr, $call:expr) => {{
        let (view, size, args) = ($view, $size, $call.args);
        let (forward, backward) = (Direction::Forward, Direction::Reverse);
        macro_rules! windows {
            ($entries:expr) => {
                pairs($entries.map_err(fault)?.map(|e| {
                    let (at, v) = e?;
                    let end = at.start.0.saturating_add(size);
                    Ok((Value::win(at.key, at.start.0, end), v.value))
                }))
            };
        }
        macro_rules! starts {
            ($entries:expr) => {
                pairs($entries.map_err(fault)?.map(|e| {
                    let (at, v) = e?;
                    Ok((at.start.0.into(), v.value))
                }))
            };
        }
        match $call.op {
            "fetch" => starts!(view.fetch_between(&args[0], $call.times(1)?, forward)),
            "backward_fetch" => starts!(view.fetch_between(&args[0], $call.times(1)?, backward)),
            "fetch_range" => {
                let (low, high) = (bound(&args[0]), bound(&args[1]));
                windows!(view.fetch_keys(low, high, $call.times(2)?, forward))
            }
            "fetch_all" => windows!(view.fetch_keys(None, None, $call.times(0)?, forward)),
            "all" => windows!(view.all()),
            _ => Err($call.not_here("window store")),
        }
    }};
}

fn window(view: &mut View<'_, Value, Value, Window>, size: i64, call: &StoreCall<'_>) -> Answer {
    let args = call.args;
    match call.op {
        "wput" => view.put(&args[0], &args[1], call.time(2)?).map(|()| Value::Null).map_err(fault),
        "wget" => view.fetch(&args[0], call.time(1)?).map(Value::from).map_err(fault),
        _ => window_read!(view, size, call),
    }
}

fn timestamped_window(
    view: &mut View<'_, Value, Value, TimestampedWindow>,
    size: i64,
    call: &StoreCall<'_>,
) -> Answer {
    let args = call.args;
    match call.op {
        "wput" => {
            let (start, time) = call.times(2)?;
            view.put(&args[0], &args[1], start, time).map(|()| Value::Null).map_err(fault)
        }
        "wget" => {
            let found = view.fetch(&args[0], call.time(1)?).map_err(fault)?;
            Ok(found.map(|v| v.value).into())
        }
        _ => window_read!(view, size, call),
    }
}

fn session(view: &mut View<'_, Value, Value, Session>, call: &StoreCall<'_>) -> Answer {
    let args = call.args;
    let found = |entry: NodeResult<(SessionKey<Value>, Value)>| {
        let (SessionKey { key, start, end }, value) = entry?;
        Ok((Value::win(key, start.0, end.0), value))
    };
    match call.op {
        "sput" => {
            let (start, end) = call.times(2)?;
            view.put(&args[0], &args[1], start, end).map(|()| Value::Null).map_err(fault)
        }
        "sremove" => {
            let (start, end) = call.times(1)?;
            view.remove(&args[0], start, end).map(|()| Value::Null).map_err(fault)
        }
        "fetch_session" => {
            let (start, end) = call.times(1)?;
            view.fetch(&args[0], start, end).map(Value::from).map_err(fault)
        }
        "sfetch" => pairs(view.fetch_all(&args[0]).map_err(fault)?.map(found)),
        "find_sessions" => {
            let sessions = view.find(&args[0], call.times(1)?, Direction::Forward);
            pairs(sessions.map_err(fault)?.map(found))
        }
        "backward_find_sessions" => {
            let sessions = view.find(&args[0], call.times(1)?, Direction::Reverse);
            pairs(sessions.map_err(fault)?.map(found))
        }
        _ => Err(call.not_here("session store")),
    }
}
