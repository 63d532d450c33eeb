use thalweg::{StreamsBuilder, Topic};

fn main() {
    let builder = StreamsBuilder::new();
    let lines = builder.stream(&Topic::<String, String>::new("lines"));
    let mut seen = 0;
    lines.filter(move |_, _| {
        seen += 1;
        seen > 10
    });
}
