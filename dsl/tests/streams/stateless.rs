//! Operators without state: null keys and values, timestamps and headers pass through them.

use thalweg::{BoxError, Headers, OnError, Record, StreamsBuilder, TaskConfig, TestDriver};

use crate::support::{pipe, read, run, some, start, text};

#[test]
fn filter_keeps_the_records_for_which_the_predicate_holds() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).filter(|k, v| k.is_some() && v.is_some()).to(&text("out"));
    assert_eq!(run(&builder, &["a=1@5", "=1@6", "a=@7", "b=2@8"]), ["a=1@5", "b=2@8"]);
}

#[test]
fn filter_not_keeps_the_others() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).filter_not(|k, v| k.is_some() && v.is_some()).to(&text("out"));
    assert_eq!(run(&builder, &["a=1@5", "=1@6", "a=@7"]), ["=1@6", "a=@7"]);
}

#[test]
fn map_values_sees_key_and_value_and_may_make_null() {
    let builder = StreamsBuilder::new();
    builder
        .stream(&text("in"))
        .map_values(|k, v| Some(format!("{}+{}", k.clone()?, v.clone()?)))
        .to(&text("out"));
    assert_eq!(run(&builder, &["a=1@5", "=1@6", "a=@7"]), ["a=a+1@5", "=@6", "a=@7"]);
}

#[test]
fn map_replaces_key_and_value() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).map(|k, v| (v.clone(), k.clone())).to(&text("out"));
    assert_eq!(run(&builder, &["a=1@5", "=2@6", "c=@7"]), ["1=a@5", "2=@6", "=c@7"]);
}

#[test]
fn select_key_replaces_the_key() {
    let builder = StreamsBuilder::new();
    builder.stream(&text("in")).select_key(|_, v| v.clone()).to(&text("out"));
    assert_eq!(run(&builder, &["a=1@5", "b=@6"]), ["1=1@5", "=@6"]);
}

#[test]
fn flat_map_values_keeps_the_key_and_the_order() {
    let builder = StreamsBuilder::new();
    builder
        .stream(&text("in"))
        .flat_map_values(|_, v| v.iter().flat_map(|v| v.split('-')).map(some).collect::<Vec<_>>())
        .to(&text("out"));
    assert_eq!(run(&builder, &["a=1-2-3@5", "b=@6"]), ["a=1@5", "a=2@5", "a=3@5"]);
}

#[test]
fn flat_map_makes_any_number_of_records() {
    let builder = StreamsBuilder::new();
    builder
        .stream(&text("in"))
        .flat_map(|k, v| [(k.clone(), v.clone()), (v.clone(), k.clone())])
        .to(&text("out"));
    assert_eq!(run(&builder, &["a=1@5"]), ["a=1@5", "1=a@5"]);
}

#[test]
fn merge_takes_the_records_of_both() {
    let builder = StreamsBuilder::new();
    let (left, right) = (builder.stream(&text("in")), builder.stream(&text("other")));
    left.merge(&right.select_key(|_, v| v.clone())).to(&text("out"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=1@5"]);
    pipe(&mut driver, "other", &["b=2@3"]);
    assert_eq!(read(&driver, "out"), ["a=1@5", "2=2@3"]);
}

#[test]
fn a_stream_merged_with_itself_passes_once() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in"));
    stream.merge(&stream).to(&text("out"));
    assert_eq!(run(&builder, &["a=1@5"]), ["a=1@5"]);
}

#[test]
fn a_stream_used_twice_is_fan_out() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in"));
    stream.to(&text("out"));
    stream.map_values(|_, _| some("x")).to(&text("out"));
    assert_eq!(run(&builder, &["a=1@5"]), ["a=1@5", "a=x@5"]);
}

#[test]
fn peek_and_for_each_see_every_record() {
    let (look, seen) = std::sync::mpsc::channel();
    let (each, ended) = (std::sync::Mutex::new(look.clone()), std::sync::Mutex::new(look));
    let builder = StreamsBuilder::new();
    builder
        .stream(&text("in"))
        .peek(move |_, v| each.lock().unwrap().send(("peek", v.clone())).unwrap())
        .for_each(move |_, v| ended.lock().unwrap().send(("end", v.clone())).unwrap());
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["a=1@5", "b=@6"]);
    let seen: Vec<_> = seen.try_iter().collect();
    assert_eq!(seen, [("peek", some("1")), ("end", some("1")), ("peek", None), ("end", None)]);
}

