//! Windows of every kind: hopping, sliding, unlimited and calendar days, against brute force.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::tz::TimeZone;
use proptest::prelude::*;
use thalweg::{
    CustomWindows, EmitStrategy, I64Be, KTable, LocalState, Nullable, Semantics, SlidingWindows,
    StreamsBuilder, TaskConfig, TestDriver, TimeWindow, TimeWindowedSerde, TimeWindows, Topic,
    UnlimitedWindows, Utf8, WindowScheme, Windowed,
};

use crate::support::{ms, pipe, text, window_counts, windowed};

fn started(builder: &StreamsBuilder) -> TestDriver {
    TestDriver::new(&builder.build().unwrap(), TaskConfig::new("app")).unwrap()
}

fn sliding(windows: SlidingWindows) -> StreamsBuilder {
    let builder = StreamsBuilder::new();
    let grouped = builder.stream(&text("in")).group_by_key();
    let counts: KTable<Windowed<String>, i64> = grouped.windowed_by(windows).count("counts");
    counts.to(&windowed("out", 10));
    builder
}

/// What the store holds: by start of the window.
fn stored(driver: &mut TestDriver) -> BTreeMap<i64, i64> {
    let entries = driver.dump::<String, i64>("counts").unwrap().into_iter();
    entries.map(|entry| (entry.window_start.unwrap().0, entry.value)).collect()
}

/// Sliding windows and how many records they hold, by brute force: one up to each record, and one right behind it if it holds any.
fn sliding_by_brute_force(times: &[i64], difference: i64) -> BTreeMap<i64, i64> {
    let held = |start: i64| {
        times.iter().filter(|time| (start..=start + difference).contains(*time)).count() as i64
    };
    let mut windows = BTreeMap::new();
    for time in times {
        let up_to = (time - difference).max(0);
        windows.insert(up_to, held(up_to));
        if held(time + 1) > 0 {
            windows.insert(time + 1, held(time + 1));
        }
    }
    windows
}

#[test]
fn sliding_windows_end_with_a_record_or_begin_right_behind_one() {
    let mut driver = started(&sliding(SlidingWindows::of_difference(ms(10)).grace(ms(100))));
    let mut out = driver.output(&windowed("out", 10));
    pipe(&mut driver, &text("in"), &[("a", "v", 20), ("a", "v", 25)]);
    assert_eq!(window_counts(&mut out), ["a[10,20)=1@20", "a[21,31)=1@25", "a[15,25)=2@25"]);
    pipe(&mut driver, &text("in"), &[("a", "", 26), ("", "v", 26)]);
    assert!(window_counts(&mut out).is_empty());
    assert_eq!(driver.dropped_records(), 2);
}

#[test]
fn sliding_windows_of_no_length_hold_one_instant_and_fail_in_kafka_streams() {
    let topology = sliding(SlidingWindows::of_difference(ms(0)).no_grace()).build().unwrap();
    let mut driver = TestDriver::new(&topology, TaskConfig::new("app")).unwrap();
    pipe(&mut driver, &text("in"), &[("a", "v", 5), ("a", "v", 5), ("a", "v", 6)]);
    assert_eq!(stored(&mut driver), BTreeMap::from([(6, 1)]));
    let mut config = TaskConfig::new("app");
    config.semantics = Semantics::Java;
    let mut driver = TestDriver::new(&topology, config).unwrap();
    let mut input = driver.input(&text("in"));
    let input = input.pipe(Some("a".to_owned()), Some("v".to_owned()), 5);
    let refused = std::error::Error::source(&input.map(|_| ()).unwrap_err()).unwrap().to_string();
    assert_eq!(
        refused,
        "a window from 5 to 5 is empty; give windows a length, or set `semantics=corrected`"
    );
}

#[test]
fn record_that_is_just_not_late_finds_its_neighbours_in_sliding_windows() {
    for (semantics, expected) in [(Semantics::Corrected, 2), (Semantics::Java, 1)] {
        let topology = sliding(SlidingWindows::of_difference(ms(10)).no_grace()).build().unwrap();
        let mut config = TaskConfig::new("app");
        config.semantics = semantics;
        let mut driver = TestDriver::new(&topology, config).unwrap();
        // The window up to 30 closes behind 30; the record at 20 lies in a window that starts at 10.
        let records = [("a", "v", 20), ("z", "v", 29), ("z", "v", 30), ("a", "v", 30)];
        pipe(&mut driver, &text("in"), &records);
        let told = driver.output(&windowed("out", 10)).read_all().unwrap();
        let last = told.last().unwrap();
        assert_eq!((last.key.window.start_ms, last.value), (20, Some(expected)), "{semantics:?}");
    }
}

