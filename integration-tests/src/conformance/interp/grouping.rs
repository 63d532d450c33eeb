//! `group_by_key`, `group_by`, `windowed_by`.

use std::time::Duration;

use thalweg::{
    CogroupWindows, EmitStrategy, KCogroupedStream, KGroupedStream, SessionWindows, SlidingWindows,
    TimeWindows,
};

use super::super::failure::{Stop, unsupported};
use super::super::{ErrorKind, Section, Value};
use super::aggregating::folder;
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
            ("windowed_by", Thing::Cogrouped(from)) => windowed_cogrouped(section, &from)?,
            ("cogroup", Thing::Grouped(from)) => {
                Thing::Cogrouped(from.try_cogroup(folder(section.expr("fn")?)))
            }
            ("cogroup", Thing::Cogrouped(from)) => match self.thing(step, "grouped")? {
                Thing::Grouped(other) => {
                    Thing::Cogrouped(from.try_cogroup(&other, folder(section.expr("fn")?)))
                }
                other => return Err(step.not_of(&other).into()),
            },
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
            let sessions = from.windowed_by(session_windows(&window)?);
            Thing::Sessions(sessions.with_window_key().emit(emit))
        }
        "sliding" => {
            let windows = from.windowed_by(sliding_windows(&window)?);
            Thing::Windowed(windows.with_window_key().emit(emit))
        }
        kind => return Err(unsupported(format_args!("{kind} windows")).into()),
    })
}

fn windowed_cogrouped(
    step: &Section,
    from: &KCogroupedStream<Value, Value>,
) -> Result<Thing, Stop> {
    let window = step.section("window")?;
    let windows: CogroupWindows = match window.text("type")? {
        "time" => time_windows(&window)?.into(),
        "sliding" => sliding_windows(&window)?.into(),
        "session" => {
            let sessions = from.windowed_by_session(session_windows(&window)?);
            return Ok(Thing::SessionCogrouped(sessions.with_window_key()));
        }
        kind => return Err(unsupported(format_args!("{kind} windows")).into()),
    };
    Ok(Thing::WindowedCogrouped(from.windowed_by(windows).with_window_key()))
}

fn session_windows(window: &Section) -> Result<SessionWindows, Stop> {
    let sessions = SessionWindows::with_gap(duration(window, "gap_ms")?);
    Ok(match window.has("grace_ms") {
        true => sessions.grace(duration(window, "grace_ms")?),
        false => sessions.no_grace(),
    })
}

fn sliding_windows(window: &Section) -> Result<SlidingWindows, Stop> {
    let windows = SlidingWindows::of_difference(duration(window, "diff_ms")?);
    Ok(match window.has("grace_ms") {
        true => windows.grace(duration(window, "grace_ms")?),
        false => windows.no_grace(),
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
