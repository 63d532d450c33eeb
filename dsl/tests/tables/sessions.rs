//! Aggregations by session: merging, lateness, what is told downstream, and all of it against brute force.

use std::collections::BTreeMap;

use proptest::prelude::*;
use thalweg::{
    Headers, I64Be, LocalState, Materialized, Nullable, Semantics, Session, SessionWindowedSerde,
    SessionWindows, Store, StreamsBuilder, TaskConfig, TestDriver, Timestamp, Topic, Utf8,
    Windowed,
};

use crate::support::{Cache, Text, counts, ms, numbers, pipe, pipe_with, start, text};

type Sessions = Topic<Windowed<String>, Option<i64>>;

fn sessions(name: &str) -> Sessions {
    Topic::with(name, SessionWindowedSerde::new(Utf8), Nullable::new(I64Be))
}

fn counting(builder: &StreamsBuilder, gap: u64, grace: u64) {
    let windows = SessionWindows::with_gap(ms(gap)).grace(ms(grace));
    let grouped = builder.stream(&text("in")).group_by_key();
    grouped.windowed_by(windows).count("sessions").to(&sessions("out"));
}

fn counter(gap: u64, grace: u64, semantics: Semantics) -> TestDriver {
    let builder = StreamsBuilder::new();
    counting(&builder, gap, grace);
    let mut config = TaskConfig::new("app");
    (config.cache_max_bytes, config.semantics) = (0, semantics);
    TestDriver::new(&builder.build().unwrap(), config).unwrap()
}

/// What was told: key, session and count; a deleted one is `gone`.
fn told(driver: &mut TestDriver) -> Vec<String> {
    let records = driver.output(&sessions("out")).read_all().unwrap();
    let shown = records.into_iter().map(|record| {
        assert_eq!(record.timestamp.0, record.key.window.end_ms);
        let Windowed { key, window } = record.key;
        let count = record.value.map_or("gone".to_owned(), |n| n.to_string());
        format!("{key}[{},{}]={count}", window.start_ms, window.end_ms)
    });
    shown.collect()
}

#[test]
fn s10_sessions_stay_open_for_gap_and_grace_and_their_counts_never_go_down() {
    let run = |gap, grace, semantics, records: &[(&str, i64)]| {
        let mut driver = counter(gap, grace, semantics);
        for (key, time) in records {
            pipe(&mut driver, &text("in"), &[(key, "v", *time)]);
        }
        let mut told = told(&mut driver);
        told.retain(|line| !line.starts_with('z'));
        (told, driver.dropped_records())
    };
    for semantics in [Semantics::Corrected, Semantics::Java] {
        let (told, dropped) = run(5, 5, semantics, &[("k", 0), ("z", 9), ("k", 0)]);
        assert_eq!((&told[..], dropped), (&["k[0,0]=1".into(), "k[0,0]=2".to_owned()][..], 0));
        let (told, dropped) = run(5, 5, semantics, &[("k", 0), ("z", 11), ("k", 0)]);
        assert_eq!((&told[..], dropped), (&["k[0,0]=1".to_owned()][..], 1));
        let (told, _) = run(10, 100, semantics, &[("k", 0), ("k", 20), ("k", 10)]);
        assert_eq!(told, ["k[0,0]=1", "k[20,20]=1", "k[0,0]=gone", "k[20,20]=gone", "k[0,20]=3"]);
    }
    // Exactly gap and grace behind: Kafka Streams has forgotten the session, and starts it again.
    let edge = [("k", 0), ("z", 10), ("k", 0)];
    assert_eq!(run(5, 5, Semantics::Corrected, &edge).0, ["k[0,0]=1", "k[0,0]=2"]);
    assert_eq!(run(5, 5, Semantics::Java, &edge).0, ["k[0,0]=1", "k[0,0]=1"]);
}

#[test]
fn sums_over_sessions_do_not_count_a_session_of_one_instant_twice() {
    for (semantics, sums) in
        [(Semantics::Corrected, ["k=1@0", "k=2@0"]), (Semantics::Java, ["k=1@0", "k=3@0"])]
    {
        let builder = StreamsBuilder::new();
        let windows = SessionWindows::with_gap(ms(5)).no_grace();
        builder
            .stream(&text("in"))
            .group_by_key()
            .windowed_by(windows)
            .count("sessions")
            .group_by("by-key", |session, count| (session.key.clone(), *count))
            .reduce("sums", |a, b| a + b, |a, b| a - b)
            .to(&numbers("sums"));
        let mut config = TaskConfig::new("app");
        (config.cache_max_bytes, config.semantics) = (0, semantics);
        let mut driver = TestDriver::new(&builder.build().unwrap(), config).unwrap();
        pipe(&mut driver, &text("in"), &[("k", "v", 0), ("k", "v", 0)]);
        let mut told = counts(&mut driver.output(&numbers("sums")));
        // The row in between, when the old count was taken off and the new one not yet added.
        told.retain(|line| line != "k=0@0");
        assert_eq!(told, sums);
    }
}

