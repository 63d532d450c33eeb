//! Steps that look at one record at a time, of streams and of tables.

use super::super::{Expr, Fault, Value};
use super::{Interpreter, Made, Step, Stream, Table, Thing, options, stream, table};

/// A function of key and value.
fn of_record(expr: Expr) -> impl Fn(&Value, &Value) -> Result<Value, Fault> {
    move |key, value| expr.apply([("k", key.clone()), ("v", value.clone())])
}

fn pair(value: &Value) -> Result<(Value, Value), Fault> {
    value.as_pair().cloned()
}

impl Interpreter {
    pub(super) fn stateless(&self, step: Step<'_>) -> Made {
        match self.thing(step, "from")? {
            Thing::Stream(from) => self.of_stream(step, &from),
            Thing::Table(from) => of_table(step, &from),
            other => Err(step.not_of(&other).into()),
        }
    }

    fn of_stream(&self, step: Step<'_>, from: &Stream) -> Made {
        let section = step.section;
        let op = section.op()?;
        let made = match op {
            "peek" => self.peek(step, from)?,
            "foreach" => return self.foreach(step, from),
            "merge" => from.merge(&self.stream(step, "with")?),
            "filter" | "filter_not" => {
                let (not, keep) = (op == "filter_not", of_record(section.expr("fn")?));
                from.try_filter(move |k, v| Ok(keep(k, v)?.as_bool()? != not))
            }
            "map" => {
                let map = of_record(section.expr("fn")?);
                from.try_map(move |k, v| Ok(pair(&map(k, v)?)?))
            }
            "map_values" => {
                let map = of_record(section.expr("fn")?);
                from.try_map_values(move |k, v| Ok(map(k, v)?))
            }
            "flat_map" => {
                let map = of_record(section.expr("fn")?);
                from.try_flat_map(move |k, v| {
                    let pairs = map(k, v)?;
                    Ok(pairs.as_list()?.iter().map(pair).collect::<Result<Vec<_>, _>>()?)
                })
            }
            "flat_map_values" => {
                let map = of_record(section.expr("fn")?);
                from.try_flat_map_values(move |k, v| Ok(map(k, v)?.as_list()?.to_vec()))
            }
            "select_key" => {
                let select = of_record(section.expr("fn")?);
                from.try_select_key(move |k, v| Ok(select(k, v)?))
            }
            _ => return Err(step.not_of(&Thing::Stream(from.clone())).into()),
        };
        stream(named(made, step)?)
    }

    fn peek(&self, step: Step<'_>, from: &Stream) -> Result<Stream, Fault> {
        let look = self.look(step)?;
        Ok(from.try_peek(move |k, v| Ok(look(k, v)?)))
    }

    fn foreach(&self, step: Step<'_>, from: &Stream) -> Made {
        let look = self.look(step)?;
        let end = from.try_for_each(move |k, v| Ok(look(k, v)?));
        if let Some(name) = step.name()? {
            end.named(name);
        }
        Ok(None)
    }

    /// Logs the call, after evaluating the step's function if it has one.
    fn look(
        &self,
        step: Step<'_>,
    ) -> Result<impl Fn(&Value, &Value) -> Result<(), Fault> + use<>, Fault> {
        let (id, calls) = (step.section.text("id")?.to_owned(), self.calls.clone());
        let function = step.section.expr_opt("fn")?.map(of_record);
        Ok(move |key: &Value, value: &Value| {
            if let Some(function) = &function {
                function(key, value)?;
            }
            calls.log(&id, key, value);
            Ok(())
        })
    }
}

fn named(made: Stream, step: Step<'_>) -> Result<Stream, Fault> {
    Ok(match step.name()? {
        Some(name) => made.named(name),
        None => made,
    })
}

fn of_table(step: Step<'_>, from: &Table) -> Made {
    let section = step.section;
    let op = section.op()?;
    let stored = section.json("mat").is_some();
    let made = match op {
        "filter" | "filter_not" => {
            let (not, keep) = (op == "filter_not", of_record(section.expr("fn")?));
            let keep = move |k: &Value, v: &Value| Ok(keep(k, v)?.as_bool()? != not);
            match stored {
                true => from.try_filter_into(options::materialized(section, None)?, keep),
                false => from.try_filter(keep),
            }
        }
        "map_values" => {
            let map = of_record(section.expr("fn")?);
            let map = move |k: &Value, v: &Value| Ok::<Value, _>(map(k, v)?);
            match stored {
                true => from.try_map_values_into(options::materialized(section, None)?, map),
                false => from.try_map_values(map),
            }
        }
        "to_stream" => return to_stream(step, from),
        _ => return Err(step.not_of(&Thing::Table(from.clone())).into()),
    };
    table(match step.name()? {
        Some(name) => made.named(name),
        None => made,
    })
}

/// With a function it is two steps in one.
fn to_stream(step: Step<'_>, from: &Table) -> Made {
    let made = named(from.to_stream().keys_may_move(), step)?;
    stream(match step.section.expr_opt("fn")? {
        Some(select) => {
            let select = of_record(select);
            made.try_select_key(move |k, v| Ok(select(k, v)?))
        }
        None => made,
    })
}
