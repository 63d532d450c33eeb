//! `count`, `reduce`, `aggregate`.

use thalweg::{BoxError, Materialized};

use super::super::{Expr, Fault, Plain, SerdeSpec, Value};
use super::{Interpreter, Made, Step, Table, Thing, options, table};

type Evaluated = Result<Value, BoxError>;

/// The function of a reduction.
fn reducer(expr: Expr) -> impl Fn(&Value, &Value) -> Evaluated {
    move |row, value| Ok(expr.apply([("agg", row.clone()), ("v", value.clone())])?)
}

fn initial(expr: Expr) -> impl Fn() -> Evaluated {
    move || Ok(expr.apply([])?)
}

/// The function of an aggregation.
pub(super) fn folder(expr: Expr) -> impl Fn(&Value, &Value, &mut Value) -> Result<(), BoxError> {
    move |key, value, row| {
        let old = std::mem::take(row);
        *row = expr.apply([("k", key.clone()), ("v", value.clone()), ("agg", old)])?;
        Ok(())
    }
}

/// The function that makes one session of two.
fn merger(expr: Expr) -> impl Fn(&Value, Value, Value) -> Evaluated {
    move |key, one, other| Ok(expr.apply([("k", key.clone()), ("agg1", one), ("agg2", other)])?)
}

impl Interpreter {
    pub(super) fn aggregating(&self, step: Step<'_>) -> Made {
        let from = self.thing(step, "from")?;
        if let Some(made) = cogrouped(step, &from)? {
            return table(made);
        }
        let made = match step.section.op()? {
            "count" => count(step, &from)?,
            "reduce" => reduce(step, &from)?,
            _ => aggregate(step, &from)?,
        };
        table(match step.name()? {
            Some(name) => made.named(name),
            None => made,
        })
    }
}

/// Counts are longs unless the step says otherwise.
fn count(step: Step<'_>, from: &Thing) -> Result<Table, Fault> {
    let store = options::materialized(step.section, Some(SerdeSpec::Plain(Plain::Long)))?;
    Ok(match from {
        Thing::Grouped(from) => from.count_as::<Value>(store),
        Thing::GroupedTable(from) => from.count_as::<Value>(store),
        Thing::Windowed(from) => from.count_as::<Value>(store),
        Thing::Sessions(from) => from.count_as::<Value>(store),
        other => return Err(step.not_of(other)),
    })
}

fn reduce(step: Step<'_>, from: &Thing) -> Result<Table, Fault> {
    let section = step.section;
    let store: Materialized<Value, Value> = options::materialized(section, None)?;
    let add = reducer(section.expr("fn")?);
    Ok(match from {
        Thing::Grouped(from) => from.try_reduce(store, add),
        Thing::GroupedTable(from) => from.try_reduce(store, add, reducer(section.expr("sub")?)),
        Thing::Windowed(from) => from.try_reduce(store, add),
        Thing::Sessions(from) => from.try_reduce(store, add),
        other => return Err(step.not_of(other)),
    })
}

fn aggregate(step: Step<'_>, from: &Thing) -> Result<Table, Fault> {
    let section = step.section;
    let store = options::materialized(section, None)?;
    let (init, add) = (initial(section.expr("init")?), folder(section.expr("fn")?));
    Ok(match from {
        Thing::Grouped(from) => from.try_aggregate(store, init, add),
        Thing::GroupedTable(from) => {
            from.try_aggregate(store, init, add, folder(section.expr("sub")?))
        }
        Thing::Windowed(from) => from.try_aggregate(store, init, add),
        Thing::Sessions(from) => {
            from.try_aggregate(store, init, add, merger(section.expr("merger")?))
        }
        other => return Err(step.not_of(other)),
    })
}

/// The table of cogrouped streams, whose names are those of its parts; `None` for anything else.
fn cogrouped(step: Step<'_>, from: &Thing) -> Result<Option<Table>, Fault> {
    let section = step.section;
    let is = matches!(
        from,
        Thing::Cogrouped(_) | Thing::WindowedCogrouped(_) | Thing::SessionCogrouped(_)
    );
    if !is {
        return Ok(None);
    }
    let store = options::materialized(section, None)?;
    let (init, name) = (initial(section.expr("init")?), step.name()?);
    Ok(Some(match from {
        Thing::Cogrouped(from) => match name {
            Some(name) => from.clone().named(name).try_aggregate(store, init),
            None => from.try_aggregate(store, init),
        },
        Thing::WindowedCogrouped(from) => match name {
            Some(name) => from.clone().named(name).try_aggregate(store, init),
            None => from.try_aggregate(store, init),
        },
        Thing::SessionCogrouped(from) => {
            let merge = merger(section.expr("merger")?);
            match name {
                Some(name) => from.clone().named(name).try_aggregate(store, init, merge),
                None => from.try_aggregate(store, init, merge),
            }
        }
        _ => return Ok(None),
    }))
}
