//! Dead letters, and what the three handlers are asked about.

use thalweg::{
    Headers, I64Be, KStream, LocalState, Materialized, OnError, Record, StreamsBuilder, Suppressed,
    TaskConfig, TestDriver, Topic, Utf8,
};

use crate::support::{Text, pipe, read, some, text};

fn config(on_error: OnError) -> TaskConfig {
    let mut config = TaskConfig::new("app");
    config.on_deserialization_error = on_error;
    config.on_processing_error = on_error;
    config.on_production_error = on_error;
    config.dead_letter_topic = Some("dead".into());
    config
}

/// Fails for `bad`.
fn checked(stream: &KStream<Option<String>, Option<String>>) {
    stream.try_map_values(|_, v| check(v)).to(&text("out"));
}

fn check(text: &Option<String>) -> Result<Option<String>, thalweg::BoxError> {
    match text.as_deref() {
        Some("bad") => Err("it is bad".into()),
        other => Ok(other.map(str::to_owned)),
    }
}

/// A dead letter: key, value, time, and its headers, but for the stack trace.
fn letters(driver: &TestDriver) -> Vec<String> {
    let utf8 = |b: Option<&[u8]>| b.map_or("null".into(), String::from_utf8_lossy).into_owned();
    let letter = |record: &thalweg::SentRecord| {
        let headers = record.headers.iter().filter(|(name, _)| !name.ends_with("stacktrace"));
        let headers: Vec<_> = headers
            .map(|(name, value)| {
                format!("{}={}", name.trim_start_matches("__streams.errors."), utf8(value))
            })
            .collect();
        let (key, value) = (utf8(record.key.as_deref()), utf8(record.value.as_deref()));
        format!("{key}={value}@{} {}", record.timestamp.0, headers.join(" "))
    };
    driver.read_raw("dead").iter().map(letter).collect()
}

fn pipe_with_header(driver: &mut TestDriver, record: &str) {
    let (key, rest) = record.split_once('=').unwrap();
    let (value, time) = rest.split_once('@').unwrap();
    let record = Record::new(some(key), some(value), time.parse::<i64>().unwrap());
    let headers = Headers::new().with("h", Some(b"x"));
    driver.input(&text("in")).pipe_record(&record.with_headers(headers)).unwrap();
}

#[test]
fn record_that_user_code_fails_on_becomes_a_dead_letter_with_its_place() {
    let builder = StreamsBuilder::new();
    checked(&builder.stream(&text("in")));
    let mut driver = TestDriver::new(&builder.build().unwrap(), config(OnError::Continue)).unwrap();
    pipe(&mut driver, "in", &["a=1@1"]);
    pipe_with_header(&mut driver, "b=bad@2");
    pipe(&mut driver, "in", &["c=3@3"]);
    assert_eq!(read(&driver, "out"), ["a=1@1", "c=3@3"]);
    assert_eq!(
        letters(&driver),
        [
            "b=bad@2 h=x exception=thalweg.ProcessingError message=it is bad topic=in partition=0 offset=1"
        ]
    );
    assert_eq!(driver.dropped_records(), 1);
}

#[test]
fn dead_letter_of_a_failed_task_is_sent_before_it_ends() {
    let builder = StreamsBuilder::new();
    checked(&builder.stream(&text("in")));
    let mut driver = TestDriver::new(&builder.build().unwrap(), config(OnError::Fail)).unwrap();
    assert!(driver.input(&text("in")).pipe(some("b"), some("bad"), 2).is_err());
    let sent = driver.read_failed_step("dead");
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].value.as_deref(), Some(&b"bad"[..]));
    assert!(driver.read_raw("dead").is_empty(), "it is a part of the failed step");
}

#[test]
fn undecodable_record_becomes_a_dead_letter_as_it_came() {
    let builder = StreamsBuilder::new();
    let strict = Topic::<String, String>::new("in");
    builder.stream(&strict).to(&text("out"));
    let mut driver = TestDriver::new(&builder.build().unwrap(), config(OnError::Continue)).unwrap();
    pipe_with_header(&mut driver, "=1@7");
    let told = letters(&driver);
    assert!(
        told[0].starts_with("null=1@7 h=x exception=thalweg.DeserializationError message="),
        "{told:?}"
    );
    assert!(told[0].ends_with(" topic=in partition=0 offset=0"), "{told:?}");
}

#[test]
fn failure_behind_the_record_cache_names_the_record_that_touched_the_row_last() {
    let builder = StreamsBuilder::new();
    let counts: Materialized<String, i64> = Materialized::with("counts", Utf8, I64Be);
    let counted = builder.stream(&text("in")).group_by_key().count(counts).to_stream();
    let map = |_: &String, n: &Option<i64>| match n {
        Some(2) => Err("it is two".into()),
        n => Ok(*n),
    };
    counted.try_map_values(map).to(&Topic::<String, Option<i64>>::new("out"));
    let mut driver = TestDriver::new(&builder.build().unwrap(), config(OnError::Continue)).unwrap();
    pipe(&mut driver, "in", &["a=first@1", "a=second@2"]);
    assert_eq!(
        letters(&driver),
        [
            "a=second@2 exception=thalweg.ProcessingError message=it is two topic=in partition=0 offset=1"
        ]
    );
}

