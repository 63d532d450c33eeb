use thalweg::{Topic, datum};

#[derive(Clone)]
struct Order;
datum!(Order);

fn main() {
    Topic::<String, Order>::new("orders");
}
