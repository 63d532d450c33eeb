//! [`Topic`]: a name with the serdes of its key and value, declared once and used everywhere.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::datum::Datum;
use crate::serde::{DefaultSerde, Field, Serde, SerdeError, SharedSerde};

/// A topic and how its records are read and written.
///
/// ```
/// use thalweg_connectors::{Topic, Utf8, I64Be};
/// let totals = Topic::<String, i64>::new("word-totals");
/// let same = Topic::with("word-totals", Utf8, I64Be);
/// assert_eq!(totals.name(), same.name());
/// // keyless input, values that may be null
/// let lines = Topic::<(), Option<String>>::new("lines");
/// # let _: (Topic<String, i64>, _) = (same, lines);
/// ```
pub struct Topic<K, V> {
    name: Arc<str>,
    key: SharedSerde<K>,
    value: SharedSerde<V>,
}

impl<K, V> Topic<K, V> {
    /// Declares a topic whose types have a [`DefaultSerde`].
    pub fn new(name: impl Into<Arc<str>>) -> Self
    where
        K: DefaultSerde,
        V: DefaultSerde,
    {
        Self { name: name.into(), key: K::default_serde(), value: V::default_serde() }
    }

    /// Declares a topic with serdes of your choice.
    pub fn with(name: impl Into<Arc<str>>, key: impl Serde<K>, value: impl Serde<V>) -> Self {
        Self::with_shared(name, Arc::new(key), Arc::new(value))
    }

    /// Declares a topic with serdes that are shared already.
    pub fn with_shared(
        name: impl Into<Arc<str>>,
        key: SharedSerde<K>,
        value: SharedSerde<V>,
    ) -> Self {
        Self { name: name.into(), key, value }
    }

    /// The topic's name.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The key's serde.
    pub fn key_serde(&self) -> &SharedSerde<K> {
        &self.key
    }

    /// The value's serde.
    pub fn value_serde(&self) -> &SharedSerde<V> {
        &self.value
    }
}

impl<K, V> Clone for Topic<K, V> {
    fn clone(&self) -> Self {
        Self {
            name: Arc::clone(&self.name),
            key: Arc::clone(&self.key),
            value: Arc::clone(&self.value),
        }
    }
}

impl<K, V> fmt::Debug for Topic<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Topic").field(&self.name).finish()
    }
}

/// Topics that a stream of `K` and `V` can be written to: of the same types, or of their forms with or without null.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not take records with key `{K}` and value `{V}`",
    note = "declare the topic with the stream's types, or map the stream first; `T` and `Option<T>` fit each other"
)]
pub trait Accepts<K, V>: Send + Sync + 'static {
    /// The topic's name.
    fn topic_name(&self) -> &Arc<str>;

    /// Appends the key's bytes.
    ///
    /// # Errors
    /// When the serde cannot write it.
    fn write_key(&self, key: K, out: &mut Vec<u8>) -> Result<Field, SerdeError>;

    /// Appends the value's bytes.
    ///
    /// # Errors
    /// When the serde cannot write it.
    fn write_value(&self, value: V, out: &mut Vec<u8>) -> Result<Field, SerdeError>;

    /// The topic's own serdes, when its types are the records': what they write is what
    /// [`write_key`](Self::write_key) and [`write_value`](Self::write_value) do, but the record is only borrowed.
    fn serdes(&self) -> Option<(SharedSerde<K>, SharedSerde<V>)> {
        None
    }

    /// The part of the written key that decides the partition.
    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        key
    }
}

mod sealed {
    pub trait Sealed<T> {}
    impl<T> Sealed<T> for T {}
}

/// That two types are one. Sealed.
#[diagnostic::on_unimplemented(
    message = "a stream with `{Self}` cannot be written to a topic that has `{T}` there",
    label = "the stream has `{Self}`, the topic `{T}`",
    note = "declare the topic with the stream's types, or map the stream first",
    note = "`T` and `Option<T>` fit each other"
)]
pub trait Is<T>: sealed::Sealed<T> {
    /// The very same value.
    fn cast(self) -> T;
}

impl<T> Is<T> for T {
    fn cast(self) -> T {
        self
    }
}

impl<K, V, K2, V2> Accepts<K2, V2> for Topic<K, V>
where
    K: Datum,
    V: Datum,
    K2: Datum,
    V2: Datum,
    K2::Inner: Is<K::Inner>,
    V2::Inner: Is<V::Inner>,
{
    fn topic_name(&self) -> &Arc<str> {
        &self.name
    }

    fn write_key(&self, key: K2, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        let Some(inner) = key.into_inner() else { return Ok(Field::Null) };
        self.key.write(&K::from_inner(inner.cast()), out)
    }

    fn write_value(&self, value: V2, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        let Some(inner) = value.into_inner() else { return Ok(Field::Null) };
        self.value.write(&V::from_inner(inner.cast()), out)
    }

    fn serdes(&self) -> Option<(SharedSerde<K2>, SharedSerde<V2>)> {
        let (key, value): (&dyn Any, &dyn Any) = (&self.key, &self.value);
        Some((key.downcast_ref().cloned()?, value.downcast_ref().cloned()?))
    }

    fn partition_key<'k>(&self, key: &'k [u8]) -> &'k [u8] {
        self.key.partition_key(key)
    }
}
