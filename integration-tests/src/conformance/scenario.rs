//! A scenario file.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::{Fault, HeaderList, Section, SerdeSpec, Value};

/// A scenario: a topology, its input, and what the reference implementation did with it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// `family/slug`.
    pub name: String,
    /// The group it belongs to.
    pub family: String,
    /// What it is about.
    pub about: String,
    /// The result looks like an accident of the reference.
    pub quirk: bool,
    /// Which API the steps are written in.
    pub api: Api,
    /// Configuration that differs from the defaults.
    pub config: Config,
    /// The steps, in order.
    pub topology: Vec<Section>,
    /// How to write the topics of the input.
    pub inputs: BTreeMap<String, InputTopic>,
    /// Which topics to read at the end, and how.
    pub outputs: BTreeMap<String, OutputTopic>,
    /// Stores to dump at the end.
    pub stores: Vec<String>,
    /// Queries to make at the end.
    pub queries: Vec<Query>,
    /// What else to look at.
    pub checks: Checks,
    /// What happens, in order.
    pub input: Vec<InputItem>,
    /// The result.
    pub expect: Map<String, Json>,
}

/// The API a topology is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Api {
    /// Streams and tables.
    Dsl,
    /// Sources, processors and sinks.
    Topology,
}

/// The configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// The application id.
    pub application_id: String,
    /// The key serde of steps that have and inherit none.
    pub default_key: Option<SerdeSpec>,
    /// The value serde of steps that have and inherit none.
    pub default_value: Option<SerdeSpec>,
    /// Where the mock clock starts.
    pub initial_wall_clock_ms: i64,
    /// Everything else, under Kafka Streams' own names.
    pub settings: BTreeMap<String, String>,
}

/// How to write an input topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InputTopic {
    /// The key serde.
    pub key: SerdeSpec,
    /// The value serde.
    pub value: SerdeSpec,
}

/// How to read an output topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputTopic {
    /// The key serde.
    pub key: SerdeSpec,
    /// The value serde.
    pub value: SerdeSpec,
    /// Headers of which only the presence counts.
    pub mask_headers: Vec<String>,
    /// Show header values as bytes.
    pub hex_headers: bool,
}

/// A query of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// The store's name.
    pub store: String,
    /// The store operator.
    pub op: String,
    /// Its arguments.
    pub args: Vec<Value>,
}

/// What to look at besides records and stores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checks {
    /// The description of the topology.
    pub describe: bool,
    /// The internal topics and co-partition groups.
    pub internal_topics: bool,
    /// The names of all stores.
    pub store_names: bool,
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq)]
pub enum InputItem {
    /// A record arrives.
    Record {
        /// On this topic.
        topic: String,
        /// The key's bytes.
        key: Option<Vec<u8>>,
        /// The value's bytes.
        value: Option<Vec<u8>>,
        /// The record's time.
        timestamp_ms: i64,
        /// Its headers.
        headers: HeaderList,
    },
    /// The mock clock moves.
    AdvanceWallClock {
        /// That far.
        by_ms: i64,
    },
    /// A store is read.
    Query(Query),
}

