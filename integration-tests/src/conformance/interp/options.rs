//! The options of steps as the DSL's options. What is absent is left to the DSL, which then does what the reference does.

use serde_json::Value as Json;
use thalweg::{Consumed, Grouped, Joined, Materialized, Name, Produced, Repartitioned, Stores};
use thalweg_processor::TimestampExtractor;

use super::super::failure::{Stop, unsupported};
use super::super::functions::{Calls, partitioner, timestamp_extractor, topic_extractor};
use super::super::papi::offset_reset;
use super::super::stores::{AnyStore, millis, texts};
use super::super::{Config, Fault, Section, SerdeSpec, Value};

/// The name of something durable; absent: the one that the reference generates.
pub(super) fn name(given: Option<&str>) -> Name {
    given.map_or_else(Name::kafka_generated, Name::from)
}

/// Sets the serdes that a section names.
macro_rules! with_serdes {
    ($options:expr, $section:expr) => {{
        let (mut options, section) = ($options, $section);
        if let Some(key) = section.serde("key")? {
            options = options.key_serde(key);
        }
        if let Some(value) = section.serde("value")? {
            options = options.value_serde(value);
        }
        options
    }};
}

/// The topics of a source step.
pub(super) fn consumed(section: &Section) -> Result<Consumed<Value, Value>, Stop> {
    if section.has("pattern") {
        return Err(unsupported("sources by pattern").into());
    }
    let mut topics = section.texts("topics")?;
    topics.extend(section.text_opt("topic")?);
    let Some((first, others)) = topics.split_first() else {
        return Err(Fault::scenario(format!("no topic in {section:?}")).into());
    };
    let mut consumed = Consumed::topic(*first);
    for other in others {
        consumed = consumed.and_topic(*other);
    }
    consumed = with_serdes!(consumed, section);
    consumed = match timestamp_extractor(section)? {
        TimestampExtractor::Default => consumed,
        TimestampExtractor::Policy(policy) => consumed.timestamp_policy(policy),
        TimestampExtractor::Custom(extract) => {
            consumed.try_timestamps(move |k, v, own, highest| extract(k, v, own, highest))
        }
    };
    if let Some(reset) = offset_reset(section)? {
        consumed = consumed.offset_reset(reset);
    }
    if let Some(name) = section.text_opt("name")? {
        consumed = consumed.named(name);
    }
    Ok(consumed)
}

/// The store of a table; absent: Kafka Streams' overload without one.
pub(super) fn materialized(
    step: &Section,
    default_value: Option<SerdeSpec>,
) -> Result<Materialized<Value, Value>, Fault> {
    let section = step.section_opt("mat")?;
    let mut store = match section {
        Some(_) => Materialized::kafka_unnamed(),
        None => Materialized::kafka_generated(),
    };
    if let Some(value) = default_value {
        store = store.value_serde(value);
    }
    let Some(section) = section else {
        return Ok(store);
    };
    for missing in ["versioned_history_ms", "plain_kv", "plain_window"] {
        if section.has(missing) {
            return Err(unsupported(format_args!("`{missing}` of a materialization")));
        }
    }
    if let Some(name) = section.text_opt("as")? {
        store = Materialized::named(name);
        if let Some(value) = default_value {
            store = store.value_serde(value);
        }
    }
    store = with_serdes!(store, &section);
    store = match section.json("logging") {
        Some(Json::Bool(false)) => store.without_changelog(),
        Some(Json::Object(_)) => store.changelog_config(texts(&section.section("logging")?)?),
        _ => store,
    };
    if section.flag("caching")? == Some(false) {
        store = store.without_cache();
    }
    if section.has("retention_ms") {
        store = store.retention(millis(&section, "retention_ms")?);
    }
    Ok(match section.text_opt("store_type")? {
        None => store,
        Some("in_memory") => store.in_memory(),
        Some("rocksdb") => store.persistent(),
        Some(other) => return Err(unsupported(format_args!("store type `{other}`"))),
    })
}

/// Name and serdes of a grouping.
pub(super) fn grouped(section: &Section) -> Result<Grouped<Value, Value>, Fault> {
    Ok(with_serdes!(Grouped::named(name(section.text_opt("name")?)), section))
}

/// Name and serdes of a stream-table join.
pub(super) fn joined(section: &Section) -> Result<Joined<Value, Value>, Fault> {
    if section.has("grace_ms") {
        return Err(unsupported("the grace period of a stream-table join"));
    }
    Ok(with_serdes!(Joined::named(name(section.text_opt("name")?)), section))
}

/// Name, serdes and size of a repartition topic.
pub(super) fn repartitioned(
    section: &Section,
    calls: &Calls,
) -> Result<Repartitioned<Value, Value>, Fault> {
    let options = Repartitioned::named(name(section.text_opt("name")?));
    let mut options = with_serdes!(options, section);
    if let Some(partitions) = section.int_opt("partitions")? {
        let narrow = i32::try_from(partitions);
        let far = |_| Fault::scenario(format!("{partitions} partitions"));
        options = options.partitions(narrow.map_err(far)?);
    }
    if let Some(choose) = partitioner(section, calls)? {
        options = options.try_partitioner(move |topic, k, v, n| choose(topic, k, v, n));
    }
    Ok(options)
}

/// Where a stream is written to.
pub(super) fn produced(section: &Section, calls: &Calls) -> Result<Produced<Value, Value>, Fault> {
    let produced = match section.expr_opt("topic_expr")? {
        Some(expr) => {
            let choose = topic_extractor(expr);
            Produced::try_dynamic(move |k, v, context| choose(k, v, context))
        }
        None => Produced::topic(section.text("topic")?),
    };
    let mut produced = with_serdes!(produced, section);
    if let Some(choose) = partitioner(section, calls)? {
        produced = produced.try_partitioner(move |topic, k, v, n| choose(topic, k, v, n));
    }
    if let Some(name) = section.text_opt("name")? {
        produced = produced.named(name);
    }
    Ok(produced)
}

/// The stores of a processor: those it names, and its own.
pub(super) fn stores(section: &Section, config: &Config) -> Result<Stores, Fault> {
    let named = section.texts("stores")?.into_iter();
    let mut stores = named.fold(Stores::none(), |stores, name| stores.named(name));
    for own in section.sections("own_stores")? {
        stores = store(&own, config)?.among(stores);
    }
    Ok(stores)
}

/// A store definition; serdes that are absent are the configuration's.
pub(super) fn store(section: &Section, config: &Config) -> Result<AnyStore, Fault> {
    let serde = |field: &str, default: Option<SerdeSpec>| {
        let missing = || Fault::scenario(format!("no `{field}` serde for the store {section:?}"));
        section.serde(field)?.or(default).ok_or_else(missing)
    };
    let serdes = (serde("key", config.default_key)?, serde("value", config.default_value)?);
    AnyStore::parse(section, serdes)
}
