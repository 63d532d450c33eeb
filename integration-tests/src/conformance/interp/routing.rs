//! `split`, `repartition`, `to`, `to_table`.

use std::rc::Rc;

use thalweg::{BoxError, Branched};

use super::super::failure::Stop;
use super::super::{Fault, Section, Value};
use super::options::{self, name};
use super::{Interpreter, Made, Step, Stream, Thing, stream, table};

type Branch = Branched<Value, Value, thalweg::Rekeyed>;

impl Interpreter {
    pub(super) fn routing(self: &Rc<Self>, step: Step<'_>) -> Made {
        let (section, from) = (step.section, self.stream(step, "from")?);
        match section.op()? {
            "split" => self.split(step, &from),
            "repartition" => {
                let options = options::repartitioned(section, &self.calls)?;
                stream(from.repartition(options).keys_may_move())
            }
            "to" => {
                from.to(options::produced(section, &self.calls)?);
                Ok(None)
            }
            _ => {
                let store = options::materialized(section, None)?;
                table(from.to_table_via(name(step.name()?), store))
            }
        }
    }

    fn split(self: &Rc<Self>, step: Step<'_>, from: &Stream) -> Made {
        let section = step.section;
        let id = section.text("id")?;
        let mut split = from.split(name(step.name()?));
        for branch in section.sections("branches")? {
            let holds = branch.expr("fn")?;
            split = split.try_branch(self.branched(&branch)?, move |k, v| {
                let held = holds.apply([("k", k.clone()), ("v", v.clone())])?;
                Ok::<bool, BoxError>(held.as_bool()?)
            });
        }
        let branches = match section.section_opt("default")? {
            Some(default) => split.default_branch(self.branched(&default)?),
            None => split.no_default_branch(),
        };
        if let Some(stop) = self.trouble.take() {
            return Err(stop);
        }
        let keys = branches.names().map(str::to_owned).collect();
        self.branches.borrow_mut().insert(id.to_owned(), keys);
        for (key, branch) in branches.into_map() {
            self.things.borrow_mut().insert(format!("{id}:{key}"), Thing::Stream(branch));
        }
        Ok(None)
    }

    fn branched(self: &Rc<Self>, branch: &Section) -> Result<Branch, Fault> {
        let branched = Branch::named(name(branch.text_opt("as")?));
        if let Some(function) = branch.section_opt("function")? {
            let (steps, result) = (function.sections("steps")?, function.text_opt("result")?);
            let (own, result) = (Rc::clone(self), result.map(str::to_owned));
            return Ok(branched.with_function(move |input| {
                own.inside(&steps, &input);
                let result = result?;
                if result == "$in" {
                    return Some(input);
                }
                match own.things.borrow().get(&result) {
                    Some(Thing::Stream(stream)) => Some(stream.clone()),
                    _ => own.give_up(Fault::scenario(format!("no stream `{result}`"))),
                }
            }));
        }
        if let Some(consumer) = branch.section_opt("consumer")? {
            let (own, steps) = (Rc::clone(self), consumer.sections("steps")?);
            return Ok(branched.with_consumer(move |input| own.inside(&steps, &input)));
        }
        Ok(branched)
    }

    /// Applies the steps of a branch; a failure waits until the split returns.
    fn inside(self: &Rc<Self>, steps: &[Section], input: &Stream) {
        if let Err(stop) = self.run_all(steps, Some(input)) {
            self.trouble.borrow_mut().get_or_insert(stop);
        }
    }

    fn give_up<T>(&self, fault: Fault) -> Option<T> {
        self.trouble.borrow_mut().get_or_insert(Stop::Broken(fault));
        None
    }
}