impl Scenario {
    /// Reads a file.
    ///
    /// # Errors
    /// A faulty scenario, with the path in the message.
    pub fn read(path: &Path) -> Result<Self, Fault> {
        let at = |message: String| Fault::scenario(format!("{}: {message}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| at(e.to_string()))?;
        let json: Json = serde_json::from_str(&text).map_err(|e| at(e.to_string()))?;
        Self::parse(&json).map_err(|fault| at(fault.message))
    }

    /// Parses a scenario.
    ///
    /// # Errors
    /// A faulty scenario.
    pub fn parse(json: &Json) -> Result<Self, Fault> {
        let top = Section::of(json)?;
        let inputs = topics(&top, "inputs", input_topic)?;
        let input = top
            .sections("input")?
            .iter()
            .map(|item| input_item(item, &inputs))
            .collect::<Result<_, _>>()?;
        let expect = top.json("expect").and_then(Json::as_object).cloned();
        Ok(Self {
            name: top.text("name")?.to_owned(),
            family: top.text("family")?.to_owned(),
            about: top.text("about")?.to_owned(),
            quirk: top.flag("quirk")?.unwrap_or(false),
            api: match top.text_opt("api")? {
                None | Some("dsl") => Api::Dsl,
                Some("topology") => Api::Topology,
                Some(other) => return Err(Fault::scenario(format!("unknown api `{other}`"))),
            },
            config: config(top.section_opt("config")?)?,
            topology: top.sections("topology")?,
            outputs: topics(&top, "outputs", output_topic)?,
            stores: owned(top.texts("stores")?),
            queries: top.sections("queries")?.iter().map(query).collect::<Result<_, _>>()?,
            checks: checks(&top.texts("checks")?)?,
            inputs,
            input,
            expect: expect
                .ok_or_else(|| Fault::scenario("`expect` is missing; let the oracle fill it in"))?,
        })
    }
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}

fn config(section: Option<Section>) -> Result<Config, Fault> {
    let mut config = Config {
        application_id: "app".into(),
        default_key: Some(SerdeSpec::STRING),
        default_value: Some(SerdeSpec::STRING),
        initial_wall_clock_ms: 0,
        settings: BTreeMap::new(),
    };
    let Some(section) = section else {
        return Ok(config);
    };
    for field in section.fields() {
        match field {
            "application.id" => config.application_id = section.text(field)?.to_owned(),
            "default.key.serde" => config.default_key = section.serde(field)?,
            "default.value.serde" => config.default_value = section.serde(field)?,
            "initial_wall_clock_ms" => config.initial_wall_clock_ms = section.int(field)?,
            other => {
                config.settings.insert(other.to_owned(), section.text(other)?.to_owned());
            }
        }
    }
    Ok(config)
}

fn topics<T>(
    top: &Section,
    field: &str,
    read: fn(&Section) -> Result<T, Fault>,
) -> Result<BTreeMap<String, T>, Fault> {
    let Some(all) = top.section_opt(field)? else {
        return Ok(BTreeMap::new());
    };
    all.fields().map(|topic| Ok((topic.to_owned(), read(&all.section(topic)?)?))).collect()
}

fn needed(section: &Section, field: &str) -> Result<SerdeSpec, Fault> {
    section
        .serde(field)?
        .ok_or_else(|| Fault::scenario(format!("a topic needs the serde `{field}`")))
}

fn input_topic(section: &Section) -> Result<InputTopic, Fault> {
    Ok(InputTopic { key: needed(section, "key")?, value: needed(section, "value")? })
}

fn output_topic(section: &Section) -> Result<OutputTopic, Fault> {
    Ok(OutputTopic {
        key: needed(section, "key")?,
        value: needed(section, "value")?,
        mask_headers: owned(section.texts("mask_headers")?),
        hex_headers: section.flag("hex_headers")?.unwrap_or(false),
    })
}

fn query(section: &Section) -> Result<Query, Fault> {
    let args = section.json("args").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    Ok(Query {
        store: section.text("store")?.to_owned(),
        op: section.text("op")?.to_owned(),
        args: args.iter().map(Value::from_json).collect::<Result<_, _>>()?,
    })
}

fn checks(names: &[&str]) -> Result<Checks, Fault> {
    let mut checks = Checks::default();
    for name in names {
        match *name {
            "describe" => checks.describe = true,
            "internal_topics" => checks.internal_topics = true,
            "store_names" => checks.store_names = true,
            other => return Err(Fault::scenario(format!("unknown check `{other}`"))),
        }
    }
    Ok(checks)
}

fn input_item(
    section: &Section,
    inputs: &BTreeMap<String, InputTopic>,
) -> Result<InputItem, Fault> {
    if let Some(by_ms) = section.int_opt("advance_wall_clock_ms")? {
        return Ok(InputItem::AdvanceWallClock { by_ms });
    }
    if let Some(asked) = section.section_opt("query")? {
        return query(&asked).map(InputItem::Query);
    }
    let topic = section.text("topic")?;
    let serdes = inputs
        .get(topic)
        .ok_or_else(|| Fault::scenario(format!("no serdes for input topic `{topic}`")))?;
    let bytes =
        |field, serde: SerdeSpec| serde.input_bytes(section.json(field).unwrap_or(&Json::Null));
    let headers = section.json("headers").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    let header = |json: &Json| match json.as_array().map(Vec::as_slice) {
        Some([Json::String(name), Json::Null]) => Ok((name.clone(), None)),
        Some([Json::String(name), Json::String(value)]) => {
            Ok((name.clone(), Some(value.clone().into_bytes())))
        }
        _ => {
            Err(Fault::scenario(format!("a header is a list of a name and a text or null: {json}")))
        }
    };
    Ok(InputItem::Record {
        topic: topic.to_owned(),
        key: bytes("key", serdes.key)?,
        value: bytes("value", serdes.value)?,
        timestamp_ms: section.int("timestamp")?,
        headers: headers.iter().map(header).collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use serde_json::json;

    fn minimal() -> Json {
        json!({
            "name": "f/s", "family": "f", "about": "", "topology": [{"id": "n0", "op": "stream", "topic": "in"}],
            "inputs": {"in": {"key": "string", "value": "long"}}, "outputs": {}, "input": [], "expect": {"topics": {}}
        })
    }

    fn with(field: &str, value: Json) -> Result<Scenario, Fault> {
        let mut json = minimal();
        json[field] = value;
        Scenario::parse(&json)
    }

    #[test]
    fn defaults_are_those_of_the_format() {
        let scenario = Scenario::parse(&minimal()).unwrap();
        assert_eq!(
            (scenario.api, scenario.quirk, scenario.checks),
            (Api::Dsl, false, Checks::default())
        );
        assert_eq!(scenario.config.application_id, "app");
        assert_eq!(scenario.config.default_key, Some(SerdeSpec::STRING));
        assert_eq!(scenario.topology[0].op().unwrap(), "stream");
    }

    #[test]
    fn config_separates_what_is_typed() {
        let scenario = with(
            "config",
            json!({"default.value.serde": null, "initial_wall_clock_ms": 5, "a.b": "c"}),
        )
        .unwrap();
        assert_eq!(scenario.config.default_value, None);
        assert_eq!(scenario.config.initial_wall_clock_ms, 5);
        assert_eq!(scenario.config.settings, BTreeMap::from([("a.b".to_owned(), "c".to_owned())]));
    }

    #[test]
    fn input_items_are_records_clock_moves_and_queries() {
        let scenario = with(
            "input",
            json!([
                {"topic": "in", "key": "a", "value": 1, "timestamp": 3, "headers": [["h", null], ["i", "x"]]},
                {"topic": "in", "key": null, "value": {"hex": "0a"}, "timestamp": -1},
                {"advance_wall_clock_ms": 10},
                {"query": {"store": "s", "op": "get", "args": ["a", 1]}}
            ]),
        );
        let items = scenario.unwrap().input;
        let InputItem::Record { key, value, headers, .. } = &items[0] else {
            panic!("{:?}", items[0])
        };
        assert_eq!(
            (key.as_deref(), value.as_deref()),
            (Some(&b"a"[..]), Some(&[0, 0, 0, 0, 0, 0, 0, 1][..]))
        );
        assert_eq!(headers.iter().collect::<Vec<_>>(), [("h", None), ("i", Some(&b"x"[..]))]);
        let InputItem::Record { key, value, timestamp_ms, .. } = &items[1] else {
            panic!("{:?}", items[1])
        };
        assert_eq!((key, value.as_deref(), *timestamp_ms), (&None, Some(&[10][..]), -1));
        assert_eq!(items[2], InputItem::AdvanceWallClock { by_ms: 10 });
        let query = Query { store: "s".into(), op: "get".into(), args: vec!["a".into(), 1.into()] };
        assert_eq!(items[3], InputItem::Query(query));
    }

    #[test]
    fn mistakes_in_a_scenario_are_named() {
        let cases = [
            ("api", json!("soap"), "unknown api `soap`"),
            ("checks", json!(["vibes"]), "unknown check `vibes`"),
            ("input", json!([{"topic": "x", "timestamp": 1}]), "no serdes for input topic `x`"),
            ("inputs", json!({"in": {"key": "string"}}), "a topic needs the serde `value`"),
            ("expect", json!(null), "`expect` is missing"),
            ("config", json!({"a": 1}), "field `a` has to be a text"),
        ];
        for (field, value, message) in cases {
            let error = with(field, value).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }
}
