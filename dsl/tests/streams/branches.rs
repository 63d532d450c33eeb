//! Splitting a stream.

use thalweg::{Branched, KStream, Name, StreamsBuilder};

use crate::support::{nodes, pipe, read, start, text};

type Stream = KStream<Option<String>, Option<String>>;

#[test]
fn the_first_branch_that_holds_takes_the_record_and_the_default_the_rest() {
    let builder = StreamsBuilder::new();
    let branches = builder
        .stream(&text("in"))
        .split("by-")
        .branch("a", |_, v| v.as_ref().is_some_and(|v| v.contains('a')))
        .branch("b", |_, v| v.as_ref().is_some_and(|v| v.contains('b')))
        .default_branch("rest");
    branches["a"].to(&text("a"));
    branches["b"].to(&text("b"));
    branches["by-rest"].to(&text("rest"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["k=ab@1", "k=b@2", "k=c@3", "k=@4"]);
    assert_eq!(read(&driver, "a"), ["k=ab@1"]);
    assert_eq!(read(&driver, "b"), ["k=b@2"]);
    assert_eq!(read(&driver, "rest"), ["k=c@3", "k=@4"]);
}

#[test]
fn without_a_default_branch_other_records_are_left_out_and_not_counted() {
    let builder = StreamsBuilder::new();
    let split = builder.stream(&text("in")).split("by-").branch("a", |k, _| k.is_some());
    split.no_default_branch()["a"].to(&text("a"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["k=1@1", "=2@2"]);
    assert_eq!((read(&driver, "a").len(), driver.dropped_records()), (1, 0));
}

#[test]
fn unnamed_branches_are_numbered_from_one_and_the_default_is_zero() {
    let builder = StreamsBuilder::new();
    let any = Name::kafka_generated;
    let branches = builder
        .stream(&text("in"))
        .split(any())
        .branch(any(), |_, _| true)
        .branch(any(), |_, _| true)
        .default_branch(any());
    let names: Vec<_> = branches.names().collect();
    let expected = ["0", "1", "2"].map(|n| format!("KSTREAM-BRANCH-0000000001{n}"));
    assert_eq!(names, expected);
    branches["KSTREAM-BRANCH-00000000011"].to(&text("out"));
    assert_eq!(nodes(&builder).last().unwrap(), "KSTREAM-SINK-0000000005");
}

#[test]
fn a_branch_can_be_replaced_used_up_or_removed() {
    let builder = StreamsBuilder::new();
    let branches = builder
        .stream(&text("in"))
        .split("b-")
        .branch(
            Branched::named("fun").with_function(|s: Stream| {
                Some(s.map_values(|_, v| v.as_ref().map(|v| v.to_uppercase())))
            }),
            |_, v| v.as_ref().is_some_and(|v| v.starts_with('f')),
        )
        .branch(Branched::named("con").with_consumer(|s| drop(s.to(&text("con")))), |_, v| {
            v.as_ref().is_some_and(|v| v.starts_with('c'))
        })
        .branch(
            Branched::named("nul").with_function(|s| {
                s.to(&text("nul"));
                None
            }),
            |_, _| true,
        )
        .no_default_branch();
    assert_eq!(branches.names().collect::<Vec<_>>(), ["b-fun"]);
    assert!(branches.get("con").is_none());
    branches["fun"].to(&text("fun"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["k=f@1", "k=c@2", "k=n@3"]);
    let topics = ["fun", "con", "nul"].map(|t| read(&driver, t));
    assert_eq!(topics, [["k=F@1"], ["k=c@2"], ["k=n@3"]]);
}

#[test]
fn two_branches_of_one_name_are_a_mistake() {
    let builder = StreamsBuilder::new();
    let split = builder.stream(&text("in")).split("q-");
    let _ = split.branch("A", |_, _| true).branch("A", |_, _| true).no_default_branch();
    let error = builder.build().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the topology is invalid: a node named `q-A` is there already; give one of the two another name"
    );
}

#[test]
#[should_panic(expected = "there is no branch `c`; there are: by-a, by-rest")]
fn asking_for_a_branch_that_is_not_there_names_those_that_are() {
    let builder = StreamsBuilder::new();
    let split = builder.stream(&text("in")).split("by-").branch("a", |_, _| true);
    let _ = &split.default_branch("rest")["c"];
}
