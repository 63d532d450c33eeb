//! Tables joined with tables.

use thalweg::{Headers, LocalState, StreamsBuilder, TestDriver};

use crate::support::{Cache, Text, pipe, pipe_with, start, text, texts};

/// Both sides of an outer join of `l` and `r`, grouped anew, so that old rows are asked for.
fn outer_then_grouped(cache: Cache) -> TestDriver {
    let builder = StreamsBuilder::new();
    let (l, r) = (builder.table(&text("l"), "l"), builder.table(&text("r"), "r"));
    let side = |row: Option<&String>| row.cloned().unwrap_or_else(|| "-".to_owned());
    let joined = l.outer_join(&r, move |l, r| format!("{}{}", side(l), side(r)));
    joined.to(&text("joined"));
    joined
        .group_by("all", |_, row: &String| ("all".to_owned(), row.clone()))
        .aggregate(
            "told",
            String::new,
            |_, row, told| told.push_str(&format!("+{row}")),
            |_, row, told| told.push_str(&format!("-{row}")),
        )
        .to(&text("told"));
    start(&builder, cache)
}

const UPDATES: [(&str, &str, &str, i64); 6] = [
    ("l", "a", "1", 10),
    ("r", "a", "x", 5),
    ("l", "a", "2", 3),
    ("r", "a", "", 20),
    ("l", "a", "", 7),
    ("r", "b", "y", 1),
];

fn pipe_all(driver: &mut TestDriver, updates: &[(&str, &str, &str, i64)]) {
    for (topic, key, value, time) in updates {
        pipe(driver, &text(topic), &[(key, value, *time)]);
    }
}

#[test]
fn s07_row_of_a_join_takes_its_old_row_along() {
    let mut driver = outer_then_grouped(Cache::Off);
    let (mut joined, mut told) = (driver.output(&text("joined")), driver.output(&text("told")));
    pipe_all(&mut driver, &UPDATES);
    assert_eq!(texts(&mut joined), ["a=1-@10", "a=1x@10", "a=2x@5", "a=2-@20", "a=@7", "b=-y@1"]);
    let last = texts(&mut told).pop();
    assert_eq!(last.as_deref(), Some("all=+1--1-+1x-1x+2x-2x+2--2-+-y@20"));
}

#[test]
fn join_is_the_same_after_a_restart_at_any_point() {
    for cut in 0..UPDATES.len() {
        for state in [LocalState::Kept, LocalState::Lost] {
            let mut driver = outer_then_grouped(Cache::On);
            let mut told = driver.output(&text("told"));
            pipe_all(&mut driver, &UPDATES[..cut]);
            driver.restart(state).unwrap();
            pipe_all(&mut driver, &UPDATES[cut..]);
            let last = texts(&mut told).pop();
            assert_eq!(last.as_deref(), Some("all=+1--1-+1x-1x+2x-2x+2--2-+-y@20"), "{cut}");
        }
    }
}

#[test]
fn join_without_a_store_is_read_by_joining_anew() {
    let builder = StreamsBuilder::new();
    let (l, r) = (builder.table(&text("l"), "l"), builder.table(&text("r"), "r"));
    let joined = l.left_join(&r, |l: &String, r| format!("{l}{}", r.map_or("-", |r: &String| r)));
    let stream = builder.stream(&text("in"));
    let all = |_: &Option<String>, v: &Option<String>, row: Option<&String>| {
        Some(format!("{}:{}", v.as_deref().unwrap_or(""), row.map_or("none", |row| row)))
    };
    stream.left_join_table(&joined, all).to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    pipe_all(&mut driver, &[("in", "a", "q", 1), ("r", "a", "x", 5), ("in", "a", "q", 2)]);
    pipe_all(&mut driver, &[("l", "a", "1", 9), ("in", "a", "q", 3), ("in", "b", "q", 4)]);
    assert_eq!(texts(&mut out), ["a=q:none@1", "a=q:none@2", "a=q:1x@3", "b=q:none@4"]);
}

#[test]
fn joined_row_has_the_headers_of_the_update_that_made_it() {
    let builder = StreamsBuilder::new();
    let (l, r) = (builder.table(&text("l"), "l"), builder.table(&text("r"), "r"));
    l.join(&r, |l: &String, r: &String| format!("{l}{r}")).to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let topic = |name: &str| -> Text { text(name) };
    let side = |name: &'static str| Headers::new().with("side", Some(name.as_bytes()));
    pipe_with(&mut driver, &topic("l"), ("a", "1", 10), &side("left"));
    pipe_with(&mut driver, &topic("r"), ("a", "x", 5), &side("right"));
    let sent = driver.read_raw("out");
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].timestamp.0, &sent[0].headers), (10, &side("right")));
}

#[test]
fn nodes_of_a_join_are_named_after_it() {
    let builder = StreamsBuilder::new();
    let l = builder.table(&text("l"), "l");
    let joined = l.join_into("kept", &l, |l: &String, r: &String| format!("{l}{r}")).named("twice");
    assert_eq!(joined.queryable_store_name(), Some("kept"));
    let described = builder.build().unwrap().describe().to_string();
    for part in [
        "Processor: twice-join-this (stores: [l])\n      --> twice\n",
        "Processor: twice-join-other (stores: [l])\n      --> twice\n",
        "Processor: twice (stores: [kept])\n      --> none\n      <-- twice-join-this, twice-join-other",
    ] {
        assert!(described.contains(part), "{part}: {described}");
    }
}
