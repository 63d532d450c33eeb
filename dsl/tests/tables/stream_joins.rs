//! Stream-stream joins: partners, those who lack one, and both against brute force.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use thalweg::{
    BuildConfig, JoinWindows, LocalState, Optimization, Semantics, StreamJoined, StreamsBuilder,
    TaskConfig, TestDriver,
};

use crate::support::{ms, pipe, text, texts};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Inner,
    Left,
    Outer,
}

/// Joins `left` with `right` into `out`, values with a plus in between.
fn joined(kind: Kind, windows: JoinWindows, options: Options) -> StreamsBuilder {
    let builder = StreamsBuilder::new();
    let (left, right) = (builder.stream(&text("left")), builder.stream(&text("right")));
    let show = |v: Option<&Option<String>>| v.cloned().flatten().unwrap_or("-".to_owned());
    let join = move |l: Option<&Option<String>>, r: Option<&Option<String>>| {
        Some(format!("{}+{}", show(l), show(r)))
    };
    let out = match kind {
        Kind::Inner => {
            left.join_stream(options, &right, windows, move |_, l, r| join(Some(l), Some(r)))
        }
        Kind::Left => {
            left.left_join_stream(options, &right, windows, move |_, l, r| join(Some(l), r))
        }
        Kind::Outer => left.outer_join_stream(options, &right, windows, move |_, l, r| join(l, r)),
    };
    out.to(&text("out"));
    builder
}

type Options = StreamJoined<Option<String>, Option<String>, Option<String>>;

fn started(kind: Kind, windows: JoinWindows, semantics: Semantics) -> TestDriver {
    let mut config = TaskConfig::new("app");
    config.semantics = semantics;
    let builder = joined(kind, windows, "pairs".into());
    TestDriver::new(&builder.build().unwrap(), config).unwrap()
}

/// Topic, key, value and time of records in order.
fn pipe_all(driver: &mut TestDriver, records: &[(&str, &str, &str, i64)]) {
    for (topic, key, value, time) in records {
        pipe(driver, &text(topic), &[(key, value, *time)]);
    }
}

fn told(driver: &mut TestDriver) -> Vec<String> {
    texts(&mut driver.output(&text("out")))
}

#[test]
fn s03_record_without_a_partner_is_told_after_its_window_and_grace_and_never_before() {
    let windows = JoinWindows::of_difference(ms(10_000)).grace(ms(20_000));
    let mut driver = started(Kind::Left, windows, Semantics::Corrected);
    pipe_all(
        &mut driver,
        &[
            ("left", "k", "A", 0),
            ("left", "x", "B", 15_000),
            ("right", "k", "a", 5_000),
            ("right", "y", "q", 31_000),
        ],
    );
    assert_eq!(told(&mut driver), ["k=A+a@5000"]);
    pipe_all(&mut driver, &[("right", "y", "q", 45_000)]);
    assert_eq!(told(&mut driver), ["k=A+a@5000"]);
    pipe_all(&mut driver, &[("right", "y", "q", 46_000)]);
    assert_eq!(told(&mut driver), ["k=A+a@5000", "x=B+-@15000"]);
}

#[test]
fn record_that_was_given_up_meets_no_late_partner() {
    let records = [
        ("left", "b", "2", 3),
        ("right", "q", "t", 19),
        ("right", "b", "late", 4),
        ("left", "c", "late", 12),
        ("right", "c", "later", 13),
    ];
    let windows = JoinWindows::of_difference(ms(10)).grace(ms(5));
    let cases = [
        (Semantics::Corrected, vec!["b=2+-@3", "c=late+later@13"]),
        (Semantics::Java, vec!["b=2+-@3", "b=2+late@4", "c=late+later@13"]),
    ];
    for (semantics, expected) in cases {
        let mut driver = started(Kind::Left, windows, semantics);
        pipe_all(&mut driver, &records);
        assert_eq!(told(&mut driver), expected, "{semantics:?}");
    }
}

