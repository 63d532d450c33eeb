use std::time::Duration;

use thalweg::{StreamsBuilder, TimeWindows, Topic};

fn main() {
    let builder = StreamsBuilder::new();
    let visits = builder.stream(&Topic::<String, String>::new("visits"));
    visits.group_by_key().windowed_by(TimeWindows::of_size(Duration::from_secs(60))).count("visits");
}
