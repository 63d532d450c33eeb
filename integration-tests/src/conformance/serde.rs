//! The serdes of scenarios: from dynamic values to Kafka Streams' bytes and back.

use serde_json::Value as Json;

use super::{Fault, FaultKind, Value};

/// A serde by name, or a windowed one around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SerdeSpec {
    /// One value.
    Plain(Plain),
    /// A key in a time window: key, then start.
    TimeWindowed {
        /// The serde of the key.
        inner: Plain,
        /// The window size, from which the end follows.
        size_ms: i64,
    },
    /// A key in a session: key, then end, then start.
    SessionWindowed {
        /// The serde of the key.
        inner: Plain,
    },
}

/// The serdes of single values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Plain {
    /// UTF-8.
    String,
    /// Eight bytes, big-endian.
    Long,
    /// Four bytes, big-endian.
    Int,
    /// Two bytes, big-endian.
    Short,
    /// The eight bytes of IEEE 754.
    Double,
    /// The four bytes of IEEE 754.
    Float,
    /// One byte, 1 or 0.
    Boolean,
    /// The text of the UUID.
    Uuid,
    /// The bytes themselves.
    Bytes,
    /// Nothing at all.
    Void,
    /// The bytes as they are; only to look at outputs.
    Raw,
}

impl SerdeSpec {
    /// Text in UTF-8: the default serde.
    pub const STRING: Self = Self::Plain(Plain::String);

    /// Reads a serde of a scenario.
    ///
    /// # Errors
    /// A faulty scenario when there is no such serde.
    pub fn parse(json: &Json) -> Result<Self, Fault> {
        let unknown = || Fault::scenario(format!("unknown serde {json}"));
        if let Some(name) = json.as_str() {
            return Plain::named(name).map(Self::Plain).ok_or_else(unknown);
        }
        let inner = json["inner"].as_str().and_then(Plain::named).ok_or_else(unknown)?;
        match json["windowed"].as_str() {
            Some("time") => Ok(Self::TimeWindowed {
                inner,
                size_ms: json["size_ms"].as_i64().ok_or_else(unknown)?,
            }),
            Some("session") => Ok(Self::SessionWindowed { inner }),
            _ => Err(unknown()),
        }
    }

    /// Does it show raw bytes?
    pub fn is_raw(&self) -> bool {
        *self == Self::Plain(Plain::Raw)
    }

    /// Appends the bytes of `value`; `false` means a null field, of which nothing is written.
    ///
    /// # Errors
    /// A class-cast fault when the value is of another type.
    pub fn write(&self, value: &Value, out: &mut Vec<u8>) -> Result<bool, Fault> {
        if value.is_null() {
            return Ok(false);
        }
        match *self {
            Self::Plain(plain) => plain.write(value, out),
            Self::TimeWindowed { inner, .. } => {
                let win = value.as_win()?;
                inner.write_inner(&win.key, out)?;
                out.extend_from_slice(&win.start_ms.to_be_bytes());
                Ok(true)
            }
            Self::SessionWindowed { inner } => {
                let win = value.as_win()?;
                inner.write_inner(&win.key, out)?;
                out.extend_from_slice(&win.end_ms.to_be_bytes());
                out.extend_from_slice(&win.start_ms.to_be_bytes());
                Ok(true)
            }
        }
    }

    /// Reads a field; a null one is null.
    ///
    /// # Errors
    /// A serialization fault when the bytes are of the wrong length or form.
    pub fn read(&self, bytes: Option<&[u8]>) -> Result<Value, Fault> {
        let Some(bytes) = bytes else {
            return Ok(Value::Null);
        };
        match *self {
            Self::Plain(plain) => plain.read(bytes),
            Self::TimeWindowed { .. } | Self::SessionWindowed { .. } if bytes.is_empty() => {
                Ok(Value::Null)
            }
            Self::TimeWindowed { inner, size_ms } => {
                let (key, [start]) = split_times(bytes)?;
                // An end beyond the number range is the largest time there is.
                Ok(Value::win(inner.read(key)?, start, start.saturating_add(size_ms)))
            }
            Self::SessionWindowed { inner } => {
                let (key, [end, start]) = split_times(bytes)?;
                Ok(Value::win(inner.read(key)?, start, end))
            }
        }
    }

    /// The bytes of `value` as a field of its own.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn to_bytes(&self, value: &Value) -> Result<Option<Vec<u8>>, Fault> {
        let mut out = Vec::new();
        Ok(self.write(value, &mut out)?.then_some(out))
    }

    /// The bytes of a key or value in the input of a scenario; `{"hex"}` is taken as it is, whatever the serde.
    ///
    /// # Errors
    /// When the JSON is no value, or the value does not fit the serde.
    pub fn input_bytes(&self, json: &Json) -> Result<Option<Vec<u8>>, Fault> {
        match Value::from_json(json)? {
            Value::Bytes(bytes) => Ok(Some(bytes.to_vec())),
            value => self.to_bytes(&value),
        }
    }
}

