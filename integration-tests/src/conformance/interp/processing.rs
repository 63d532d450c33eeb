//! `process`, `process_values`.

use std::sync::Arc;

use super::super::processor::{FixedProgram, FreeProgram};
use super::{Interpreter, Made, Step, options, stream};

impl Interpreter {
    pub(super) fn processing(&self, step: Step<'_>) -> Made {
        let (section, from) = (step.section, self.stream(step, "from")?);
        let (program, stores) =
            (Arc::new(section.program()?), options::stores(section, &self.config)?);
        let made = match section.op()? {
            "process" => from.process(stores, move |setup| FreeProgram::build(&program, setup)),
            _ => from.process_values(stores, move |setup| FixedProgram::build(&program, setup)),
        };
        stream(match step.name()? {
            Some(name) => made.named(name),
            None => made,
        })
    }
}
