#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io::{self, Cursor, Read};

use proptest::prelude::*;
use thalweg_connectors::{Call, Fault, FaultPlan, MemBroker, Timestamp, Topic};

use super::*;

fn broker(partitions: i32) -> MemBroker {
    let broker = MemBroker::new();
    create_topic(&broker, "lines", partitions).unwrap();
    broker
}

fn values(broker: &MemBroker) -> Vec<Vec<u8>> {
    let topic = Topic::<Option<Vec<u8>>, Vec<u8>>::new("lines");
    read_all(broker, &topic).unwrap().into_iter().map(|r| r.value).collect()
}

#[test]
fn each_line_becomes_a_record_without_its_end() {
    let broker = broker(1);
    let text = b"one\n\ntwo\r\n \xff";
    let appended = LineFeed::to("lines").append(&broker, "g", Cursor::new(text)).unwrap();
    assert_eq!(appended, Appended { lines: 4, skipped: 0, from: 0, to: text.len() as u64 });
    assert_eq!(values(&broker), [&b"one"[..], b"", b"two", b" \xff"]);
}

#[test]
fn a_text_that_grew_is_continued_where_it_ended() {
    let broker = broker(1);
    let feed = LineFeed::to("lines");
    let append = |text: &str| feed.append(&broker, "g", Cursor::new(text.to_owned())).unwrap();
    assert_eq!(append("a\nb\n"), Appended { lines: 2, skipped: 0, from: 0, to: 4 });
    assert_eq!(append("a\nb\n"), Appended { lines: 0, skipped: 0, from: 4, to: 4 });
    assert_eq!(append("a\nb\nc"), Appended { lines: 1, skipped: 0, from: 4, to: 5 });
    assert_eq!(values(&broker), [b"a", b"b", b"c"]);
}

#[test]
fn a_text_that_shrank_is_refused() {
    let broker = broker(1);
    let feed = LineFeed::to("lines");
    feed.append(&broker, "g", Cursor::new("a\nb\n")).unwrap();
    let error = feed.append(&broker, "g", Cursor::new("a\n")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`g` has 2 bytes, but 4 were appended from it before: it was shortened or replaced; \
         give it another name to append it from its beginning"
    );
    assert_eq!(values(&broker).len(), 2);
}

#[test]
fn files_keep_positions_of_their_own() {
    let broker = broker(1);
    let directory = tempfile::tempdir().unwrap();
    let feed = LineFeed::to("lines");
    for (name, text) in [("a", "1\n"), ("b", "2\n"), ("a", "1\n3\n")] {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        feed.append_file(&broker, "g", &path).unwrap();
    }
    assert_eq!(values(&broker), [b"1", b"2", b"3"]);
    let error = feed.append_file(&broker, "g", &directory.path().join("c")).unwrap_err();
    assert!(error.to_string().starts_with("cannot open the input `"), "{error}");
}

#[test]
fn lines_go_to_all_partitions_in_turn_and_keys_to_their_own() {
    let broker = broker(3);
    let text: String = (0..9).map(|n| format!("{n}\n")).collect();
    LineFeed::to("lines").append(&broker, "g", Cursor::new(text)).unwrap();
    let topic = Topic::<Option<String>, String>::new("lines");
    let per_partition =
        |p| read_all(&broker, &topic).unwrap().iter().filter(|r| r.partition == p).count();
    assert_eq!([0, 1, 2].map(per_partition), [3, 3, 3]);

    let feed = LineFeed::to("lines").key(|line| line.split_once(' ').map(|(key, _)| key));
    feed.append(&broker, "keyed", Cursor::new("k 1\nk 2\nk 3\n")).unwrap();
    let keyed: Vec<_> =
        read_all(&broker, &topic).unwrap().into_iter().filter(|r| r.key.is_some()).collect();
    assert_eq!(keyed.len(), 3);
    assert!(keyed.iter().all(|r| r.partition == thalweg_connectors::partition_for(b"k", 3)));
}

#[test]
fn key_and_timestamp_come_out_of_the_line_and_a_line_without_them_is_named() {
    let broker = broker(1);
    let feed = LineFeed::to("lines")
        .key(|line| line.split(' ').nth(1))
        .timestamp(|line| line.split(' ').next().unwrap_or_default().parse().map(Timestamp));
    feed.append(&broker, "g", Cursor::new("5 a\n3 b\n")).unwrap();
    let topic = Topic::<String, String>::new("lines");
    let read: Vec<_> =
        read_all(&broker, &topic).unwrap().into_iter().map(|r| (r.key, r.timestamp.0)).collect();
    assert_eq!(read, [("a".to_owned(), 5), ("b".to_owned(), 3)]);

    for (line, message) in [
        ("7", "no key found"),
        ("x c", "no timestamp found"),
        ("-1000 c", "the timestamp -1000 ms (1969-12-31T23:59:59Z) is before 1970"),
        ("-1 c", "the timestamp -1 ms (1969-12-31T23:59:59.999Z) is before 1970"),
    ] {
        let text = format!("5 a\n3 b\n{line}\n9 d\n");
        let error = feed.append(&broker, "g", Cursor::new(text)).unwrap_err();
        let message = format!(
            "cannot take g:3 (byte 8): {message}; put the line right, or leave such lines out with \
             `deserialization.exception.handler=continue`"
        );
        assert_eq!(error.to_string(), message);
    }
    assert_eq!(values(&broker).len(), 2, "nothing of a refused megabyte is appended");
    feed.append(&broker, "g", Cursor::new("5 a\n3 b\n7 c\n9 d\n")).unwrap();
    assert_eq!(values(&broker).len(), 4);
}

