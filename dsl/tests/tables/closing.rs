//! Results that wait until their windows close.

use thalweg::{
    EmitStrategy, Headers, LocalState, Materialized, Semantics, SessionWindowedSerde,
    SessionWindows, StreamsBuilder, TaskConfig, TestDriver, TestOutput, TimeWindows, Topic, Utf8,
    Windowed,
};

use crate::support::{ms, pipe, pipe_with, text, window_counts, windowed};

fn started(builder: &StreamsBuilder, semantics: Semantics) -> TestDriver {
    let mut config = TaskConfig::new("app");
    config.semantics = semantics;
    TestDriver::new(&builder.build().unwrap(), config).unwrap()
}

fn counter(windows: TimeWindows, semantics: Semantics) -> TestDriver {
    let builder = StreamsBuilder::new();
    let grouped = builder.stream(&text("in")).group_by_key();
    let windowed_by = grouped.windowed_by(windows).emit(EmitStrategy::OnWindowClose);
    windowed_by.count("counts").to(&windowed("out", 10));
    started(&builder, semantics)
}

#[test]
fn windows_that_a_jump_of_time_closes_are_told_also_when_it_puts_them_out_of_retention() {
    let windows = TimeWindows::of_size(ms(10)).grace(ms(5));
    let expected = ["a[0,10)=1@1", "b[10,20)=1@14"];
    for (semantics, told) in [(Semantics::Corrected, &expected[..]), (Semantics::Java, &[])] {
        let mut driver = counter(windows, semantics);
        pipe(&mut driver, &text("in"), &[("a", "v", 1), ("b", "v", 14), ("z", "v", 55)]);
        assert_eq!(window_counts(&mut driver.output(&windowed("out", 10))), told, "{semantics:?}");
    }
}

#[test]
fn results_of_one_close_are_in_the_order_of_windows_and_keys_and_are_told_once() {
    let hopping = TimeWindows::of_size(ms(10)).advance_by(ms(5)).no_grace();
    let mut driver = counter(hopping, Semantics::Corrected);
    let mut out = driver.output(&windowed("out", 10));
    let records = [("b", "v", 7), ("a", "v", 7), ("a", "v", 2), ("c", "v", 12), ("late", "v", 1)];
    pipe(&mut driver, &text("in"), &records);
    assert_eq!(window_counts(&mut out), ["a[0,10)=2@7", "b[0,10)=1@7"]);
    driver.restart(LocalState::Lost).unwrap();
    pipe(&mut driver, &text("in"), &[("z", "v", 20)]);
    let told = ["a[5,15)=1@7", "b[5,15)=1@7", "c[5,15)=1@12", "c[10,20)=1@12"];
    assert_eq!(window_counts(&mut out), told);
    pipe(&mut driver, &text("in"), &[("z", "v", 20), ("z", "v", 24)]);
    assert!(window_counts(&mut out).is_empty());
    assert_eq!(driver.dropped_records(), 1);
}

#[test]
fn more_windows_than_are_read_at_once_are_all_told() {
    let mut driver = counter(TimeWindows::of_size(ms(10)).no_grace(), Semantics::Corrected);
    let keys: Vec<String> = (0..1_000).map(|n| format!("{n:04}")).collect();
    for key in &keys {
        pipe(&mut driver, &text("in"), &[(key, "v", 3)]);
    }
    pipe(&mut driver, &text("in"), &[("z", "v", 10)]);
    let told = window_counts(&mut driver.output(&windowed("out", 10)));
    let expected: Vec<String> = keys.iter().map(|key| format!("{key}[0,10)=1@3")).collect();
    assert_eq!(told, expected);
}

type Sessions = Topic<Windowed<String>, Option<i64>>;

