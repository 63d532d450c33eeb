//! Adds what is known of a customer to each of their orders.
//!
//! ```text
//! enrichment run --until-end --input customers=customers.csv --input orders=orders.csv
//! ```
//!
//! A customer is a line `ada,Ada Lovelace`, an order a line `1001,ada,30 EUR`. The result is one line per order:
//! `1001,30 EUR,Ada Lovelace`. Orders meet the customer as known when the order came; an order of nobody known is kept.

use std::process::ExitCode;

use thalweg::feed::LineFeed;
use thalweg::{App, StreamsBuilder, Topic};

fn main() -> ExitCode {
    // Both have the customer's id as key and a line as value, so equal ids meet in equal partitions.
    let orders = Topic::<String, String>::new("orders");
    let customers = Topic::<String, String>::new("customers");
    let enriched = Topic::<String, String>::new("enriched-orders");

    let builder = StreamsBuilder::new();
    let customers = builder.table(&customers, "customers").map_values(|_, line| column(line, 1));
    builder
        .stream(&orders)
        .left_join_table(&customers, |_, order, name| {
            let name = name.map_or("unknown", String::as_str);
            (column(order, 0), format!("{},{name}", column(order, 2)))
        })
        .map(|_, (order, text)| (order.clone(), text.clone()))
        .to(&enriched);
    let topology = builder.build().expect("the topology is sound");

    App::new(topology)
        .set("application.id", "enrichment")
        .set("processing.guarantee", "exactly_once")
        .topic("customers", 2)
        .topic("orders", 2)
        .topic("enriched-orders", 2)
        .input(LineFeed::to("customers").key(|line| line.split(',').next()))
        .input(LineFeed::to("orders").key(|line| line.split(',').nth(1)))
        .results(&enriched, |out, order, text| writeln!(out, "{order},{text}"))
        .main()
}

fn column(line: &str, number: usize) -> String {
    line.split(',').nth(number).unwrap_or_default().to_owned()
}
