//! `stream_table_join`.

use super::super::failure::unsupported;
use super::super::{Fault, Value};
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
}
