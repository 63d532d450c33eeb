//! [`Serde`]: how a key or value becomes bytes and back; the standard types have Kafka Streams' byte formats.

use std::marker::PhantomData;
use std::sync::Arc;

/// What a serde wrote: bytes, or a null field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Field {
    /// The bytes it appended are the field.
    Bytes,
    /// The field is null; nothing was appended.
    Null,
}

/// Why bytes could not be read or a value could not be written. Messages never show the payload.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SerdeError {
    /// The field is null, but the type has no null.
    #[error(
        "null where the type `{expected}` has none; declare the topic with `Option<{expected}>` to allow it"
    )]
    UnexpectedNull {
        /// The type that was asked for.
        expected: &'static str,
    },
    /// A fixed-size type found another size.
    #[error("expected {expected} bytes for `{of}`, found {found}")]
    WrongLength {
        /// The type that was asked for.
        of: &'static str,
        /// The bytes it takes.
        expected: usize,
        /// The bytes there were.
        found: usize,
    },
    /// The bytes are not what the type takes.
    #[error("not a valid `{of}`: {reason}")]
    Malformed {
        /// The type that was asked for.
        of: &'static str,
        /// What is wrong, without the payload.
        reason: String,
    },
    /// The value is not one that the serde can write (only serdes of dynamic values say this).
    #[error("a {found} cannot be written as `{expected}`")]
    WrongType {
        /// What the serde writes.
        expected: &'static str,
        /// What it got.
        found: &'static str,
    },
}

/// Writes and reads one type.
///
/// [`write`](Self::write) appends to a reused buffer, so that no record costs an allocation.
pub trait Serde<T>: Send + Sync + 'static {
    /// Appends the value's bytes to `out`, or says that the field is null.
    ///
    /// # Errors
    /// When the value cannot be written; `out` may then hold a part of it.
    fn write(&self, value: &T, out: &mut Vec<u8>) -> Result<Field, SerdeError>;

    /// The value's bytes where they lie, when [`write`](Self::write) would do nothing but copy them: then nobody has to.
    fn bytes<'v>(&self, _value: &'v T) -> Option<&'v [u8]> {
        None
    }

    /// Reads a field; `None` is a null field.
    ///
    /// # Errors
    /// When the bytes are not a `T`, or the field is null and `T` has no null.
    fn read(&self, bytes: Option<&[u8]>) -> Result<T, SerdeError>;

    /// As [`read`](Self::read), in the place of a value that is not needed any more: a serde may use its memory again, so that a
    /// record costs no allocation.
    ///
    /// # Errors
    /// As for [`read`](Self::read); the place then holds some value.
    fn read_into(&self, bytes: Option<&[u8]>, spent: &mut T) -> Result<(), SerdeError> {
        *spent = self.read(bytes)?;
        Ok(())
    }

    /// The part of a written key that decides its partition: all of it, but for windowed keys, which stay with the key inside.
    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key
    }
}

/// A serde that is shared by topics, stores and operators.
pub type SharedSerde<T> = Arc<dyn Serde<T>>;

/// The serde a type has when nothing else is said.
#[diagnostic::on_unimplemented(
    message = "no serde is known for `{Self}`",
    label = "needs a serde",
    note = "name one where the topic, the store or the grouping is declared, for instance `Topic::with(\"orders\", Utf8, JsonSerde::new())`",
    note = "or implement `DefaultSerde` for `{Self}`"
)]
pub trait DefaultSerde: Sized + 'static {
    /// Makes it.
    fn default_serde() -> SharedSerde<Self>;
}

macro_rules! fixed_size {
    ($($(#[$doc:meta])* $serde:ident: $type:ty, $size:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default)]
        pub struct $serde;

        impl Serde<$type> for $serde {
            fn write(&self, value: &$type, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
                out.extend_from_slice(&value.to_be_bytes());
                Ok(Field::Bytes)
            }

            fn read(&self, bytes: Option<&[u8]>) -> Result<$type, SerdeError> {
                const OF: &str = stringify!($type);
                let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: OF })?;
                let wrong = SerdeError::WrongLength { of: OF, expected: $size, found: bytes.len() };
                bytes.try_into().map(<$type>::from_be_bytes).map_err(|_| wrong)
            }
        }

        impl DefaultSerde for $type {
            fn default_serde() -> SharedSerde<Self> {
                Arc::new($serde)
            }
        }
    )+};
}

