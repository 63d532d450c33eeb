//! Counts the views of each page per minute, by the time at which they happened.
//!
//! ```text
//! page-views run --until-end --input views.txt
//! ```
//!
//! A line of input is a time, a page and who asked for it: `2025-06-01T14:00:05Z /home browser`. Lines may come up to ten seconds
//! out of order. The result is one line per minute and page: `2025-06-01T14:00:00Z /home 3`.

use std::process::ExitCode;
use std::time::Duration;

use thalweg::feed::LineFeed;
use thalweg::{
    App, I64Be, StreamsBuilder, TimeWindowedSerde, TimeWindows, Timestamp, Topic, Utf8, Windowed,
};

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
        .input(LineFeed::to("views").key(page).timestamp(time))
        .results(&per_minute, |out, window, count| {
            writeln!(out, "{} {} {count}", start(window), window.key)
        })
        .main()
}

fn time(line: &str) -> Result<Timestamp, jiff::Error> {
    let time: jiff::Timestamp = line.split(' ').next().unwrap_or_default().parse()?;
    Ok(Timestamp(time.as_millisecond()))
}

fn page(line: &str) -> Option<&str> {
    line.split(' ').nth(1)
}

fn start(window: &Windowed<String>) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(window.window.start_ms).unwrap_or_default()
}
