//! The options of operators: each is one value, made from a name or a topic where that says enough.

mod consumed;
mod grouped;
mod joined;
mod materialized;
mod produced;
mod repartitioned;
mod stores;
mod stream_joined;
mod suppressed;

pub use consumed::Consumed;
pub use grouped::{Grouped, IntoGrouped};
pub use joined::Joined;
pub use materialized::{IntoMaterialized, Materialized};
pub use produced::Produced;
pub(crate) use produced::Target;
pub use repartitioned::Repartitioned;
pub use stores::Stores;
pub use stream_joined::StreamJoined;
pub use suppressed::{Suppressed, WhenFull};

/// Setters of the serdes that every option with a field `serdes` has.
macro_rules! serde_setters {
    ($option:ident) => {
        impl<K, V> $option<K, V> {
            /// Sets the key's serde.
            #[must_use]
            pub fn key_serde(mut self, serde: impl thalweg_connectors::Serde<K>) -> Self {
                self.serdes.key = Some(std::sync::Arc::new(serde));
                self
            }

            /// Sets the value's serde.
            #[must_use]
            pub fn value_serde(mut self, serde: impl thalweg_connectors::Serde<V>) -> Self {
                self.serdes.value = Some(std::sync::Arc::new(serde));
                self
            }

            /// Sets both serdes, shared already.
            #[must_use]
            pub fn shared_serdes(
                mut self,
                key: thalweg_connectors::SharedSerde<K>,
                value: thalweg_connectors::SharedSerde<V>,
            ) -> Self {
                self.serdes = crate::serdes::Known::both(key, value);
                self
            }
        }
    };
}
use serde_setters;

/// Setters of the partitioner that every option with a field `partitioner` has.
macro_rules! partitioner_setters {
    ($option:ident) => {
        impl<K, V> $option<K, V> {
            /// Chooses the partition: given the topic's name, key, value, and the number of partitions.
            #[must_use]
            pub fn partitioner(
                self,
                choose: impl Fn(&str, &K, &V, i32) -> i32 + Send + Sync + 'static,
            ) -> Self {
                self.try_partitioner(move |topic, key, value, partitions| {
                    Ok(thalweg_processor::Partitions::Only(
                        [choose(topic, key, value, partitions)].into_iter().collect(),
                    ))
                })
            }

            /// As [`partitioner`](Self::partitioner), with a closure that can fail, send to several partitions, or to none.
            #[must_use]
            pub fn try_partitioner(
                mut self,
                choose: impl Fn(
                    &str,
                    &K,
                    &V,
                    i32,
                )
                    -> Result<thalweg_processor::Partitions, thalweg_processor::BoxError>
                + Send
                + Sync
                + 'static,
            ) -> Self {
                self.partitioner = Some(std::sync::Arc::new(choose));
                self
            }
        }
    };
}
use partitioner_setters;

/// `From` a name, for options that a name is enough for.
macro_rules! from_names {
    ($option:ident) => {
        impl<K, V> From<&str> for $option<K, V> {
            fn from(name: &str) -> Self {
                Self::named(name)
            }
        }

        impl<K, V> From<String> for $option<K, V> {
            fn from(name: String) -> Self {
                Self::named(name)
            }
        }

        impl<K, V> From<crate::Name> for $option<K, V> {
            fn from(name: crate::Name) -> Self {
                Self::named(name)
            }
        }
    };
}
use from_names;
