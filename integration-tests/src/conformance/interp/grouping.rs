//! `group_by_key`, `group_by`, `windowed_by`.

use std::time::Duration;

use thalweg::{EmitStrategy, KGroupedStream, SessionWindows, TimeWindows};

use super::super::failure::{Stop, unsupported};
use super::super::{ErrorKind, Section, Value};
use super::{Interpreter, Made, Step, Thing, options};

impl Interpreter {
    pub(super) fn grouping(&self, step: Step<'_>) -> Made {
        let section = step.section;
        let (op, from) = (section.op()?, self.thing(step, "from")?);
        Ok(Some(match (op, from) {
            ("group_by_key", Thing::Stream(from)) => {
                Thing::Grouped(from.group_by_key_via(options::grouped(section)?))
            }
            ("group_by", Thing::Stream(from)) => {
                let (options, select) = (options::grouped(section)?, section.expr("fn")?);
                Thing::Grouped(from.try_group_by(options, move |k, v| {
                    Ok::<Value, _>(select.apply([("k", k.clone()), ("v", v.clone())])?)
                }))
            }
            ("group_by", Thing::Table(from)) => {
                let (options, select) = (options::grouped(section)?, section.expr("fn")?);
                Thing::GroupedTable(from.try_group_by(options, move |k, v| {
                    let selected = select.apply([("k", k.clone()), ("v", v.clone())])?;
                    Ok::<(Value, Value), _>(selected.as_pair()?.clone())
                }))
            }
            ("windowed_by", Thing::Grouped(from)) => windowed(section, &from)?,
            (_, other) => return Err(step.not_of(&other).into()),
        }))
    }
}

fn windowed(step: &Section, from: &KGroupedStream<Value, Value>) -> Result<Thing, Stop> {
    let window = step.section("window")?;
    let emit = match step.text_opt("emit")? {
        Some("window_close") => EmitStrategy::OnWindowClose,
        _ => EmitStrategy::OnWindowUpdate,
    };
    Ok(match window.text("type")? {
        "time" => {
            let windows = from.windowed_by(time_windows(&window)?);
            Thing::Windowed(windows.with_window_key().emit(emit))
        }
        "session" => {
            let sessions = SessionWindows::with_gap(duration(&window, "gap_ms")?);
            let sessions = match window.has("grace_ms") {
                true => sessions.grace(duration(&window, "grace_ms")?),
                false => sessions.no_grace(),
            };
            Thing::Sessions(from.windowed_by(sessions).with_window_key().emit(emit))
        }
        kind => return Err(unsupported(format_args!("{kind} windows")).into()),
    })
}

fn time_windows(window: &Section) -> Result<TimeWindows, Stop> {
    let mut windows = TimeWindows::of_size(duration(window, "size_ms")?);
    if window.has("advance_ms") {
        windows = windows.advance_by(duration(window, "advance_ms")?);
    }
    Ok(match window.has("grace_ms") {
        true => windows.grace(duration(window, "grace_ms")?),
        false => windows.no_grace(),
    })
}

/// A duration of windows. The type rules a negative one out, so that it is refused here instead of in the library.
pub(super) fn duration(window: &Section, field: &str) -> Result<Duration, Stop> {
    let ms = window.int(field)?;
    u64::try_from(ms).map(Duration::from_millis).map_err(|_| {
        Stop::Refused(ErrorKind::IllegalParameter, format!("`{field}` is negative: {ms}"))
    })
}
