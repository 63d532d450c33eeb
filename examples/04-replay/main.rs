//! Page views again, with a mistake put right: robots are not counted any more. What was counted wrongly is counted again, by a
//! replay that leaves the live application's results and state as they are.
//!
//! ```text
//! page-views       run --until-end --input views.txt                       the live application, with the mistake
//! page-views-fixed replay --from 2025-06-01T14:00:00Z --as fixed           counts again from 14:00 on
//! ```
//!
//! A directory of `log://` belongs to one process at a time, so the live application is stopped while the replay runs. Both have one
//! application id, so the replay reads the live application's input. It has state and topics of its own, though: its results go to
//! `views-per-minute-replay-fixed`, and nothing that the live application uses is touched. A window that begins before `--from` would
//! be counted in part; begin on a window's edge, or let `--warm-up 1m` fill it without output.

use std::process::ExitCode;
use std::time::Duration;

use thalweg::{App, I64Be, StreamsBuilder, TimeWindowedSerde, TimeWindows, Topic, Utf8, Windowed};

const MINUTE: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let views = Topic::<String, String>::new("views");
    let per_minute = Topic::<Windowed<String>, i64>::with(
        "views-per-minute",
        TimeWindowedSerde::new(Utf8, MINUTE),
        I64Be,
    );

    let builder = StreamsBuilder::new();
    builder
        .stream(&views)
        .filter_not(|_page, view| view.ends_with(" robot"))
        .group_by_key()
        .windowed_by(TimeWindows::of_size(MINUTE).grace(Duration::from_secs(10)))
        .count("views-per-minute")
        .to(&per_minute);
    let topology = builder.build().expect("the topology is sound");

    App::new(topology)
        .set("application.id", "page-views")
        .set("processing.guarantee", "exactly_once")
        .topic("views", 2)
        .topic("views-per-minute", 2)
        .results(&per_minute, |out, window, count| {
            let start = jiff::Timestamp::from_millisecond(window.window.start_ms);
            writeln!(out, "{} {} {count}", start.unwrap_or_default(), window.key)
        })
        .main()
}
