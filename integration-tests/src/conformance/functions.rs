//! Closures of the library made of a scenario's expressions.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use serde_json::{Value as Json, json};
use smallvec::smallvec;
use thalweg_connectors::{Headers, Timestamp};
use thalweg_processor::{
    PartitionerFn, Partitions, RecordContext, TimestampExtractor, TimestampPolicy, TopicExtractorFn,
};

use super::failure::unsupported;
use super::{Env, Expr, Fault, FaultKind, HeaderList, Host, Section, Value};

/// The logged calls, per step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<BTreeMap<String, Vec<Json>>>>);

impl Calls {
    pub(crate) fn log(&self, step: &str, key: &Value, value: &Value) {
        let call = json!({"key": key.to_json(), "value": value.to_json()});
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.entry(step.to_owned()).or_default().push(call);
    }

    pub(crate) fn take(&self) -> BTreeMap<String, Vec<Json>> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A timestamp policy by the name it has in scenarios.
pub(crate) fn timestamp_policy(name: &str) -> Result<TimestampPolicy, Fault> {
    Ok(match name {
        "fail_on_invalid" => TimestampPolicy::FailOnInvalid,
        "log_and_skip" => TimestampPolicy::LogAndSkip,
        "use_partition_time" => TimestampPolicy::UsePartitionTime,
        "wall_clock" => TimestampPolicy::WallClock,
        other => return Err(unsupported(format_args!("the timestamp extractor `{other}`"))),
    })
}

/// The timestamp extractor of a source.
pub(crate) fn timestamp_extractor(
    step: &Section,
) -> Result<TimestampExtractor<Value, Value>, Fault> {
    let Some(json) = step.json("timestamp_extractor") else {
        return Ok(TimestampExtractor::Default);
    };
    if let Some(name) = json.as_str() {
        return timestamp_policy(name).map(TimestampExtractor::Policy);
    }
    let expr = Section::of(json)?.expr("expr")?;
    Ok(TimestampExtractor::Custom(Arc::new(move |k, v, ts, partition_time| {
        let time = expr.apply([
            ("k", k.clone()),
            ("v", v.clone()),
            ("ts", ts.0.into()),
            ("partition_time", partition_time.0.into()),
        ])?;
        Ok(Timestamp(time.as_int()?))
    })))
}

/// The operator `header` on the headers of a record.
struct HeadersOf<'a>(&'a Headers);

impl Host for HeadersOf<'_> {
    fn call(&mut self, operator: &str, args: &[Value]) -> Result<Value, Fault> {
        match operator {
            "header" => Ok(HeaderList::from(self.0).last_text(args[0].as_str()?)),
            _ => Err(Fault::scenario(format!("operator `{operator}` in a topic expression"))),
        }
    }
}

/// The topic of a record, by an expression.
pub(crate) fn topic_extractor(expr: Expr) -> TopicExtractorFn<Value, Value> {
    Arc::new(move |k, v, context: &RecordContext| {
        let topic = context.metadata.as_ref().map(|m| &*m.topic);
        let mut env = Env::of([
            ("k", k.clone()),
            ("v", v.clone()),
            ("ts", context.timestamp.0.into()),
            ("topic", topic.into()),
        ]);
        match expr.eval(&mut env, &mut HeadersOf(&context.headers))? {
            Value::Null => Ok(None),
            topic => Ok(Some(topic.as_str()?.to_owned())),
        }
    })
}

/// The partitioner of a sink, if the step has one; its calls are logged.
pub(crate) fn partitioner(
    step: &Section,
    calls: &Calls,
) -> Result<Option<PartitionerFn<Value, Value>>, Fault> {
    let Some(expr) = step.expr_opt("partitioner")? else {
        return Ok(None);
    };
    let (id, calls) = (step.id()?.unwrap_or("partitioner").to_owned(), calls.clone());
    Ok(Some(Arc::new(move |_, k, v, partitions| {
        calls.log(&id, k, v);
        let n = i64::from(partitions);
        match expr.apply([("k", k.clone()), ("v", v.clone()), ("n", n.into())])? {
            Value::Null => Ok(Partitions::Default),
            partition => Ok(Partitions::Only(smallvec![narrow(partition.as_int()?)?])),
        }
    })))
}

fn narrow(partition: i64) -> Result<i32, Fault> {
    let far = |_| Fault::new(FaultKind::IllegalArgument, format!("no partition {partition}"));
    i32::try_from(partition).map_err(far)
}