/// Counts sessions with a gap of 10 ms; the store holds them for `retention` ms.
fn session_counter(retention: u64, semantics: Semantics) -> (TestDriver, Sessions) {
    let nullable = thalweg::Nullable::new(thalweg::I64Be);
    let out = Sessions::with("out", SessionWindowedSerde::new(Utf8), nullable);
    let builder = StreamsBuilder::new();
    builder
        .stream(&text("in"))
        .group_by_key()
        .windowed_by(SessionWindows::with_gap(ms(10)).no_grace())
        .emit(EmitStrategy::OnWindowClose)
        .count(Materialized::named("sessions").retention(ms(retention)))
        .to(&out);
    (started(&builder, semantics), out)
}

/// What was told of sessions: key, session and count.
fn session_counts(out: &mut TestOutput<Windowed<String>, Option<i64>>) -> Vec<String> {
    let shown = out.read_all().unwrap().into_iter().map(|record| {
        let Windowed { key, window } = record.key;
        format!("{key}[{},{}]={}", window.start_ms, window.end_ms, record.value.unwrap())
    });
    shown.collect()
}

#[test]
fn a_session_that_was_told_is_final_though_its_store_holds_it_longer() {
    // At 21 the first one closes. The record at 12 is not late, and near enough to both.
    let records = [("k", "v", 4), ("k", "v", 21), ("k", "v", 12), ("z", "v", 40)];
    for (semantics, expected) in [
        (Semantics::Corrected, ["k[4,4]=1", "k[12,21]=2"]),
        (Semantics::Java, ["k[4,4]=1", "k[4,21]=3"]),
    ] {
        let (mut driver, out) = session_counter(1_000, semantics);
        pipe(&mut driver, &text("in"), &records);
        assert_eq!(session_counts(&mut driver.output(&out)), expected, "{semantics:?}");
    }
}

#[test]
fn sessions_that_begin_end_and_grow_in_any_order_are_told_when_they_close() {
    let (mut driver, out) = session_counter(10, Semantics::Corrected);
    let mut out = driver.output(&out);
    let mut tell = |driver: &mut TestDriver, key, time| {
        pipe(driver, &text("in"), &[(key, "v", time)]);
        session_counts(&mut out)
    };
    let nothing: [&str; 0] = [];
    assert_eq!(tell(&mut driver, "a", 10), nothing);
    assert_eq!(tell(&mut driver, "b", 15), nothing);
    // It goes on, so that the other one is the first to close.
    assert_eq!(tell(&mut driver, "a", 18), nothing);
    assert_eq!(tell(&mut driver, "z", 25), nothing);
    assert_eq!(tell(&mut driver, "z", 26), ["b[15,15]=1"]);
    // Not late, and now the first to close.
    assert_eq!(tell(&mut driver, "c", 16), nothing);
    assert_eq!(tell(&mut driver, "z", 27), ["c[16,16]=1"]);
    driver.restart(LocalState::Lost).unwrap();
    assert_eq!(tell(&mut driver, "z", 28), nothing);
    assert_eq!(tell(&mut driver, "z", 29), ["a[10,18]=2"]);
    assert_eq!(tell(&mut driver, "d", 60), ["z[25,29]=5"]);
    assert_eq!(tell(&mut driver, "d", 100), ["d[60,60]=1"]);
    assert_eq!(tell(&mut driver, "d", 200), ["d[100,100]=1"]);
}

#[test]
fn closed_session_is_told_once_with_the_headers_of_the_record_that_closed_it() {
    let (mut driver, out) = session_counter(10, Semantics::Corrected);
    pipe(&mut driver, &text("in"), &[("k", "v", 0), ("k", "v", 8), ("z", "v", 18)]);
    assert!(driver.output(&out).read_all().unwrap().is_empty());
    let trace = Headers::new().with("traceparent", Some(b"00-1"));
    pipe_with(&mut driver, &text("in"), ("z", "v", 19), &trace);
    let told = driver.output(&out).read_all().unwrap();
    let [record] = &told[..] else { panic!("one session: {told:?}") };
    let window = record.key.window;
    assert_eq!((window.start_ms, window.end_ms, record.value), (0, 8, Some(2)));
    assert_eq!((record.timestamp.0, &record.headers), (8, &trace));
}
