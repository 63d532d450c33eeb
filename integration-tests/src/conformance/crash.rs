//! Restarting in the middle of a scenario, and the few scenarios in which that has to make a difference.

use serde_json::Value as Json;

use super::Scenario;

/// What a crash leaves of the stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Crash {
    /// All of them, as of the last commit.
    StoresKept,
    /// Nothing: stores are rebuilt from their changelogs.
    StoresLost,
}

impl Crash {
    /// Why a restart shows in the results of this scenario, if it does: it is then run without one.
    pub fn shows_in(self, scenario: &Scenario) -> Option<&'static str> {
        let in_memory = scenario.config.settings.get("dsl.store.type");
        let in_memory = in_memory.is_some_and(|store_type| store_type == "in_memory");
        let mut reason = None;
        for step in &scenario.topology {
            step.each_object(&mut |object| {
                let is = |field: &str, value: Json| object.get(field) == Some(&value);
                let volatile = in_memory
                    || is("in_memory", true.into())
                    || is("store_type", "in_memory".into());
                if is("type", "wall_clock".into()) && object.contains_key("interval_ms") {
                    reason = Some("timers on the clock start anew with the task");
                } else if is("logging", false.into()) && (volatile || self == Self::StoresLost) {
                    reason = Some("a store without a changelog starts empty");
                }
            });
        }
        reason
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

    use super::*;
    use serde_json::json;

    fn scenario(step: Json) -> Scenario {
        let json = json!({"name": "f/s", "family": "f", "about": "", "topology": [step], "input": [], "expect": {}});
        Scenario::parse(&json).unwrap()
    }

    #[test]
    fn a_restart_shows_in_timers_on_the_clock_and_in_stores_that_nothing_rebuilds() {
        let timer =
            |kind| json!({"processor": {"punctuators": [{"type": kind, "interval_ms": 1}]}});
        let store = |fields: Json| scenario(json!({"mat": fields}));
        let unlogged = store(json!({"logging": false}));
        let unlogged_in_memory = store(json!({"logging": false, "store_type": "in_memory"}));
        let (kept, lost) = (Crash::StoresKept, Crash::StoresLost);
        assert!(kept.shows_in(&scenario(timer("wall_clock"))).is_some());
        assert!(kept.shows_in(&scenario(timer("stream_time"))).is_none());
        assert!(kept.shows_in(&unlogged).is_none());
        assert!(lost.shows_in(&unlogged).is_some());
        assert!(kept.shows_in(&unlogged_in_memory).is_some());
        assert!(lost.shows_in(&store(json!({"store_type": "in_memory"}))).is_none());
    }
}
