//! Input: a text that nobody here wrote, generated words and views, and what the right results are.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::random::Random;

/// The C++ sources of RocksDB that the build has fetched: about 30 MB.
pub(crate) fn sources_of_rocksdb() -> Vec<u8> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|package| package["name"] == "librocksdb-sys").unwrap();
    let manifest = Path::new(package["manifest_path"].as_str().unwrap());
    let mut files = Vec::new();
    collect(&manifest.with_file_name("rocksdb"), &mut files);
    files.sort();
    files.iter().flat_map(|file| fs::read(file).unwrap()).collect()
}

/// Where the last line ends that is complete within so many bytes.
pub(crate) fn end_of_lines(text: &[u8], bytes_max: usize) -> usize {
    let within = &text[..text.len().min(bytes_max)];
    within.iter().rposition(|byte| *byte == b'\n').unwrap() + 1
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|e| e == "cc" || e == "h") {
            files.push(path);
        }
    }
}

/// What the shell counts.
pub(crate) fn counted_by_the_shell(text: &Path) -> BTreeMap<Vec<u8>, i64> {
    let pipeline = r"LC_ALL=C tr -s '[:space:]' '\n' | LC_ALL=C sort | uniq -c";
    let output = Command::new("sh")
        .args(["-c", pipeline])
        .stdin(File::open(text).unwrap())
        .stderr(Stdio::inherit())
        .output()
        .unwrap();
    assert!(output.status.success());
    let counts = output.stdout.split(|byte| *byte == b'\n').filter_map(count_and_word);
    // White space at the beginning counts as a word of no letters.
    counts.filter(|(word, _)| !word.is_empty()).collect()
}

/// Reads `   12 word`.
pub(crate) fn count_and_word(line: &[u8]) -> Option<(Vec<u8>, i64)> {
    let line = line.trim_ascii_start();
    let space = line.iter().position(|byte| *byte == b' ')?;
    let count = std::str::from_utf8(&line[..space]).unwrap().parse().unwrap();
    Some((line[space + 1..].to_vec(), count))
}

/// As many different words, in lines of 50.
pub(crate) fn distinct_words(count: u64) -> String {
    let mut text = String::new();
    for n in 0..count {
        let end = if n % 50 == 49 { '\n' } else { ' ' };
        // Odd factor, power of two: each number once, and neighbours far apart.
        write!(text, "word-{:08x}{end}", (n * 0x9e37_79b1) & 0xffff_ffff).unwrap();
    }
    text
}

/// A view of a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct View {
    pub(crate) at_ms: i64,
    pub(crate) page: u64,
}

/// Views of pages in the order of their arrival. Most are out of order a little. Now and then one comes from the future and closes
/// windows before their time: what comes after it is late, until the clock has caught up.
pub(crate) fn views(seed: u64, count: u64) -> Vec<View> {
    let mut random = Random::new(seed);
    let mut clock_ms = 1_700_000_000_000_i64;
    let mut view = || {
        clock_ms += random.within(0..5) as i64;
        let at_ms = match random.within(0..40_000) {
            0 => clock_ms + 60_000,
            _ => clock_ms - random.within(0..8_000) as i64,
        };
        // Some pages are seen more often than others.
        let page = random.within(0..400).min(random.within(0..400));
        View { at_ms, page }
    };
    (0..count).map(|_| view()).collect()
}

/// The lines that the program reads.
pub(crate) fn lines(views: &[View]) -> String {
    let mut text = String::new();
    for view in views {
        writeln!(text, "{} {} browser", time(view.at_ms), page(view)).unwrap();
    }
    text
}

pub(crate) fn time(at_ms: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_millisecond(at_ms).unwrap()
}

pub(crate) fn page(view: &View) -> String {
    format!("/page/{}", view.page)
}
