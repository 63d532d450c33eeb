//! `split`: the first branch whose predicate holds takes the record.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Index;
use std::sync::{Arc, Mutex, PoisonError};

use thalweg_connectors::Datum;
use thalweg_processor::{BoxError, Context, NodeError, NodeResult, Record};

use super::merge::pass_through;
use super::{KStream, stateless};
use crate::graph::NodeSpec;
use crate::marker::Keys;
use crate::name::Name;
use crate::place::Place;

type Predicate<K, V> = Box<dyn Fn(&K, &V) -> Result<bool, BoxError> + Send + Sync>;
type Predicates<K, V> = Arc<Mutex<Vec<Predicate<K, V>>>>;

impl<K: Datum, V: Datum, M: Keys> KStream<K, V, M> {
    /// Splits the stream: each record goes to the first branch whose predicate holds.
    ///
    /// The name is that of the node and the prefix of the branches' full names.
    ///
    /// ```
    /// # use thalweg::{StreamsBuilder, Topic};
    /// # let builder = StreamsBuilder::new();
    /// # let orders = Topic::<String, i64>::new("orders");
    /// let branches = builder
    ///     .stream(&orders)
    ///     .split("order-")
    ///     .branch("refund", |_, amount| *amount < 0)
    ///     .branch("large", |_, amount| *amount > 1000)
    ///     .default_branch("usual");
    /// branches["large"].to(&Topic::<String, i64>::new("large-orders"));
    /// # assert_eq!(branches.names().collect::<Vec<_>>(), ["order-large", "order-refund", "order-usual"]);
    /// ```
    #[track_caller]
    pub fn split(&self, name: impl Into<Name>) -> Split<K, V, M> {
        let graph = &self.place.graph;
        let prefix = graph.name_or(name.into().given(), "KSTREAM-BRANCH-");
        let predicates: Predicates<K, V> = Arc::default();
        let collected = Arc::clone(&predicates);
        let spec = NodeSpec::custom(prefix.clone(), move |w| {
            let node = branching(take_all(&collected));
            w.topology.add_processor(w.name, node, w.parents).map(drop)
        });
        let splitter = self.place.then(spec, self.place.serdes.clone());
        Split { splitter, prefix, predicates, branches: BTreeMap::new() }
    }
}

fn take_all<K, V>(predicates: &Predicates<K, V>) -> Vec<Predicate<K, V>> {
    std::mem::take(&mut *predicates.lock().unwrap_or_else(PoisonError::into_inner))
}

fn branching<K: Datum, V: Datum>(
    predicates: Vec<Predicate<K, V>>,
) -> thalweg_processor::NodeSupplier {
    stateless(move |record: Record<K, V>, context: &mut Context<'_>| -> NodeResult {
        for (child, holds) in predicates.iter().enumerate() {
            if holds(&record.key, &record.value).map_err(NodeError::user)? {
                return context.forward_nth(child, record);
            }
        }
        Ok(())
    })
}

/// A stream that is being split.
#[must_use = "end it with `default_branch` or `no_default_branch`"]
pub struct Split<K, V, M> {
    splitter: Place<K, V>,
    prefix: String,
    predicates: Predicates<K, V>,
    branches: BTreeMap<String, KStream<K, V, M>>,
}

/// What becomes of a branch. A name is enough in most cases.
///
/// ```
/// # use thalweg::{Branched, KStream, StreamsBuilder, Topic};
/// # let builder = StreamsBuilder::new();
/// # let orders = builder.stream(&Topic::<String, i64>::new("orders"));
/// let refunds = Topic::<String, i64>::new("refunds");
/// let consumed = Branched::named("refund").with_consumer(move |s: KStream<String, i64>| {
///     s.map_values(|_, amount| -amount).to(&refunds);
/// });
/// let branches = orders.split("order-").branch(consumed, |_, amount| *amount < 0).default_branch("usual");
/// # assert_eq!(branches.names().collect::<Vec<_>>(), ["order-usual"]);
/// ```
pub struct Branched<K, V, M> {
    name: Name,
    #[expect(clippy::type_complexity, reason = "a closure over one stream type")]
    then: Box<dyn FnOnce(KStream<K, V, M>) -> Option<KStream<K, V, M>>>,
}