#[test]
fn unlimited_window_holds_everything_from_its_start_on_and_never_closes() {
    let builder = StreamsBuilder::new();
    let out = Topic::<Windowed<String>, Option<i64>>::with(
        "out",
        TimeWindowedSerde::new(Utf8, Duration::MAX),
        Nullable::new(I64Be),
    );
    let grouped = builder.stream(&text("in")).group_by_key();
    grouped.windowed_by(UnlimitedWindows::from_ms(100)).count("counts").to(&out);
    let mut driver = started(&builder);
    pipe(
        &mut driver,
        &text("in"),
        &[("a", "v", 99), ("a", "v", 100), ("a", "v", i64::MAX - 1), ("a", "v", 101)],
    );
    let told = driver.output(&out).read_all().unwrap();
    let counts: Vec<_> = told.iter().map(|r| (r.key.window.start_ms, r.value)).collect();
    assert_eq!(counts, [(100, Some(1)), (100, Some(2)), (100, Some(3))]);
    assert!(told.iter().all(|r| r.key.window.end_ms == i64::MAX));
    assert_eq!(driver.dropped_records(), 0);
    let builder = StreamsBuilder::new();
    let grouped = builder.stream(&text("in")).group_by_key();
    let never = grouped.windowed_by(UnlimitedWindows::new()).emit(EmitStrategy::OnWindowClose);
    never.count("counts");
    assert!(builder.build().unwrap_err().to_string().contains("unlimited windows never close"));
}

/// The days of a place's calendar.
struct Days(TimeZone);

impl WindowScheme for Days {
    fn windows_for(&self, time_ms: i64) -> Vec<TimeWindow> {
        let day = || {
            let time = jiff::Timestamp::from_millisecond(time_ms)?;
            let start = time.to_zoned(self.0.clone()).start_of_day()?;
            let (start_ms, end) = (start.timestamp().as_millisecond(), start.tomorrow()?);
            let end_ms = end.timestamp().as_millisecond();
            Ok::<_, jiff::Error>(TimeWindow { start_ms, end_ms })
        };
        day().into_iter().collect()
    }

    fn longest(&self) -> Duration {
        Duration::from_secs(25 * 60 * 60)
    }
}

fn at(time: &str) -> i64 {
    time.parse::<jiff::Timestamp>().unwrap().as_millisecond()
}