/// Splits `N` times off the end.
fn split_times<const N: usize>(bytes: &[u8]) -> Result<(&[u8], [i64; N]), Fault> {
    let at = bytes.len().checked_sub(8 * N).ok_or_else(|| unreadable("windowed key", bytes))?;
    let (key, times) = bytes.split_at(at);
    let mut out = [0; N];
    for (time, chunk) in out.iter_mut().zip(times.as_chunks::<8>().0) {
        *time = i64::from_be_bytes(*chunk);
    }
    Ok((key, out))
}

fn unreadable(what: &str, bytes: &[u8]) -> Fault {
    Fault::new(FaultKind::Serialization, format!("{} bytes are no {what}", bytes.len()))
}

fn exactly<const N: usize>(what: &str, bytes: &[u8]) -> Result<[u8; N], Fault> {
    bytes.try_into().map_err(|_| unreadable(what, bytes))
}

/// Narrows as a JVM cast does: integers lose their upper bits, doubles are cut towards zero and kept in range.
fn narrow(value: &Value, doubles: fn(f64) -> i64) -> Result<i64, Fault> {
    match value {
        Value::Int(i) => Ok(*i),
        Value::Dbl(d) => Ok(doubles(*d)),
        other => Err(other.is_not("number")),
    }
}

fn floating(value: &Value) -> Result<f64, Fault> {
    match value {
        Value::Int(i) => Ok(*i as f64),
        Value::Dbl(d) => Ok(if d.is_nan() { f64::NAN } else { *d }),
        other => Err(other.is_not("number")),
    }
}

/// The canonical text of a UUID; parts may lack leading zeros.
fn canonical_uuid(text: &str) -> Option<String> {
    let widths = [8, 4, 4, 4, 12];
    let parts: Vec<&str> = text.split('-').collect();
    if parts.len() != widths.len() {
        return None;
    }
    let mut out = Vec::with_capacity(widths.len());
    for (part, width) in parts.iter().zip(widths) {
        if part.is_empty() || part.len() > width || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        out.push(format!("{:0>width$}", part.to_ascii_lowercase()));
    }
    Some(out.join("-"))
}

