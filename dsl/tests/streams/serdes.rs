//! Which serde a step uses: given, else known from upstream, else the builder's, else the type's own.

use thalweg::{
    Consumed, Datum, Grouped, I64Be, Produced, Repartitioned, Serde, SerdeError, StreamsBuilder,
    Topic, TopologyError, Utf8, datum,
};

use crate::support::{pipe, read, start};

/// A type without a serde of its own.
#[derive(Clone, Debug, PartialEq)]
struct Order(String);
datum!(Order);

/// Writes an order with a mark.
struct Marked(&'static str);

impl Serde<Order> for Marked {
    fn write(&self, order: &Order, out: &mut Vec<u8>) -> Result<thalweg::Field, SerdeError> {
        out.extend_from_slice(self.0.as_bytes());
        out.extend_from_slice(order.0.as_bytes());
        Ok(thalweg::Field::Bytes)
    }

    fn read(&self, bytes: Option<&[u8]>) -> Result<Order, SerdeError> {
        let text = Utf8.read(bytes).map(|text: String| text.replacen(self.0, "", 1));
        text.map(Order)
    }
}

/// The topic `in` of orders, read with the mark `u:` if there is one.
fn orders(builder: &StreamsBuilder) -> thalweg::KStream<String, Order> {
    builder.stream(&Topic::with("in", Utf8, Marked("u:")))
}

fn written(builder: &StreamsBuilder, topic: &str) -> Vec<String> {
    let mut driver = start(builder);
    pipe(&mut driver, "in", &["k=v@1"]);
    read(&driver, topic)
}

#[test]
fn a_given_serde_wins() {
    let builder = StreamsBuilder::new();
    builder.default_value_serde::<Order>(Marked("d:"));
    orders(&builder).to(Produced::topic("out").value_serde(Marked("g:")));
    assert_eq!(written(&builder, "out"), ["k=g:v@1"]);
}

#[test]
fn else_the_one_known_from_upstream_is_used() {
    let builder = StreamsBuilder::new();
    builder.default_value_serde::<Order>(Marked("d:"));
    orders(&builder)
        .filter(|_, _| true)
        .peek(|_, _| ())
        .select_key(|k, _| k.clone())
        .repartition("again")
        .to(Produced::topic("out"));
    assert_eq!(written(&builder, "out"), ["k=u:v@1"]);
}

#[test]
fn else_the_builders_default_for_the_type_is_used() {
    let builder = StreamsBuilder::new();
    builder.default_value_serde::<Order>(Marked("d:"));
    orders(&builder).map_values(|_, o| o.clone()).to(Produced::topic("out"));
    assert_eq!(written(&builder, "out"), ["k=d:v@1"]);
}

#[test]
fn else_the_types_own_is_used() {
    let builder = StreamsBuilder::new();
    let stream = builder.stream(Consumed::<String, Option<String>>::topic("in"));
    stream.map(|_, v| (1_i64, v.clone())).to(Produced::topic("out"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["k=v@1"]);
    let out = Topic::with("out", I64Be, Utf8);
    assert_eq!(driver.output(&out).read_pairs().unwrap(), [(1, "v".to_owned())]);
}

#[test]
fn a_repartition_topic_uses_the_serdes_that_were_given_to_it() {
    let builder = StreamsBuilder::new();
    let options = Repartitioned::with("mine", Utf8, Marked("r:"));
    orders(&builder).repartition(options).to(Produced::topic("out"));
    let mut driver = start(&builder);
    pipe(&mut driver, "in", &["k=v@1"]);
    assert_eq!(read(&driver, "app-mine-repartition"), ["k=r:v@1"]);
    assert_eq!(read(&driver, "out"), ["k=r:v@1"]);
}

#[test]
fn a_grouping_uses_the_serdes_that_were_given_to_it() {
    let builder = StreamsBuilder::new();
    let options = Grouped::with("by", Utf8, Marked("g:"));
    orders(&builder).group_by(options, |k, _| k.clone()).count("counts");
    assert_eq!(written(&builder, "app-by-repartition"), ["k=g:v@1"]);
}

#[test]
fn a_step_that_needs_an_unknown_serde_is_a_mistake_that_names_it() {
    assert!(Order::own_serde().is_none());
    let builder = StreamsBuilder::new();
    let mapped = orders(&builder).map_values(|_, o| o.clone());
    mapped.select_key(|k, _| k.clone()).repartition("mine").to(Produced::topic("out"));
    mapped.to(Produced::topic("out"));
    let error = builder.build().unwrap_err();
    let places: Vec<_> = error
        .errors()
        .iter()
        .map(|e| match e {
            TopologyError::NoSerde { node, field, of } => (&**node, *field, *of),
            other => panic!("{other}"),
        })
        .collect();
    let order = std::any::type_name::<Order>();
    assert_eq!(
        places,
        [("mine-repartition", "value", order), ("KSTREAM-SINK-0000000007", "value", order)]
    );
    assert!(error.to_string().starts_with("the topology has 2 mistakes:\n  - no serde is known"));
}

#[test]
fn a_step_that_writes_nothing_needs_no_serde() {
    let builder = StreamsBuilder::new();
    let mapped = orders(&builder).map_values(|_, o| o.clone());
    mapped.group_by_key().count("counts");
    mapped.for_each(|_, _| ());
    builder.build().unwrap();
}
