//! [`EmitStrategy`]: when a windowed aggregation tells its results.

use thalweg_processor::StoreDef;

/// When the results of a windowed aggregation go downstream.
///
/// ```
/// # use std::time::Duration;
/// # use thalweg::{EmitStrategy, I64Be, StreamsBuilder, TaskConfig, TestDriver, TimeWindowedSerde, TimeWindows, Topic, Utf8, Windowed};
/// let views = Topic::<String, String>::new("views");
/// let minute = Duration::from_secs(60);
/// let per_minute = Topic::<Windowed<String>, i64>::with("per-minute", TimeWindowedSerde::new(Utf8, minute), I64Be);
///
/// let builder = StreamsBuilder::new();
/// builder
///     .stream(&views)
///     .group_by_key()
///     .windowed_by(TimeWindows::of_size(minute).no_grace())
///     .emit(EmitStrategy::OnWindowClose)
///     .count("views-per-minute")
///     .to(&per_minute);
/// let topology = builder.build()?;
///
/// let mut driver = TestDriver::new(&topology, TaskConfig::new("views"))?;
/// for time in [1_000, 2_000, 61_000] {
///     driver.input(&views).pipe("page".to_owned(), "ann".to_owned(), time)?;
/// }
/// let counts: Vec<i64> = driver.output(&per_minute).read_pairs()?.into_iter().map(|(_, n)| n).collect();
/// assert_eq!(counts, [2]);
/// # Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum EmitStrategy {
    /// With every update, or with the last one of a commit if updates wait in the record cache.
    #[default]
    OnWindowUpdate,
    /// Once, when the window has closed: the record whose time closes it sends the results of all windows that closed, in the order of
    /// their times and then of their keys. They have its headers, and the times of their rows. Stream time decides, no clock does. The
    /// record cache is not used.
    OnWindowClose,
}

impl EmitStrategy {
    /// What the store behind the aggregation needs.
    pub(crate) fn apply(self, mut def: StoreDef) -> StoreDef {
        if self == Self::OnWindowClose {
            (def.caching, def.time_index) = (false, true);
        }
        def
    }
}
