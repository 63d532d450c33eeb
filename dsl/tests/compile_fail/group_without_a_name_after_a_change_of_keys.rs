use thalweg::{StreamsBuilder, Topic};

fn main() {
    let builder = StreamsBuilder::new();
    let visits = builder.stream(&Topic::<String, String>::new("visits"));
    visits.select_key(|_user, page| page.clone()).group_by_key();
}
