//! Windowed aggregations: edges, lateness, retention.

use thalweg::{
    KTable, LocalState, Materialized, StreamsBuilder, TestDriver, TimeWindows, TopologyError,
    Windowed,
};

use crate::support::{Cache, Text, ms, pipe, start, text, texts, window_counts, windowed};

/// Counts `in` by these windows into `out`.
fn counting(windows: TimeWindows, size: u64, cache: Cache) -> (TestDriver, Text) {
    let input = text("in");
    let builder = StreamsBuilder::new();
    let counts = builder.stream(&input).group_by_key().windowed_by(windows).count("counts");
    counts.to(&windowed("out", size));
    (start(&builder, cache), input)
}

#[test]
fn s01_record_from_the_future_closes_the_windows_of_all_that_come_after() {
    let (mut driver, input) =
        counting(TimeWindows::of_size(ms(60_000)).no_grace(), 60_000, Cache::Off);
    let mut out = driver.output(&windowed("out", 60_000));
    let records = [
        ("k", "v", 0),
        ("k", "v", 10_000),
        ("z", "v", 4_102_444_800_000),
        ("k", "v", 20_000),
        ("k", "v", 90_000),
    ];
    pipe(&mut driver, &input, &records);
    assert_eq!(
        window_counts(&mut out),
        ["k[0,60000)=1@0", "k[0,60000)=2@10000", "z[4102444800000,4102444860000)=1@4102444800000"]
    );
    assert_eq!(driver.dropped_records(), 2);
}

#[test]
fn windows_take_records_until_their_end_and_grace_have_passed_in_stream_time() {
    // size 10, advance, grace; then times and what comes of each: windows counted, or "late"
    type Case = (u64, u64, &'static [(i64, &'static [&'static str], u64)]);
    let cases: [Case; 4] = [
        (10, 0, &[(9, &["[0,10)=1"], 0), (10, &["[10,20)=1"], 0), (9, &[], 1)]),
        (
            10,
            5,
            &[(14, &["[10,20)=1"], 0), (0, &["[0,10)=1"], 0), (15, &["[10,20)=2"], 0), (9, &[], 1)],
        ),
        (
            5,
            0,
            &[
                (2, &["[0,10)=1"], 0),
                (11, &["[5,15)=1", "[10,20)=1"], 0),
                (8, &["[5,15)=2"], 1),
                (16, &["[10,20)=2", "[15,25)=1"], 0),
                (9, &[], 2),
                (14, &["[10,20)=3"], 1),
            ],
        ),
        (
            3,
            2,
            &[
                (10, &["[3,13)=1", "[6,16)=1", "[9,19)=1"], 0),
                (15, &["[6,16)=2", "[9,19)=2", "[12,22)=1", "[15,25)=1"], 0),
                (12, &["[6,16)=3", "[9,19)=3", "[12,22)=2"], 1),
            ],
        ),
    ];
    for (advance, grace, steps) in cases {
        let windows = TimeWindows::of_size(ms(10)).advance_by(ms(advance)).grace(ms(grace));
        let (mut driver, input) = counting(windows, 10, Cache::Off);
        let mut out = driver.output(&windowed("out", 10));
        let mut late = 0;
        for (time, expected, dropped) in steps {
            pipe(&mut driver, &input, &[("k", "v", *time)]);
            let counted = window_counts(&mut out);
            let counted: Vec<_> = counted.iter().map(|c| &c[1..c.find('@').unwrap()]).collect();
            assert_eq!(counted, *expected, "advance {advance}, grace {grace}, time {time}");
            late += dropped;
            assert_eq!(
                driver.dropped_records(),
                late,
                "advance {advance}, grace {grace}, time {time}"
            );
        }
    }
}

#[test]
fn null_values_count_and_close_windows_but_null_keys_do_not() {
    let (mut driver, input) = counting(TimeWindows::of_size(ms(10)).no_grace(), 10, Cache::Off);
    let mut out = driver.output(&windowed("out", 10));
    let records = [("a", "1", 5), ("a", "", 50), ("a", "2", 6), ("", "q", 80), ("b", "z", 60)];
    pipe(&mut driver, &input, &records);
    assert_eq!(window_counts(&mut out), ["a[0,10)=1@5", "a[50,60)=1@50", "b[60,70)=1@60"]);
    assert_eq!(driver.dropped_records(), 2);
}

#[test]
fn s12_closed_windows_stay_closed_after_a_restart() {
    for state in [LocalState::Kept, LocalState::Lost] {
        let (mut driver, input) =
            counting(TimeWindows::of_size(ms(10)).grace(ms(5)), 10, Cache::On);
        let mut out = driver.output(&windowed("out", 10));
        pipe(&mut driver, &input, &[("k", "a", 3), ("k", "b", 15)]);
        driver.restart(state).unwrap();
        pipe(&mut driver, &input, &[("k", "late", 4), ("k", "c", 12)]);
        let expected = ["k[0,10)=1@3", "k[10,20)=1@15", "k[10,20)=2@15"];
        assert_eq!(window_counts(&mut out), expected, "{state:?}");
        assert_eq!(driver.dropped_records(), 1, "{state:?}");
    }
}

#[test]
fn windows_are_reduced_and_folded_with_the_latest_time_of_their_records() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    let windows = builder
        .stream(&input)
        .group_by_key()
        .windowed_by(TimeWindows::of_size(ms(10)).grace(ms(10)));
    let longest = windows
        .reduce("longest", |a, b| if a.as_deref() < b.as_deref() { b.clone() } else { a.clone() });
    let all = windows.aggregate("all", String::new, |key, v, all| {
        all.push_str(key);
        all.push_str(v.as_deref().unwrap_or("-"));
    });
    let flat = |table: &KTable<Windowed<String>, String>, topic: &Text| {
        table.to_stream_with_key(|k, _| format!("{}{}", k.key, k.window)).to(topic);
    };
    flat(&longest, &text("longest"));
    flat(&all, &text("all"));
    let mut driver = start(&builder, Cache::Off);
    let (mut longest, mut all) = (driver.output(&text("longest")), driver.output(&text("all")));
    pipe(&mut driver, &input, &[("k", "b", 4), ("k", "a", 2), ("k", "", 3), ("k", "c", 12)]);
    let expected = ["k[0, 10)=b@4", "k[0, 10)=b@4", "k[0, 10)=b@4", "k[10, 20)=c@12"];
    assert_eq!(texts(&mut longest), expected);
    let expected = ["k[0, 10)=kb@4", "k[0, 10)=kbka@4", "k[0, 10)=kbkak-@4", "k[10, 20)=kc@12"];
    assert_eq!(texts(&mut all), expected);
}

#[test]
fn windowed_changelog_has_the_keys_of_kafka_streams() {
    let (mut driver, input) = counting(TimeWindows::of_size(ms(10)).grace(ms(10)), 10, Cache::Off);
    pipe(&mut driver, &input, &[("a", "1", 1), ("a", "2", 12)]);
    let log = driver.read_raw("app-counts-changelog");
    let log: Vec<_> = log.iter().map(|r| (r.key.clone().unwrap(), r.timestamp.0)).collect();
    let key = |start: i64| [b"a", &start.to_be_bytes()[..], &[0; 4]].concat();
    assert_eq!(log, [(key(0), 1), (key(10), 12)]);
}

fn error_of(windows: TimeWindows, store: Materialized<String, i64>) -> Vec<TopologyError> {
    let builder = StreamsBuilder::new();
    builder
        .stream(&text("in"))
        .group_by_key()
        .windowed_by(windows)
        .count(store)
        .to(&windowed("out", 10));
    builder.build().map(drop).map_err(|e| e.errors().to_vec()).err().unwrap_or_default()
}

#[test]
fn retention_and_windows_that_cannot_work_are_illegal_arguments() {
    let good = TimeWindows::of_size(ms(10)).grace(ms(5));
    let store = |retention| Materialized::named("counts").retention(ms(retention));
    assert_eq!(error_of(good, store(15)), []);
    let bad = [
        (good, store(14), "keeps windows for 14 ms, but the windows and their grace need 15 ms"),
        (TimeWindows::of_size(ms(0)).no_grace(), Materialized::named("counts"), "below 1 ms"),
        (good.advance_by(ms(11)), Materialized::named("counts"), "cannot advance by 11 ms"),
        (good.advance_by(ms(0)), Materialized::named("counts"), "cannot advance by 0 ms"),
    ];
    for (windows, store, message) in bad {
        let errors = error_of(windows, store);
        assert!(
            matches!(&errors[..], [TopologyError::IllegalArgument(m)] if m.contains(message)),
            "{errors:?}"
        );
    }
}

#[test]
fn retention_beyond_the_windows_need_keeps_closed_windows_readable() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    let store = Materialized::named("counts").retention(ms(1000));
    let windows = TimeWindows::of_size(ms(10)).no_grace();
    let _ = builder.stream(&input).group_by_key().windowed_by(windows).count(store);
    let mut driver = start(&builder, Cache::Off);
    pipe(&mut driver, &input, &[("k", "a", 5), ("k", "b", 900)]);
    let rows = driver.dump::<String, i64>("counts").unwrap();
    assert_eq!(
        rows.iter().map(|r| r.window_start.map(|s| s.0)).collect::<Vec<_>>(),
        [Some(0), Some(900)]
    );
    pipe(&mut driver, &input, &[("k", "c", 2000)]);
    let rows = driver.dump::<String, i64>("counts").unwrap();
    assert_eq!(rows.len(), 1);
}

