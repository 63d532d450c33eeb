//! The operators of the expression language whose arguments are evaluated first.

use std::cmp::Ordering;
use std::ops::RangeInclusive;

use super::{Fault, FaultKind, Value};

type Outcome = Result<Value, Fault>;

/// An operator: a function of its evaluated arguments.
#[derive(Debug)]
pub(crate) struct Builtin {
    pub(crate) name: &'static str,
    pub(crate) arity: RangeInclusive<usize>,
    pub(crate) run: fn(&[Value]) -> Outcome,
}

const fn operator(
    name: &'static str,
    least: usize,
    most: usize,
    run: fn(&[Value]) -> Outcome,
) -> Builtin {
    Builtin { name, arity: RangeInclusive::new(least, most), run }
}

const MANY: usize = usize::MAX;

const BUILTINS: &[Builtin] = &[
    operator("str", 1, 1, |a| Ok(a[0].to_string().into())),
    operator("concat", 0, MANY, |a| Ok(a.iter().map(Value::to_string).collect::<String>().into())),
    operator("upper", 1, 1, |a| Ok(a[0].as_str()?.to_uppercase().into())),
    operator("lower", 1, 1, |a| Ok(a[0].as_str()?.to_lowercase().into())),
    operator("len", 1, 1, |a| Ok(count(a[0].as_str()?.encode_utf16().count()))),
    operator("starts", 2, 2, |a| Ok(a[0].as_str()?.starts_with(a[1].as_str()?).into())),
    operator("contains", 2, 2, |a| Ok(a[0].as_str()?.contains(a[1].as_str()?).into())),
    operator("words", 1, 1, |a| {
        Ok(a[0].as_str()?.split(' ').filter(|w| !w.is_empty()).map(Value::from).collect())
    }),
    operator("field", 3, 3, field),
    operator("num", 1, 1, num),
    operator("dbl", 1, 1, dbl),
    operator("add", 2, 2, |a| arithmetic(a, |x, y| Some(x.wrapping_add(y)), |x, y| x + y)),
    operator("sub", 2, 2, |a| arithmetic(a, |x, y| Some(x.wrapping_sub(y)), |x, y| x - y)),
    operator("mul", 2, 2, |a| arithmetic(a, |x, y| Some(x.wrapping_mul(y)), |x, y| x * y)),
    operator("min", 2, 2, |a| arithmetic(a, |x, y| Some(x.min(y)), double_min)),
    operator("max", 2, 2, |a| arithmetic(a, |x, y| Some(x.max(y)), |x, y| -double_min(-x, -y))),
    operator("mod", 2, 2, |a| {
        arithmetic(a, |x, y| (y != 0).then(|| x.wrapping_rem(y)), |x, y| x % y)
    }),
    operator("eq", 2, 2, |a| Ok((a[0] == a[1]).into())),
    operator("ne", 2, 2, |a| Ok((a[0] != a[1]).into())),
    operator("lt", 2, 2, |a| Ok(order(a)?.is_lt().into())),
    operator("le", 2, 2, |a| Ok(order(a)?.is_le().into())),
    operator("gt", 2, 2, |a| Ok(order(a)?.is_gt().into())),
    operator("ge", 2, 2, |a| Ok(order(a)?.is_ge().into())),
    operator("not", 1, 1, |a| Ok((!a[0].as_bool()?).into())),
    operator("isnull", 1, 1, |a| Ok(a[0].is_null().into())),
    operator("coalesce", 0, MANY, |a| {
        Ok(a.iter().find(|v| !v.is_null()).cloned().unwrap_or_default())
    }),
    operator("list", 0, MANY, |a| Ok(a.iter().cloned().collect())),
    operator("pair", 2, 2, |a| Ok(Value::pair(a[0].clone(), a[1].clone()))),
    operator("first", 1, 1, |a| Ok(a[0].as_pair()?.0.clone())),
    operator("second", 1, 1, |a| Ok(a[0].as_pair()?.1.clone())),
    operator("size", 1, 1, |a| Ok(count(a[0].as_list()?.len()))),
    operator("wkey", 1, 1, |a| Ok(a[0].as_win()?.key.clone())),
    operator("wstart", 1, 1, |a| Ok(a[0].as_win()?.start_ms.into())),
    operator("wend", 1, 1, |a| Ok(a[0].as_win()?.end_ms.into())),
    operator("fail", 1, 1, |a| Err(Fault::new(FaultKind::IllegalState, a[0].to_string()))),
];

