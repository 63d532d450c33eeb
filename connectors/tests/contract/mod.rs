//! One contract for every backend: what the ports promise, asked of each of them.

#![allow(
    unused_imports,
    unused_macros,
    dead_code,
    reason = "not every backend is asked everything"
)]

pub(crate) mod groups;
pub(crate) mod records;
pub(crate) mod support;
pub(crate) mod transactions;

/// Makes one test per promise that every backend makes; `$bench` is an expression that opens a fresh one.
macro_rules! contract_of_all {
    ($bench:expr) => {
        contract_tests!($bench; records:
            keys_values_headers_and_timestamps_come_back_as_sent,
            a_run_larger_than_asked_for_is_handed_out_in_parts,
            reading_starts_at_the_offset_asked_for,
            many_batches_come_back_in_order,
            a_paused_partition_keeps_its_position,
            a_waiting_reader_is_woken_by_a_flush,
            an_idle_reader_returns_at_its_timeout,
            an_offset_outside_the_log_is_an_error,
            a_time_leads_to_the_first_record_not_older,
            a_time_is_found_among_deleted_and_unordered_records,
            deleted_records_are_gone_and_the_rest_stays,
            ends_are_looked_at_without_waiting,
            records_are_deleted_without_waiting_and_a_failure_is_told_later,
            batches_over_many_partitions_are_all_kept,
            topics_are_created_once_and_checked,
            a_topic_made_anew_has_another_identity,
        );
        contract_tests!($bench; transactions:
            uncommitted_records_are_not_read,
            aborted_records_are_never_read,
            committed_records_of_all_partitions_appear_together,
            commit_tells_the_offset_after_the_last_own_record,
            positions_pass_markers_up_to_the_end,
            initializing_again_fences_and_aborts_the_older_producer,
            offsets_take_effect_with_the_transaction,
            offsets_are_pending_until_the_transaction_ends,
            calls_out_of_order_are_refused,
            two_producers_write_one_partition_without_overlap,
            writers_and_a_reader_in_parallel_lose_and_repeat_nothing,
        );
    };
}
pub(crate) use contract_of_all;

/// The same for a backend in this process, whose clock and faults are at the test's command.
macro_rules! contract_of_embedded {
    ($bench:expr) => {
        contract_of_all!($bench);
        contract_tests!($bench; records:
            a_record_without_timestamp_is_stamped,
            log_append_time_stamps_every_record,
            every_partition_is_served,
            a_record_over_the_topics_limit_is_refused_and_named,
            a_flush_that_lost_records_is_never_followed_by_a_good_one,
            an_unknown_topic_is_named_with_similar_ones,
            a_limit_that_is_no_number_is_refused,
        );
        contract_tests!($bench; transactions:
            an_open_transaction_times_out_by_the_backends_clock,
            an_unknown_outcome_ends_the_producer_and_is_found_out_by_opening_anew,
            a_refused_transaction_can_only_be_aborted,
            a_delayed_commit_holds_its_offsets,
            a_commit_that_arrives_again_ends_the_next_transaction,
            an_abort_that_arrives_again_takes_the_output_and_leaves_the_offsets,
        );
        contract_tests!($bench; groups:
            a_lone_member_gets_everything,
            a_share_is_handed_over_only_after_its_release,
            a_member_that_leaves_frees_its_shares_at_once,
            a_dropped_member_frees_its_shares,
            a_stale_member_cannot_commit,
            nobody_commits_for_a_group_without_being_a_member,
            members_that_disagree_on_the_shares_are_refused,
            shares_stay_where_they_are_when_members_come_and_go,
            a_waiting_worker_hears_of_a_change,
        );
    };
}
pub(crate) use contract_of_embedded;

macro_rules! contract_tests {
    ($bench:expr; $module:ident: $($name:ident,)+) => {
        $(
            #[test]
            fn $name() {
                contract::$module::$name(&$bench);
            }
        )+
    };
}
pub(crate) use contract_tests;
