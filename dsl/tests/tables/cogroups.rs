//! Several grouped streams folded into one table.

use thalweg::{
    KCogroupedStream, LocalState, Materialized, SessionWindowedSerde, SessionWindows,
    SlidingWindows, StreamsBuilder, TaskConfig, TestDriver, TimeWindowedSerde, TimeWindows, Topic,
    Utf8, Windowed,
};

use crate::support::{ms, numbers, pipe, text, texts};

fn cogrouped(builder: &StreamsBuilder) -> KCogroupedStream<Option<String>, String> {
    let orders = builder.stream(&text("orders")).group_by_key();
    let amounts = builder.stream(&numbers("amounts")).group_by_key();
    orders
        .cogroup(|_, order, row: &mut String| row.push_str(order.as_deref().unwrap_or("?")))
        .cogroup(&amounts, |_, amount, row| row.push_str(&format!("#{}", amount.unwrap_or(0))))
}

fn pipe_amount(driver: &mut TestDriver, key: &str, amount: i64, time: i64) {
    driver.input(&numbers("amounts")).pipe(Some(key.to_owned()), Some(amount), time).unwrap();
}

fn started(builder: &StreamsBuilder) -> TestDriver {
    TestDriver::new(&builder.build().unwrap(), TaskConfig::new("app")).unwrap()
}

#[test]
fn streams_of_different_values_share_the_rows_of_their_keys() {
    let builder = StreamsBuilder::new();
    cogrouped(&builder).aggregate("rows", || "<".to_owned()).to(&text("out"));
    let mut driver = started(&builder);
    pipe(&mut driver, &text("orders"), &[("a", "x", 10)]);
    pipe_amount(&mut driver, "a", 3, 5);
    driver.restart(LocalState::Lost).unwrap();
    pipe(&mut driver, &text("orders"), &[("a", "y", 12), ("a", "", 13), ("", "z", 14)]);
    let mut out = driver.output(&text("out"));
    assert_eq!(texts(&mut out), ["a=<x@10", "a=<x#3@10", "a=<x#3y@12"]);
    assert_eq!(driver.dropped_records(), 2);
}

#[test]
fn grouping_that_is_folded_in_again_is_folded_by_the_later_function() {
    let builder = StreamsBuilder::new();
    let grouped = builder.stream(&text("in")).group_by_key();
    grouped
        .cogroup(|_, _, row: &mut String| row.push('1'))
        .cogroup(&grouped.clone(), |_, _, row| row.push('2'))
        .aggregate("rows", String::new)
        .to(&text("out"));
    let mut driver = started(&builder);
    pipe(&mut driver, &text("in"), &[("a", "x", 1)]);
    assert_eq!(texts(&mut driver.output(&text("out"))), ["a=2@1"]);
}

#[test]
fn windows_of_every_kind_hold_the_records_of_all_streams() {
    let shown = |out: &Topic<Windowed<String>, Option<String>>, driver: &mut TestDriver| {
        let records = driver.output(out).read_all().unwrap();
        let last = records.last().unwrap();
        let window = last.key.window;
        (window.start_ms, window.end_ms, last.value.clone())
    };
    let time = TimeWindowedSerde::<String>::new(Utf8, ms(10));
    let out = Topic::with("out", time, thalweg::Nullable::new(Utf8));
    let feed = |driver: &mut TestDriver| {
        pipe(driver, &text("orders"), &[("a", "x", 12)]);
        pipe_amount(driver, "a", 3, 15);
    };

    let builder = StreamsBuilder::new();
    let windows = TimeWindows::of_size(ms(10)).no_grace();
    cogrouped(&builder).windowed_by(windows).aggregate("rows", String::new).to(&out);
    let mut driver = started(&builder);
    feed(&mut driver);
    assert_eq!(shown(&out, &mut driver), (10, 20, Some("x#3".to_owned())));

    let builder = StreamsBuilder::new();
    let windows = SlidingWindows::of_difference(ms(10)).no_grace();
    cogrouped(&builder).windowed_by(windows).aggregate("rows", String::new).to(&out);
    let mut driver = started(&builder);
    feed(&mut driver);
    assert_eq!(shown(&out, &mut driver), (5, 15, Some("x#3".to_owned())));

    let out = Topic::with("out", SessionWindowedSerde::new(Utf8), thalweg::Nullable::new(Utf8));
    let builder = StreamsBuilder::new();
    let windows = SessionWindows::with_gap(ms(5)).no_grace();
    let sessions = cogrouped(&builder).windowed_by_session(windows);
    sessions.aggregate("rows", String::new, |_, one, other| one + &other).to(&out);
    let mut driver = started(&builder);
    feed(&mut driver);
    assert_eq!(shown(&out, &mut driver), (12, 15, Some("x#3".to_owned())));
}

#[test]
fn windows_and_retention_that_make_no_sense_are_refused() {
    let builder = StreamsBuilder::new();
    let empty = TimeWindows::of_size(ms(0)).no_grace();
    cogrouped(&builder).windowed_by(empty).aggregate("rows", String::new);
    assert!(builder.build().unwrap_err().to_string().contains("below 1 ms"));
    let builder = StreamsBuilder::new();
    let sessions =
        cogrouped(&builder).windowed_by_session(SessionWindows::with_gap(ms(5)).no_grace());
    let store = Materialized::named("rows").retention(ms(4)).value_serde(Utf8);
    sessions.aggregate(store, String::new, |_, one, other| one + &other);
    assert!(builder.build().unwrap_err().to_string().contains("retain them longer"));
}

#[test]
fn parts_are_named_after_the_table() {
    let builder = StreamsBuilder::new();
    cogrouped(&builder).named("both").aggregate("rows", String::new).to(&text("out"));
    let described = builder.build().unwrap().describe().to_string();
    for name in ["both-cogroup-agg-0", "both-cogroup-agg-1", "both-cogroup-merge"] {
        assert!(described.contains(name), "{name}: {described}");
    }
}
