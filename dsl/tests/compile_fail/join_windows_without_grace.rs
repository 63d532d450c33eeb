use std::time::Duration;

use thalweg::{JoinWindows, StreamsBuilder, Topic};

fn main() {
    let builder = StreamsBuilder::new();
    let orders = builder.stream(&Topic::<String, String>::new("orders"));
    let payments = builder.stream(&Topic::<String, i64>::new("payments"));
    let windows = JoinWindows::of_difference(Duration::from_secs(60));
    orders.join_stream("orders-payments", &payments, windows, |_, order, paid| format!("{order}: {paid}"));
}
