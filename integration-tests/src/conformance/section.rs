//! A JSON object of a scenario, with readers whose errors say where.

use serde_json::{Map, Value as Json};

use super::{Expr, Fault, Program, SerdeSpec};

/// A step of the topology, or an object inside one (a materialization, a window, a branch, a store definition).
#[derive(Debug, Clone)]
pub struct Section(Map<String, Json>);

impl Section {
    /// Takes an object.
    ///
    /// # Errors
    /// A faulty scenario when it is none; as all readers here, when a field is missing or of another type.
    pub fn of(json: &Json) -> Result<Self, Fault> {
        json.as_object()
            .cloned()
            .map(Self)
            .ok_or_else(|| Fault::scenario(format!("no object: {json}")))
    }

    /// Takes a list of objects.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn all_of(json: &Json) -> Result<Vec<Self>, Fault> {
        let items = json.as_array().ok_or_else(|| Fault::scenario(format!("no list: {json}")))?;
        items.iter().map(Self::of).collect()
    }

    fn wrong(&self, field: &str, wanted: &str) -> Fault {
        Fault::scenario(format!(
            "field `{field}` has to be {wanted} in {}",
            Json::Object(self.0.clone())
        ))
    }

    /// Is the field there (even if it is null)?
    pub fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// The field as it is; `None` when it is absent or null.
    pub fn json(&self, field: &str) -> Option<&Json> {
        self.0.get(field).filter(|json| !json.is_null())
    }

    /// The names of all fields.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Visits this object and all objects inside it.
    pub(crate) fn each_object(&self, visit: &mut dyn FnMut(&Map<String, Json>)) {
        fn walk(json: &Json, visit: &mut dyn FnMut(&Map<String, Json>)) {
            match json {
                Json::Object(object) => {
                    visit(object);
                    object.values().for_each(|inner| walk(inner, visit));
                }
                Json::Array(items) => items.iter().for_each(|inner| walk(inner, visit)),
                _ => {}
            }
        }
        visit(&self.0);
        self.0.values().for_each(|inner| walk(inner, visit));
    }

    /// The operation of a step.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn op(&self) -> Result<&str, Fault> {
        self.text("op")
    }

    /// The id by which later steps name it.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn id(&self) -> Result<Option<&str>, Fault> {
        self.text_opt("id")
    }

    /// A text.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn text(&self, field: &str) -> Result<&str, Fault> {
        self.text_opt(field)?.ok_or_else(|| self.wrong(field, "a text"))
    }

    /// A text that may be absent.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn text_opt(&self, field: &str) -> Result<Option<&str>, Fault> {
        self.json(field).map(|j| j.as_str().ok_or_else(|| self.wrong(field, "a text"))).transpose()
    }

    /// A list of texts; empty when absent.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn texts(&self, field: &str) -> Result<Vec<&str>, Fault> {
        let Some(json) = self.json(field) else {
            return Ok(Vec::new());
        };
        let texts =
            json.as_array().map(|items| items.iter().map(Json::as_str).collect::<Option<Vec<_>>>());
        texts.flatten().ok_or_else(|| self.wrong(field, "a list of texts"))
    }

    /// An integer.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn int(&self, field: &str) -> Result<i64, Fault> {
        self.int_opt(field)?.ok_or_else(|| self.wrong(field, "an integer"))
    }

    /// An integer that may be absent.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn int_opt(&self, field: &str) -> Result<Option<i64>, Fault> {
        self.json(field)
            .map(|j| j.as_i64().ok_or_else(|| self.wrong(field, "an integer")))
            .transpose()
    }

    /// A boolean that may be absent.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn flag(&self, field: &str) -> Result<Option<bool>, Fault> {
        self.json(field)
            .map(|j| j.as_bool().ok_or_else(|| self.wrong(field, "a boolean")))
            .transpose()
    }

    /// A serde that may be absent.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn serde(&self, field: &str) -> Result<Option<SerdeSpec>, Fault> {
        self.json(field).map(SerdeSpec::parse).transpose()
    }

    /// An expression; a null is the expression null.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn expr(&self, field: &str) -> Result<Expr, Fault> {
        self.expr_opt(field)?.ok_or_else(|| self.wrong(field, "an expression"))
    }

    /// An expression that may be absent.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn expr_opt(&self, field: &str) -> Result<Option<Expr>, Fault> {
        self.0.get(field).map(Expr::parse).transpose()
    }

    /// An object.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn section(&self, field: &str) -> Result<Section, Fault> {
        self.section_opt(field)?.ok_or_else(|| self.wrong(field, "an object"))
    }

    /// An object that may be absent.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn section_opt(&self, field: &str) -> Result<Option<Section>, Fault> {
        self.json(field).map(Section::of).transpose()
    }

    /// A list of objects; empty when absent.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn sections(&self, field: &str) -> Result<Vec<Section>, Fault> {
        self.json(field).map_or(Ok(Vec::new()), Section::all_of)
    }

    /// The program of a processor.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn program(&self) -> Result<Program, Fault> {
        Program::parse(&self.section("processor")?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use serde_json::json;

    #[test]
    fn absent_and_null_differ_only_for_has_and_expressions() {
        let section =
            Section::of(&json!({"a": null, "n": 1, "l": ["x"], "t": "y", "b": false})).unwrap();
        assert!(section.has("a") && !section.has("z"));
        assert_eq!(section.text_opt("a").unwrap(), None);
        assert!(section.expr_opt("a").unwrap().is_some());
        assert!(section.expr_opt("z").unwrap().is_none());
        assert_eq!(section.int("n").unwrap(), 1);
        assert_eq!(section.texts("l").unwrap(), ["x"]);
        assert_eq!(section.texts("z").unwrap(), [""; 0]);
        assert_eq!(section.flag("b").unwrap(), Some(false));
    }

    #[test]
    fn an_error_names_the_field_and_shows_the_object() {
        let section = Section::of(&json!({"n": "one"})).unwrap();
        let message = section.int("n").unwrap_err().to_string();
        assert_eq!(message, r#"faulty scenario: field `n` has to be an integer in {"n":"one"}"#);
        assert!(section.text("op").is_err());
        assert!(section.texts("n").is_err());
        assert!(section.section("n").is_err());
    }
}