#[test]
fn s15_months_that_are_read_again_leave_the_windows_inside_the_retention_as_they_were() {
    const HOUR: i64 = 3_600_000;
    let input = text("in");
    let builder = StreamsBuilder::new();
    let store = Materialized::named("counts").retention(ms(86_400_000));
    let hours = TimeWindows::of_size(ms(3_600_000)).no_grace();
    let _ = builder.stream(&input).group_by_key().windowed_by(hours).count(store);
    let mut driver = start(&builder, Cache::Off);
    let history: Vec<_> = (0..600).map(|n| ("k", "v", n * 6 * HOUR)).collect();
    let rows = |driver: &mut TestDriver| -> Vec<_> {
        let rows = driver.dump::<String, i64>("counts").unwrap();
        rows.into_iter().map(|row| (row.window_start.unwrap().0 / HOUR, row.value)).collect()
    };
    pipe(&mut driver, &input, &history);
    let first = rows(&mut driver);
    let last = 599 * 6;
    assert_eq!(first, [(last - 18, 1), (last - 12, 1), (last - 6, 1), (last, 1)]);
    for (run, state) in [LocalState::Kept, LocalState::Lost].into_iter().enumerate() {
        driver.restart(state).unwrap();
        pipe(&mut driver, &input, &history);
        let counted = i64::try_from(run).unwrap() + 2;
        let again = [(last - 18, 1), (last - 12, 1), (last - 6, 1), (last, counted)];
        assert_eq!(rows(&mut driver), again, "{state:?}");
    }
    assert_eq!(driver.dropped_records(), 2 * 599);
}
