//! The committed list of scenarios that do not pass yet.

use std::collections::BTreeSet;
use std::fmt;

use super::Report;

/// Names of scenarios that are known to fail; a run that agrees with the list is a good one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpectedFailures(BTreeSet<String>);

/// Where a run does not agree with the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Surprise {
    /// A listed scenario passes: take it off the list.
    Passes(String),
    /// An unlisted scenario fails.
    Fails(String),
}

impl fmt::Display for Surprise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Passes(name) => {
                write!(f, "{name} passes now: take it off the list of expected failures")
            }
            Self::Fails(name) => {
                write!(f, "{name} fails and is not on the list of expected failures")
            }
        }
    }
}

impl ExpectedFailures {
    /// Reads the list: one name a line; empty lines and what follows `#` do not count.
    pub fn parse(text: &str) -> Self {
        let names = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
        Self(names.filter(|name| !name.is_empty()).map(str::to_owned).collect())
    }

    /// The names on the list.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(String::as_str)
    }

    /// Where the report does not agree with the list. Listed scenarios that did not run do not count.
    pub fn surprises(&self, report: &Report) -> Vec<Surprise> {
        let cases = report.cases().iter();
        cases
            .filter_map(|case| match (case.verdict.passed(), self.0.contains(&case.name)) {
                (true, true) => Some(Surprise::Passes(case.name.clone())),
                (false, false) => Some(Surprise::Fails(case.name.clone())),
                _ => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::{Case, Verdict};

    #[test]
    fn a_run_surprises_by_passing_what_is_listed_and_failing_what_is_not() {
        let list =
            ExpectedFailures::parse("# later\na/fixed\na/open # needs sessions\n\nb/elsewhere\n");
        let case = |name: &str, ok: bool| Case {
            name: name.into(),
            family: "a".into(),
            verdict: if ok { Verdict::Passed } else { Verdict::Broken("no".into()) },
        };
        let report = Report::new(vec![
            case("a/fixed", true),
            case("a/open", false),
            case("a/new", false),
            case("a/fine", true),
        ]);
        let surprises = list.surprises(&report);
        assert_eq!(
            surprises,
            [Surprise::Passes("a/fixed".into()), Surprise::Fails("a/new".into())]
        );
    }
}
