//! One of several grouped streams that are folded into a table: what its values are is known here only.

use std::sync::{Arc, OnceLock};

use thalweg_connectors::{Datum, SharedSerde};
use thalweg_processor::{BoxError, NodeSupplier};

use crate::cut::{Cut, Folding};
use crate::emit::EmitStrategy;
use crate::graph::NodeId;
use crate::grouping::Grouping;
use crate::nodes::aggregate::stream_aggregate;
use crate::nodes::aggregate_fold::{Aggregate, Fold};
use crate::nodes::session_aggregate::{SessionStore, session_aggregate};
use crate::nodes::session_fold::SessionAggregate;
use crate::nodes::table::{RowStore, Switch};
use crate::nodes::window_aggregate::WindowStore;
use crate::place::Sources;
use crate::session_windows::SessionWindows;
use crate::windows::Windowed;

/// Makes an initial row.
pub(crate) type Initial<A> = Arc<dyn Fn() -> Result<A, BoxError> + Send + Sync>;

/// Makes one row of two.
pub(crate) type Merge<K, A> = Arc<dyn Fn(&K, A, A) -> Result<A, BoxError> + Send + Sync>;

/// A grouped stream with the function that folds it in.
pub(crate) trait Member<K: Datum, A: Datum>: Send + Sync {
    /// Is it this grouped stream?
    fn is_of(&self, identity: &Arc<OnceLock<NodeId>>) -> bool;
    /// The node in front of the aggregation, behind a repartition topic if there has to be one, and the sources that feed it.
    fn parent(&self, store: &str) -> (NodeId, Sources);
    /// The sources that feed the grouped stream.
    fn sources(&self) -> Sources;
    /// The serde of its keys, if known.
    fn key_serde(&self) -> Option<SharedSerde<K>>;
    /// The node of a row per key.
    fn plain(
        &self,
        initial: Initial<A>,
        store: RowStore<K::Inner, A::Inner>,
        send_old: Switch,
    ) -> NodeSupplier;
    /// The node of a row per key and window.
    fn windowed(
        &self,
        initial: Initial<A>,
        cut: &Cut,
        store: WindowStore<K::Inner, A::Inner>,
        send_old: Switch,
    ) -> NodeSupplier;
    /// The node of a row per key and session.
    fn sessions(
        &self,
        functions: (Initial<A>, Merge<K::Inner, A>),
        windows: SessionWindows,
        store: SessionStore<K::Inner, A::Inner>,
        send_old: Switch,
    ) -> NodeSupplier;
}

pub(crate) struct MemberOf<K, V, F> {
    grouping: Grouping<K, V>,
    identity: Arc<OnceLock<NodeId>>,
    /// The repartition node, made once for all tables of the same cogrouped stream.
    repartition: OnceLock<(NodeId, Sources)>,
    fold: Arc<F>,
}

impl<K: Datum, V: Datum, F> MemberOf<K, V, F> {
    pub(crate) fn of<A: Datum>(grouping: &Grouping<K, V>, fold: F) -> Arc<dyn Member<K, A>>
    where
        F: Fn(&K::Inner, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let identity = Arc::clone(grouping.identity());
        let (grouping, repartition) = (grouping.apart(), OnceLock::new());
        Arc::new(Self { grouping, identity, repartition, fold: Arc::new(fold) })
    }

    fn folded<A: Datum>(
        &self,
        initial: Initial<A>,
    ) -> impl Fold<K::Inner, V, A::Inner> + use<K, V, A, F>
    where
        F: Fn(&K::Inner, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        let fold = Arc::clone(&self.fold);
        Aggregate::new(
            move || initial(),
            move |key: &K::Inner, value: &V, row: &mut A| fold(key, value, row),
        )
    }
}

impl<K, V, A, F> Member<K, A> for MemberOf<K, V, F>
where
    K: Datum,
    V: Datum,
    A: Datum,
    F: Fn(&K::Inner, &V, &mut A) -> Result<(), BoxError> + Send + Sync + 'static,
{
    fn is_of(&self, identity: &Arc<OnceLock<NodeId>>) -> bool {
        Arc::ptr_eq(&self.identity, identity)
    }

    fn parent(&self, store: &str) -> (NodeId, Sources) {
        let place = &self.grouping.place;
        if !place.must_repartition {
            return (place.node, Arc::clone(&place.sources));
        }
        if let Some(made) = self.repartition.get() {
            self.grouping.burn_repartition(store);
            return made.clone();
        }
        let behind = self.grouping.repartitioned(store);
        self.repartition.get_or_init(|| (behind.node, behind.sources)).clone()
    }

    fn sources(&self) -> Sources {
        Arc::clone(&self.grouping.place.sources)
    }

    fn key_serde(&self) -> Option<SharedSerde<K>> {
        self.grouping.place.serdes.key.clone()
    }

    fn plain(
        &self,
        initial: Initial<A>,
        store: RowStore<K::Inner, A::Inner>,
        send_old: Switch,
    ) -> NodeSupplier {
        stream_aggregate::<K, V, _, _>(self.folded(initial), store, send_old)
    }

    fn windowed(
        &self,
        initial: Initial<A>,
        cut: &Cut,
        store: WindowStore<K::Inner, A::Inner>,
        send_old: Switch,
    ) -> NodeSupplier {
        let (fold, emit) = (self.folded(initial), EmitStrategy::OnWindowUpdate);
        cut.aggregate::<K, V, Windowed<K::Inner>, _, _>(Folding { fold, emit, store, send_old })
    }

    fn sessions(
        &self,
        (initial, merge): (Initial<A>, Merge<K::Inner, A>),
        windows: SessionWindows,
        store: SessionStore<K::Inner, A::Inner>,
        send_old: Switch,
    ) -> NodeSupplier {
        let fold = Arc::clone(&self.fold);
        let fold = SessionAggregate {
            initial: move || initial(),
            fold: move |key: &K::Inner, value: &V, row: &mut A| fold(key, value, row),
            merge: move |key: &K::Inner, one: A, other: A| merge(key, one, other),
        };
        let emit = EmitStrategy::OnWindowUpdate;
        session_aggregate::<K, V, Windowed<K::Inner>, A::Inner, _>(
            fold,
            (windows, emit),
            store,
            send_old,
        )
    }
}