#[test]
fn late_record_without_a_partner_waits_for_the_grace_period_like_others() {
    let records = [("left", "z", "1", 30), ("left", "k", "late", 16), ("right", "k", "late", 17)];
    let windows = JoinWindows::of_difference(ms(10)).grace(ms(5));
    let cases = [
        (Semantics::Corrected, vec!["k=late+late@17"]),
        (Semantics::Java, vec!["k=late+-@16", "k=late+late@17"]),
    ];
    for (semantics, expected) in cases {
        let mut driver = started(Kind::Left, windows, semantics);
        pipe_all(&mut driver, &records);
        assert_eq!(told(&mut driver), expected, "{semantics:?}");
    }
}

#[test]
fn null_keys_reach_left_and_outer_joins_through_repartition_topics_as_well() {
    for (kind, expected) in
        [(Kind::Inner, &[][..]), (Kind::Left, &["=l+-@1"]), (Kind::Outer, &["=l+-@1", "=-+r@2"])]
    {
        let mut driver =
            started(kind, JoinWindows::of_difference(ms(10)).no_grace(), Semantics::Corrected);
        pipe_all(&mut driver, &[("left", "", "l", 1), ("right", "", "r", 2), ("left", "k", "", 3)]);
        assert_eq!(told(&mut driver), expected, "{kind:?}");
        assert_eq!(driver.dropped_records(), 3 - expected.len() as u64);
    }
    let builder = StreamsBuilder::new();
    let left = builder.stream(&text("left")).map(|_, value| (None::<String>, value.clone()));
    let right = builder.stream(&text("right"));
    let windows = JoinWindows::of_difference(ms(10)).no_grace();
    left.left_join_stream("pairs", &right, windows, |_, l, _| l.clone()).to(&text("out"));
    let mut driver = TestDriver::new(&builder.build().unwrap(), TaskConfig::new("app")).unwrap();
    pipe_all(&mut driver, &[("left", "k", "l", 1)]);
    assert_eq!(told(&mut driver), ["=l@1"]);
}

#[test]
fn names_are_those_of_the_join() {
    let windows = JoinWindows::of_difference(ms(10)).no_grace();
    let driver = started(Kind::Outer, windows, Semantics::Corrected);
    let stores = ["outer-other-join", "outer-shared-join", "outer-this-join"]
        .map(|s| format!("pairs-{s}-store"));
    assert_eq!(driver.store_names(), stores);
    let builder = joined(Kind::Inner, windows, StreamJoined::kafka_generated());
    let refused = builder.build_with(&BuildConfig::new().explicit_names()).unwrap_err();
    assert!(refused.to_string().contains("KSTREAM-JOINTHIS-0000000004-store"), "{refused}");
}

#[test]
fn windows_that_end_before_they_start_are_refused() {
    let windows = JoinWindows::of_difference(ms(5)).after_ms(-6).no_grace();
    let refused = joined(Kind::Inner, windows, "pairs".into()).build().unwrap_err().to_string();
    assert!(refused.contains("from 5 ms before to -6 ms after ends before it starts"), "{refused}");
}

#[test]
fn stream_joined_with_itself_makes_the_same_pairs_over_one_store() {
    let pairs = |config: &BuildConfig| {
        let builder = StreamsBuilder::new();
        let stream = builder.stream(&text("left"));
        let windows = JoinWindows::of_difference(ms(10)).after(ms(3)).grace(ms(100));
        let join = |_: &Option<String>, l: &Option<String>, r: &Option<String>| {
            Some(format!("{}+{}", l.as_deref().unwrap_or("-"), r.as_deref().unwrap_or("-")))
        };
        stream.join_stream("pairs", &stream, windows, join).to(&text("out"));
        let topology = builder.build_with(config).unwrap();
        let mut driver = TestDriver::new(&topology, TaskConfig::new("app")).unwrap();
        for (nth, time) in [0, 5, 2, 9, 40, 12, 39].into_iter().enumerate() {
            pipe_all(&mut driver, &[("left", "k", &nth.to_string(), time)]);
        }
        let told: BTreeSet<String> = told(&mut driver).into_iter().collect();
        (driver.store_names().len(), told)
    };
    let (stores, plain) = pairs(&BuildConfig::new());
    let (one_store, same) = pairs(&BuildConfig::new().optimize(Optimization::SingleStoreSelfJoins));
    assert_eq!((stores, one_store), (2, 1));
    assert!(plain.len() > 7);
    assert_eq!(same, plain);
}