#[test]
fn bad_lines_are_left_out_and_counted_where_that_is_asked_for() {
    let broker = broker(1);
    let feed = LineFeed::to("lines")
        .key(|line| line.split(' ').nth(1))
        .timestamp(|line| line.split(' ').next().unwrap_or_default().parse().map(Timestamp))
        .skip_bad_lines();
    let append = |text: &[u8]| feed.append(&broker, "g", Cursor::new(text.to_vec())).unwrap();
    let text = b"5 a\n7\nx b\n-1 c\n\xff\n6 d\n";
    let length = text.len() as u64;
    assert_eq!(append(text), Appended { lines: 2, skipped: 4, from: 0, to: length });
    assert_eq!(append(text), Appended { lines: 0, skipped: 0, from: length, to: length });
    assert_eq!(values(&broker), [b"5 a", b"6 d"]);
}

#[test]
fn lines_are_counted_over_all_calls() {
    let broker = broker(1);
    let feed = LineFeed::to("lines").key(|line| line.strip_prefix("k"));
    feed.append(&broker, "g", Cursor::new("k1\nk2\n")).unwrap();
    let error = feed.append(&broker, "g", Cursor::new("k1\nk2\nk3\nx\n")).unwrap_err();
    assert!(error.to_string().starts_with("cannot take g:4 (byte 9): no key found; "), "{error}");
}

#[test]
fn a_file_that_was_replaced_is_refused_whatever_its_length() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    for other in ["A\nb\n", "a\nB\n", "new\ntext\n"] {
        let broker = broker(1);
        let feed = LineFeed::to("lines");
        std::fs::write(&path, "a\nb\n").unwrap();
        feed.append_file(&broker, "g", &path).unwrap();
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, other).unwrap();
        let error = feed.append_file(&broker, "g", &path).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!(
                "`{}` is not the text any more of which 4 bytes were appended before: it was replaced or changed; \
                 give it another name to append it from its beginning",
                path.display()
            )
        );
        assert_eq!(values(&broker), [b"a", b"b"], "nothing of it is appended");
        // The text that was appended is taken again, as a file of its own too: an editor saves like that.
        std::fs::write(&path, "a\nb\nc\n").unwrap();
        assert_eq!(feed.append_file(&broker, "g", &path).unwrap().lines, 1);
    }
}

#[test]
fn a_last_line_that_was_appended_without_its_end_may_get_that_and_nothing_else() {
    let broker = broker(1);
    let feed = LineFeed::to("lines");
    let append = |text: &str| feed.append(&broker, "g", Cursor::new(text.to_owned()));
    assert_eq!(append("a\nb").unwrap().lines, 2);
    let error = append("a\nbc\n").unwrap_err().to_string();
    let message = "cannot take g:2 (byte 3): it has grown since it was appended without its end; ";
    assert!(error.starts_with(message), "{error}");
    assert_eq!(append("a\nb\nc\n").unwrap().lines, 1);
    assert_eq!(values(&broker), [b"a", b"b", b"c"]);
    assert_eq!(append("a\nb\nc\nd").unwrap().lines, 1);
    let feed = feed.clone().skip_bad_lines();
    let grown = feed.append(&broker, "g", Cursor::new("a\nb\nc\nde\nf\n")).unwrap();
    assert_eq!((grown.lines, grown.skipped), (1, 1));
}

#[test]
fn a_directory_is_no_input() {
    let broker = broker(1);
    let directory = tempfile::tempdir().unwrap();
    let error = LineFeed::to("lines").append_file(&broker, "g", directory.path()).unwrap_err();
    let text = crate::app::error::report(&error, None);
    assert!(text.contains("cannot open the input `") && text.contains("is a directory"), "{text}");
}

#[test]
fn a_missing_topic_is_named() {
    let broker = MemBroker::new();
    let error = LineFeed::to("lines").append(&broker, "g", Cursor::new("a")).unwrap_err();
    assert_eq!(error.to_string(), "cannot append lines to `lines`");
    let error = read_table(&broker, &Topic::<String, i64>::new("totals")).unwrap_err();
    assert_eq!(error.to_string(), "there is no topic `totals`");
}

/// Gives a few bytes at a time, as a pipe does.
struct Pipe<'t>(&'t [u8], usize);

