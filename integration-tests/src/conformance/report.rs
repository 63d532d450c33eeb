//! The verdicts of a run, for people.

use std::collections::BTreeMap;
use std::fmt;

use super::{Aspect, Difference};

/// How a scenario ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// As expected.
    Passed,
    /// The behaviour is right, but names, descriptions or bytes are not.
    NamesOrBytes(Vec<Difference>),
    /// The behaviour is not as expected.
    Differs(Vec<Difference>),
    /// It could not be run to a result.
    Broken(String),
}

impl Verdict {
    /// The verdict that follows from the differences.
    pub fn of(differences: Vec<Difference>) -> Self {
        if differences.is_empty() {
            Self::Passed
        } else if differences.iter().all(|d| d.aspect == Aspect::NamesOrBytes) {
            Self::NamesOrBytes(differences)
        } else {
            Self::Differs(differences)
        }
    }

    /// Did it pass?
    pub fn passed(&self) -> bool {
        *self == Self::Passed
    }
}

/// A scenario that was run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Case {
    /// `family/slug`.
    pub name: String,
    /// The group it belongs to.
    pub family: String,
    /// How it ended.
    pub verdict: Verdict,
}

/// All scenarios of a run. Its display is the report: failures, counts per family, and a closing line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report(Vec<Case>);

impl Report {
    /// A report of these.
    pub fn new(cases: Vec<Case>) -> Self {
        Self(cases)
    }

    /// The scenarios, in the order they were run.
    pub fn cases(&self) -> &[Case] {
        &self.0
    }

    /// How many passed, and how many did not.
    pub fn counts(&self) -> (usize, usize) {
        let passed = self.0.iter().filter(|case| case.verdict.passed()).count();
        (passed, self.0.len() - passed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut families: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
        for case in &self.0 {
            let [passed, naming, failed] = families.entry(&case.family).or_default();
            let (word, differences) = match &case.verdict {
                Verdict::Passed => {
                    *passed += 1;
                    continue;
                }
                Verdict::NamesOrBytes(differences) => {
                    *naming += 1;
                    ("names or bytes of", differences.as_slice())
                }
                Verdict::Differs(differences) => {
                    *failed += 1;
                    ("FAILED", differences.as_slice())
                }
                Verdict::Broken(why) => {
                    *failed += 1;
                    writeln!(f, "FAILED {}\n    {why}", case.name)?;
                    continue;
                }
            };
            writeln!(f, "{word} {}", case.name)?;
            for difference in differences {
                writeln!(f, "    {difference}")?;
            }
        }
        for (family, [passed, naming, failed]) in families {
            write!(f, "{family:24} {passed:3} of {}", passed + naming + failed)?;
            if naming > 0 {
                write!(f, ", {naming} only by names or bytes")?;
            }
            writeln!(f)?;
        }
        let (passed, failed) = self.counts();
        write!(f, "{passed} passed, {failed} failed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(aspect: Aspect) -> Difference {
        Difference { aspect, at: "topics.out[0]".into(), expected: "1".into(), actual: "2".into() }
    }

    #[test]
    fn the_report_tells_behaviour_from_names_and_closes_with_the_counts() {
        let case = |name: &str, verdict| Case { name: name.into(), family: "f".into(), verdict };
        let report = Report::new(vec![
            case("f/good", Verdict::of(vec![])),
            case("f/named", Verdict::of(vec![difference(Aspect::NamesOrBytes)])),
            case(
                "f/bad",
                Verdict::of(vec![difference(Aspect::NamesOrBytes), difference(Aspect::Behaviour)]),
            ),
            case("f/broken", Verdict::Broken("panicked".into())),
        ]);
        assert_eq!(report.counts(), (1, 3));
        let text = report.to_string();
        assert!(
            text.contains(
                "names or bytes of f/named\n    topics.out[0]\n      expected 1\n      got      2\n"
            ),
            "{text}"
        );
        assert!(text.contains("FAILED f/bad\n"), "{text}");
        assert!(text.contains("FAILED f/broken\n    panicked\n"), "{text}");
        assert!(text.ends_with("1 of 4, 1 only by names or bytes\n1 passed, 3 failed"), "{text}");
    }
}
