//! A record that its topic does not take.

use std::time::{Duration, Instant};

use thalweg_connectors::Offset;
use thalweg_processor::ErrorClass;

use crate::app::{App, assert_says, chain, end_of};

/// Text that no codec makes shorter by much.
fn noise(bytes: usize) -> String {
    let mut state = 1u64;
    let letter = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        char::from(33 + ((state >> 33) % 90) as u8)
    };
    (0..bytes).map(letter).collect()
}

#[test]
fn a_record_that_is_too_large_for_its_topic_ends_the_run_where_it_is() {
    // Our own look at the topic's limit, and the broker's when compression decides what a record takes.
    let cases = [
        ("producer.batch.size", "2000", "too large: max.message.bytes of the topic is 2000"),
        ("producer.compression.type", "lz4", "larger than max.message.bytes of the topic allows"),
    ];
    for (number, (setting, value, why)) in cases.into_iter().enumerate() {
        let mut app = App::new(&format!("large-{number}"));
        app.settings.insert(setting.to_owned(), value.to_owned());
        app.create_all(&[("max.message.bytes", "2000")]);
        let streams = app.start().unwrap();
        app.feed(&["small", "as well"]);
        app.await_echoed(&streams, 2);

        let fed = Instant::now();
        app.feed(&["fine", &noise(5000), "fine"]);
        let ended = end_of(streams);
        assert!(fed.elapsed() < Duration::from_secs(20), "it is not tried again and again");
        assert_eq!(ended.class(), ErrorClass::User);
        let said = chain(&ended);
        assert_says(&said, &["5001 bytes", &format!("{}-", app.echo()), why, "smaller records"]);
        if number == 0 {
            assert_says(&said, &[&format!("failed at {}-0@3", app.input())]);
        }
        assert!(!said.contains("!!!!"), "records are not shown");
        // The one in front of it may have had a transaction of its own.
        let Offset(next) = app.committed().unwrap().offset;
        assert!((2..=3).contains(&next), "{next}");
        assert_eq!(app.read(&app.echo()).len() as i64, next, "nothing of its transaction counts");
    }
}
