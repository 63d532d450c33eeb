//! Streams joined with tables.

use thalweg::{Name, StreamsBuilder, TestDriver, Windowed};

use crate::support::{Cache, Text, ms, pipe, start, text, texts, windowed};

fn joined(left_join: bool, cache: Cache) -> (TestDriver, Text, Text) {
    let (stream, table) = (text("stream"), text("table"));
    let builder = StreamsBuilder::new();
    let rows = builder.table(&table, Name::kafka_generated());
    let records = builder.stream(&stream);
    let value = |v: &Option<String>| v.clone().unwrap();
    let result = if left_join {
        records.left_join_table(&rows, move |_, v, row| {
            format!("{}+{}", value(v), row.map_or("nothing", |row| row))
        })
    } else {
        records.join_table(&rows, move |_, v, row| format!("{}+{row}", value(v)))
    };
    result.to(&text("out"));
    (start(&builder, cache), stream, table)
}

#[test]
fn s05_null_keys_and_values_of_the_stream_side() {
    let cases: [(bool, &[&str], u64); 2] =
        [(true, &["=v0+nothing@1", "k=v1+G@2", "m=v2+nothing@3"], 1), (false, &["k=v1+G@2"], 2)];
    for (left_join, expected, dropped) in cases {
        let (mut driver, stream, table) = joined(left_join, Cache::Off);
        let mut out = driver.output(&text("out"));
        pipe(&mut driver, &table, &[("k", "G", 0)]);
        pipe(&mut driver, &stream, &[("", "v0", 1), ("k", "v1", 2), ("m", "v2", 3), ("k", "", 4)]);
        assert_eq!(texts(&mut out), expected);
        assert_eq!(driver.dropped_records(), dropped, "left join: {left_join}");
    }
}

#[test]
fn s16_row_that_arrived_last_wins_though_its_time_is_older() {
    let (mut driver, stream, table) = joined(false, Cache::Off);
    let mut out = driver.output(&text("out"));
    pipe(&mut driver, &table, &[("k", "new", 100), ("k", "old", 50)]);
    pipe(&mut driver, &stream, &[("k", "s", 120)]);
    assert_eq!(texts(&mut out), ["k=s+old@120"]);
}

#[test]
fn only_the_stream_side_makes_results_and_sees_rows_that_wait_in_the_cache() {
    for cache in [Cache::Off, Cache::On] {
        let (mut driver, stream, table) = joined(true, cache);
        let mut out = driver.output(&text("out"));
        pipe(&mut driver, &stream, &[("k", "early", 100)]);
        pipe(&mut driver, &table, &[("k", "T", 1)]);
        pipe(&mut driver, &stream, &[("k", "late", 50)]);
        pipe(&mut driver, &table, &[("k", "", 2)]);
        pipe(&mut driver, &stream, &[("k", "gone", 51)]);
        let expected = ["k=early+nothing@100", "k=late+T@50", "k=gone+nothing@51"];
        assert_eq!(texts(&mut out), expected, "{cache:?}");
    }
}

#[test]
fn rekeyed_stream_is_joined_through_a_repartition_topic_of_the_given_name() {
    let (stream, table) = (text("stream"), text("table"));
    let builder = StreamsBuilder::new();
    let rows = builder.table(&table, "rows");
    builder
        .stream(&stream)
        .select_key(|_, v| v.clone().map(|v| v[..1].to_owned()))
        .join_table_via("by-letter", &rows, |k, v, row| {
            format!("{}:{}+{row}", k.as_deref().unwrap(), v.as_deref().unwrap())
        })
        .to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    pipe(&mut driver, &table, &[("a", "T", 0)]);
    pipe(&mut driver, &stream, &[("1", "apple", 1), ("2", "bean", 2)]);
    assert_eq!(texts(&mut out), ["a=a:apple+T@1"]);
    assert_eq!(driver.read_raw("app-by-letter-repartition").len(), 2);
}

#[test]
fn both_sides_of_a_join_need_equal_partition_counts() {
    let (stream, table) = (text("stream"), text("table"));
    let builder = StreamsBuilder::new();
    let rows = builder.table(&table, "rows");
    let joined = builder.stream(&stream).join_table(&rows, |_, _, row| row.clone());
    joined
        .join_table(&builder.table(&text("other"), "others"), |_, _, row| row.clone())
        .to(&text("out"));
    let topology = builder.build().unwrap();
    let groups: Vec<Vec<&str>> = topology
        .copartition_groups()
        .iter()
        .map(|group| group.iter().map(|topic| &**topic.name()).collect())
        .collect();
    assert_eq!(groups, [["other", "stream", "table"]]);
}

#[test]
fn failing_joiner_says_which_node_failed() {
    let (stream, table) = (text("stream"), text("table"));
    let builder = StreamsBuilder::new();
    let rows = builder.table(&table, "rows");
    let fail = |_: &Option<String>, _: &Option<String>, _: Option<&String>| {
        Err::<String, _>("no luck".into())
    };
    builder
        .stream(&stream)
        .try_left_join_table_via(Name::kafka_generated(), &rows, fail)
        .named("enrich")
        .to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let error =
        driver.input(&stream).pipe("k".to_owned(), "v".to_owned(), 1).map(drop).unwrap_err();
    assert!(error.to_string().contains("node `enrich`"), "{error}");
}

#[test]
fn stream_keyed_by_window_is_joined_with_a_windowed_table() {
    let (views, limits) = (text("views"), windowed("limits", 10));
    let builder = StreamsBuilder::new();
    let counts = builder
        .stream(&views)
        .group_by_key()
        .windowed_by(thalweg::TimeWindows::of_size(ms(10)).grace(ms(100)))
        .count("counts");
    builder
        .stream(&limits)
        .left_join_table(&counts, |_, limit, n| n.copied().unwrap_or(0) - limit.unwrap())
        .to(&windowed("out", 10));
    let mut driver = start(&builder, Cache::On);
    let mut out = driver.output(&windowed("out", 10));
    pipe(&mut driver, &views, &[("k", "a", 3), ("k", "b", 4), ("k", "c", 12)]);
    for (start_ms, end_ms) in [(0, 10), (10, 20), (20, 30)] {
        let window = thalweg::TimeWindow { start_ms, end_ms };
        let key = Windowed { key: "k".to_owned(), window };
        driver.input(&limits).pipe(key, 100, 5).unwrap();
    }
    let expected = ["k[0,10)=-98@5", "k[10,20)=-99@5", "k[20,30)=-100@5"];
    assert_eq!(crate::support::window_counts(&mut out), expected);
}
