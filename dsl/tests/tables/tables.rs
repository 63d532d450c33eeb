//! Tables: what is a row, what is forwarded, what is kept.

use thalweg::{LocalState, Name, StreamsBuilder, Topic};

use crate::support::{Cache, numbers, pipe, start, text, texts};

#[test]
fn rows_are_those_that_arrived_last_whatever_their_times() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    builder.table(&input, "rows").to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    let records = [("a", "1", 5), ("a", "2", 3), ("b", "x", 9), ("b", "", 4), ("c", "", 1)];
    pipe(&mut driver, &input, &records);
    assert_eq!(texts(&mut out), ["a=1@5", "a=2@3", "b=x@9", "b=@4", "c=@1"]);
    let rows = driver.dump::<String, String>("rows").unwrap();
    let rows: Vec<_> = rows.into_iter().map(|r| (r.key, r.value, r.timestamp)).collect();
    assert_eq!(rows, [("a".to_owned(), "2".to_owned(), Some(3.into()))]);
}

#[test]
fn table_of_a_topic_without_null_takes_tombstones_and_drops_null_keys() {
    let raw = text("in");
    let plain = Topic::<String, i64>::new("in");
    let builder = StreamsBuilder::new();
    builder.table(&plain, "rows").to(&numbers("out"));
    let mut driver = start(&builder, Cache::Off);
    driver.input(&plain).pipe("a", 1, 1).unwrap();
    pipe(&mut driver, &raw, &[("a", "", 2), ("", "", 3)]);
    let mut out = driver.output(&numbers("out"));
    assert_eq!(crate::support::counts(&mut out), ["a=1@1", "a=@2"]);
    assert_eq!(driver.dropped_records(), 1);
}

#[test]
fn filter_over_known_old_rows_deletes_only_what_had_passed_it() {
    let input = text("in");
    let records = [
        ("a", "no", 5),
        ("a", "k1", 6),
        ("a", "no", 7),
        ("a", "no", 8),
        ("a", "k2", 9),
        ("a", "", 10),
        ("b", "", 11),
    ];
    let known = ["a=k1@6", "a=@7", "a=k2@9", "a=@10"];
    let unknown = ["a=@5", "a=k1@6", "a=@7", "a=@8", "a=k2@9", "a=@10", "b=@11"];
    for (store, expected) in
        [(Name::from("src"), &known[..]), (Name::kafka_generated(), &unknown[..])]
    {
        let builder = StreamsBuilder::new();
        builder.table(&input, store).filter(|_, v: &String| v.starts_with('k')).to(&text("out"));
        let mut driver = start(&builder, Cache::Off);
        let mut out = driver.output(&text("out"));
        pipe(&mut driver, &input, &records);
        assert_eq!(texts(&mut out), expected);
    }
}

#[test]
fn filter_with_a_store_of_its_own_keeps_the_rows_that_passed() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    let kept = builder
        .table(&input, Name::kafka_generated())
        .filter_not_into("kept", |_, v: &String| v.len() < 2);
    assert_eq!(kept.queryable_store_name(), Some("kept"));
    kept.to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    pipe(&mut driver, &input, &[("a", "1", 5), ("b", "22", 6), ("c", "33", 7), ("b", "4", 8)]);
    assert_eq!(texts(&mut out), ["a=@5", "b=22@6", "c=33@7", "b=@8"]);
    assert_eq!(driver.store_names(), ["kept"]);
    let rows = driver.dump::<String, String>("kept").unwrap();
    assert_eq!(rows.into_iter().map(|r| r.value).collect::<Vec<_>>(), ["33"]);
}

#[test]
fn map_values_is_not_asked_about_deleted_rows_and_deletes_with_none() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    builder
        .table(&input, Name::kafka_generated())
        .map_values_into("mapped", |k, v: &String| (v != "kill").then(|| format!("{k}{v}")))
        .to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    let records = [("a", "1", 5), ("a", "kill", 6), ("a", "", 7), ("b", "", 8), ("c", "3", 9)];
    pipe(&mut driver, &input, &records);
    assert_eq!(texts(&mut out), ["a=a1@5", "a=@6", "a=@7", "b=@8", "c=c3@9"]);
    let rows = driver.dump::<String, String>("mapped").unwrap();
    assert_eq!(rows.into_iter().map(|r| r.value).collect::<Vec<_>>(), ["c3"]);
}

#[test]
fn computed_tables_without_stores_compute_rows_from_the_materialized_parent() {
    let (left, right) = (text("left"), text("right"));
    let builder = StreamsBuilder::new();
    let table = builder
        .table(&right, Name::kafka_generated())
        .filter(|_, v: &String| v != "hidden")
        .map_values(|_, v| v.to_uppercase());
    builder
        .stream(&left)
        .left_join_table(&table, |_, l, r| {
            format!("{}+{}", l.as_deref().unwrap(), r.map_or("-", |r| r))
        })
        .to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    assert_eq!(driver.store_names(), ["right-STATE-STORE-0000000000"]);
    pipe(&mut driver, &right, &[("k", "r", 1)]);
    pipe(&mut driver, &left, &[("k", "1", 2)]);
    pipe(&mut driver, &right, &[("k", "hidden", 3)]);
    pipe(&mut driver, &left, &[("k", "2", 4)]);
    assert_eq!(texts(&mut out), ["k=1+R@2", "k=2+-@4"]);
}

#[test]
fn stream_of_a_table_can_be_keyed_anew() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    let keyed = builder
        .table(&input, Name::kafka_generated())
        .to_stream_with_key(|k, v| format!("{k}-{}", v.map_or("gone", |v| v)));
    keyed.to(&text("direct"));
    keyed.group_by_key_via("by-both").count("counts").to(&numbers("out"));
    let mut driver = start(&builder, Cache::Off);
    let (mut direct, mut out) = (driver.output(&text("direct")), driver.output(&numbers("out")));
    pipe(&mut driver, &input, &[("a", "1", 5), ("a", "", 6), ("a", "1", 7)]);
    assert_eq!(texts(&mut direct), ["a-1=1@5", "a-gone=@6", "a-1=1@7"]);
    assert_eq!(crate::support::counts(&mut out), ["a-1=1@5", "a-1=2@7"]);
}

#[test]
fn stream_becomes_a_table_behind_a_named_repartition_topic() {
    let input = text("in");
    let builder = StreamsBuilder::new();
    builder
        .stream(&input)
        .select_key(|_, v| v.clone().map(|v| v[..1].to_owned()))
        .to_table_via("by-letter", "rows")
        .to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    pipe(&mut driver, &input, &[("1", "apple", 1), ("2", "bean", 2), ("3", "ant", 3)]);
    assert_eq!(texts(&mut out), ["a=apple@1", "b=bean@2", "a=ant@3"]);
    assert_eq!(driver.read_raw("app-by-letter-repartition").len(), 3);
    driver.restart(LocalState::Lost).unwrap();
    let rows = driver.dump::<String, String>("rows").unwrap();
    assert_eq!(rows.into_iter().map(|r| r.value).collect::<Vec<_>>(), ["ant", "bean"]);
}
