use crate::support::Place;

const PROGRAM: &str = env!("CARGO_BIN_EXE_enrichment");

#[test]
fn an_order_meets_the_customer_as_known_when_it_came() {
    let place = Place::new();
    place.file("customers", "ada,Ada Byron\nalan,Alan Turing\n");
    place.file("orders", "1,ada,30 EUR\n2,alan,5 EUR\n3,eve,7 EUR\n");
    let run = ["run", "--until-end", "--input", "customers=customers", "--input", "orders=orders"];
    let first = "1,30 EUR,Ada Byron\n2,5 EUR,Alan Turing\n3,7 EUR,unknown\n";
    assert_eq!(place.results(PROGRAM, &run), first);

    place.file("customers", "ada,Ada Byron\nalan,Alan Turing\nada,Ada Lovelace\neve,Eve\n");
    place.file("orders", "1,ada,30 EUR\n2,alan,5 EUR\n3,eve,7 EUR\n4,ada,1 EUR\n");
    assert_eq!(place.results(PROGRAM, &run), format!("{first}4,1 EUR,Ada Lovelace\n"));
}

#[test]
fn an_input_has_to_say_its_topic() {
    let place = Place::new();
    place.file("orders", "");
    let ended = place.run(PROGRAM, &["run", "--input", "orders"]);
    assert_eq!(ended.code, Some(2));
    let message = "write TOPIC=FILE, where the topic is one of `customers`, `orders`\n";
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
}
