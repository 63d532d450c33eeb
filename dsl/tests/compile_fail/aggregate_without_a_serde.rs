use thalweg::{StreamsBuilder, Topic, datum};

#[derive(Clone)]
struct Totals;
datum!(Totals);

fn main() {
    let builder = StreamsBuilder::new();
    let orders = builder.stream(&Topic::<String, i64>::new("orders"));
    orders.group_by_key().aggregate("totals", || Totals, |_, _, _| ());
}
