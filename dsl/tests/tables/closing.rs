//! Results that wait until their windows close.

use thalweg::{
    EmitStrategy, Headers, LocalState, Semantics, SessionWindowedSerde, SessionWindows,
    StreamsBuilder, TaskConfig, TestDriver, TimeWindows, Topic, Utf8, Windowed,
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

#[test]
fn closed_session_is_told_once_with_the_headers_of_the_record_that_closed_it() {
    let builder = StreamsBuilder::new();
    let out = Topic::<Windowed<String>, Option<i64>>::with(
        "out",
        SessionWindowedSerde::new(Utf8),
        thalweg::Nullable::new(thalweg::I64Be),
    );
    builder
        .stream(&text("in"))
        .group_by_key()
        .windowed_by(SessionWindows::with_gap(ms(10)).no_grace())
        .emit(EmitStrategy::OnWindowClose)
        .count("sessions")
        .to(&out);
    let mut driver = started(&builder, Semantics::Corrected);
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
