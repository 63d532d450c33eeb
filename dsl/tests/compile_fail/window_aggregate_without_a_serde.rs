use std::time::Duration;

use thalweg::{StreamsBuilder, TimeWindows, Topic, datum};

#[derive(Clone)]
struct Totals;
datum!(Totals);

fn main() {
    let builder = StreamsBuilder::new();
    let orders = builder.stream(&Topic::<String, i64>::new("orders"));
    let hours = TimeWindows::of_size(Duration::from_secs(3_600)).no_grace();
    orders.group_by_key().windowed_by(hours).aggregate("totals", || Totals, |_, _, _| ());
}
