//! Sources: several topics, one topic twice, times and where to start.

use thalweg::{
    Consumed, OffsetReset, OnError, StreamsBuilder, TaskConfig, TestDriver, Timestamp,
    TimestampPolicy, Topic,
};

use crate::support::{nodes, pipe, read, run, start, text};

#[test]
fn one_stream_can_read_several_topics() {
    let builder = StreamsBuilder::new();
    builder.stream(Consumed::from(&text("in")).and_topic("more")).to(&text("out"));
    let mut driver = start(&builder);
    pipe(&mut driver, "more", &["a=1@1"]);
    pipe(&mut driver, "in", &["b=2@2"]);
    assert_eq!(read(&driver, "out"), ["a=1@1", "b=2@2"]);
}

#[test]
fn a_topic_that_is_read_twice_has_one_source() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).to(&text("out"));
    builder.stream(&text("in")).map_values(|_, _| "x".to_owned()).to(&text("out"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=1@1"]);
    assert_eq!(read(&driver, "out"), ["a=1@1", "a=x@1"]);
}

#[test]
fn sources_of_one_topic_have_to_agree() {
    type Second = fn(&StreamsBuilder);
    let cases: [(&str, Second); 3] = [
        ("with different offset resets; give both the same", |b| {
            drop(b.stream(Consumed::from(&text("in")).offset_reset(OffsetReset::Latest)));
        }),
        ("with different types; read the topic once and map the stream", |b| {
            drop(b.stream(&Topic::<String, String>::new("in")));
        }),
        (
            "they overlap, but are not the same set; read each topic as a stream of its own and merge",
            |b| drop(b.stream(Consumed::from(&text("more")).and_topic("in"))),
        ),
    ];
    for (why, second) in cases {
        let builder = StreamsBuilder::new();
        builder.stream(&text("in")).to(&text("out"));
        second(&builder);
        let error = builder.build().unwrap_err();
        assert_eq!(error.errors().len(), 1, "{error}");
        assert!(error.to_string().ends_with(&format!("are read by two sources: {why}")), "{error}");
    }
}

#[test]
fn a_topic_cannot_be_a_stream_and_a_table() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).to(&text("out"));
    let _ = builder.table(&text("in"), "rows");
    let error = builder.build().unwrap_err();
    assert!(error.to_string().contains("topic `in` is read by a source already"), "{error}");
}

#[test]
fn times_can_be_taken_out_of_the_record_and_a_negative_one_drops_it() {
    let builder = StreamsBuilder::new();
    let number = |v: &Option<String>| v.as_ref().map_or(-1, |v| v.parse().unwrap());
    let input = Consumed::from(&text("in"))
        .timestamps(move |_, value, own, highest| Timestamp(number(value).min(own.0 + highest.0)));
    builder.stream(input).to(&text("out"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=7@9", "b=@9", "c=99@3"]);
    assert_eq!(read(&driver, "out"), ["a=7@7", "c=99@10"]);
    assert_eq!(driver.dropped_records(), 1);
}

#[test]
fn a_policy_of_times_belongs_to_one_source() {
    let builder = StreamsBuilder::new();
    let input = Consumed::from(&text("in")).timestamp_policy(TimestampPolicy::WallClock);
    builder.stream(input).to(&text("out"));
    builder.stream(&text("other")).to(&text("out"));
    let topology = builder.build().unwrap();
    let driver = TestDriver::builder(&topology, TaskConfig::new("app")).wall_clock(77);
    let mut driver = driver.start().unwrap();
    pipe(&mut driver, "in", &["a=1@5"]);
    pipe(&mut driver, "other", &["b=2@5"]);
    assert_eq!(read(&driver, "out"), ["a=1@77", "b=2@5"]);
}

#[test]
fn a_null_that_the_type_does_not_allow_goes_to_the_deserialization_handler() {
    let builder = StreamsBuilder::new();
    let strict = Topic::<String, String>::new("in");
    builder.stream(&strict).to(&text("out"));
    let mut config = TaskConfig::new("app");
    config.on_deserialization_error = OnError::Continue;
    let mut driver = TestDriver::new(&builder.build().unwrap(), config).unwrap();
    pipe(&mut driver, "in", &["a=1@1", "=2@2", "c=@3"]);
    assert_eq!(read(&driver, "out"), ["a=1@1"]);
    assert_eq!(driver.dropped_records(), 2);
}

#[test]
fn keyless_input_is_a_topic_of_unit_keys() {
    let builder = StreamsBuilder::new();
    let lines = Topic::<(), String>::new("in");
    builder.stream(&lines).select_key(|(), line| line.clone()).to(&text("out"));
    assert_eq!(run(&builder, &["=hello@1"]), ["hello=hello@1"]);
}

#[test]
fn nodes_are_written_in_the_order_of_the_calls_and_after_their_parents() {
    let builder = StreamsBuilder::new();
    let late = builder.stream(&text("z"));
    let early = builder.stream(&text("a"));
    let merged = early.filter(|_, _| true).merge(&late.peek(|_, _| ()));
    late.to(&text("out"));
    merged.to(&text("out"));
    let names = nodes(&builder);
    let short: Vec<_> = names.iter().map(|n| n.trim_start_matches("KSTREAM-")).collect();
    assert_eq!(
        short,
        [
            "SOURCE-0000000000",
            "SOURCE-0000000001",
            "FILTER-0000000002",
            "PEEK-0000000003",
            "MERGE-0000000004",
            "SINK-0000000005",
            "SINK-0000000006"
        ]
    );
}