/// Operators that need a processor or a store, with the number of their arguments; the host of the expression runs them.
const HOSTED: &[(&str, RangeInclusive<usize>)] = &[
    ("stream_time", 0..=0),
    ("wall_clock", 0..=0),
    ("task_id", 0..=0),
    ("has_metadata", 0..=0),
    ("header", 1..=1),
    ("meta", 1..=1),
    ("get", 2..=2),
    ("get_ts", 2..=2),
    ("get_as_of", 3..=3),
    ("put", 3..=4),
    ("put_if_absent", 3..=3),
    ("delete", 2..=3),
    ("all", 1..=1),
    ("reverse_all", 1..=1),
    ("range", 3..=3),
    ("reverse_range", 3..=3),
    ("prefix_scan", 2..=2),
    ("wput", 4..=5),
    ("wget", 3..=3),
    ("fetch", 4..=4),
    ("backward_fetch", 4..=4),
    ("fetch_range", 5..=5),
    ("fetch_all", 3..=3),
    ("sput", 5..=5),
    ("sremove", 4..=4),
    ("fetch_session", 4..=4),
    ("find_sessions", 4..=4),
    ("backward_find_sessions", 4..=4),
    ("sfetch", 2..=2),
];

/// Finds an operator.
pub(crate) fn builtin(name: &str) -> Option<&'static Builtin> {
    BUILTINS.iter().find(|b| b.name == name)
}

/// The number of arguments of an operator that the host runs.
pub(crate) fn hosted_arity(name: &str) -> Option<&'static RangeInclusive<usize>> {
    HOSTED.iter().find(|(n, _)| *n == name).map(|(_, arity)| arity)
}

fn count(n: usize) -> Value {
    Value::Int(i64::try_from(n).expect("a length fits 63 bits"))
}

/// A null text has null fields; that is the operator's point.
fn field(a: &[Value]) -> Outcome {
    if a[0].is_null() {
        return Ok(Value::Null);
    }
    let (text, separator, index) = (a[0].as_str()?, a[1].as_str()?, a[2].as_int()?);
    let mut rest = text;
    for _ in 0..index {
        match rest.split_once(separator) {
            Some((_, after)) => rest = after,
            None => return Ok(Value::Null),
        }
    }
    Ok(rest.split_once(separator).map_or(rest, |(part, _)| part).into())
}

fn num(a: &[Value]) -> Outcome {
    let text = a[0].as_str()?;
    text.parse::<i64>().map(Value::Int).map_err(|_| not_a_number(text))
}

fn dbl(a: &[Value]) -> Outcome {
    let text = match &a[0] {
        Value::Str(text) => text.trim(),
        number => return Ok(double(number)?.into()),
    };
    let plain = text.bytes().all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
    let named = matches!(text.trim_start_matches(['+', '-']), "NaN" | "Infinity");
    match text.parse::<f64>() {
        Ok(d) if plain || named => Ok(d.into()),
        _ => Err(not_a_number(text)),
    }
}

fn not_a_number(text: &str) -> Fault {
    Fault::new(FaultKind::NumberFormat, format!("\"{text}\" is no number"))
}

fn double(value: &Value) -> Result<f64, Fault> {
    match value {
        Value::Int(i) => Ok(*i as f64),
        Value::Dbl(d) => Ok(*d),
        other => Err(other.is_not("number")),
    }
}

/// Integers stay integers; one double makes the result a double.
fn arithmetic(
    a: &[Value],
    ints: fn(i64, i64) -> Option<i64>,
    doubles: fn(f64, f64) -> f64,
) -> Outcome {
    if let (Value::Int(x), Value::Int(y)) = (&a[0], &a[1]) {
        return ints(*x, *y)
            .map(Value::Int)
            .ok_or_else(|| Fault::new(FaultKind::Arithmetic, "division by zero"));
    }
    Ok(doubles(double(&a[0])?, double(&a[1])?).into())
}

/// The smaller one; NaN if either is; a negative zero is smaller than a positive one.
fn double_min(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() {
        f64::NAN
    } else if x.total_cmp(&y).is_le() {
        x
    } else {
        y
    }
}

/// The order of two numbers, strings (by UTF-16 unit), booleans or byte strings.
fn order(a: &[Value]) -> Result<Ordering, Fault> {
    for operand in &a[..2] {
        if operand.is_null() {
            return Err(Fault::null("comparable value"));
        }
    }
    Ok(match (&a[0], &a[1]) {
        (Value::Int(x), Value::Int(y)) => x.cmp(y),
        (Value::Int(_) | Value::Dbl(_), Value::Int(_) | Value::Dbl(_)) => {
            double(&a[0])?.total_cmp(&double(&a[1])?)
        }
        (Value::Str(x), Value::Str(y)) => x.encode_utf16().cmp(y.encode_utf16()),
        (Value::Bool(x), Value::Bool(y)) => x.cmp(y),
        (Value::Bytes(x), Value::Bytes(y)) => x.cmp(y),
        (x, y) => return Err(Fault::class_cast(y.type_name(), x.type_name())),
    })
}