/// A record of one side: key, time, and its number as value.
type Sent = (bool, String, i64);

fn keys() -> impl Strategy<Value = String> {
    prop_oneof![Just("a"), Just("aa"), Just("a\0"), Just("b")].prop_map(str::to_owned)
}

/// Pairs that meet, by brute force: numbers of the left and the right record.
fn pairs(sent: &[Sent], (before, after): (i64, i64)) -> BTreeMap<(usize, usize), i64> {
    let mut pairs = BTreeMap::new();
    for (l, (_, left_key, left)) in sent.iter().enumerate().filter(|(_, sent)| sent.0) {
        for (r, (_, right_key, right)) in sent.iter().enumerate().filter(|(_, sent)| !sent.0) {
            if left_key == right_key && (-before..=after).contains(&(right - left)) {
                pairs.insert((l, r), *left.max(right));
            }
        }
    }
    pairs
}

/// What came out: number of the left and of the right record, and the time.
fn results(driver: &mut TestDriver) -> Vec<(Option<usize>, Option<usize>, i64)> {
    let records = driver.output(&text("out")).read_all().unwrap();
    let number = |text: &str| text.parse().ok();
    let parsed = records.into_iter().map(|record| {
        let value = record.value.unwrap();
        let (left, right) = value.split_once('+').unwrap();
        (number(left), number(right), record.timestamp.0)
    });
    parsed.collect()
}

fn feed(driver: &mut TestDriver, sent: &[Sent], restart: Option<LocalState>) {
    for (nth, (is_left, key, time)) in sent.iter().enumerate() {
        if let Some(state) = restart.filter(|_| nth == sent.len() / 2) {
            driver.restart(state).unwrap();
        }
        let topic = if *is_left { "left" } else { "right" };
        pipe_all(driver, &[(topic, key, &nth.to_string(), *time)]);
    }
}

fn sent(times: std::ops::Range<i64>) -> impl Strategy<Value = Vec<Sent>> {
    proptest::collection::vec((any::<bool>(), keys(), times), 1..50)
}

