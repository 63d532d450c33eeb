use thalweg::{StreamsBuilder, Topic, datum};

#[derive(Clone)]
struct Page;
datum!(Page);

fn main() {
    let builder = StreamsBuilder::new();
    let visits = builder.stream(&Topic::<String, String>::new("visits"));
    visits.group_by("by-page", |_user, _page| Page);
}
