//! `global_table`, `add_global_store`, `global_join`.

use std::sync::Arc;

use super::super::failure::{Stop, unsupported};
use super::super::processor::FreeProgram;
use super::super::stores::AnyStore;
use super::super::{ErrorKind, Section, Value};
use super::{Interpreter, Made, Step, Thing, options, stream};

impl Interpreter {
    pub(super) fn globals(&self, step: Step<'_>) -> Made {
        let section = step.section;
        match section.op()? {
            "global_table" => {
                refuse_versioned(section)?;
                let (input, store) =
                    (options::consumed(section)?, options::materialized(section, None)?);
                Ok(Some(Thing::GlobalTable(self.builder.global_table(input, store))))
            }
            "add_global_store" => self.add_global_store(section).map(|()| None),
            _ => self.global_join(step),
        }
    }

    fn add_global_store(&self, section: &Section) -> Result<(), Stop> {
        let (input, program) = (options::consumed(section)?, Arc::new(section.program()?));
        let build = move |setup: &mut thalweg::Setup<'_>| FreeProgram::build(&program, setup);
        match options::store(section, &self.config)? {
            AnyStore::KeyValue(store) => self.builder.add_global_store(&store, input, build),
            AnyStore::Timestamped(store) => self.builder.add_global_store(&store, input, build),
            AnyStore::Window(store) => self.builder.add_global_store(&store, input, build),
            AnyStore::TimestampedWindow(store) => {
                self.builder.add_global_store(&store, input, build)
            }
            AnyStore::Session(store) => self.builder.add_global_store(&store, input, build),
        };
        Ok(())
    }

    fn global_join(&self, step: Step<'_>) -> Made {
        let section = step.section;
        let from = self.stream(step, "from")?;
        let with = match self.thing(step, "with")? {
            Thing::GlobalTable(table) => table,
            other => return Err(step.not_of(&other).into()),
        };
        let (select, join) = (section.expr("key_fn")?, section.expr("fn")?);
        let select = move |key: &Value, value: &Value| {
            Ok::<Value, _>(select.apply([("k", key.clone()), ("v", value.clone())])?)
        };
        let any = move |key: &Value, left: &Value, made: &Value, right: Option<&Value>| {
            let right = right.cloned().unwrap_or_default();
            let values =
                [("k", key.clone()), ("gk", made.clone()), ("v1", left.clone()), ("v2", right)];
            join.apply(values)
        };
        let made = match section.text("type")? {
            "inner" => from.try_join_global(&with, select, move |k: &Value, l, g, r| {
                Ok::<Value, _>(any(k, l, g, Some(r))?)
            }),
            "left" => from.try_left_join_global(&with, select, move |k: &Value, l, g, r| {
                Ok::<Value, _>(any(k, l, g, r)?)
            }),
            other => {
                return Err(unsupported(format_args!("{other} joins with global tables")).into());
            }
        };
        stream(match step.name()? {
            Some(name) => made.named(name),
            None => made,
        })
    }
}

/// The types rule a versioned global table out, so that it is refused here instead of in the library.
fn refuse_versioned(section: &Section) -> Result<(), Stop> {
    let versioned = section.section_opt("mat")?.is_some_and(|mat| mat.has("versioned_history_ms"));
    match versioned {
        true => {
            let why = "a global table cannot be versioned".to_owned();
            Err(Stop::Refused(ErrorKind::InvalidTopology, why))
        }
        false => Ok(()),
    }
}