fixed_size! {
    /// `i64` in 8 bytes, big-endian: Kafka's `LongSerde`.
    I64Be: i64, 8;
    /// `i32` in 4 bytes, big-endian: Kafka's `IntegerSerde`.
    I32Be: i32, 4;
    /// `i16` in 2 bytes, big-endian: Kafka's `ShortSerde`.
    I16Be: i16, 2;
    /// `f64` as its IEEE 754 bits, big-endian: Kafka's `DoubleSerde`.
    F64Be: f64, 8;
    /// `f32` as its IEEE 754 bits, big-endian: Kafka's `FloatSerde`.
    F32Be: f32, 4;
}

/// Text as UTF-8 without a length: Kafka's `StringSerde`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Utf8;

/// Raw bytes: Kafka's `ByteArraySerde`.
#[derive(Clone, Copy, Debug, Default)]
pub struct RawBytes;

/// One byte, 01 or 00: Kafka's `BooleanSerde`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Boolean;

/// Always a null field: Kafka's `VoidSerde`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Void;

/// Memory of a spent value that is kept although the next value is far smaller.
const SPENT_BYTES_MAX: usize = 16 * 1024;

/// Is a spent value's memory of use for a value of this length, and not held in vain?
fn is_of_use(capacity: usize, length: usize) -> bool {
    capacity >= length && (capacity <= SPENT_BYTES_MAX || capacity / 4 <= length)
}

fn utf8<'a>(bytes: Option<&'a [u8]>, of: &'static str) -> Result<&'a str, SerdeError> {
    let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: of })?;
    simdutf8::basic::from_utf8(bytes).map_err(|_| not_utf8(bytes, of))
}

#[cold]
fn not_utf8(bytes: &[u8], of: &'static str) -> SerdeError {
    let at = bytes.utf8_chunks().next().map_or(0, |valid| valid.valid().len());
    SerdeError::Malformed { of, reason: format!("not UTF-8 at byte {at}") }
}

impl Serde<String> for Utf8 {
    fn write(&self, value: &String, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        out.extend_from_slice(value.as_bytes());
        Ok(Field::Bytes)
    }

    fn bytes<'v>(&self, value: &'v String) -> Option<&'v [u8]> {
        Some(value.as_bytes())
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<String, SerdeError> {
        utf8(bytes, "String").map(str::to_owned)
    }

    fn read_into(&self, bytes: Option<&[u8]>, spent: &mut String) -> Result<(), SerdeError> {
        let text = utf8(bytes, "String")?;
        if is_of_use(spent.capacity(), text.len()) {
            spent.clear();
            spent.push_str(text);
        } else {
            *spent = text.to_owned();
        }
        Ok(())
    }
}

impl Serde<Arc<str>> for Utf8 {
    fn write(&self, value: &Arc<str>, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        out.extend_from_slice(value.as_bytes());
        Ok(Field::Bytes)
    }

    fn bytes<'v>(&self, value: &'v Arc<str>) -> Option<&'v [u8]> {
        Some(value.as_bytes())
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Arc<str>, SerdeError> {
        utf8(bytes, "Arc<str>").map(Arc::from)
    }
}

impl Serde<Vec<u8>> for RawBytes {
    fn write(&self, value: &Vec<u8>, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        out.extend_from_slice(value);
        Ok(Field::Bytes)
    }

    fn bytes<'v>(&self, value: &'v Vec<u8>) -> Option<&'v [u8]> {
        Some(value)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Vec<u8>, SerdeError> {
        bytes.map(<[u8]>::to_vec).ok_or(SerdeError::UnexpectedNull { expected: "Vec<u8>" })
    }

    fn read_into(&self, bytes: Option<&[u8]>, spent: &mut Vec<u8>) -> Result<(), SerdeError> {
        let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected: "Vec<u8>" })?;
        if is_of_use(spent.capacity(), bytes.len()) {
            spent.clear();
            spent.extend_from_slice(bytes);
        } else {
            *spent = bytes.to_vec();
        }
        Ok(())
    }
}