#[test]
fn headers_and_timestamps_pass_through_every_operator() {
    let builder = StreamsBuilder::new();
    builder
        .stream(&text("in"))
        .filter(|_, _| true)
        .map(|k, v| (k.clone(), v.clone()))
        .map_values(|_, v| v.clone())
        .flat_map(|k, v| [(k.clone(), v.clone())])
        .flat_map_values(|_, v| [v.clone(), v.clone()])
        .select_key(|k, _| k.clone())
        .peek(|_, _| ())
        .repartition("again")
        .to(&text("out"));
    let mut driver = start(&builder);
    let headers = Headers::new().with("traceparent", Some(b"00-1-2-01")).with("empty", None);
    let record = Record::new(some("a"), some("1"), 17).with_headers(headers.clone());
    driver.input(&text("in")).pipe_record(&record).unwrap();
    let out = driver.output(&text("out")).read_all().unwrap();
    assert_eq!(out, [record.clone(), record]);
}

/// Fails for the value `bad`.
fn check(value: Option<&String>) -> Result<(), BoxError> {
    if value.is_some_and(|v| v == "bad") { Err("it is bad".into()) } else { Ok(()) }
}

#[test]
fn fallible_operators_report_node_and_cause() {
    type Step = fn(&thalweg::KStream<Option<String>, Option<String>>);
    let steps: [(&str, Step); 9] = [
        ("FILTER", |s| drop(s.try_filter(|_, v| check(v.as_ref()).map(|()| true)))),
        ("MAPVALUES", |s| drop(s.try_map_values(|_, v| check(v.as_ref())))),
        ("MAP", |s| drop(s.try_map(|_, v| Ok(((), check(v.as_ref())?))))),
        ("FLATMAPVALUES", |s| drop(s.try_flat_map_values(|_, v| check(v.as_ref()).map(Some)))),
        ("FLATMAP", |s| drop(s.try_flat_map(|_, v| Ok([((), check(v.as_ref())?)])))),
        ("KEY-SELECT", |s| drop(s.try_select_key(|_, v| check(v.as_ref())))),
        ("PEEK", |s| drop(s.try_peek(|_, v| check(v.as_ref())))),
        ("FOREACH", |s| drop(s.try_for_each(|_, v| check(v.as_ref())))),
        ("BRANCH", |s| {
            let split = s.split(thalweg::Name::kafka_generated());
            drop(split.try_branch("b", |_, v| check(v.as_ref()).map(|()| true)));
        }),
    ];
    for (operator, step) in steps {
        let builder = StreamsBuilder::new();
        step(&builder.stream(&text("in")));
        let mut driver = start(&builder);
        pipe(&mut driver, "in", &["a=good@1"]);
        let mut input = driver.input(&text("in"));
        let error = input.pipe(some("a"), some("bad"), 2).err().unwrap();
        let told = format!("node `KSTREAM-{operator}-0000000001` of task 0_0 failed at in-0@1");
        assert_eq!(error.to_string(), told);
        assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "it is bad");
    }
}

#[test]
fn a_failed_record_is_dropped_and_counted_when_the_handler_says_continue() {
    let builder = StreamsBuilder::new();
    builder
        .stream(&text("in"))
        .try_map_values(|_, v| check(v.as_ref()).map(|()| v.clone()))
        .to(&text("out"));
    let mut config = TaskConfig::new("app");
    config.on_processing_error = OnError::Continue;
    let mut driver = TestDriver::new(&builder.build().unwrap(), config).unwrap();
    pipe(&mut driver, "in", &["a=1@1", "a=bad@2", "a=3@3"]);
    assert_eq!(read(&driver, "out"), ["a=1@1", "a=3@3"]);
    assert_eq!(driver.dropped_records(), 1);
}