/// Writes no text that is not short.
#[derive(Clone)]
struct Short;

impl thalweg::Serde<String> for Short {
    fn write(
        &self,
        text: &String,
        out: &mut Vec<u8>,
    ) -> Result<thalweg::Field, thalweg::SerdeError> {
        if text.len() > 3 {
            let reason = format!("`{text}` is too long");
            return Err(thalweg::SerdeError::Malformed { of: "short text", reason });
        }
        Utf8.write(text, out)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<String, thalweg::SerdeError> {
        Utf8.read(bytes)
    }
}

fn writes_short_texts(on_production_error: OnError, on_processing_error: OnError) -> TestDriver {
    let builder = StreamsBuilder::new();
    let input: Topic<String, String> = Topic::new("in");
    let twice = builder.stream(&input).flat_map_values(|_, v| [v.clone(), "end".to_owned()]);
    twice.to(&Topic::<String, String>::with("out", Utf8, Short));
    let mut config = config(OnError::Fail);
    (config.on_production_error, config.on_processing_error) =
        (on_production_error, on_processing_error);
    TestDriver::new(&builder.build().unwrap(), config).unwrap()
}

#[test]
fn result_that_cannot_be_written_goes_to_the_production_handler() {
    let mut driver = writes_short_texts(OnError::Continue, OnError::Fail);
    pipe(&mut driver, "in", &["a=abc@1", "b=long@2"]);
    assert_eq!(read(&driver, "out"), ["a=abc@1", "a=end@1", "b=end@2"]);
    let told = letters(&driver);
    assert!(told[0].starts_with("b=long@2 exception=thalweg.ProductionError message="), "{told:?}");
    assert_eq!((told.len(), driver.dropped_records()), (1, 1));

    let mut driver = writes_short_texts(OnError::Fail, OnError::Fail);
    let input: Text = text("in");
    let error = driver.input(&input).pipe(some("b"), some("long"), 2).err().unwrap();
    assert!(error.to_string().contains("FLATMAPVALUES"), "the node in front is named: {error}");
}

#[test]
fn failure_that_the_production_handler_has_answered_is_not_asked_about_again() {
    let mut driver = writes_short_texts(OnError::Fail, OnError::Continue);
    let error = driver.input(&text("in")).pipe(some("b"), some("long"), 2).err().unwrap();
    assert!(error.to_string().contains("FLATMAPVALUES"), "the node in front is named: {error}");
    let letters = driver.read_failed_step("dead");
    assert_eq!(letters.len(), 1);
    let exception = letters[0].headers.iter().find(|(name, _)| name.ends_with("exception"));
    assert_eq!(exception.unwrap().1, Some(&b"thalweg.ProductionError"[..]));
    assert_eq!(driver.dropped_records(), 0);
}

/// Rows that wait for ten milliseconds, and are checked behind.
fn checks_what_was_suppressed() -> TestDriver {
    let builder = StreamsBuilder::new();
    let slow = builder
        .table(&text("in"), "in")
        .suppress("slow", Suppressed::until_time_limit(std::time::Duration::from_millis(10)));
    slow.to_stream().try_map_values(|_, v| check(v)).to(&text("out"));
    let mut config = config(OnError::Continue);
    config.cache_max_bytes = 0;
    TestDriver::new(&builder.build().unwrap(), config).unwrap()
}

/// As Kafka Streams has it: the buffer keeps the bytes of the record that updated the row last.
#[test]
fn failure_behind_a_suppression_is_told_of_the_record_that_waited() {
    let mut driver = checks_what_was_suppressed();
    pipe(&mut driver, "in", &["a=first@1"]);
    pipe_with_header(&mut driver, "a=bad@2");
    pipe(&mut driver, "in", &["b=2@3", "c=bad@30"]);
    assert_eq!(read(&driver, "out"), ["b=2@3"]);
    let place = "exception=thalweg.ProcessingError message=it is bad topic=in partition=0";
    assert_eq!(letters(&driver), [format!("a=bad@2 h=x {place} offset=1")]);
    // The bytes of the record that let the others go are its own again.
    pipe(&mut driver, "in", &["d=4@50"]);
    assert_eq!(letters(&driver)[1], format!("c=bad@30 {place} offset=3"));
}

#[test]
fn dead_letter_of_a_record_that_waited_through_a_restart_has_its_place_but_no_bytes() {
    for state in [LocalState::Kept, LocalState::Lost] {
        let mut driver = checks_what_was_suppressed();
        pipe(&mut driver, "in", &["a=bad@1"]);
        driver.restart(state).unwrap();
        pipe(&mut driver, "in", &["b=2@20"]);
        let place = "exception=thalweg.ProcessingError message=it is bad topic=in partition=0";
        assert_eq!(letters(&driver), [format!("null=null@1 {place} offset=0")]);
    }
}
