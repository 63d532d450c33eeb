use thalweg::{StreamsBuilder, Topic, datum};

#[derive(Clone)]
struct Activity;
datum!(Activity);

fn main() {
    let builder = StreamsBuilder::new();
    let clicks = builder.stream(&Topic::<String, i64>::new("clicks")).group_by_key();
    let views = builder.stream(&Topic::<String, i64>::new("views")).group_by_key();
    clicks
        .cogroup(|_, _, _: &mut Activity| ())
        .cogroup(&views, |_, _, _| ())
        .aggregate("activity", || Activity);
}
