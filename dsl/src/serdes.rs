//! Which serde a step uses: the one given there, else the one known from upstream, else the builder's or the type's own.

use std::any::Any;
use std::sync::Arc;

use thalweg_connectors::{Datum, Field, Serde, SerdeError, SharedSerde};

/// The serdes that are known of a stream, or were given to a step.
pub(crate) struct Known<K, V> {
    pub(crate) key: Option<SharedSerde<K>>,
    pub(crate) value: Option<SharedSerde<V>>,
}

impl<K, V> Clone for Known<K, V> {
    fn clone(&self) -> Self {
        Self { key: self.key.clone(), value: self.value.clone() }
    }
}

impl<K, V> Known<K, V> {
    pub(crate) const NONE: Self = Self { key: None, value: None };

    pub(crate) fn both(key: SharedSerde<K>, value: SharedSerde<V>) -> Self {
        Self { key: Some(key), value: Some(value) }
    }

    /// These, and the other's where these are not known.
    pub(crate) fn or(self, other: &Self) -> Self {
        Self {
            key: self.key.or_else(|| other.key.clone()),
            value: self.value.or_else(|| other.value.clone()),
        }
    }

    /// Only the key's.
    pub(crate) fn key_only<W>(&self) -> Known<K, W> {
        Known { key: self.key.clone(), value: None }
    }

    /// Only the value's.
    pub(crate) fn value_only<L>(&self) -> Known<L, V> {
        Known { key: None, value: self.value.clone() }
    }
}

impl<K: Datum, V: Datum> Known<K, V> {
    /// Those of the types without null.
    pub(crate) fn without_null(&self) -> Known<K::Inner, V::Inner> {
        Known {
            key: self.key.clone().map(without_null),
            value: self.value.clone().map(without_null),
        }
    }
}

/// The very same serde under another name of its type, when the two types are one.
fn recast<A: 'static, B: 'static>(serde: &SharedSerde<A>) -> Option<SharedSerde<B>> {
    (serde as &dyn Any).downcast_ref::<SharedSerde<B>>().map(Arc::clone)
}

struct WithoutNull<T>(SharedSerde<T>);

impl<T: Datum> Serde<T::Inner> for WithoutNull<T> {
    fn write(&self, value: &T::Inner, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        self.0.write(&T::from_inner(value.clone()), out)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<T::Inner, SerdeError> {
        let expected = std::any::type_name::<T::Inner>();
        self.0.read(bytes)?.into_inner().ok_or(SerdeError::UnexpectedNull { expected })
    }

    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        self.0.partition_key(key)
    }
}

/// The serde of a type, for the type without null.
pub(crate) fn without_null<T: Datum>(serde: SharedSerde<T>) -> SharedSerde<T::Inner> {
    recast(&serde).unwrap_or_else(|| Arc::new(WithoutNull(serde)))
}

struct WithNull<T>(SharedSerde<T>);

impl<T: Datum> Serde<T::Opt> for WithNull<T> {
    fn write(&self, value: &T::Opt, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        match value.inner() {
            Some(inner) => self.0.write(&T::from_inner(inner.clone()), out),
            None => Ok(Field::Null),
        }
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<T::Opt, SerdeError> {
        let Some(bytes) = bytes else { return Ok(T::opt(None)) };
        Ok(T::opt(self.0.read(Some(bytes))?.into_inner()))
    }

    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        self.0.partition_key(key)
    }
}

/// The serde of a type, for the type with null.
pub(crate) fn with_null<T: Datum>(serde: SharedSerde<T>) -> SharedSerde<T::Opt> {
    recast(&serde).unwrap_or_else(|| Arc::new(WithNull(serde)))
}

/// Stands where no serde is known: the graph has noted the mistake, so that nothing is ever written with it.
pub(crate) struct Unknown;

impl<T> Serde<T> for Unknown {
    fn write(&self, _: &T, _: &mut Vec<u8>) -> Result<Field, SerdeError> {
        Err(unknown())
    }

    fn read(&self, _: Option<&[u8]>) -> Result<T, SerdeError> {
        Err(unknown())
    }
}

fn unknown() -> SerdeError {
    SerdeError::Malformed { of: "unknown type", reason: "no serde is known".into() }
}
