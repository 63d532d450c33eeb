//! A page of Prometheus text, read strictly.

use std::collections::{BTreeMap, BTreeSet};

/// What a sample is of, besides its name.
pub(crate) type Labels = BTreeMap<String, String>;

/// A page that keeps to the format.
#[derive(Debug, Default)]
pub(crate) struct Page {
    samples: BTreeMap<String, Vec<(Labels, f64)>>,
}

impl Page {
    /// Reads a page; panics where it breaks the format: each metric has one HELP and one TYPE before its samples, which stand
    /// together; names and labels have legal letters; no sample is there twice; counters are named so, and never negative.
    pub(crate) fn read(text: &str) -> Self {
        let mut page = Self::default();
        let (mut helped, mut typed) = (BTreeSet::new(), BTreeMap::new());
        let mut current = "";
        assert!(text.ends_with('\n'), "the last line has an end");
        for line in text.lines() {
            if let Some((name, help)) = comment(line, "# HELP ") {
                assert!(helped.insert(name) && !help.is_empty(), "{line}");
            } else if let Some((name, kind)) = comment(line, "# TYPE ") {
                assert!(matches!(kind, "counter" | "gauge"), "{line}");
                assert!(typed.insert(name, kind).is_none() && helped.contains(name), "{line}");
                assert!(kind == "gauge" || name.ends_with("_total"), "{line}");
                current = name;
            } else {
                let (name, labels, value) = sample(line);
                assert_eq!(name, current, "samples stand below their own TYPE: {line}");
                assert!(value.is_finite() && (typed[name] != "counter" || value >= 0.0), "{line}");
                let samples = page.samples.entry(name.to_owned()).or_default();
                assert!(samples.iter().all(|(other, _)| *other != labels), "twice: {line}");
                samples.push((labels, value));
            }
        }
        page
    }

    /// The samples of a metric.
    pub(crate) fn of(&self, name: &str) -> &[(Labels, f64)] {
        self.samples.get(name).map_or(&[], Vec::as_slice)
    }

    /// Their sum.
    pub(crate) fn sum(&self, name: &str) -> f64 {
        self.of(name).iter().map(|(_, value)| value).sum()
    }

    /// The only sample of a metric.
    pub(crate) fn one(&self, name: &str) -> f64 {
        let [(_, value)] = self.of(name) else { panic!("{name}: {:?}", self.of(name)) };
        *value
    }
}

/// The parts of a comment that begins like this.
fn comment<'l>(line: &'l str, start: &str) -> Option<(&'l str, &'l str)> {
    let (name, rest) = line.strip_prefix(start)?.split_once(' ')?;
    assert_legal(name);
    Some((name, rest))
}

fn assert_legal(name: &str) {
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    assert!(starts && name.bytes().all(legal), "{name:?} is no name");
}

fn sample(line: &str) -> (&str, Labels, f64) {
    let (name, rest) = line.split_once('{').unwrap_or_else(|| panic!("no labels: {line}"));
    let (labels, value) = rest.rsplit_once("} ").unwrap_or_else(|| panic!("no value: {line}"));
    assert_legal(name);
    (name, read_labels(labels), value.parse().unwrap_or_else(|_| panic!("no number: {line}")))
}

fn read_labels(mut text: &str) -> Labels {
    let mut labels = Labels::new();
    while !text.is_empty() {
        let (name, rest) = text.split_once("=\"").unwrap();
        assert_legal(name);
        let (value, rest) = read_value(rest);
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} is there twice");
        text = rest.strip_prefix(',').unwrap_or(rest);
    }
    labels
}

/// What stands before the closing quote, and what follows it.
fn read_value(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return (value, &text[at + 1..]),
            '\\' => value.push(match letters.next().map(|(_, escaped)| escaped) {
                Some('n') => '\n',
                Some(escaped @ ('\\' | '"')) => escaped,
                other => panic!("no escape: {other:?} in {text}"),
            }),
            _ => value.push(letter),
        }
    }
    panic!("no end: {text}");
}