impl<K: 'static, V: 'static, M: 'static> Branched<K, V, M> {
    /// A branch of that name.
    pub fn named(name: impl Into<Name>) -> Self {
        Self { name: name.into(), then: Box::new(Some) }
    }

    /// Replaces the branch by what the closure makes of it; `None` leaves it out of the result.
    pub fn with_function(
        mut self,
        function: impl FnOnce(KStream<K, V, M>) -> Option<KStream<K, V, M>> + 'static,
    ) -> Self {
        self.then = Box::new(function);
        self
    }

    /// Uses the branch up: it is not in the result.
    pub fn with_consumer(self, consumer: impl FnOnce(KStream<K, V, M>) + 'static) -> Self {
        self.with_function(move |stream| {
            consumer(stream);
            None
        })
    }
}

impl<K: 'static, V: 'static, M: 'static, N: Into<Name>> From<N> for Branched<K, V, M> {
    fn from(name: N) -> Self {
        Self::named(name)
    }
}

impl<K: Datum, V: Datum, M: Keys> Split<K, V, M> {
    /// Adds a branch.
    #[track_caller]
    pub fn branch(
        self,
        branched: impl Into<Branched<K, V, M>>,
        holds: impl Fn(&K, &V) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.try_branch(branched, move |key, value| Ok(holds(key, value)))
    }

    /// As [`branch`](Self::branch), with a predicate that can fail.
    #[track_caller]
    pub fn try_branch(
        mut self,
        branched: impl Into<Branched<K, V, M>>,
        holds: impl Fn(&K, &V) -> Result<bool, BoxError> + Send + Sync + 'static,
    ) -> Self {
        let index = self.push(Box::new(holds));
        self.add(index, branched.into());
        self
    }

    /// Ends the split with a branch that takes all other records.
    #[track_caller]
    pub fn default_branch(mut self, branched: impl Into<Branched<K, V, M>>) -> Branches<K, V, M> {
        self.push(Box::new(|_, _| Ok(true)));
        self.add(0, branched.into());
        self.no_default_branch()
    }

    /// Ends the split; all other records are left out.
    pub fn no_default_branch(self) -> Branches<K, V, M> {
        Branches { prefix: self.prefix, streams: self.branches }
    }

    /// Adds a predicate and returns its number, from 1.
    fn push(&self, predicate: Predicate<K, V>) -> usize {
        let mut predicates = self.predicates.lock().unwrap_or_else(PoisonError::into_inner);
        predicates.push(predicate);
        predicates.len()
    }

    #[track_caller]
    fn add(&mut self, index: usize, branched: Branched<K, V, M>) {
        let name = match branched.name.given() {
            Some(given) => format!("{}{given}", self.prefix),
            None => format!("{}{index}", self.prefix),
        };
        // Kafka Streams burns a number for each branch
        self.splitter.graph.processor_name(&name);
        let spec = NodeSpec::processor(name.clone(), pass_through::<K, V>());
        let stream = KStream::at(self.splitter.then(spec, self.splitter.serdes.clone()));
        if let Some(result) = (branched.then)(stream) {
            self.branches.insert(name, result);
        }
    }
}

/// The branches of a split stream, by name: `branches["large"]`.
pub struct Branches<K, V, M> {
    prefix: String,
    streams: BTreeMap<String, KStream<K, V, M>>,
}

impl<K, V, M> Branches<K, V, M> {
    /// A branch, by its full name or its name without the split's.
    pub fn get(&self, name: &str) -> Option<&KStream<K, V, M>> {
        self.streams.get(name).or_else(|| self.streams.get(&format!("{}{name}", self.prefix)))
    }

    /// The full names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.streams.keys().map(|name| &**name)
    }

    /// The branches by full name.
    pub fn into_map(self) -> BTreeMap<String, KStream<K, V, M>> {
        self.streams
    }
}

impl<K, V, M> Index<&str> for Branches<K, V, M> {
    type Output = KStream<K, V, M>;

    /// A branch, by its full name or its name without the split's.
    ///
    /// # Panics
    /// When there is none of that name.
    #[track_caller]
    fn index(&self, name: &str) -> &KStream<K, V, M> {
        self.get(name).unwrap_or_else(|| {
            let names: Vec<&str> = self.names().collect();
            panic!("there is no branch `{name}`; there are: {}", names.join(", "))
        })
    }
}

impl<K, V, M> fmt::Debug for Branches<K, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.streams.keys()).finish()
    }
}

impl<K, V, M> fmt::Debug for Split<K, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Split").field(&self.prefix).finish()
    }
}

impl<K, V, M> fmt::Debug for Branched<K, V, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Branched").field(&self.name).finish()
    }
}
