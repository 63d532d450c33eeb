//! Dynamically typed values: what flows through the topology of a scenario.

use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde_json::{Map, Number, Value as Json, json};

use super::Fault;

/// A key or value of a scenario. Cloning is cheap: whatever is large is shared.
#[derive(Debug, Clone, Default)]
pub enum Value {
    /// No value.
    #[default]
    Null,
    /// Text.
    Str(Arc<str>),
    /// A 64-bit integer; every integer serde yields one.
    Int(i64),
    /// A double; the float serde yields one, too.
    Dbl(f64),
    /// A boolean.
    Bool(bool),
    /// Raw bytes.
    Bytes(Arc<[u8]>),
    /// A windowed key.
    Win(Arc<Win>),
    /// A list.
    List(Arc<[Value]>),
    /// A pair, such as key and value of a new record.
    Pair(Arc<(Value, Value)>),
}

/// A key in a window `[start_ms, end_ms)`, or a session `[start_ms, end_ms]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Win {
    /// The key that was grouped by.
    pub key: Value,
    /// Where the window starts.
    pub start_ms: i64,
    /// Where it ends.
    pub end_ms: i64,
}

impl Value {
    /// A windowed key.
    pub fn win(key: Value, start_ms: i64, end_ms: i64) -> Self {
        Self::Win(Arc::new(Win { key, start_ms, end_ms }))
    }

    /// A pair.
    pub fn pair(first: Value, second: Value) -> Self {
        Self::Pair(Arc::new((first, second)))
    }

    /// Bytes.
    pub fn bytes(bytes: &[u8]) -> Self {
        Self::Bytes(Arc::from(bytes))
    }

    /// Is it null?
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// Itself, unless it is null.
    pub fn non_null(self) -> Option<Self> {
        (!self.is_null()).then_some(self)
    }

