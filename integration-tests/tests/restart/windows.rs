//! The windowed count, killed again and again. Some records are too late; which ones must not depend on a kill.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg::{I64Be, Offset, TimeWindowedSerde, Topic, Utf8, Windowed};
use thalweg_connectors::partition_for;

use crate::support::kills::{Victim, parts};
use crate::support::random::seed;
use crate::support::text::{View, lines, page, views};
use crate::support::{Place, Program, assert_same, increasing};

const WINDOW_MS: i64 = 60_000;
const GRACE_MS: i64 = 10_000;
const PARTITIONS: usize = 2;

/// A page, and where a window begins.
type Row = (String, i64);

/// What a plain loop counts, and how many views it finds too late.
pub(crate) fn counted(views: &[View]) -> (BTreeMap<Row, i64>, u64) {
    let (mut counts, mut late) = (BTreeMap::new(), 0);
    let mut stream_time = [i64::MIN; PARTITIONS];
    for view in views {
        let page = page(view);
        let partition = partition_for(page.as_bytes(), PARTITIONS as i32) as usize;
        let now = &mut stream_time[partition];
        *now = view.at_ms.max(*now);
        let start = view.at_ms - view.at_ms % WINDOW_MS;
        if start + WINDOW_MS + GRACE_MS > *now {
            *counts.entry((page, start)).or_default() += 1;
        } else {
            late += 1;
        }
    }
    (counts, late)
}

/// The topic of counts per minute.
pub(crate) fn per_minute(suffix: &str) -> Topic<Windowed<String>, i64> {
    let serde = TimeWindowedSerde::new(Utf8, Duration::from_millis(WINDOW_MS as u64));
    Topic::with(format!("views-per-minute{suffix}"), serde, I64Be)
}

fn rows(place: &Place) -> Vec<(Row, i64, Offset)> {
    let records = place.read(&per_minute(""));
    let row = |key: Windowed<String>| (key.key, key.window.start_ms);
    records.into_iter().map(|r| (row(r.key), r.value, r.offset)).collect()
}

#[test]
fn windowed_count_that_is_killed_20_times_is_exact() {
    let place = Place::new(Program::PageViews, &[]);
    let seed = seed(0x7ead_0003);
    let views = views(seed, 800_000);
    let (expected, late) = counted(&views);
    println!("{} views, {late} of them too late, {} rows", views.len(), expected.len());
    assert!(late > 50_000);
    let text = lines(&views);
    let parts = parts(text.as_bytes());
    let victim = Victim { place: &place, guarantee: "exactly_once", parts };
    let lives = victim.live(seed);
    assert_same(&increasing(rows(&place)), &expected);
    lives.assert_no_warnings();
}