impl Read for Pipe<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.1.min(self.0.len()).min(buffer.len());
        buffer[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

#[test]
fn a_pipe_is_appended_as_it_comes_and_anew_each_time() {
    let broker = broker(1);
    for _ in 0..2 {
        let appended =
            LineFeed::to("lines").append_once(&broker, "g", Pipe(b"ab\ncd\nef", 2)).unwrap();
        assert_eq!(appended.lines, 3);
    }
    assert_eq!(values(&broker), [b"ab", b"cd", b"ef", b"ab", b"cd", b"ef"]);
}

#[test]
fn the_latest_value_of_each_key_is_read_in_the_order_of_the_keys() {
    let broker = broker(2);
    let feed = LineFeed::to("lines").key(|line| line.split('=').next());
    feed.append(&broker, "g", Cursor::new("b=1\na=1\nb=2\nc=1\n")).unwrap();
    let table = read_table(&broker, &Topic::<String, String>::new("lines")).unwrap();
    let values: Vec<&str> = table.iter().map(|(_, v)| v.as_str()).collect();
    assert_eq!(values, ["a=1", "b=2", "c=1"]);
}

#[test]
fn a_null_key_is_a_row_of_its_own_and_stays_null() {
    let broker = broker(1);
    LineFeed::to("lines").append(&broker, "g", Cursor::new("a\nb\n")).unwrap();
    let of_unit = read_table(&broker, &Topic::<(), String>::new("lines")).unwrap();
    assert_eq!(of_unit, [((), "b".to_owned())]);

    let feed = LineFeed::to("lines").key(|line| Some(&line[..0]));
    feed.append(&broker, "h", Cursor::new("c\n")).unwrap();
    let rows = read_table(&broker, &Topic::<Option<String>, String>::new("lines")).unwrap();
    assert_eq!(rows, [(None, "b".to_owned()), (Some(String::new()), "c".to_owned())]);
}

#[test]
fn a_line_that_is_too_long_is_named_or_left_out_and_counted() {
    const MAX: usize = 16 << 20;
    let feed = LineFeed::to("lines");
    for length in [MAX + 1, MAX + 2, MAX + (1 << 20)] {
        for end in ["\nb\n", "\r\nb", "\n", ""] {
            let text = format!("a\n{}{end}", "x".repeat(length));
            let broker = broker(1);
            let error = feed.append(&broker, "g", Cursor::new(&text)).unwrap_err().to_string();
            assert!(
                error.starts_with("cannot take g:2 (byte 2): it is longer than 16 MiB; "),
                "{error}"
            );

            let skipping = feed.clone().skip_bad_lines();
            let appended = skipping.append(&broker, "g", Cursor::new(&text)).unwrap();
            let to = text.len() as u64;
            assert_eq!((appended.skipped, appended.to), (1, to), "{length} {end:?}");
            let expected: &[&[u8]] = if end.contains('b') { &[b"a", b"b"] } else { &[b"a"] };
            assert_eq!(values(&broker), expected);
            let again = skipping.append(&broker, "g", Cursor::new(&text)).unwrap();
            assert_eq!(again, Appended { lines: 0, skipped: 0, from: to, to });
        }
    }
    for end in ["\n", "\r\n", ""] {
        let broker = broker(1);
        let text = format!("{}{end}", "x".repeat(MAX));
        assert_eq!(feed.append(&broker, "g", Cursor::new(&text)).unwrap().lines, 1);
    }
}

#[test]
fn an_undecodable_record_is_named_and_not_shown() {
    let broker = broker(1);
    LineFeed::to("lines").append(&broker, "g", Cursor::new("canary\n")).unwrap();
    let error = read_all(&broker, &Topic::<Option<String>, i64>::new("lines")).unwrap_err();
    assert_eq!(error.to_string(), "cannot deserialize the value of lines-0@0");
    let chain = crate::app::error::report(&error, None);
    assert!(chain.contains("expected 8 bytes") && !chain.contains("canary"), "{chain}");
}

proptest! {
    /// Whatever call fails, and whether its effect is known or not: after trying again each line is there once.
    #[test]
    fn lines_are_appended_once_whatever_fails(
        call in prop_oneof![Just(Call::Init), Just(Call::Begin), Just(Call::SendOffsets), Just(Call::Commit)],
        nth in 1u64..5,
        answer_lost: bool,
        lines in 1usize..40,
    ) {
        let broker = broker(2);
        // Lines of 100 kB, so that there are several transactions.
        let text: String = (0..lines).map(|n| format!("{n}{}\n", "x".repeat(100_000))).collect();
        let fault = if answer_lost { Fault::AnswerLost } else { Fault::RequestLost };
        broker.set_faults(FaultPlan::new().on(call, nth, fault));
        let mut tries = 0;
        while LineFeed::to("lines").append(&broker, "g", Cursor::new(text.as_bytes())).is_err() {
            tries += 1;
            prop_assert!(tries < 5);
        }
        let mut numbers: Vec<usize> = values(&broker)
            .iter()
            .map(|v| std::str::from_utf8(v).unwrap().trim_end_matches('x').parse().unwrap())
            .collect();
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (0..lines).collect::<Vec<_>>());
    }
}
