use thalweg::{StreamsBuilder, Topic};

fn main() {
    let builder = StreamsBuilder::new();
    let orders = builder.stream(&Topic::<String, String>::new("orders"));
    let customers = builder.table(&Topic::<String, String>::new("customers"), "customers");
    let by_customer = orders.select_key(|_, customer| customer.clone());
    by_customer.join_table(&customers, |_, order, customer| format!("{order} of {customer}"));
}
