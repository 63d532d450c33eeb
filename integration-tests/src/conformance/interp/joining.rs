//! `stream_table_join`, `stream_join`.

use serde_json::Value as Json;
use thalweg::{JoinWindows, StreamJoined};

use super::super::failure::{Stop, unsupported};
use super::super::stores::texts;
use super::super::{Fault, Section, Value};
use super::grouping::duration;
use super::{Interpreter, Made, Step, options, stream};

impl Interpreter {
    pub(super) fn joining(&self, step: Step<'_>) -> Made {
        let section = step.section;
        let (from, with) = (self.stream(step, "from")?, self.table(step, "with")?);
        let (options, join) = (options::joined(section)?, section.expr("fn")?);
        let join =
            move |key: &Value, left: &Value, right: Option<&Value>| -> Result<Value, Fault> {
                let right = right.cloned().unwrap_or_default();
                join.apply([("k", key.clone()), ("v1", left.clone()), ("v2", right)])
            };
        let joined = match section.text("type")? {
            "inner" => {
                let join = move |k: &Value, l: &Value, r: &Value| Ok(join(k, l, Some(r))?);
                from.try_join_table_via(options, &with, join)
            }
            "left" => {
                let join = move |k: &Value, l: &Value, r: Option<&Value>| Ok(join(k, l, r)?);
                from.try_left_join_table_via(options, &with, join)
            }
            other => return Err(unsupported(format_args!("{other} stream-table joins")).into()),
        };
        stream(joined.keys_may_move())
    }

    pub(super) fn joining_streams(&self, step: Step<'_>) -> Made {
        let section = step.section;
        let (from, with) = (self.stream(step, "from")?, self.stream(step, "with")?);
        let (options, windows) = (stream_joined(section)?, join_windows(section)?);
        let join = section.expr("fn")?;
        let join = move |key: &Value, left: Option<&Value>, right: Option<&Value>| {
            let value = |side: Option<&Value>| side.cloned().unwrap_or_default();
            join.apply([("k", key.clone()), ("v1", value(left)), ("v2", value(right))])
        };
        let joined = match section.text("type")? {
            "inner" => {
                let join = move |k: &Value, l: &Value, r: &Value| Ok(join(k, Some(l), Some(r))?);
                from.try_join_stream(options, &with, windows, join)
            }
            "left" => {
                let join = move |k: &Value, l: &Value, r: Option<&Value>| Ok(join(k, Some(l), r)?);
                from.try_left_join_stream(options, &with, windows, join)
            }
            "outer" => {
                let join =
                    move |k: &Value, l: Option<&Value>, r: Option<&Value>| Ok(join(k, l, r)?);
                from.try_outer_join_stream(options, &with, windows, join)
            }
            other => return Err(unsupported(format_args!("{other} stream-stream joins")).into()),
        };
        stream(joined.keys_may_move())
    }
}

fn stream_joined(section: &Section) -> Result<StreamJoined<Value, Value, Value>, Fault> {
    let mut options = StreamJoined::named(options::name(section.text_opt("name")?))
        .stores(options::name(section.text_opt("store_name")?));
    if let Some(key) = section.serde("key")? {
        options = options.key_serde(key);
    }
    if let Some(value) = section.serde("value")? {
        options = options.value_serde(value);
    }
    if let Some(value) = section.serde("other_value")? {
        options = options.other_value_serde(value);
    }
    options = match section.json("logging") {
        Some(Json::Bool(false)) => options.without_changelog(),
        Some(Json::Object(_)) => options.changelog_config(texts(&section.section("logging")?)?),
        _ => options,
    };
    Ok(match section.text_opt("store_type")? {
        None => options,
        Some("in_memory") => options.in_memory(),
        Some("rocksdb") => options.persistent(),
        Some(other) => return Err(unsupported(format_args!("store type `{other}`"))),
    })
}

fn join_windows(section: &Section) -> Result<JoinWindows, Stop> {
    let window = section.section("window")?;
    let mut windows = JoinWindows::of_difference(duration(&window, "diff_ms")?);
    if let Some(before) = window.int_opt("before_ms")? {
        windows = windows.before_ms(before);
    }
    if let Some(after) = window.int_opt("after_ms")? {
        windows = windows.after_ms(after);
    }
    Ok(match window.has("grace_ms") {
        true => windows.grace(duration(&window, "grace_ms")?),
        false => windows.no_grace(),
    })
}
