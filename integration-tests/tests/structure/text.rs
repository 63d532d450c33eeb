//! Rules about files: sizes, leftovers, machine paths, folders at the root.

use crate::assert_none;
use crate::rust::{functions, views};
use crate::tree::{File, entries, files, root};

const FILE_LINES_MAX: usize = 800;
const FUNCTION_LINES_MAX: usize = 70;
const RUN_ONCE_LINES_MAX: usize = 40;

const FOLDERS: [&str; 8] =
    [".ci", "connectors", "dsl", "examples", "integration-tests", "processor", "state", "txn"];

const FORBIDDEN_CODE: [&str; 4] = ["todo!", "unimplemented!", "dbg!", "#[ignore"];
const FORBIDDEN_COMMENTS: [&str; 5] = ["TODO", "FIXME", "XXX", "HACK", "```ignore"];
const MACHINE_PATHS: [&str; 3] =
    [concat!("/", "home/"), concat!("/", "root/"), concat!("/", "Users/")];

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Rules for one Rust file.
fn source_violations(file: &File) -> Vec<String> {
    let mut violations = Vec::new();
    let lines = file.text.lines().count();
    if lines > FILE_LINES_MAX {
        violations.push(format!("{}: {lines} lines, over {FILE_LINES_MAX}", file.path));
    }
    let views = views(&file.text);
    for (view, words) in
        [(&views.code, &FORBIDDEN_CODE[..]), (&views.comments, &FORBIDDEN_COMMENTS)]
    {
        for (line, word) in occurrences(view, words, is_word) {
            violations.push(format!("{}:{line}: leftover '{word}'", file.path));
        }
    }
    for function in functions(&views.code) {
        let run_once = file.path.starts_with("processor/src/") && function.name == "run_once";
        let limit = if run_once { RUN_ONCE_LINES_MAX } else { FUNCTION_LINES_MAX };
        if function.lines > limit {
            violations.push(format!(
                "{}:{}: '{}' has {} lines of code, over {limit}",
                file.path, function.line, function.name, function.lines
            ));
        }
    }
    violations
}

/// A path of one machine, which would be wrong on every other one.
fn machine_path_violations(file: &File) -> Vec<String> {
    let inside_a_path = |c: char| is_word(c) || matches!(c, '.' | '-' | '}' | '/' | '~');
    occurrences(&file.text, &MACHINE_PATHS, inside_a_path)
        .map(|(line, path)| format!("{}:{line}: path of one machine '{path}…'", file.path))
        .collect()
}

/// Line and word of every occurrence that is not the tail of something longer.
fn occurrences<'a>(
    text: &'a str,
    words: &'a [&'a str],
    continues: impl Fn(char) -> bool + Copy + 'a,
) -> impl Iterator<Item = (usize, &'a str)> + 'a {
    words.iter().flat_map(move |word| {
        text.match_indices(word)
            .filter(move |(at, _)| !text[..*at].ends_with(continues))
            .map(move |(at, _)| (text[..at].matches('\n').count() + 1, *word))
    })
}

#[test]
fn sources_are_small_and_have_no_leftovers() {
    let files = files();
    let sources = files.iter().filter(|file| file.path.ends_with(".rs"));
    assert_none(&sources.flat_map(source_violations).collect::<Vec<_>>());
}

#[test]
fn the_run_loop_is_found_under_the_name_that_its_limit_is_for() {
    let run_loops = files()
        .iter()
        .filter(|file| file.path.starts_with("processor/src/"))
        .flat_map(|file| functions(&views(&file.text).code))
        .filter(|function| function.name == "run_once")
        .count();
    assert!(run_loops > 0, "no `fn run_once` below processor/src");
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    assert_none(&files().iter().flat_map(machine_path_violations).collect::<Vec<_>>());
}

#[test]
fn the_root_has_only_the_folders_of_the_architecture() {
    let folders: Vec<_> =
        entries(&root()).into_iter().filter_map(|(name, folder)| folder.then_some(name)).collect();
    assert_eq!(folders, FOLDERS);
}

#[test]
fn violations_in_a_source_are_found() {
    let file = |path: &str, text: String| File { path: path.to_owned(), text };
    let long = |name: &str, lines: usize| format!("fn {name}() {{\n{}}}\n", "x();\n".repeat(lines));

    let leftovers =
        "// TODO later\n/// ```ignore\nfn f() { dbg!(1); my_dbg!(1); \"todo!\"; }\n#[ignore]\n";
    assert_eq!(
        source_violations(&file("dsl/src/a.rs", leftovers.to_owned())),
        [
            "dsl/src/a.rs:3: leftover 'dbg!'",
            "dsl/src/a.rs:4: leftover '#[ignore'",
            "dsl/src/a.rs:1: leftover 'TODO'",
            "dsl/src/a.rs:2: leftover '```ignore'",
        ]
    );
    assert_eq!(
        source_violations(&file("dsl/src/b.rs", "\n".repeat(801))),
        ["dsl/src/b.rs: 801 lines, over 800"]
    );
    assert_none(&source_violations(&file("dsl/src/c.rs", long("f", 70))));
    assert_none(&source_violations(&file("processor/src/c.rs", long("run_once", 40))));
    assert_eq!(
        source_violations(&file("dsl/src/c.rs", long("f", 71))),
        ["dsl/src/c.rs:1: 'f' has 71 lines of code, over 70"]
    );
    assert_eq!(
        source_violations(&file("processor/src/worker.rs", long("run_once", 41))),
        ["processor/src/worker.rs:1: 'run_once' has 41 lines of code, over 40"]
    );
}

#[test]
fn a_path_of_one_machine_is_found() {
    let path = MACHINE_PATHS[0];
    let text = format!("https://host{path}page $HOME/x ~{path}\ncp {path}me/x .\n");
    let file = File { path: "README.md".to_owned(), text };
    assert_eq!(
        machine_path_violations(&file),
        [format!("README.md:2: path of one machine '{path}…'")]
    );
}
