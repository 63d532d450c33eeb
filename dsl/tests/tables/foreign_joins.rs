//! Tables joined by a key that is made of the left row.

use std::collections::BTreeMap;

use thalweg::{LocalState, StreamsBuilder, TaskConfig, TestDriver};

use crate::support::{pipe, text, texts};

/// Rows of `l` name a row of `r` in front of a colon; `none` is no key.
fn joined(left: bool, (left_partitions, right_partitions): (i32, i32)) -> TestDriver {
    let builder = StreamsBuilder::new();
    let (l, r) = (builder.table(&text("l"), "l"), builder.table(&text("r"), "r"));
    let select = |_: &String, row: &String| {
        let key = row.split(':').next().unwrap_or_default().to_owned();
        (key != "none").then_some(key)
    };
    match left {
        true => l.left_fk_join("j", &r, select, |l: &String, r| {
            format!("{l}+{}", r.map_or("-", |r: &String| r))
        }),
        false => l.fk_join("j", &r, select, |l: &String, r: &String| format!("{l}+{r}")),
    }
    .to(&text("out"));
    let topology = builder.build().unwrap();
    let driver = TestDriver::builder(&topology, TaskConfig::new("app"));
    let driver = driver.partitions("l", left_partitions).partitions("r", right_partitions);
    driver.partitions("out", 1).start().unwrap()
}

#[test]
fn change_of_a_right_row_reaches_all_left_rows_that_name_it() {
    let mut driver = joined(false, (1, 1));
    let mut out = driver.output(&text("out"));
    pipe(&mut driver, &text("l"), &[("1", "x:a", 10), ("2", "x:b", 3), ("3", "y:c", 4)]);
    pipe(&mut driver, &text("r"), &[("x", "X", 5), ("x", "", 40)]);
    assert_eq!(texts(&mut out), ["1=x:a+X@5", "2=x:b+X@5", "1=@40", "2=@40"]);
}

#[test]
fn left_row_without_a_key_is_dropped_or_joined_with_nothing() {
    for (left, expected, dropped) in [
        (false, &["1=x:a+X@2", "1=@3"][..], 2),
        (true, &["1=x:a+X@2", "1=none:b+-@3", "2=none:c+-@4"], 0),
    ] {
        let mut driver = joined(left, (1, 1));
        let mut out = driver.output(&text("out"));
        pipe(&mut driver, &text("r"), &[("x", "X", 1)]);
        pipe(&mut driver, &text("l"), &[("1", "x:a", 2), ("1", "none:b", 3), ("2", "none:c", 4)]);
        assert_eq!(texts(&mut out), expected);
        assert_eq!(driver.dropped_records(), dropped);
    }
}

/// The last row of each key is what a recomputation from both tables gives, with several partitions and restarts in between.
#[test]
fn joined_rows_are_those_of_a_recomputation_after_many_random_updates() {
    for (left, partitions) in [(false, (1, 1)), (true, (3, 2)), (false, (2, 5))] {
        let mut driver = joined(left, partitions);
        let mut out = driver.output(&text("out"));
        let (mut rows, mut others) = (BTreeMap::new(), BTreeMap::new());
        let mut seed = 7_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for time in 0..2_000 {
            let delete = next(6) == 0;
            let (topic, key, value, table) = match next(2) {
                0 => ("l", format!("{}", next(20)), format!("k{}:{time}", next(6)), &mut rows),
                _ => ("r", format!("k{}", next(6)), format!("R{time}"), &mut others),
            };
            let value = if delete { String::new() } else { value };
            pipe(&mut driver, &text(topic), &[(&key, &value, time)]);
            match delete {
                true => table.remove(&key),
                false => table.insert(key, value),
            };
            if time % 500 == 250 {
                driver.restart(LocalState::Lost).unwrap();
            }
        }
        let mut found = BTreeMap::new();
        for record in out.read_all().unwrap() {
            let key = record.key.unwrap();
            match record.value {
                Some(value) => found.insert(key, value),
                None => found.remove(&key),
            };
        }
        let joined = |row: &String| {
            let other = others.get(row.split(':').next().unwrap());
            let other = if left { Some(other.map_or("-", |o| o)) } else { other.map(|o| &**o) };
            Some(format!("{row}+{}", other?))
        };
        let expected: BTreeMap<_, _> =
            rows.iter().filter_map(|(key, row)| Some((key.clone(), joined(row)?))).collect();
        assert_eq!(found, expected, "{partitions:?}");
    }
}

#[test]
fn topics_and_store_of_a_join_have_its_name() {
    let driver = joined(false, (1, 1));
    let topics: Vec<_> = driver.topics().iter().map(ToString::to_string).collect();
    for name in ["app-j-subscription-registration-topic", "app-j-subscription-response-topic"] {
        assert!(topics.iter().any(|topic| topic == name), "{topics:?}");
    }
    assert_eq!(driver.store_names(), ["j-subscription-store", "l", "r"]);
}
