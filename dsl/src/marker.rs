//! Markers of a stream's type: may its keys lie in the wrong partition?

/// Marks a stream whose keys are where the partitioner put them: it can be grouped and joined as it is.
#[derive(Debug)]
pub struct Copartitioned(());

/// Marks a stream whose keys may have changed since they were partitioned: grouping or joining it needs the name of a
/// repartition topic.
#[derive(Debug)]
pub struct Rekeyed(());

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Copartitioned {}
    impl Sealed for super::Rekeyed {}
}

/// A marker of a stream. Sealed.
pub trait Keys: sealed::Sealed + 'static {
    /// The marker of this stream merged with another: keys are in place only if they are in both.
    type With<M: Keys>: Keys;
}

impl Keys for Copartitioned {
    type With<M: Keys> = M;
}

impl Keys for Rekeyed {
    type With<M: Keys> = Rekeyed;
}

/// The marker of streams that can be grouped and joined without a repartition topic. Sealed.
#[diagnostic::on_unimplemented(
    message = "the keys of this stream may have changed, so it has to be repartitioned under a name of your choice",
    label = "needs a stream with its keys in place",
    note = "name it in this step: `.group_by_key_via(\"by-customer\")`, `.join_table_via(\"by-customer\", …)`, `.to_table_via(\"by-customer\", …)`",
    note = "or repartition first: `.repartition(\"by-customer\")`; the topic is then `<application.id>-by-customer-repartition`"
)]
pub trait KeysInPlace: Keys {}

impl KeysInPlace for Copartitioned {}
