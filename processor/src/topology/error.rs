//! What makes a topology invalid.

use std::panic::Location;
use std::sync::Arc;

/// A mistake in a topology. Building reports all of them at once.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum TopologyError {
    /// Two nodes of one name.
    #[error("a node named `{0}` is there already; give one of the two another name")]
    DuplicateNode(Arc<str>),
    /// Two stores of one name.
    #[error(
        "store `{store}` is declared twice, at {first} and at {second}{}; give one of the two another name, or use one declaration in both places",
        in_words(differences)
    )]
    DuplicateStore {
        /// The name.
        store: Arc<str>,
        /// Where the one that was added first is declared.
        first: &'static Location<'static>,
        /// Where the other one is.
        second: &'static Location<'static>,
        /// In what they differ; empty when they are alike.
        differences: String,
    },
    /// A parent that is not there.
    #[error("node `{node}` names the parent `{parent}`, which has not been added before it")]
    UnknownParent {
        /// The node.
        node: Arc<str>,
        /// Its missing parent.
        parent: Arc<str>,
    },
    /// A node without parents that is no source.
    #[error("node `{0}` has no parent")]
    NoParent(Arc<str>),
    /// A sink used as a parent.
    #[error("node `{node}` names the sink `{parent}` as its parent; nothing flows out of a sink")]
    SinkAsParent {
        /// The node.
        node: Arc<str>,
        /// The sink.
        parent: Arc<str>,
    },
    /// A node that is its own parent.
    #[error("node `{0}` names itself as its parent")]
    OwnParent(Arc<str>),
    /// A store that is not there.
    #[error("node `{node}` is connected to the store `{store}`, which has not been added")]
    UnknownStore {
        /// The node.
        node: Arc<str>,
        /// Its missing store.
        store: Arc<str>,
    },
    /// A node that is not there, or that takes no stores.
    #[error(
        "store `{store}` is to be connected to `{node}`, which is not a processor of this topology"
    )]
    UnknownProcessor {
        /// The store.
        store: Arc<str>,
        /// The missing processor.
        node: Arc<str>,
    },
    /// A global store that is named among the stores of a processor.
    #[error(
        "node `{node}` is connected to the global store `{store}`; all processors can read it as it is"
    )]
    GlobalStore {
        /// The node.
        node: Arc<str>,
        /// The store.
        store: Arc<str>,
    },
    /// A topic read by two sources.
    #[error(
        "topic `{0}` is read by a source already; use that stream again instead of declaring it twice"
    )]
    TopicTwice(Arc<str>),
    /// A source without topics.
    #[error("source `{0}` names no topic")]
    NoTopic(Arc<str>),
    /// A name that cannot be a topic's.
    #[error("`{name}` is not a legal name: {reason}")]
    IllegalName {
        /// The name.
        name: String,
        /// Why.
        reason: &'static str,
    },
    /// A durable name is missing and `ensure.explicit.internal.resource.naming` is on.
    #[error(
        "{what} has a generated name (`{name}`), but `ensure.explicit.internal.resource.naming` asks for names of your choice"
    )]
    GeneratedName {
        /// `store`, `changelog topic` or `repartition topic`.
        what: &'static str,
        /// The generated name.
        name: Arc<str>,
    },
    /// A key or value has to be written, and nobody said how.
    #[error(
        "no serde is known for the {field} `{of}` of `{node}`; name one there or upstream, or implement `DefaultSerde` for it"
    )]
    NoSerde {
        /// What needs it: a node, a store or a topic.
        node: Arc<str>,
        /// `key` or `value`.
        field: &'static str,
        /// The type.
        of: &'static str,
    },
    /// An illegal parameter: a negative duration, a retention that is too short.
    #[error("{0}")]
    IllegalArgument(String),
    /// No source at all.
    #[error("the topology has no source; start with `stream` or `table`")]
    Empty,
    /// A sink writes a topic with other partitions than a join needs, or the like.
    #[error("{0}")]
    Invalid(String),
}

fn in_words(differences: &str) -> String {
    match differences {
        "" => String::new(),
        _ => format!(", and differs in {differences}"),
    }
}

/// Checks a name that becomes a node's or topic's, or a part of one: Kafka's rule.
///
/// # Errors
/// When it is empty, too long, or has other characters than ASCII letters, digits, `.`, `_` and `-`.
pub fn check_name(name: &str) -> Result<(), TopologyError> {
    let illegal = |reason| Err(TopologyError::IllegalName { name: name.into(), reason });
    let legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name {
        "" => illegal("it is empty"),
        "." | ".." => illegal("it is `.` or `..`"),
        _ if name.len() > 249 => illegal("it is longer than 249 characters"),
        _ if !name.chars().all(legal) => {
            illegal("only ASCII letters, digits, `.`, `_` and `-` are allowed")
        }
        _ => Ok(()),
    }
}
