//! The nodes of tables, aggregations and joins at work. The typed handles beside this module put them into the graph.

pub(crate) mod aggregate;
pub(crate) mod aggregate_fold;
pub(crate) mod change_buffer;
pub(crate) mod closing;
pub(crate) mod dirty_keys;
pub(crate) mod foreign_join;
pub(crate) mod foreign_wire;
pub(crate) mod held;
pub(crate) mod join_global;
pub(crate) mod join_self;
pub(crate) mod join_stream;
pub(crate) mod join_table;
pub(crate) mod join_tables;
pub(crate) mod session_aggregate;
pub(crate) mod session_fold;
pub(crate) mod sliding_aggregate;
pub(crate) mod stream_time;
pub(crate) mod suppress;
pub(crate) mod table;
pub(crate) mod table_change;
pub(crate) mod table_compute;
pub(crate) mod table_getter;
pub(crate) mod table_regroup;
pub(crate) mod window_aggregate;