fn restart() -> impl Strategy<Value = Option<LocalState>> {
    prop_oneof![Just(None), Just(Some(LocalState::Kept)), Just(Some(LocalState::Lost))]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pairs_are_those_of_brute_force_in_any_order_and_after_a_restart(
        sent in sent(0..100),
        before in 0..20i64,
        after in 0..20i64,
        restart in restart(),
    ) {
        let windows = JoinWindows::of_difference(ms(0)).before_ms(before).after_ms(after);
        let windows = windows.grace(ms(1_000));
        let expected = pairs(&sent, (before, after));
        for kind in [Kind::Inner, Kind::Left, Kind::Outer] {
            let mut driver = started(kind, windows, Semantics::Corrected);
            feed(&mut driver, &sent, restart);
            // Far behind everything: all that waits is told.
            pipe_all(&mut driver, &[("right", "end", "x", 10_000)]);
            let results = results(&mut driver);
            let mut found = BTreeMap::new();
            let mut alone = BTreeMap::new();
            for (left, right, time) in results {
                match (left, right) {
                    (Some(left), Some(right)) => {
                        prop_assert!(found.insert((left, right), time).is_none());
                    }
                    (Some(one), None) | (None, Some(one)) => {
                        prop_assert!(alone.insert(one, time).is_none());
                    }
                    (None, None) => {}
                }
            }
            prop_assert_eq!(&found, &expected);
            let lacks = |nth: usize| !expected.keys().any(|(l, r)| *l == nth || *r == nth);
            let outer = |is_left| kind == Kind::Outer || (kind == Kind::Left && is_left);
            let lonely = sent.iter().enumerate().filter(|(n, (left, _, _))| outer(*left) && lacks(*n));
            let lonely: BTreeMap<_, _> = lonely.map(|(nth, (_, _, time))| (nth, *time)).collect();
            prop_assert_eq!(&alone, &lonely, "{:?}", kind);
        }
    }

    #[test]
    fn every_record_of_an_outer_join_is_told_with_a_partner_or_once_without_whatever_is_late(
        sent in sent(0..300),
        before in 0..20i64,
        after in 0..20i64,
        grace in 0..20u64,
        restart in restart(),
    ) {
        let windows = JoinWindows::of_difference(ms(0)).before_ms(before).after_ms(after);
        let mut driver = started(Kind::Outer, windows.grace(ms(grace)), Semantics::Corrected);
        feed(&mut driver, &sent, restart);
        pipe_all(&mut driver, &[("right", "end", "x", 10_000)]);
        let possible = pairs(&sent, (before, after));
        let (mut met, mut alone) = (BTreeSet::new(), BTreeSet::new());
        for (left, right, _) in results(&mut driver) {
            match (left, right) {
                (Some(left), Some(right)) => {
                    prop_assert!(possible.contains_key(&(left, right)));
                    met.extend([left, right]);
                }
                (Some(one), None) | (None, Some(one)) => prop_assert!(alone.insert(one)),
                (None, None) => {}
            }
        }
        prop_assert!(met.is_disjoint(&alone), "{:?}", met.intersection(&alone));
        let all: BTreeSet<usize> = (0..sent.len()).collect();
        prop_assert_eq!(met.union(&alone).copied().collect::<BTreeSet<_>>(), all);
    }
}

/// S14: times around the places where their bytes carry over, keys that are prefixes of each other.
fn s14_pairs_on(mut driver: TestDriver, sent: &[Sent]) -> BTreeMap<(usize, usize), i64> {
    feed(&mut driver, sent, None);
    let pair = |(left, right, time): (Option<usize>, Option<usize>, i64)| {
        ((left.unwrap(), right.unwrap()), time)
    };
    results(&mut driver).into_iter().map(pair).collect()
}

#[test]
fn s14_stores_in_memory_and_on_rocks_find_the_pairs_of_brute_force() {
    const YEAR_2100_MS: i64 = 4_102_444_800_000;
    let around = [0, 1 << 31, 1 << 32, 1_790_000_000_000, YEAR_2100_MS];
    let keys = ["a", "aa", "a\0"];
    // A fixed sequence of numbers that looks random (a linear congruential generator).
    let mut state = 42_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) % below
    };
    let mut sent: Vec<Sent> = Vec::new();
    for _ in 0..4_000 {
        let time = around[draw(5) as usize] + draw(400_000) as i64 - 200_000;
        sent.push((draw(2) == 0, keys[draw(3) as usize].to_owned(), time.max(0)));
    }
    let expected = pairs(&sent, (5_000, 5_000));
    assert!(expected.len() > 1_000, "{}", expected.len());
    let windows = JoinWindows::of_difference(ms(5_000)).grace(ms(YEAR_2100_MS as u64 * 2));
    let memory = joined(Kind::Inner, windows, StreamJoined::named("pairs").in_memory());
    let driver = TestDriver::new(&memory.build().unwrap(), TaskConfig::new("app")).unwrap();
    assert_eq!(s14_pairs_on(driver, &sent), expected);
    #[cfg(feature = "rocksdb")]
    {
        let persistent = joined(Kind::Inner, windows, "pairs".into()).build().unwrap();
        let driver = TestDriver::builder(&persistent, TaskConfig::new("app"));
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let driver = driver.engine(move |_| {
            let options = thalweg_state::RocksOptions::default();
            Ok(Box::new(thalweg_state::RocksEngine::open(&path, &[], &options)?))
        });
        assert_eq!(s14_pairs_on(driver.start().unwrap(), &sent), expected);
    }
}