    /// The word for its type in messages.
    pub fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Str(_) => "string",
            Self::Int(_) => "integer",
            Self::Dbl(_) => "double",
            Self::Bool(_) => "boolean",
            Self::Bytes(_) => "byte string",
            Self::Win(_) => "windowed key",
            Self::List(_) => "list",
            Self::Pair(_) => "pair",
        }
    }

    /// The text.
    ///
    /// # Errors
    /// A null-pointer fault for null, a class-cast fault for anything else; as all readers here.
    pub fn as_str(&self) -> Result<&str, Fault> {
        match self {
            Self::Str(s) => Ok(s),
            other => Err(other.is_not("string")),
        }
    }

    /// The integer.
    ///
    /// # Errors
    /// As [`as_str`](Self::as_str).
    pub fn as_int(&self) -> Result<i64, Fault> {
        match self {
            Self::Int(i) => Ok(*i),
            other => Err(other.is_not("integer")),
        }
    }

    /// The boolean.
    ///
    /// # Errors
    /// As [`as_str`](Self::as_str).
    pub fn as_bool(&self) -> Result<bool, Fault> {
        match self {
            Self::Bool(b) => Ok(*b),
            other => Err(other.is_not("boolean")),
        }
    }

    /// The elements of the list.
    ///
    /// # Errors
    /// As [`as_str`](Self::as_str).
    pub fn as_list(&self) -> Result<&[Value], Fault> {
        match self {
            Self::List(l) => Ok(l),
            other => Err(other.is_not("list")),
        }
    }

    /// The parts of the pair.
    ///
    /// # Errors
    /// As [`as_str`](Self::as_str).
    pub fn as_pair(&self) -> Result<&(Value, Value), Fault> {
        match self {
            Self::Pair(p) => Ok(p),
            other => Err(other.is_not("pair")),
        }
    }

    /// The windowed key.
    ///
    /// # Errors
    /// As [`as_str`](Self::as_str).
    pub fn as_win(&self) -> Result<&Win, Fault> {
        match self {
            Self::Win(w) => Ok(w),
            other => Err(other.is_not("windowed key")),
        }
    }

    /// The fault for a value that should have been a `wanted`.
    pub(crate) fn is_not(&self, wanted: &str) -> Fault {
        match self {
            Self::Null => Fault::null(wanted),
            other => Fault::class_cast(other.type_name(), wanted),
        }
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// When it is none: a number beyond 64 bits, an object that is neither bytes nor a windowed key.
    pub fn from_json(json: &Json) -> Result<Self, Fault> {
        let bad = || Fault::scenario(format!("no value: {json}"));
        Ok(match json {
            Json::Null => Self::Null,
            Json::Bool(b) => Self::Bool(*b),
            Json::String(s) => Self::from(s.as_str()),
            Json::Number(n) => match n.as_i64() {
                Some(i) => Self::Int(i),
                None if n.is_f64() => Self::Dbl(n.as_f64().ok_or_else(bad)?),
                None => return Err(bad()),
            },
            Json::Array(items) => items.iter().map(Self::from_json).collect::<Result<_, _>>()?,
            Json::Object(map) => match (map.get("hex"), map.get("start"), map.get("end")) {
                (Some(hex), None, None) => {
                    Self::bytes(&hex.as_str().and_then(hex_bytes).ok_or_else(bad)?)
                }
                (None, Some(start), Some(end)) => {
                    let key = Self::from_json(map.get("key").unwrap_or(&Json::Null))?;
                    Self::win(key, start.as_i64().ok_or_else(bad)?, end.as_i64().ok_or_else(bad)?)
                }
                _ => return Err(bad()),
            },
        })
    }

    /// The JSON form; a pair becomes an array, as a list does.
    pub fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Str(s) => Json::from(&**s),
            Self::Int(i) => Json::from(*i),
            Self::Dbl(d) => double_json(*d),
            Self::Bool(b) => Json::from(*b),
            Self::Bytes(b) => json!({"hex": hex_text(b)}),
            Self::Win(w) => {
                let mut map = Map::new();
                map.insert("key".into(), w.key.to_json());
                map.insert("start".into(), w.start_ms.into());
                map.insert("end".into(), w.end_ms.into());
                Json::Object(map)
            }
            Self::List(items) => items.iter().map(Self::to_json).collect(),
            Self::Pair(p) => Json::Array(vec![p.0.to_json(), p.1.to_json()]),
        }
    }
}

/// Doubles that JSON has no number for are their names.
fn double_json(d: f64) -> Json {
    match Number::from_f64(d) {
        Some(n) => Json::Number(n),
        None if d.is_nan() => "NaN".into(),
        None if d > 0.0 => "Infinity".into(),
        None => "-Infinity".into(),
    }
}

/// Two hexadecimal digits per byte, lower case.
pub(crate) fn hex_text(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, b| {
        write!(out, "{b:02x}").expect("writing to a string cannot fail");
        out
    })
}

/// Reads [`hex_text`] back.
pub(crate) fn hex_bytes(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let digit = |b: u8| char::from(b).to_digit(16);
    digits
        .chunks_exact(2)
        .map(|pair| Some((digit(pair[0])? * 16 + digit(pair[1])?) as u8))
        .collect()
}

/// The text of the operator `str`.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("null"),
            Self::Str(s) => f.write_str(s),
            Self::Int(i) => write!(f, "{i}"),
            Self::Dbl(d) => write!(f, "{d:?}"),
            Self::Bool(b) => write!(f, "{b}"),
            Self::Bytes(bytes) => bytes.iter().try_for_each(|&b| match b {
                b' '..=b'~' if b != b'\\' => f.write_char(char::from(b)),
                _ => write!(f, "\\x{b:02X}"),
            }),
            Self::Win(w) => write!(f, "[{}@{}/{}]", w.key, w.start_ms, w.end_ms),
            Self::List(items) => {
                f.write_char('[')?;
                for (i, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if i == 0 { "" } else { "," })?;
                }
                f.write_char(']')
            }
            Self::Pair(p) => write!(f, "({},{})", p.0, p.1),
        }
    }
}

