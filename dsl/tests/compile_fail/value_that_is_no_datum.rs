use thalweg::{StreamsBuilder, Topic};

#[derive(Clone)]
struct Order;

fn main() {
    let builder = StreamsBuilder::new();
    let lines = builder.stream(&Topic::<String, String>::new("lines"));
    lines.map_values(|_, _line| Order);
}