impl Serde<bool> for Boolean {
    fn write(&self, value: &bool, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        out.push(u8::from(*value));
        Ok(Field::Bytes)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<bool, SerdeError> {
        match bytes {
            Some([0]) => Ok(false),
            Some([1]) => Ok(true),
            Some([_]) => {
                Err(SerdeError::Malformed { of: "bool", reason: "neither 0 nor 1".into() })
            }
            Some(b) => Err(SerdeError::WrongLength { of: "bool", expected: 1, found: b.len() }),
            None => Err(SerdeError::UnexpectedNull { expected: "bool" }),
        }
    }
}

impl Serde<()> for Void {
    fn write(&self, (): &(), _: &mut Vec<u8>) -> Result<Field, SerdeError> {
        Ok(Field::Null)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<(), SerdeError> {
        match bytes {
            None => Ok(()),
            Some(b) => Err(SerdeError::WrongLength { of: "()", expected: 0, found: b.len() }),
        }
    }
}

macro_rules! default_serde {
    ($($type:ty => $serde:expr),+ $(,)?) => {$(
        impl DefaultSerde for $type {
            fn default_serde() -> SharedSerde<Self> {
                Arc::new($serde)
            }
        }
    )+};
}

default_serde!(String => Utf8, Arc<str> => Utf8, Vec<u8> => RawBytes, bool => Boolean, () => Void);

/// Adds null to a serde: `None` is a null field.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nullable<S, T>(S, PhantomData<fn() -> T>);

impl<S, T> Nullable<S, T> {
    /// Wraps the serde of the type without null.
    pub const fn new(serde: S) -> Self {
        Self(serde, PhantomData)
    }
}

impl<T, S: Serde<T>> Serde<Option<T>> for Nullable<S, T>
where
    T: 'static,
{
    fn write(&self, value: &Option<T>, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        value.as_ref().map_or(Ok(Field::Null), |v| self.0.write(v, out))
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Option<T>, SerdeError> {
        bytes.map(|b| self.0.read(Some(b))).transpose()
    }

    fn read_into(&self, bytes: Option<&[u8]>, spent: &mut Option<T>) -> Result<(), SerdeError> {
        read_nullable_into(&self.0, bytes, spent)
    }
}

/// Reads a field that may be null, in the place of a value that is not needed any more.
fn read_nullable_into<T: 'static>(
    serde: &(impl Serde<T> + ?Sized),
    bytes: Option<&[u8]>,
    spent: &mut Option<T>,
) -> Result<(), SerdeError> {
    match (bytes, spent) {
        (Some(_), Some(spent)) => serde.read_into(bytes, spent),
        (_, spent) => {
            *spent = bytes.map(|b| serde.read(Some(b))).transpose()?;
            Ok(())
        }
    }
}

struct NullableShared<T>(SharedSerde<T>);

impl<T: 'static> Serde<Option<T>> for NullableShared<T> {
    fn write(&self, value: &Option<T>, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        value.as_ref().map_or(Ok(Field::Null), |v| self.0.write(v, out))
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Option<T>, SerdeError> {
        bytes.map(|b| self.0.read(Some(b))).transpose()
    }

    fn read_into(&self, bytes: Option<&[u8]>, spent: &mut Option<T>) -> Result<(), SerdeError> {
        read_nullable_into(&*self.0, bytes, spent)
    }
}

/// Adds null to a shared serde.
pub(crate) fn nullable<T: 'static>(serde: SharedSerde<T>) -> SharedSerde<Option<T>> {
    Arc::new(NullableShared(serde))
}

impl<T: DefaultSerde> DefaultSerde for Option<T> {
    fn default_serde() -> SharedSerde<Self> {
        nullable(T::default_serde())
    }
}

#[cfg(feature = "uuid")]
mod text_uuid {
    use super::{Arc, DefaultSerde, Field, Serde, SerdeError, SharedSerde, utf8};
    use uuid::Uuid;

    /// A UUID as its 36-character lower-case text: Kafka's `UUIDSerde`.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct UuidText;

    impl Serde<Uuid> for UuidText {
        fn write(&self, value: &Uuid, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
            out.extend_from_slice(
                value.hyphenated().encode_lower(&mut Uuid::encode_buffer()).as_bytes(),
            );
            Ok(Field::Bytes)
        }

        fn read(&self, bytes: Option<&[u8]>) -> Result<Uuid, SerdeError> {
            let malformed =
                |e: uuid::Error| SerdeError::Malformed { of: "Uuid", reason: e.to_string() };
            utf8(bytes, "Uuid")?.parse().map_err(malformed)
        }
    }

    impl DefaultSerde for Uuid {
        fn default_serde() -> SharedSerde<Self> {
            Arc::new(UuidText)
        }
    }
}
#[cfg(feature = "uuid")]
pub use text_uuid::UuidText;

#[cfg(feature = "json")]
mod json {
    use super::{Field, PhantomData, Serde, SerdeError};
    use serde::{Serialize, de::DeserializeOwned};

