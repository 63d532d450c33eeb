//! [`KStream`]: a stream of records. One file per operator.

mod filter;
mod flat_map;
mod foreach;
mod group;
mod map;
mod merge;
mod node;
mod process;
mod process_values;
mod repartition;
mod select_key;
mod split;
mod terminal;
mod to;

use std::fmt;
use std::marker::PhantomData;

use thalweg_connectors::Datum;

use crate::graph::NodeSpec;
use crate::marker::{Copartitioned, Keys, Rekeyed};
use crate::place::Place;
use crate::serdes::Known;

pub(crate) use merge::pass_through;
pub(crate) use node::{look, map_values, stateless};
pub use process_values::{FixedKeyContext, FixedKeyProcessor, FixedKeyRecord};
pub use split::{Branched, Branches, Split};
pub use terminal::Terminal;

/// A stream of records with keys `K` and values `V`.
///
/// The third parameter says whether the keys are in place ([`Copartitioned`]) or may have changed ([`Rekeyed`]): grouping and
/// joining a re-keyed stream needs the name of a repartition topic. A handle is cheap to clone, and using it twice is fan-out.
pub struct KStream<K, V, M = Copartitioned> {
    pub(crate) place: Place<K, V>,
    marker: PhantomData<fn() -> M>,
}

impl<K, V, M> Clone for KStream<K, V, M> {
    fn clone(&self) -> Self {
        Self { place: self.place.clone(), marker: PhantomData }
    }
}

impl<K, V, M> KStream<K, V, M> {
    pub(crate) fn at(place: Place<K, V>) -> Self {
        Self { place, marker: PhantomData }
    }
}

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Adds a node that keeps the keys where they are.
    #[track_caller]
    fn then<V2: Datum>(&self, spec: NodeSpec, serdes: Known<K, V2>) -> KStream<K, V2, M> {
        KStream::at(self.place.then(spec, serdes))
    }

    /// Adds a node that may change keys.
    #[track_caller]
    fn then_rekeyed<K2: Datum, V2: Datum>(
        &self,
        spec: NodeSpec,
        serdes: Known<K2, V2>,
    ) -> KStream<K2, V2, Rekeyed> {
        KStream::at(self.place.then(spec, serdes).rekeyed())
    }

    /// Names the operator that this stream comes out of. The names of nodes are not durable: they show in descriptions, logs and
    /// metrics.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let numbers = Topic::<String, i64>::new("numbers");
    /// let positive = builder.stream(&numbers).filter(|_, n| *n > 0).named("positive");
    /// # positive.to(&numbers);
    /// ```
    ///
    /// # Panics
    /// When the topology is built already.
    #[track_caller]
    pub fn named(self, name: impl AsRef<str>) -> Self {
        self.place.graph.rename(self.place.node, name.as_ref());
        self
    }

    /// Treats the stream as one whose keys may have changed, so that its type agrees with that of a re-keyed one: to keep both in one
    /// collection, or to return either from a branch. No node is added, and no repartition topic is made because of it.
    pub fn keys_may_move(&self) -> KStream<K, V, Rekeyed> {
        KStream::at(self.place.clone())
    }
}

impl<K, V, M> fmt::Debug for KStream<K, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types = (std::any::type_name::<K>(), std::any::type_name::<V>());
        f.debug_tuple("KStream").field(&types.0).field(&types.1).finish()
    }
}
