//! Tables re-grouped.

use thalweg::{StreamsBuilder, TestDriver};

use crate::support::{Cache, counts, numbers, pipe, start, text, texts};

/// `driver:amount` per order, summed by driver.
fn sums_by_driver(cache: Cache) -> (TestDriver, crate::support::Text) {
    let orders = text("orders");
    let builder = StreamsBuilder::new();
    builder
        .table(&orders, "orders")
        .group_by("by-driver", |_, order: &String| {
            let (driver, amount) = order.split_once(':').unwrap();
            (driver.to_owned(), amount.parse::<i64>().unwrap())
        })
        .reduce("sums", |sum, amount| sum + amount, |sum, amount| sum - amount)
        .to(&numbers("sums"));
    (start(&builder, cache), orders)
}

#[test]
fn s07_row_that_stays_in_its_group_updates_the_sum_at_once() {
    for cache in [Cache::Off, Cache::On] {
        let (mut driver, orders) = sums_by_driver(cache);
        let mut out = driver.output(&numbers("sums"));
        pipe(&mut driver, &orders, &[("o1", "d1:5", 1)]);
        assert_eq!(counts(&mut out), ["d1=5@1"], "{cache:?}");
        pipe(&mut driver, &orders, &[("o1", "d1:7", 2)]);
        assert_eq!(counts(&mut out), ["d1=7@2"], "{cache:?}");
        pipe(&mut driver, &orders, &[("o1", "d2:7", 3)]);
        assert_eq!(counts(&mut out), ["d1=0@3", "d2=7@3"], "{cache:?}");
        pipe(&mut driver, &orders, &[("o1", "", 4)]);
        assert_eq!(counts(&mut out), ["d2=0@4"], "{cache:?}");
    }
}

#[test]
fn s07_sums_of_many_random_updates_equal_a_recomputation_and_are_never_negative() {
    let (mut driver, orders) = sums_by_driver(Cache::On);
    let mut out = driver.output(&numbers("sums"));
    let mut rows = std::collections::BTreeMap::new();
    let mut seed = 42_u64;
    let mut next = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % below
    };
    for time in 0..10_000 {
        let (order, driver_no, amount) = (next(50), next(7), next(10) as i64);
        let delete = next(5) == 0;
        let order = format!("o{order}");
        let value = if delete { String::new() } else { format!("d{driver_no}:{amount}") };
        pipe(&mut driver, &orders, &[(&order, &value, time)]);
        match delete {
            true => rows.remove(&order),
            false => rows.insert(order, (format!("d{driver_no}"), amount)),
        };
        if time % 1000 == 999 {
            driver.restart(thalweg::LocalState::Kept).unwrap();
        }
    }
    let mut sums = std::collections::BTreeMap::new();
    for record in out.read_all().unwrap() {
        let sum = record.value.unwrap();
        assert!(sum >= 0, "{record:?}");
        sums.insert(record.key.unwrap(), sum);
    }
    let mut expected: std::collections::BTreeMap<String, i64> =
        sums.keys().map(|driver| (driver.clone(), 0)).collect();
    rows.into_values().for_each(|(driver, amount)| *expected.entry(driver).or_default() += amount);
    assert_eq!(sums, expected);
}

#[test]
fn repartition_topic_of_a_regrouped_table_has_the_bytes_of_kafka_streams() {
    let rows = text("in");
    let builder = StreamsBuilder::new();
    let split = |_: &String, row: &String| {
        let (group, value) = row.split_once(':').unwrap();
        (group.to_owned(), value.to_owned())
    };
    builder
        .table(&rows, "src")
        .group_by("grp", split)
        .aggregate(
            "agg",
            || "0".to_owned(),
            |_, value, row| row.push_str(&format!("+{value}")),
            |_, value, row| row.push_str(&format!("-{value}")),
        )
        .to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    let records =
        [("k1", "g:1", 10), ("k2", "g:2", 5), ("k1", "g:3", 3), ("k1", "h:4", 20), ("k2", "", 21)];
    pipe(&mut driver, &rows, &records);
    assert_eq!(
        texts(&mut out),
        [
            "g=0+1@10",
            "g=0+1+2@10",
            "g=0+1+2-1+3@10",
            "g=0+1+2-1+3-3@20",
            "h=0+4@20",
            "g=0+1+2-1+3-3-2@21"
        ]
    );
    let sent = driver.read_raw("app-grp-repartition");
    let sent: Vec<_> = sent.iter().map(|r| r.value.clone().unwrap()).collect();
    assert_eq!(
        sent,
        [&b"1\x01"[..], b"2\x01", b"\x0231\x02", b"3\x00", b"4\x01", b"2\x00"].map(<[u8]>::to_vec)
    );
}

#[test]
fn row_without_a_group_or_a_value_is_left_out_on_its_side_only() {
    let rows = text("in");
    let builder = StreamsBuilder::new();
    builder
        .table(&rows, "src")
        .group_by("grp", |_, v: &String| {
            ((v != "no-key").then(|| "g".to_owned()), (v != "no-value").then(|| v.clone()))
        })
        .aggregate(
            "agg",
            String::new,
            |_, value, row| row.push_str(&format!("+{value}")),
            |_, value, row| row.push_str(&format!("-{value}")),
        )
        .to(&text("out"));
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&text("out"));
    let records =
        [("a", "1", 1), ("a", "no-key", 2), ("a", "2", 3), ("a", "no-value", 4), ("a", "3", 5)];
    pipe(&mut driver, &rows, &records);
    let expected = ["g=+1@1", "g=+1-1@2", "g=+1-1+2@3", "g=+1-1+2-2@4", "g=+1-1+2-2+3@5"];
    assert_eq!(texts(&mut out), expected);
    assert_eq!(driver.dropped_records(), 0);
}

#[test]
fn counts_of_counts_touch_group_zero_first_as_in_kafka_streams() {
    let (input, output) = (text("in"), numbers("out"));
    let builder = StreamsBuilder::new();
    builder
        .stream(&input)
        .group_by_key()
        .count("c1")
        .group_by("by-count", |word, n| (n.to_string(), word.clone()))
        .count("c2")
        .to(&output);
    let mut driver = start(&builder, Cache::Off);
    let mut out = driver.output(&output);
    pipe(&mut driver, &input, &[("a", "x", 1), ("b", "x", 2), ("a", "x", 3)]);
    assert_eq!(counts(&mut out), ["0=@1", "1=1@1", "0=@2", "1=2@2", "1=1@3", "2=1@3"]);
}

#[test]
fn grouped_table_with_a_name_shares_its_repartition_topic() {
    let rows = text("in");
    let builder = StreamsBuilder::new();
    let grouped =
        builder.table(&rows, "src").group_by("grp", |k, v: &String| (v.clone(), k.clone()));
    let _ = grouped.count("c1");
    let _ = grouped.count("c2");
    let topology = builder.build().unwrap();
    let topics: Vec<_> = topology.internal_topics().keys().map(|t| t.to_string()).collect();
    assert_eq!(topics, ["grp-repartition"]);
}
