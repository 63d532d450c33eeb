//! Headers reach every output: those of the record that caused it.

use thalweg::{Headers, KStream, KTable, StreamsBuilder, TestDriver, TimeWindows};

use crate::support::{Cache, Text, ms, pipe_with, start, text};

const INPUT: &str = "in";
const OUTPUT: &str = "out";

fn trace(n: u8) -> Headers {
    let parent = format!("00-4bf92f3577b34da6a3ce929d0e0e473{n}-00f067aa0ba902b7-01");
    Headers::new()
        .with("traceparent", Some(parent.as_bytes()))
        .with("tracestate", Some(b"vendor=1"))
        .with("note", None)
        .with("note", Some(&[n]))
}

/// Sends two records with headers of their own, and one without; every output has the headers of the record it came from.
fn check(what: &str, build: impl Fn(&StreamsBuilder, KStream<Option<String>, Option<String>>)) {
    for cache in [Cache::Off, Cache::On] {
        let builder = StreamsBuilder::new();
        let input: Text = text(INPUT);
        build(&builder, builder.stream(&input));
        let mut driver = start(&builder, cache);
        let sent = [trace(1), trace(2), Headers::new()];
        for (headers, time) in sent.iter().zip([1, 2, 3]) {
            pipe_with(&mut driver, &input, ("k", "v", time), headers);
        }
        let found: Vec<Headers> = headers_of(&driver, OUTPUT);
        assert_eq!(found, sent, "{what}, {cache:?}");
    }
}

fn headers_of(driver: &TestDriver, topic: &str) -> Vec<Headers> {
    driver.read_raw(topic).into_iter().map(|record| record.headers).collect()
}

fn out<V: thalweg::Datum<Inner = V> + ToString>(table: &KTable<String, V>) {
    table
        .to_stream_with_key(|k, _| k.clone())
        .map_values(|_, _| "row".to_owned())
        .to(&text(OUTPUT));
}

#[test]
fn headers_pass_an_aggregation() {
    check("count", |_, stream| out(&stream.group_by_key().count("counts")));
    check("reduce", |_, stream| out(&stream.group_by_key().reduce("rows", |_, v| v.clone())));
}

#[test]
fn headers_pass_a_repartition_topic() {
    check("group_by", |_, stream| {
        out(&stream.group_by("by-value", |_, v| v.clone()).count("counts"));
    });
}

#[test]
fn headers_pass_a_windowed_aggregation() {
    check("window", |_, stream| {
        let windows = TimeWindows::of_size(ms(10)).grace(ms(10));
        let table = stream.group_by_key().windowed_by(windows).count("counts");
        table
            .to_stream_with_key(|k, _| k.key.clone())
            .map_values(|_, _| "row".to_owned())
            .to(&text(OUTPUT));
    });
}

#[test]
fn headers_pass_a_table_and_its_regrouping() {
    check("table", |_, stream| {
        let table = stream.to_table("rows");
        let mapped = table.filter(|_, _| true).map_values_into("mapped", |_, v| v.clone());
        out(&mapped.group_by("by-value", |k, v| (v.clone(), k.clone())).count("counts"));
    });
}

#[test]
fn headers_of_the_stream_side_pass_a_join() {
    check("join", |builder, stream| {
        let table = builder.table(&text("table"), "rows");
        stream.left_join_table(&table, |_, v, _| v.clone()).to(&text(OUTPUT));
    });
}

#[test]
fn update_that_leaves_the_cache_has_the_headers_of_the_last_record_that_touched_it() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    let twice = builder.stream(&input).flat_map_values(|_, v| vec![v.clone(), v.clone()]);
    out(&twice.group_by_key().count("counts"));
    let mut driver = start(&builder, Cache::On);
    pipe_with(&mut driver, &input, ("k", "v", 1), &trace(1));
    pipe_with(&mut driver, &input, ("k", "v", 2), &trace(2));
    assert_eq!(headers_of(&driver, OUTPUT), [trace(1), trace(2)]);
}
