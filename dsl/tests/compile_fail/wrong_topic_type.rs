use thalweg::{StreamsBuilder, Topic};

fn main() {
    let builder = StreamsBuilder::new();
    let lines = builder.stream(&Topic::<String, String>::new("lines"));
    lines.to(&Topic::<String, i64>::new("lengths"));
}
