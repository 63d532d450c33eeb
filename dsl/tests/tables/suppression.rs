//! Updates that wait: final results, time limits, limited buffers.

use thalweg::{
    Field, LocalState, Materialized, OnError, Serde, SerdeError, StreamsBuilder, Suppressed,
    TaskConfig, TestDriver, TimeWindows, Utf8, WhenFull, Windowed,
};
use thalweg_state::{Engine, MemEngine, WriteOp, WriteOps};

use crate::support::{Cache, ms, pipe, start, text, texts, window_counts, windowed};

/// Final counts in windows of 10 with a grace period of 5.
fn final_counts() -> TestDriver {
    let builder = StreamsBuilder::new();
    builder
        .stream(&text("in"))
        .group_by_key()
        .windowed_by(TimeWindows::of_size(ms(10)).grace(ms(5)))
        .count("counts")
        .suppress("final", Suppressed::until_window_closes())
        .to(&windowed("out", 10));
    start(&builder, Cache::On)
}

const CLICKS: [(&str, &str, i64); 8] = [
    ("b", "1", 3),
    ("a", "1", 1),
    ("a", "1", 9),
    ("c", "1", 14),
    ("a", "1", 2),
    ("d", "1", 15),
    ("a", "1", 8),
    ("a", "1", 30),
];

#[test]
fn window_has_one_result_when_it_has_closed_wherever_the_task_restarts() {
    let expected = ["a[0,10)=3@9", "b[0,10)=1@3", "c[10,20)=1@14", "d[10,20)=1@15"];
    for cut in 0..=CLICKS.len() {
        for state in [LocalState::Kept, LocalState::Lost] {
            let mut driver = final_counts();
            let mut out = driver.output(&windowed("out", 10));
            pipe(&mut driver, &text("in"), &CLICKS[..cut]);
            driver.restart(state).unwrap();
            pipe(&mut driver, &text("in"), &CLICKS[cut..]);
            assert_eq!(window_counts(&mut out), expected, "restarted at {cut}");
        }
    }
}

#[test]
fn last_window_of_a_stream_that_has_ended_stays() {
    let mut driver = final_counts();
    let mut out = driver.output(&windowed("out", 10));
    pipe(&mut driver, &text("in"), &[("a", "1", 1), ("a", "1", 14)]);
    assert_eq!(window_counts(&mut out), Vec::<String>::new());
    pipe(&mut driver, &text("in"), &[("b", "1", 15)]);
    assert_eq!(window_counts(&mut out), ["a[0,10)=1@1"]);
}

fn slowed(suppressed: Suppressed<String>) -> TestDriver {
    let builder = StreamsBuilder::new();
    let table = builder.table(&text("in"), "in");
    table.suppress("slow", suppressed).to(&text("out"));
    start(&builder, Cache::Off)
}

#[test]
fn key_keeps_its_place_from_its_first_update_and_leaves_with_the_last() {
    let mut driver = slowed(Suppressed::until_time_limit(ms(10)));
    let mut out = driver.output(&text("out"));
    let records = [("a", "1", 10), ("b", "2", 12), ("a", "3", 15), ("c", "", 20), ("d", "5", 30)];
    pipe(&mut driver, &text("in"), &records);
    assert_eq!(texts(&mut out), ["a=3@15", "b=2@12", "c=@20"]);
}

#[test]
fn full_buffer_lets_the_oldest_go_or_fails_the_task() {
    let limited = || Suppressed::until_time_limit(ms(1000)).max_records(2);
    let records = [("a", "1", 10), ("b", "2", 11), ("a", "3", 12), ("c", "4", 13)];
    let mut driver = slowed(limited());
    let mut out = driver.output(&text("out"));
    pipe(&mut driver, &text("in"), &records);
    assert_eq!(texts(&mut out), ["a=3@12"]);

    let mut driver = slowed(limited().when_full(WhenFull::ShutDown));
    pipe(&mut driver, &text("in"), &records[..3]);
    let error = driver.input(&text("in")).pipe(Some("c".into()), Some("4".into()), 13).err();
    let error = std::error::Error::source(&error.unwrap()).unwrap().to_string();
    assert!(
        error.contains("the buffer of `slow` is full: it holds 3 records of at most 2"),
        "{error}"
    );
}

