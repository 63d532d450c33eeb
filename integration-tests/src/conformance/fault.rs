//! What a function of a scenario, or a dynamic serde, fails with.

use std::fmt;

/// A failure inside a scenario, of a kind the expectations can name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}: {message}")]
pub struct Fault {
    /// What sort of failure.
    pub kind: FaultKind,
    /// The details, for people.
    pub message: String,
}

/// The sorts of failure; named as the reference implementation's exceptions, because scenarios compare by those names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FaultKind {
    /// The scenario itself is wrong; never an expected result.
    Scenario,
    /// The scenario needs what the library does not have yet; never an expected result.
    Unsupported,
    /// The operator `fail`.
    IllegalState,
    /// A null where a string, number or boolean is needed.
    NullPointer,
    /// `num` or `dbl` of a text that is no number.
    NumberFormat,
    /// A value of another type than the operator or the serde needs.
    ClassCast,
    /// An argument outside its range.
    IllegalArgument,
    /// Division by zero.
    Arithmetic,
    /// Bytes that a serde cannot read.
    Serialization,
    /// The framework cannot go on: a child is unknown, a store is not connected.
    GaveUp,
}

impl FaultKind {
    /// The name of the exception that the reference implementation throws.
    pub fn reference_name(self) -> &'static str {
        match self {
            Self::Scenario | Self::Unsupported => "Author",
            Self::IllegalState => "IllegalStateException",
            Self::NullPointer => "NullPointerException",
            Self::NumberFormat => "NumberFormatException",
            Self::ClassCast => "ClassCastException",
            Self::IllegalArgument => "IllegalArgumentException",
            Self::Arithmetic => "ArithmeticException",
            Self::Serialization => "SerializationException",
            Self::GaveUp => "StreamsException",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scenario => "faulty scenario",
            Self::Unsupported => "unsupported",
            Self::IllegalState => "illegal state",
            Self::NullPointer => "null operand",
            Self::NumberFormat => "not a number",
            Self::ClassCast => "wrong type",
            Self::IllegalArgument => "illegal argument",
            Self::Arithmetic => "arithmetic",
            Self::Serialization => "unreadable bytes",
            Self::GaveUp => "misuse",
        })
    }
}

impl Fault {
    /// A failure of `kind`.
    pub fn new(kind: FaultKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// An error in the scenario itself.
    pub fn scenario(message: impl Into<String>) -> Self {
        Self::new(FaultKind::Scenario, message)
    }

    pub(crate) fn null(wanted: &str) -> Self {
        Self::new(FaultKind::NullPointer, format!("null where a {wanted} is needed"))
    }

    pub(crate) fn class_cast(got: &str, wanted: &str) -> Self {
        Self::new(FaultKind::ClassCast, format!("a {got} where a {wanted} is needed"))
    }
}