#[test]
fn headers_of_the_record_reach_deleted_sessions_as_well() {
    let mut driver = counter(10, 0, Semantics::Corrected);
    let trace = Headers::new().with("traceparent", Some(b"00-1"));
    for time in [0, 5] {
        pipe_with(&mut driver, &text("in"), ("k", "v", time), &trace);
    }
    let records = driver.output(&sessions("out")).read_all().unwrap();
    assert_eq!(records.len(), 3);
    assert!(records.iter().all(|record| record.headers == trace), "{records:?}");
}

#[test]
fn with_a_record_cache_sessions_are_told_at_the_commit() {
    let builder = StreamsBuilder::new();
    counting(&builder, 10, 0);
    let mut driver = start(&builder, Cache::On);
    let records = [("k", "v", 0), ("k", "v", 5), ("k", "v", 9)];
    pipe(&mut driver, &text("in"), &records);
    // A commit follows each record in the driver, so that each session was told once.
    assert_eq!(
        told(&mut driver),
        ["k[0,0]=1", "k[0,0]=gone", "k[0,5]=2", "k[0,5]=gone", "k[0,9]=3"]
    );
}

#[test]
fn retention_below_gap_and_grace_is_refused() {
    let builder = StreamsBuilder::new();
    let windows = SessionWindows::with_gap(ms(10)).grace(ms(5));
    let store = Materialized::named("sessions").retention(ms(14));
    builder.stream(&text("in")).group_by_key().windowed_by(windows).count(store);
    let refused = builder.build().unwrap_err().to_string();
    let expected = "the session store `sessions` keeps sessions for 14 ms, but gap and grace need 15 ms: retain them longer";
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn sessions_can_be_looked_up_by_key_and_time() {
    let mut driver = counter(10, 100, Semantics::Corrected);
    pipe(&mut driver, &text("in"), &[("a", "v", 0), ("a", "v", 5), ("a", "v", 30), ("b", "v", 31)]);
    let store = Store::<String, i64, Session>::session("sessions", ms(110));
    let mut opened = driver.store(&store).unwrap();
    let mut view = opened.view();
    let key = "a".to_owned();
    assert_eq!(view.fetch(&key, Timestamp(0), Timestamp(5)).unwrap(), Some(2));
    assert_eq!(view.fetch(&key, Timestamp(0), Timestamp(4)).unwrap(), None);
    let all: Vec<_> = view.fetch_all(&key).unwrap().map(Result::unwrap).collect();
    let ends: Vec<_> = all.iter().map(|(session, n)| (session.end.0, *n)).collect();
    assert_eq!(ends, [(5, 2), (30, 1)]);
}

/// Sessions of a list of times, by brute force: sorted, cut where the gap is exceeded.
fn by_brute_force(times: &[i64], gap: i64) -> BTreeMap<(i64, i64), i64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    let mut sessions = BTreeMap::new();
    for session in sorted.chunk_by(|a, b| b - a <= gap) {
        let ends = (session[0], *session.last().unwrap_or(&session[0]));
        sessions.insert(ends, session.len() as i64);
    }
    sessions
}

fn replayed(driver: &mut TestDriver) -> BTreeMap<(i64, i64), i64> {
    let mut table = BTreeMap::new();
    for record in driver.output(&sessions("out")).read_all().unwrap() {
        let session = (record.key.window.start_ms, record.key.window.end_ms);
        match record.value {
            Some(count) => table.insert(session, count),
            None => table.remove(&session),
        };
    }
    table
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn sessions_are_those_of_brute_force_in_any_order_and_after_a_restart(
        gap in 0..20u64,
        times in proptest::collection::vec(0..200i64, 1..40),
        lost in any::<bool>(),
    ) {
        let (mut driver, input): (_, Text) = (counter(gap, 1_000, Semantics::Corrected), text("in"));
        for (nth, time) in times.iter().enumerate() {
            if nth == times.len() / 2 {
                driver.restart(if lost { LocalState::Lost } else { LocalState::Kept }).unwrap();
            }
            pipe(&mut driver, &input, &[("k", "v", *time)]);
        }
        let expected = by_brute_force(&times, gap as i64);
        prop_assert_eq!(&replayed(&mut driver), &expected);
        let stored = driver.dump::<String, i64>("sessions").unwrap().into_iter();
        let stored: BTreeMap<_, _> = stored
            .map(|entry| {
                let time = |time: Option<Timestamp>| time.map_or(-1, |time| time.0);
                ((time(entry.window_start), time(entry.session_end)), entry.value)
            })
            .collect();
        prop_assert_eq!(&stored, &expected);
        prop_assert_eq!(driver.dropped_records(), 0);
    }
}
