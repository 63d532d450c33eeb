//! What `build` promises.

use thalweg::{
    BuildConfig, Grouped, KStream, Materialized, StoreType, StreamsBuilder, TopologyError,
};

use crate::support::text;

#[test]
fn every_mistake_is_reported_and_what_follows_from_one_is_not() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in"));
    stream.filter(|_, _| true).named("same");
    stream.filter(|_, _| true).named("same").peek(|_, _| ()).to(&text("out"));
    stream.to(&text("bad topic"));
    let error = builder.build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the topology has 2 mistakes:\
         \n  - a node named `same` is there already; give one of the two another name\
         \n  - `bad topic` is not a legal name: only ASCII letters, digits, `.`, `_` and `-` are allowed"
    );
    assert_eq!(error.class(), thalweg::ErrorClass::Fatal);
}

#[test]
fn an_empty_topology_is_a_mistake() {
    let error = StreamsBuilder::new().build().unwrap_err();
    assert_eq!(error.errors(), [TopologyError::Empty]);
}

#[test]
fn a_store_that_two_steps_declare_is_told_with_the_lines_of_both() {
    let builder = StreamsBuilder::new();
    let grouped = builder.stream(&text("in")).group_by_key();
    grouped.count("kept");
    let first = line!() - 1;
    grouped.reduce("kept", |_, new| new.clone());
    let second = line!() - 1;
    let table = builder.table(&text("other"), "rows");
    table.filter_into("kept", |_, _| true);
    let third = line!() - 1;
    let error = builder.build().unwrap_err();
    let told: Vec<String> = error.errors().iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 2, "{error}");
    for (told, again) in told.iter().zip([second, third]) {
        let here = |line| format!("tests/streams/building.rs:{line}:");
        assert!(told.contains(&here(first)) && told.contains(&here(again)), "{told}");
        assert!(told.contains("differs in value type (i64, alloc::string::String)"), "{told}");
    }
}

#[test]
fn a_handle_panics_after_build_at_the_callers_line() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in"));
    stream.to(&text("out"));
    builder.build().unwrap();
    type Use = fn(&StreamsBuilder, &KStream<Option<String>, Option<String>>);
    let uses: [Use; 4] = [
        |_, s| drop(s.filter(|_, _| true)),
        |_, s| drop(s.to(&text("again"))),
        |b, _| drop(b.stream(&text("again"))),
        |b, _| drop(b.build()),
    ];
    for (i, late) in uses.iter().enumerate() {
        let (place, told) = panic_of(|| late(&builder, &stream));
        assert_eq!(told, "the topology is built already; finish it before `build`");
        assert!(place.ends_with("building.rs"), "use {i} panicked in {place}");
    }
}

/// File and message of a panic.
fn panic_of(work: impl FnOnce()) -> (String, String) {
    let place = std::sync::Arc::new(std::sync::Mutex::new(String::new()));
    let noted = std::sync::Arc::clone(&place);
    let thread = std::thread::current().id();
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if std::thread::current().id() == thread {
            *noted.lock().unwrap() = info.location().unwrap().file().to_owned();
        } else {
            before(info);
        }
    }));
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_err();
    let told = panic.downcast_ref::<String>().cloned();
    let told = told.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
    let place = place.lock().unwrap().clone();
    (place, told.unwrap())
}

#[test]
fn explicit_names_refuse_generated_ones() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(&text("in"));
    stream.group_by_key().count(Materialized::kafka_generated());
    stream.select_key(|k, _| k.clone()).group_by_key_via(Grouped::kafka_generated()).count("named");
    let error = builder.build_with(&BuildConfig::new().explicit_names()).unwrap_err();
    let [TopologyError::GeneratedName { name, .. }] = error.errors() else { panic!("{error}") };
    assert!(name.starts_with("KSTREAM-AGGREGATE-STATE-STORE-0000000001"), "{name}");
}

#[test]
fn the_default_place_of_stores_is_for_those_that_do_not_say() {
    let builder = StreamsBuilder::new();
    let grouped = builder.stream(&text("in")).group_by_key();
    grouped.count("undecided");
    grouped.count(Materialized::named("on-disk").persistent());
    let config = BuildConfig::new().default_store(StoreType::InMemory);
    let topology = builder.build_with(&config).unwrap();
    let placed: Vec<_> =
        topology.stores().map(|s| (s.def.name.to_string(), s.def.persistent)).collect();
    assert_eq!(placed, [("undecided".to_owned(), false), ("on-disk".to_owned(), true)]);
}
