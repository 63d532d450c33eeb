//! `stream`, `table`, `add_state_store`.

use super::super::stores::AnyStore;
use super::{Interpreter, Made, Step, options, stream, table};

impl Interpreter {
    pub(super) fn source(&self, step: Step<'_>) -> Made {
        let section = step.section;
        match section.op()? {
            "stream" => stream(self.builder.stream(options::consumed(section)?).keys_may_move()),
            "table" => {
                let (input, store) =
                    (options::consumed(section)?, options::materialized(section, None)?);
                table(self.builder.table(input, store))
            }
            _ => {
                match options::store(section, &self.config)? {
                    AnyStore::KeyValue(store) => self.builder.add_store(&store),
                    AnyStore::Timestamped(store) => self.builder.add_store(&store),
                    AnyStore::Window(store) => self.builder.add_store(&store),
                    AnyStore::TimestampedWindow(store) => self.builder.add_store(&store),
                    AnyStore::Session(store) => self.builder.add_store(&store),
                };
                Ok(None)
            }
        }
    }
}