/// Doubles are equal when their bits are, all NaNs counting as one: so that equality is an equivalence, as in the reference.
fn double_bits(d: f64) -> u64 {
    if d.is_nan() { f64::NAN.to_bits() } else { d.to_bits() }
}

impl PartialEq for Value {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Str(a), Self::Str(b)) => a == b,
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Dbl(a), Self::Dbl(b)) => double_bits(*a) == double_bits(*b),
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Bytes(a), Self::Bytes(b)) => a == b,
            (Self::Win(a), Self::Win(b)) => a == b,
            (Self::List(a), Self::List(b)) => a == b,
            (Self::Pair(a), Self::Pair(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Value {}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::mem::discriminant(self).hash(state);
        match self {
            Self::Null => {}
            Self::Str(s) => s.hash(state),
            Self::Int(i) => i.hash(state),
            Self::Dbl(d) => double_bits(*d).hash(state),
            Self::Bool(b) => b.hash(state),
            Self::Bytes(b) => b.hash(state),
            Self::Win(w) => w.hash(state),
            Self::List(l) => l.hash(state),
            Self::Pair(p) => p.hash(state),
        }
    }
}

impl From<i64> for Value {
    fn from(i: i64) -> Self {
        Self::Int(i)
    }
}

impl From<f64> for Value {
    fn from(d: f64) -> Self {
        Self::Dbl(d)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Self {
        Self::Str(Arc::from(s))
    }
}

impl From<String> for Value {
    fn from(s: String) -> Self {
        Self::Str(Arc::from(s))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl FromIterator<Value> for Value {
    fn from_iter<I: IntoIterator<Item = Value>>(items: I) -> Self {
        Self::List(items.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::conformance::FaultKind;

    #[test]
    fn every_value_but_pairs_survives_the_trip_through_json() {
        let values = [
            Value::Null,
            "ä€😀".into(),
            i64::MIN.into(),
            0.5.into(),
            1e300.into(),
            true.into(),
            Value::bytes(&[0, 255]),
            Value::win("k".into(), -1, 10),
            Value::from_iter([1.into(), Value::Null, "x".into()]),
        ];
        for value in values {
            let text = value.to_json().to_string();
            assert_eq!(
                Value::from_json(&serde_json::from_str(&text).unwrap()).unwrap(),
                value,
                "{text}"
            );
        }
        assert_eq!(Value::pair(1.into(), "x".into()).to_json(), json!([1, "x"]));
    }

    #[test]
    fn a_whole_double_stays_a_double_in_json() {
        assert_eq!(Value::Dbl(1.0).to_json().to_string(), "1.0");
        assert_ne!(Value::from_json(&json!(1.0)).unwrap(), Value::Int(1));
        assert_eq!(Value::Dbl(f64::NEG_INFINITY).to_json(), json!("-Infinity"));
        assert_eq!(Value::Dbl(f64::NAN).to_json(), json!("NaN"));
    }

    #[test]
    fn json_that_is_no_value_is_a_faulty_scenario() {
        for json in [
            json!({"hex": "0"}),
            json!({"hex": "zz"}),
            json!({}),
            json!({"start": 1}),
            json!(u64::MAX),
        ] {
            assert_eq!(Value::from_json(&json).unwrap_err().kind, FaultKind::Scenario, "{json}");
        }
    }

    #[test]
    fn text_follows_the_format() {
        let win = Value::win("k".into(), 0, 10);
        let list = Value::from_iter([Value::Null, (-1).into(), true.into()]);
        assert_eq!(Value::pair(win, list).to_string(), "([k@0/10],[null,-1,true])");
        assert_eq!(Value::bytes(b"a\\\x00").to_string(), "a\\x5C\\x00");
    }

    #[test]
    fn equality_keeps_types_apart_and_makes_one_of_all_nans() {
        assert_ne!(Value::Int(1), Value::Dbl(1.0));
        assert_ne!(Value::Dbl(0.0), Value::Dbl(-0.0));
        assert_eq!(Value::Dbl(f64::NAN), Value::Dbl(-f64::NAN));
        assert_eq!(Value::Null, Value::default());
    }
}