impl Plain {
    /// The name it has in scenarios.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Long => "long",
            Self::Int => "int",
            Self::Short => "short",
            Self::Double => "double",
            Self::Float => "float",
            Self::Boolean => "boolean",
            Self::Uuid => "uuid",
            Self::Bytes => "bytes",
            Self::Void => "void",
            Self::Raw => "raw",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "string" => Self::String,
            "long" => Self::Long,
            "int" => Self::Int,
            "short" => Self::Short,
            "double" => Self::Double,
            "float" => Self::Float,
            "boolean" => Self::Boolean,
            "uuid" => Self::Uuid,
            "bytes" => Self::Bytes,
            "void" => Self::Void,
            "raw" => Self::Raw,
            _ => return None,
        })
    }

    /// Writes the key inside a window, where null has no place.
    fn write_inner(self, key: &Value, out: &mut Vec<u8>) -> Result<(), Fault> {
        if key.is_null() || !self.write(key, out)? {
            return Err(Fault::null("key of a window"));
        }
        Ok(())
    }

    fn write(self, value: &Value, out: &mut Vec<u8>) -> Result<bool, Fault> {
        match self {
            Self::String => out.extend_from_slice(value.as_str()?.as_bytes()),
            Self::Long => out.extend_from_slice(&narrow(value, |d| d as i64)?.to_be_bytes()),
            Self::Int => {
                let i = narrow(value, |d| i64::from(d as i32))? as i32;
                out.extend_from_slice(&i.to_be_bytes());
            }
            Self::Short => {
                let i = narrow(value, |d| i64::from(d as i32))? as i16;
                out.extend_from_slice(&i.to_be_bytes());
            }
            Self::Double => out.extend_from_slice(&floating(value)?.to_be_bytes()),
            Self::Float => {
                let f = match value {
                    Value::Int(i) => *i as f32,
                    other => floating(other)? as f32,
                };
                out.extend_from_slice(&f.to_be_bytes());
            }
            Self::Boolean => out.push(u8::from(value.as_bool()?)),
            Self::Uuid => {
                let text = value.as_str()?;
                let uuid = canonical_uuid(text).ok_or_else(|| {
                    Fault::new(FaultKind::IllegalArgument, format!("\"{text}\" is no uuid"))
                })?;
                out.extend_from_slice(uuid.as_bytes());
            }
            Self::Bytes | Self::Raw => match value {
                Value::Bytes(bytes) => out.extend_from_slice(bytes),
                other => return Err(other.is_not("byte string")),
            },
            Self::Void => return Ok(false),
        }
        Ok(true)
    }

    fn read(self, bytes: &[u8]) -> Result<Value, Fault> {
        Ok(match self {
            Self::String => Value::from(&*String::from_utf8_lossy(bytes)),
            Self::Long => i64::from_be_bytes(exactly("long", bytes)?).into(),
            Self::Int => i64::from(i32::from_be_bytes(exactly("int", bytes)?)).into(),
            Self::Short => i64::from(i16::from_be_bytes(exactly("short", bytes)?)).into(),
            Self::Double => f64::from_be_bytes(exactly("double", bytes)?).into(),
            Self::Float => f64::from(f32::from_be_bytes(exactly("float", bytes)?)).into(),
            Self::Boolean => match exactly("boolean", bytes)? {
                [0] => false.into(),
                [1] => true.into(),
                [_] => {
                    return Err(Fault::new(
                        FaultKind::Serialization,
                        "a boolean is the byte 0 or 1",
                    ));
                }
            },
            Self::Uuid => {
                let uuid = std::str::from_utf8(bytes).ok().and_then(canonical_uuid);
                uuid.ok_or_else(|| unreadable("uuid", bytes))?.into()
            }
            Self::Bytes | Self::Raw => Value::bytes(bytes),
            Self::Void => {
                return Err(Fault::new(FaultKind::IllegalArgument, "a void field has to be null"));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use crate::conformance::value::hex_text;
    use serde_json::json;

    const VECTORS: &str = include_str!("../../conformance/binary_vectors.json");

    fn vectors(section: &str) -> Vec<(String, Option<String>)> {
        let all: Json = serde_json::from_str(VECTORS).unwrap();
        let list = all[section].as_array().unwrap();
        list.iter()
            .map(|v| (v[0].as_str().unwrap().to_owned(), v[1].as_str().map(str::to_owned)))
            .collect()
    }

    fn spec(json: Json) -> SerdeSpec {
        SerdeSpec::parse(&json).unwrap()
    }

    /// The serde and value that a line of the vectors means; lists and byte buffers are not part of the scenario language.
    fn meaning(input: &str) -> Option<(SerdeSpec, Value)> {
        let (name, text) = input.split_once(' ')?;
        let number = |t: &str| Value::Int(t.parse().unwrap());
        let double = |t: &str| Value::Dbl(t.parse().unwrap());
        Some(match (name, text) {
            (_, "null") => (spec(json!(name.to_lowercase())), Value::Null),
            ("Integer", t) => (spec(json!("int")), number(t)),
            ("Long" | "Short", t) => (spec(json!(name.to_lowercase())), number(t)),
            ("Double" | "Float", t) => (spec(json!(name.to_lowercase())), double(t)),
            ("Boolean", t) => (spec(json!("boolean")), (t == "true").into()),
            ("String", t) => (SerdeSpec::STRING, t.into()),
            ("UUID", t) => (spec(json!("uuid")), t.into()),
            ("Bytes", t) => (
                spec(json!("bytes")),
                Value::from_json(&json!({"hex": t.strip_prefix("0x").unwrap()})).unwrap(),
            ),
            _ => return None,
        })
    }

    #[test]
    fn standard_serdes_write_and_read_the_bytes_of_the_reference() {
        let mut seen = 0;
        for (input, hex) in vectors("serdes") {
            let Some((serde, value)) = meaning(&input) else {
                continue;
            };
            let bytes = serde.to_bytes(&value).unwrap();
            assert_eq!(bytes.as_deref().map(hex_text), hex, "{input}");
            assert_eq!(serde.read(bytes.as_deref()).unwrap(), value, "{input}");
            seen += 1;
        }
        assert!(seen >= 25, "only {seen} vectors were understood");
    }

    #[test]
    fn windowed_serdes_write_the_bytes_of_the_reference() {
        let time = spec(json!({"windowed": "time", "inner": "string", "size_ms": 60_000}));
        let session = spec(json!({"windowed": "session", "inner": "string"}));
        let find = |section, input: &str| {
            vectors(section).into_iter().find(|(i, _)| i == input).unwrap().1
        };
        let key = Value::win("abc".into(), 1_700_000_000_000, 1_700_000_060_000);
        let bytes = time.to_bytes(&key).unwrap();
        assert_eq!(
            bytes.as_deref().map(hex_text),
            find("time_windowed_serde", r#"("abc", [1700000000000, 1700000060000))"#)
        );
        assert_eq!(time.read(bytes.as_deref()).unwrap(), key);
        let key = Value::win("abc".into(), 10, 25);
        let bytes = session.to_bytes(&key).unwrap();
        assert_eq!(
            bytes.as_deref().map(hex_text),
            find("session_key", r#"SessionWindowedSerializer ("abc", [10, 25])"#)
        );
        assert_eq!(session.read(bytes.as_deref()).unwrap(), key);
    }

    #[test]
    fn windowed_reads_know_null_empty_short_and_the_end_of_time() {
        let time = spec(json!({"windowed": "time", "inner": "long", "size_ms": 10}));
        let session = spec(json!({"windowed": "session", "inner": "string"}));
        assert_eq!(time.read(None).unwrap(), Value::Null);
        assert_eq!(session.read(Some(&[])).unwrap(), Value::Null);
        assert_eq!(time.read(Some(&[0; 7])).unwrap_err().kind, FaultKind::Serialization);
        assert_eq!(session.read(Some(&[0; 15])).unwrap_err().kind, FaultKind::Serialization);
        let mut last = vec![0; 8];
        last.extend_from_slice(&(i64::MAX - 1).to_be_bytes());
        assert_eq!(time.read(Some(&last)).unwrap(), Value::win(0.into(), i64::MAX - 1, i64::MAX));
    }

    #[test]
    fn numbers_are_narrowed_on_writing() {
        let hex = |serde: &str, value: Value| {
            hex_text(&spec(json!(serde)).to_bytes(&value).unwrap().unwrap())
        };
        assert_eq!(hex("int", (1_i64 << 32 | 5).into()), "00000005");
        assert_eq!(hex("int", 1e300.into()), "7fffffff");
        assert_eq!(hex("short", 65_537.into()), "0001");
        assert_eq!(hex("short", 65_537.5.into()), "0001");
        assert_eq!(hex("long", (-1.9).into()), "ffffffffffffffff");
        assert_eq!(hex("float", 3.into()), "40400000");
        assert_eq!(hex("double", 1.into()), "3ff0000000000000");
    }

    #[test]
    fn a_value_of_the_wrong_type_is_a_class_cast_and_null_is_always_null() {
        let cases = [
            ("string", Value::Int(1)),
            ("long", "1".into()),
            ("boolean", 1.into()),
            ("bytes", "x".into()),
            ("uuid", 1.into()),
        ];
        for (name, value) in cases {
            let serde = spec(json!(name));
            assert_eq!(serde.to_bytes(&value).unwrap_err().kind, FaultKind::ClassCast, "{name}");
            assert_eq!(serde.to_bytes(&Value::Null).unwrap(), None, "{name}");
        }
        let windowed = spec(json!({"windowed": "session", "inner": "string"}));
        assert_eq!(windowed.to_bytes(&"k".into()).unwrap_err().kind, FaultKind::ClassCast);
        let no_key = Value::win(Value::Null, 0, 1);
        assert_eq!(windowed.to_bytes(&no_key).unwrap_err().kind, FaultKind::NullPointer);
        assert_eq!(
            spec(json!("uuid")).to_bytes(&"x".into()).unwrap_err().kind,
            FaultKind::IllegalArgument
        );
        assert_eq!(spec(json!("void")).to_bytes(&"x".into()).unwrap(), None);
    }

    #[test]
    fn wrong_lengths_are_unreadable() {
        for (name, bytes) in [
            ("long", &[0; 2][..]),
            ("int", &[0; 8]),
            ("short", &[]),
            ("boolean", &[2]),
            ("uuid", b"x"),
        ] {
            assert_eq!(
                spec(json!(name)).read(Some(bytes)).unwrap_err().kind,
                FaultKind::Serialization,
                "{name}"
            );
        }
        assert_eq!(
            spec(json!("void")).read(Some(&[])).unwrap_err().kind,
            FaultKind::IllegalArgument
        );
        assert_eq!(SerdeSpec::STRING.read(Some(&[0xff])).unwrap(), "\u{fffd}".into());
    }

    #[test]
    fn hexadecimal_input_is_taken_as_it_is() {
        let long = spec(json!("long"));
        assert_eq!(long.input_bytes(&json!({"hex": "0102"})).unwrap(), Some(vec![1, 2]));
        assert_eq!(long.input_bytes(&json!(1)).unwrap(), Some(vec![0, 0, 0, 0, 0, 0, 0, 1]));
        assert_eq!(long.input_bytes(&json!(null)).unwrap(), None);
        assert!(SerdeSpec::parse(&json!("utf16")).is_err());
        assert!(SerdeSpec::parse(&json!({"windowed": "time", "inner": "string"})).is_err());
    }
}