#[test]
fn rows_behind_a_suppression_are_those_that_have_left_it() {
    let builder = StreamsBuilder::new();
    let slow =
        builder.table(&text("in"), "in").suppress("slow", Suppressed::until_time_limit(ms(10)));
    let join = |_: &Option<String>, v: &Option<String>, row: Option<&String>| {
        Some(format!("{}:{}", v.as_deref().unwrap_or(""), row.map_or("none", |row| row)))
    };
    builder.stream(&text("ask")).left_join_table(&slow, join).to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    pipe(&mut driver, &text("in"), &[("a", "1", 1)]);
    pipe(&mut driver, &text("ask"), &[("a", "q", 1)]);
    pipe(&mut driver, &text("in"), &[("a", "2", 5), ("b", "1", 20), ("a", "3", 21)]);
    pipe(&mut driver, &text("ask"), &[("a", "q", 21)]);
    assert_eq!(texts(&mut out), ["a=q:none@1", "a=q:2@21"]);
}

#[test]
fn final_results_need_windows_and_a_buffer_that_lets_nothing_go_early() {
    let builder = StreamsBuilder::new();
    let counts = builder
        .stream(&text("in"))
        .group_by_key()
        .windowed_by(TimeWindows::of_size(ms(10)).no_grace())
        .count("counts");
    let early = Suppressed::<Windowed<String>>::until_window_closes();
    counts.suppress("final", early.max_records(1).when_full(WhenFull::EmitEarly));
    let error = builder.build().unwrap_err().to_string();
    assert!(error.contains("`final` promises final results"), "{error}");
}

/// Goes on after failures of user code.
fn lenient() -> TaskConfig {
    let mut config = TaskConfig::new("app");
    config.on_processing_error = OnError::Continue;
    config.cache_max_bytes = 0;
    config
}

#[test]
fn damaged_row_of_a_buffer_ends_the_task_whatever_the_handler_says() {
    let builder = StreamsBuilder::new();
    let table = builder.table(&text("in"), "in");
    table.suppress("slow", Suppressed::until_time_limit(ms(10))).to(&text("out"));
    let topology = builder.build().unwrap();
    let store = topology
        .stores()
        .map(|store| store.def.name.to_string())
        .find(|name| name.contains("slow"));
    let store = store.unwrap();
    let damaged = TestDriver::builder(&topology, lenient()).engine(move |_| {
        let mut engine = MemEngine::new();
        let family = engine.family(&store)?;
        let ops = vec![WriteOp::Put(family, b"a", b"no update")];
        engine.write(&WriteOps { ops, ..WriteOps::default() })?;
        Ok(Box::new(engine))
    });
    let error = damaged.start().err().unwrap().to_string();
    assert!(error.contains("slow") && error.contains("cannot be read"), "{error}");
}

/// Reads no text that it has written.
#[derive(Clone)]
struct WriteOnly;

impl Serde<String> for WriteOnly {
    fn write(&self, text: &String, out: &mut Vec<u8>) -> Result<Field, SerdeError> {
        Utf8.write(text, out)
    }

    fn read(&self, _: Option<&[u8]>) -> Result<String, SerdeError> {
        Err(SerdeError::Malformed { of: "text", reason: "nobody can read it".into() })
    }
}

#[test]
fn row_that_cannot_be_read_when_it_leaves_ends_the_task_whatever_the_handler_says() {
    let builder = StreamsBuilder::new();
    let table = builder.table(&text("in"), Materialized::with("in", Utf8, WriteOnly));
    table.suppress("slow", Suppressed::until_time_limit(ms(10))).to(&text("out"));
    let mut driver = TestDriver::new(&builder.build().unwrap(), lenient()).unwrap();
    pipe(&mut driver, &text("in"), &[("a", "1", 1)]);
    let error = driver.input(&text("in")).pipe(Some("b".into()), Some("2".into()), 20).err();
    let error = error.unwrap().to_string();
    assert!(error.contains("slow") && error.contains("cannot be read"), "{error}");
}