#[test]
fn days_of_a_time_zone_are_as_long_as_its_clocks_say_and_close_at_their_own_ends() {
    const HOUR_MS: i64 = 60 * 60 * 1000;
    let days =
        CustomWindows::of(Days(TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap())).no_grace();
    let out = Topic::<Windowed<String>, Option<i64>>::with(
        "out",
        TimeWindowedSerde::custom(Utf8, &days),
        Nullable::new(I64Be),
    );
    let builder = StreamsBuilder::new();
    let grouped = builder.stream(&text("in")).group_by_key();
    let on_close = grouped.windowed_by(days).emit(EmitStrategy::OnWindowClose);
    on_close.count("counts").to(&out);
    let mut driver = started(&builder);
    // Clocks go forward on 29 March, and back on 25 October 2026.
    let times = [
        "2026-03-28T23:00:00Z",
        "2026-03-29T21:59:59Z",
        "2026-03-29T22:00:00Z",
        "2026-03-29T21:59:59Z",
        "2026-10-24T22:00:00Z",
        "2026-10-25T22:59:59Z",
        "2026-10-25T23:00:00Z",
    ];
    for time in times {
        pipe(&mut driver, &text("in"), &[("k", "v", at(time))]);
    }
    let told = driver.output(&out).read_all().unwrap();
    let days: Vec<_> = told
        .iter()
        .map(|r| ((r.key.window.end_ms - r.key.window.start_ms) / HOUR_MS, r.value))
        .collect();
    assert_eq!(days, [(23, Some(2)), (24, Some(1)), (25, Some(2))]);
    assert_eq!(driver.dropped_records(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_of_any_size_and_advance_are_those_of_brute_force(
        size in 1..200i64,
        odd in 0..200i64,
        time in -300..2_000i64,
    ) {
        let advance = odd % size + 1;
        let windows = TimeWindows::of_size(ms(size as u64)).advance_by(ms(advance as u64));
        let found: Vec<_> = windows.no_grace().windows_for(time).collect();
        let starts = (0..).map(|n| n * advance).take_while(|start| *start <= time);
        let expected: Vec<_> = starts
            .filter(|start| time < start + size)
            .map(|start_ms| TimeWindow { start_ms, end_ms: start_ms + size })
            .collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn counts_of_windows_are_those_of_brute_force_in_any_order_and_after_a_restart(
        size in 1..40i64,
        odd in 0..40i64,
        times in proptest::collection::vec(0..200i64, 1..40),
    ) {
        let advance = odd % size + 1;
        let windows = TimeWindows::of_size(ms(size as u64)).advance_by(ms(advance as u64));
        let builder = StreamsBuilder::new();
        let grouped = builder.stream(&text("in")).group_by_key();
        grouped.windowed_by(windows.grace(ms(1_000))).count("counts");
        let mut driver = started(&builder);
        for (nth, time) in times.iter().enumerate() {
            if nth == times.len() / 2 {
                driver.restart(LocalState::Lost).unwrap();
            }
            pipe(&mut driver, &text("in"), &[("k", "v", *time)]);
        }
        let mut expected = BTreeMap::new();
        for time in &times {
            let starts = (0..).map(|n| n * advance).take_while(|start| start <= time);
            for start in starts.filter(|start| *time < start + size) {
                *expected.entry(start).or_insert(0) += 1;
            }
        }
        prop_assert_eq!(stored(&mut driver), expected);
    }

    #[test]
    fn sliding_windows_are_those_of_brute_force_in_any_order_and_after_a_restart(
        difference in 1..30i64,
        times in proptest::collection::vec(0..120i64, 1..30),
        lost in any::<bool>(),
    ) {
        let windows = SlidingWindows::of_difference(ms(difference as u64)).grace(ms(1_000));
        let mut driver = started(&sliding(windows));
        for (nth, time) in times.iter().enumerate() {
            if nth == times.len() / 2 {
                driver.restart(if lost { LocalState::Lost } else { LocalState::Kept }).unwrap();
            }
            pipe(&mut driver, &text("in"), &[("k", "v", *time)]);
        }
        prop_assert_eq!(stored(&mut driver), sliding_by_brute_force(&times, difference));
        prop_assert_eq!(driver.dropped_records(), 0);
    }

    #[test]
    fn windows_told_on_close_are_those_of_brute_force_whatever_is_late(
        size in 1..30i64,
        odd in 0..30i64,
        grace in 0..20i64,
        times in proptest::collection::vec(0..300i64, 1..40),
    ) {
        let advance = odd % size + 1;
        let windows = TimeWindows::of_size(ms(size as u64)).advance_by(ms(advance as u64));
        let builder = StreamsBuilder::new();
        let grouped = builder.stream(&text("in")).group_by_key();
        let on_close = grouped.windowed_by(windows.grace(ms(grace as u64)));
        on_close.emit(EmitStrategy::OnWindowClose).count("counts").to(&windowed("out", 1));
        let mut driver = started(&builder);
        let (mut stream_time, mut open, mut expected) = (-1, BTreeMap::new(), Vec::new());
        for time in times.iter().chain([&10_000]) {
            pipe(&mut driver, &text("in"), &[("k", "v", *time)]);
            stream_time = stream_time.max(*time);
            let is_closed = |start: i64| start + size <= stream_time - grace;
            let closed: Vec<i64> = open.keys().copied().filter(|start| is_closed(*start)).collect();
            expected.extend(closed.iter().map(|start| (*start, open.remove(start))));
            let starts = (0..).map(|n| n * advance).take_while(|start| start <= time);
            for start in starts.filter(|start| *time < start + size && !is_closed(*start)) {
                *open.entry(start).or_insert(0) += 1;
            }
        }
        let told = driver.output(&windowed("out", 1)).read_all().unwrap();
        let told: Vec<_> = told.iter().map(|r| (r.key.window.start_ms, r.value)).collect();
        prop_assert_eq!(told, expected);
    }
}
