//! Dynamic values and serdes as the library's own vocabulary knows them.

use std::sync::Arc;

use thalweg::{TimeWindow, WindowKey};
use thalweg_connectors::{Datum, Field, Headers, Serde, SerdeError, SharedSerde};

use super::{Fault, FaultKind, HeaderList, SerdeSpec, Value};

/// A dynamic value has its null inside, so that its forms with and without null are one type.
impl Datum for Value {
    type Inner = Self;
    type Opt = Self;

    fn into_inner(self) -> Option<Self> {
        self.non_null()
    }

    fn inner(&self) -> Option<&Self> {
        (!self.is_null()).then_some(self)
    }

    fn from_inner(inner: Self) -> Self {
        inner
    }

    fn opt(inner: Option<Self>) -> Self {
        inner.unwrap_or_default()
    }
}

/// A windowed key is a value of its own. A value that is none stands for itself, in an empty window: the serde then tells.
impl WindowKey<Value> for Value {
    fn make(key: Value, window: TimeWindow) -> Self {
        Self::win(key, window.start_ms, window.end_ms)
    }

    fn key(&self) -> &Value {
        match self {
            Self::Win(win) => &win.key,
            other => other,
        }
    }

    fn window(&self) -> TimeWindow {
        match self {
            Self::Win(win) => TimeWindow { start_ms: win.start_ms, end_ms: win.end_ms },
            _ => TimeWindow { start_ms: 0, end_ms: 0 },
        }
    }
}

/// Counts go on from what the store holds.
impl TryFrom<Value> for i64 {
    type Error = Fault;

    fn try_from(value: Value) -> Result<Self, Fault> {
        value.as_int()
    }
}

impl SerdeSpec {
    /// The serde as topics and stores share it.
    pub fn shared(self) -> SharedSerde<Value> {
        Arc::new(self)
    }

    /// What messages call it.
    fn kind(self) -> &'static str {
        match self {
            Self::Plain(plain) => plain.name(),
            Self::TimeWindowed { .. } => "time-windowed key",
            Self::SessionWindowed { .. } => "session-windowed key",
        }
    }
}

impl Serde<Value> for SerdeSpec {
    fn write(&self, value: &Value, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        match Self::write(self, value, out) {
            Ok(true) => Ok(Field::Bytes),
            Ok(false) => Ok(Field::Null),
            Err(fault) if fault.kind == FaultKind::ClassCast => {
                Err(SerdeError::WrongType { expected: self.kind(), found: value.type_name() })
            }
            Err(fault) => Err(malformed(self.kind(), fault)),
        }
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Value, SerdeError> {
        Self::read(self, bytes).map_err(|fault| malformed(self.kind(), fault))
    }

    /// A windowed key lies in the partition of the key inside.
    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        let times = match self {
            Self::Plain(_) => 0,
            Self::TimeWindowed { .. } => 8,
            Self::SessionWindowed { .. } => 16,
        };
        &key[..key.len().saturating_sub(times)]
    }
}

fn malformed(of: &'static str, fault: Fault) -> SerdeError {
    let reason = fault.message;
    SerdeError::Malformed { of, reason }
}

/// A shared serde where a serde of one's own is asked for.
pub(crate) struct Shared(pub(crate) SharedSerde<Value>);

impl Serde<Value> for Shared {
    fn write(&self, value: &Value, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        self.0.write(value, out)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Value, SerdeError> {
        self.0.read(bytes)
    }

    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        self.0.partition_key(key)
    }
}

impl From<&HeaderList> for Headers {
    fn from(list: &HeaderList) -> Self {
        Self::collect(list.iter())
    }
}

impl From<&Headers> for HeaderList {
    fn from(headers: &Headers) -> Self {
        let owned =
            |(name, value): (&str, Option<&[u8]>)| (name.to_owned(), value.map(<[u8]>::to_vec));
        headers.iter().map(owned).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::conformance::Plain;

    #[test]
    fn a_windowed_key_lies_in_the_partition_of_its_key() {
        let time = SerdeSpec::TimeWindowed { inner: Plain::String, size_ms: 10 };
        let session = SerdeSpec::SessionWindowed { inner: Plain::String };
        for serde in [time, session] {
            let bytes = serde.to_bytes(&Value::win("key".into(), 0, 10)).unwrap().unwrap();
            assert_eq!(serde.partition_key(&bytes), b"key");
        }
        assert_eq!(SerdeSpec::STRING.partition_key(b"key"), b"key");
    }

    #[test]
    fn a_value_of_the_wrong_type_and_unreadable_bytes_are_told_apart() {
        let long = SerdeSpec::Plain(Plain::Long);
        let wrong = Serde::write(&long, &"x".into(), &mut Vec::new()).unwrap_err();
        assert_eq!(wrong, SerdeError::WrongType { expected: "long", found: "string" });
        let unreadable = Serde::read(&long, Some(b"x")).unwrap_err();
        assert!(matches!(unreadable, SerdeError::Malformed { of: "long", .. }));
    }

    #[test]
    fn null_is_the_only_value_without_an_inner_one() {
        assert_eq!(Value::Null.into_inner(), None);
        assert_eq!(Value::from(0).into_inner(), Some(0.into()));
        assert_eq!(Value::opt(None), Value::Null);
    }

    #[test]
    fn headers_keep_their_order_and_nulls() {
        let list = HeaderList::from_iter([("a", Some(b"1".to_vec())), ("b", None), ("a", None)]);
        assert_eq!(HeaderList::from(&Headers::from(&list)), list);
    }
}
