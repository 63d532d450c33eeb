use thalweg::{Store, datum};

#[derive(Clone)]
struct Order;
datum!(Order);

fn main() {
    Store::<String, Order>::key_value("orders");
}
