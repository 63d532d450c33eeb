//! `suppress`.

use thalweg::{Suppressed, WhenFull};

use super::super::failure::unsupported;
use super::super::stores::{millis, texts};
use super::super::{Fault, Section, Value};
use super::options::name;
use super::{Interpreter, Made, Step, table};

impl Interpreter {
    pub(super) fn suppressing(&self, step: Step<'_>) -> Made {
        let from = self.table(step, "from")?;
        table(from.suppress(name(step.name()?), suppressed(step.section)?))
    }
}

fn limit(section: &Section, field: &str) -> Result<Option<usize>, Fault> {
    let negative = |_| Fault::scenario(format!("`{field}` is negative"));
    section.int_opt(field)?.map(|max| usize::try_from(max).map_err(negative)).transpose()
}

fn suppressed(section: &Section) -> Result<Suppressed<Value>, Fault> {
    let mut suppressed = match section.text("until") {
        Ok("window_closes") => Suppressed::until_window_closes::<Value>(),
        Ok(other) => return Err(unsupported(format_args!("suppression until {other}"))),
        Err(_) => {
            Suppressed::until_time_limit(millis(&section.section("until")?, "time_limit_ms")?)
        }
    };
    if let Some(max) = limit(section, "max_records")? {
        suppressed = suppressed.max_records(max);
    }
    if let Some(max) = limit(section, "max_bytes")? {
        suppressed = suppressed.max_bytes(max);
    }
    suppressed = match section.text_opt("when_full")? {
        Some("emit_early") => suppressed.when_full(WhenFull::EmitEarly),
        Some("shut_down") => suppressed.when_full(WhenFull::ShutDown),
        Some(other) => return Err(unsupported(format_args!("`{other}` when a buffer is full"))),
        None => suppressed,
    };
    Ok(match section.json("logging") {
        Some(serde_json::Value::Bool(false)) => suppressed.without_changelog(),
        Some(serde_json::Value::Object(_)) => {
            suppressed.changelog_config(texts(&section.section("logging")?)?)
        }
        _ => suppressed,
    })
}