    /// Any `serde` type as JSON text; a null field is not `null` text but no value at all.
    #[derive(Debug)]
    pub struct JsonSerde<T>(PhantomData<fn() -> T>);

    impl<T> JsonSerde<T> {
        /// Makes it.
        pub const fn new() -> Self {
            Self(PhantomData)
        }
    }

    impl<T> Default for JsonSerde<T> {
        fn default() -> Self {
            Self::new()
        }
    }

    impl<T> Clone for JsonSerde<T> {
        fn clone(&self) -> Self {
            Self::new()
        }
    }

    impl<T: Serialize + DeserializeOwned + 'static> Serde<T> for JsonSerde<T> {
        fn write(&self, value: &T, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
            match serde_json::to_writer(out, value) {
                Ok(()) => Ok(Field::Bytes),
                Err(e) => Err(malformed::<T>(&e)),
            }
        }

        fn read(&self, bytes: Option<&[u8]>) -> Result<T, SerdeError> {
            let expected = std::any::type_name::<T>();
            let bytes = bytes.ok_or(SerdeError::UnexpectedNull { expected })?;
            serde_json::from_slice(bytes).map_err(|e| malformed::<T>(&e))
        }
    }

    /// Names place and kind of the fault; serde_json's own text may quote the payload.
    fn malformed<T>(e: &serde_json::Error) -> SerdeError {
        SerdeError::Malformed {
            of: std::any::type_name::<T>(),
            reason: format!(
                "JSON {:?} error at line {} column {}",
                e.classify(),
                e.line(),
                e.column()
            ),
        }
    }
}
#[cfg(feature = "json")]
pub use json::JsonSerde;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test panics on failure")]

    use super::*;

    fn assert_same<T>(serde: &dyn Serde<T>, value: &T)
    where
        T: 'static,
    {
        let mut written = Vec::new();
        assert_eq!(serde.write(value, &mut written).unwrap(), Field::Bytes);
        assert_eq!(serde.bytes(value), Some(&written[..]));
    }

    #[test]
    fn bytes_that_need_not_be_copied_are_those_that_would_be_written() {
        for text in ["", "a", "ä\0b"] {
            assert_same(&Utf8, &text.to_owned());
            assert_same(&Utf8, &Arc::<str>::from(text));
            assert_same(&RawBytes, &text.as_bytes().to_vec());
        }
        assert_eq!(I64Be.bytes(&1), None);
    }

    #[test]
    fn a_value_is_read_into_the_memory_of_a_spent_one() {
        let mut text = String::with_capacity(100);
        let place = text.as_ptr();
        for written in ["one", "", "a longer one"] {
            Utf8.read_into(Some(written.as_bytes()), &mut text).unwrap();
            assert_eq!((text.as_str(), text.as_ptr()), (written, place));
        }
        let long = "x".repeat(SPENT_BYTES_MAX * 8);
        Utf8.read_into(Some(long.as_bytes()), &mut text).unwrap();
        assert_eq!(text, long);
        Utf8.read_into(Some(b"short"), &mut text).unwrap();
        assert_eq!((text.as_str(), text.capacity()), ("short", 5), "much memory is given back");
        assert!(Utf8.read_into(Some(&[0xff]), &mut text).is_err());
        assert!(Utf8.read_into(None, &mut text).is_err());

        let mut bytes = vec![0; 100];
        let place = bytes.as_ptr();
        RawBytes.read_into(Some(&[1, 2]), &mut bytes).unwrap();
        assert_eq!((&bytes[..], bytes.as_ptr()), (&[1, 2][..], place));
        assert!(RawBytes.read_into(None, &mut bytes).is_err());
        let mut row = Some(String::with_capacity(100));
        let place = row.as_ref().map(|text| text.as_ptr());
        let nullable = Nullable::new(Utf8);
        nullable.read_into(Some(b"row"), &mut row).unwrap();
        assert_eq!((row.as_deref(), row.as_ref().map(|text| text.as_ptr())), (Some("row"), place));
        for (bytes, read) in [(None, None), (Some(&b"again"[..]), Some("again"))] {
            nullable.read_into(bytes, &mut row).unwrap();
            assert_eq!(row.as_deref(), read);
        }
        let mut number = 1;
        I64Be.read_into(Some(&7i64.to_be_bytes()), &mut number).unwrap();
        assert_eq!(number, 7);
    }
}
