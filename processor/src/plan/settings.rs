//! How the internal topics that are there already are configured: what would lose records is refused, or warned of.
//!
//! The rules are those by which Kafka Streams checks internal topics that it is to work with. How long a windowed changelog keeps
//! records may follow a change of the topology later, so that is a warning.

use std::collections::BTreeMap;

use thalweg_connectors::{Admin, NewTopic};

use super::PlanError;

const POLICY: &str = "cleanup.policy";
const RETENTION: &str = "retention.ms";

/// Compares topics with what they would be made with. Those whose configuration nobody may see are not compared.
pub(super) fn check(topics: &[&NewTopic], admin: &mut dyn Admin) -> Result<(), PlanError> {
    if topics.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = topics.iter().map(|t| t.name.as_str()).collect();
    let all = admin.settings(&names)?;
    for topic in topics {
        let Some(found) = all.get(&topic.name) else { continue };
        match flaw(&topic.config, found) {
            None => {}
            Some(Flaw::Policy { found, needed, loses }) => {
                let topic = topic.name.clone();
                return Err(PlanError::WrongPolicy { topic, found, needed, loses });
            }
            Some(Flaw::Retention { found, needed }) => tracing::warn!(
                topic = topic.name,
                "internal topic keeps records for {found} ms, but {needed} ms are needed, or state cannot be restored in full; \
                 set its retention.ms to {needed}"
            ),
        }
    }
    Ok(())
}

/// What is wrong with a topic.
#[derive(PartialEq, Eq, Debug)]
enum Flaw {
    Policy { found: String, needed: String, loses: &'static str },
    Retention { found: String, needed: String },
}

fn flaw(needed: &BTreeMap<String, String>, found: &BTreeMap<String, String>) -> Option<Flaw> {
    let policy_of = |config: &BTreeMap<String, String>| config.get(POLICY).cloned();
    let (policy, wanted) = (policy_of(found)?, policy_of(needed)?);
    let has = |policy: &str, one: &str| policy.split(',').any(|part| part.trim() == one);
    let wrong = |loses| Some(Flaw::Policy { found: policy.clone(), needed: wanted.clone(), loses });
    if has(&policy, "delete") && !has(&wanted, "delete") {
        return wrong("the rows that do not change");
    }
    if has(&policy, "compact") && !has(&wanted, "compact") {
        return wrong("all records of a key but the last");
    }
    if !has(&policy, "delete") {
        return None;
    }
    let (kept, wanted) = (found.get(RETENTION)?, needed.get(RETENTION)?);
    // -1 is for ever.
    let millis =
        |text: &String| text.parse::<i64>().ok().map(|ms| if ms < 0 { i64::MAX } else { ms });
    (millis(kept)? < millis(wanted)?)
        .then(|| Flaw::Retention { found: kept.clone(), needed: wanted.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(policy: &str, retention: &str) -> BTreeMap<String, String> {
        let pairs = [(POLICY, policy), (RETENTION, retention)];
        pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
    }

    #[test]
    fn a_topic_may_keep_more_than_is_needed_and_never_less() {
        // What a table's changelog, a windowed one and a repartition topic need, and what is there.
        let cases = [
            (("compact", "1"), ("compact", "1"), ""),
            (("compact", "1"), ("delete", "-1"), "policy"),
            (("compact", "1"), ("compact,delete", "-1"), "policy"),
            (("compact,delete", "1000"), ("compact,delete", "1000"), ""),
            (("compact,delete", "1000"), ("delete, compact", "-1"), ""),
            (("compact,delete", "1000"), ("compact", "1"), ""),
            (("compact,delete", "1000"), ("delete", "2000"), ""),
            (("compact,delete", "1000"), ("compact,delete", "999"), "retention"),
            (("delete", "-1"), ("delete", "-1"), ""),
            (("delete", "-1"), ("delete", "604800000"), "retention"),
            (("delete", "-1"), ("compact", "-1"), "policy"),
            (("delete", "-1"), ("compact,delete", "-1"), "policy"),
        ];
        for (needed, found, expected) in cases {
            let flaw = flaw(&config(needed.0, needed.1), &config(found.0, found.1));
            let kind = match &flaw {
                None => "",
                Some(Flaw::Policy { .. }) => "policy",
                Some(Flaw::Retention { .. }) => "retention",
            };
            assert_eq!(kind, expected, "{needed:?}, {found:?}: {flaw:?}");
        }
        assert_eq!(flaw(&config("compact", "1"), &BTreeMap::new()), None, "nothing is known");
    }
}
