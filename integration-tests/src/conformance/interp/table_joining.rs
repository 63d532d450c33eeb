//! `table_join`, `fk_join`.

use thalweg::BoxError;

use super::super::failure::unsupported;
use super::super::{Expr, Value};
use super::{Interpreter, Made, Step, options, table};

/// The function of a join of two rows; one that is not there is null.
pub(super) fn of_rows(
    expr: Expr,
) -> impl Fn(Option<&Value>, Option<&Value>) -> Result<Value, BoxError> {
    move |left, right| {
        let value = |row: Option<&Value>| row.cloned().unwrap_or_default();
        Ok(expr.apply([("v1", value(left)), ("v2", value(right))])?)
    }
}

impl Interpreter {
    pub(super) fn foreign_joining(&self, step: Step<'_>) -> Made {
        let section = step.section;
        let (from, with) = (self.table(step, "from")?, self.table(step, "with")?);
        let names = (options::name(step.name()?), options::materialized(section, None)?);
        let (select, any) = (section.expr("key_fn")?, of_rows(section.expr("fn")?));
        let select = move |key: &Value, row: &Value| {
            Ok::<Value, BoxError>(select.apply([("k", key.clone()), ("v", row.clone())])?)
        };
        table(match section.text("type")? {
            "inner" => {
                let join = move |l: &Value, r: &Value| any(Some(l), Some(r));
                from.try_fk_join(names, &with, select, join)
            }
            "left" => {
                let join = move |l: &Value, r: Option<&Value>| any(Some(l), r);
                from.try_left_fk_join(names, &with, select, join)
            }
            other => return Err(unsupported(format_args!("{other} foreign-key joins")).into()),
        })
    }

    pub(super) fn table_joining(&self, step: Step<'_>) -> Made {
        let section = step.section;
        let (from, with) = (self.table(step, "from")?, self.table(step, "with")?);
        let any = of_rows(section.expr("fn")?);
        let stored = section.json("mat").is_some();
        let store = || options::materialized(section, None);
        let made = match section.text("type")? {
            "inner" => {
                let join = move |l: &Value, r: &Value| any(Some(l), Some(r));
                match stored {
                    true => from.try_join_into(store()?, &with, join),
                    false => from.try_join(&with, join),
                }
            }
            "left" => {
                let join = move |l: &Value, r: Option<&Value>| any(Some(l), r);
                match stored {
                    true => from.try_left_join_into(store()?, &with, join),
                    false => from.try_left_join(&with, join),
                }
            }
            "outer" => match stored {
                true => from.try_outer_join_into(store()?, &with, any),
                false => from.try_outer_join(&with, any),
            },
            other => return Err(unsupported(format_args!("{other} table-table joins")).into()),
        };
        table(match step.name()? {
            Some(name) => made.named(name),
            None => made,
        })
    }
}
