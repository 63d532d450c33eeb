//! [`Name`]: a durable name, of the user's choice or, when asked for, Kafka's generated one.

use std::sync::Arc;

/// The name of something durable: a store, a repartition topic.
///
/// Durable names are chosen by the user, so that a change of the program cannot orphan state. To take over a Java application
/// that relies on generated names, ask for them; the numbering is that of Kafka Streams, call for call.
///
/// ```
/// use thalweg::Name;
/// let chosen = Name::from("word-counts");
/// let generated = Name::kafka_generated();
/// assert_ne!(chosen, generated);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(Option<Arc<str>>);

impl Name {
    /// Asks for the name that Kafka Streams would generate, such as `KSTREAM-AGGREGATE-STATE-STORE-0000000002`.
    pub const fn kafka_generated() -> Self {
        Self(None)
    }

    /// The name, when it was given.
    pub(crate) fn given(&self) -> Option<&Arc<str>> {
        self.0.as_ref()
    }
}

impl From<&str> for Name {
    fn from(name: &str) -> Self {
        Self(Some(name.into()))
    }
}

impl From<String> for Name {
    fn from(name: String) -> Self {
        Self(Some(name.into()))
    }
}

impl From<Arc<str>> for Name {
    fn from(name: Arc<str>) -> Self {
        Self(Some(name))
    }
}
