//! What must not be printed: secrets, and URLs that carry them.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

use serde::{Serialize, Serializer};

/// What stands where a secret would.
const MASK: &str = "***";

/// A text that is never printed: `Debug`, `Display` and `Serialize` give `***`.
///
/// ```
/// use thalweg::Secret;
/// let password = Secret::new("hunter2");
/// assert_eq!(format!("{password} {password:?}"), "*** ***");
/// assert_eq!(password.expose(), "hunter2");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps a text.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Gives the text to the one place that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(MASK)
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(MASK)
    }
}

/// Settings for clients by their names. Values may be secret: only names are printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub(crate) struct ClientSettings(pub(crate) BTreeMap<String, String>);

impl Deref for ClientSettings {
    type Target = BTreeMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl fmt::Debug for ClientSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// A backend's URL. Printed without its password and without query parameters that name a secret.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BrokerUrl {
    full: Secret,
    shown: String,
    secrets: Vec<String>,
}

impl BrokerUrl {
    /// Takes any text with a scheme.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c);
        if scheme.is_empty() || !scheme.chars().all(legal) {
            return None;
        }
        let mut secrets = Vec::new();
        let (before_query, query) = match rest.split_once('?') {
            Some((before, query)) => (before, Some(query)),
            None => (rest, None),
        };
        let mut shown = format!("{scheme}://{}", mask_user(before_query, &mut secrets));
        if let Some(query) = query {
            let parameters: Vec<String> =
                query.split('&').map(|p| mask_parameter(p, &mut secrets)).collect();
            shown.push('?');
            shown.push_str(&parameters.join("&"));
        }
        Some(Self { full: Secret::new(text), shown, secrets })
    }

    /// The whole URL, for the backend.
    pub(crate) fn expose(&self) -> &str {
        self.full.expose()
    }

    /// Masks this URL's secrets in a text that others made, such as a client's error message.
    pub(crate) fn redact(&self, text: &str) -> String {
        self.secrets.iter().fold(text.to_owned(), |text, secret| text.replace(secret, MASK))
    }
}

impl fmt::Display for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for BrokerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn mask_user(rest: &str, secrets: &mut Vec<String>) -> String {
    // A path may hold an `@` of its own, a password may hold a `/`: what stands before the last `@` of something
    // that has a `:` is taken for a user, since a secret that is shown is worse than a path that is not.
    let Some((user, host)) = rest.rsplit_once('@') else {
        return rest.to_owned();
    };
    let Some((name, password)) = user.split_once(':') else {
        return rest.to_owned();
    };
    if !password.is_empty() {
        secrets.push(password.to_owned());
    }
    format!("{name}:{MASK}@{host}")
}

fn mask_parameter(parameter: &str, secrets: &mut Vec<String>) -> String {
    let Some((name, value)) = parameter.split_once('=') else {
        return parameter.to_owned();
    };
    let lower = name.to_ascii_lowercase();
    if !["password", "secret", "token", "key"].iter().any(|word| lower.contains(word)) {
        return parameter.to_owned();
    }
    if !value.is_empty() {
        secrets.push(value.to_owned());
    }
    format!("{name}={MASK}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;

    #[test]
    fn a_secret_is_masked_however_it_is_printed() {
        let secret = Secret::new("canary");
        let mut table = toml::Table::new();
        table.insert("s".to_owned(), toml::Value::try_from(&secret).unwrap());
        let printed = format!("{secret} {secret:?} {:?} {table}", Some(&secret));
        assert!(!printed.contains("canary"), "{printed}");
        assert_eq!(printed, "*** *** Some(***) s = \"***\"\n");
    }

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        for (url, shown) in [
            ("log://data/log", "log://data/log"),
            ("log:///var/log", "log:///var/log"),
            ("log://a@b/c", "log://a@b/c"),
            ("kafka://h:9092", "kafka://h:9092"),
            ("kafka://me:canary@h:9092", "kafka://me:***@h:9092"),
            ("redis://:canary@h", "redis://:***@h"),
            ("redis://u:ca/nary@h/0", "redis://u:***@h/0"),
            ("redis://u:ca@nary@h/0", "redis://u:***@h/0"),
            ("kafka://h?acks=all&sasl.password=canary", "kafka://h?acks=all&sasl.password=***"),
            ("x://h?api_token=canary&b", "x://h?api_token=***&b"),
        ] {
            let parsed = BrokerUrl::parse(url).unwrap();
            assert_eq!(parsed.to_string(), shown);
            assert_eq!(format!("{parsed:?}"), shown);
            assert_eq!(parsed.expose(), url);
            assert_eq!(
                parsed.redact(&format!("cannot reach {url}")),
                format!("cannot reach {shown}")
            );
        }
    }

    #[test]
    fn a_text_without_scheme_is_no_url() {
        for text in ["", "localhost:9092", "://x", "KAFKA://x", "a b://c"] {
            assert_eq!(BrokerUrl::parse(text), None, "{text}");
        }
    }
}
