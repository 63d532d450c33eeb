use thalweg::{BoxError, FixedKeyContext, FixedKeyProcessor, FixedKeyRecord};

struct Rename;

impl FixedKeyProcessor for Rename {
    type Key = String;
    type VIn = i64;
    type VOut = i64;

    fn process(
        &mut self,
        context: &mut FixedKeyContext<'_, '_, '_, String, i64>,
        mut record: FixedKeyRecord<String, i64>,
    ) -> Result<(), BoxError> {
        record.key = "other".to_owned();
        Ok(context.forward(record)?)
    }
}

fn main() {}
