//! What the compiler says to mistakes in a pipeline: the messages are part of the product.
//!
//! Each program in `compile_fail/` must not compile, and its `.stderr` file holds what the user reads first: the message, the labels,
//! the notes. Renewed with `UPDATE=1`. The programs are compiled against the library that was just built, so that nothing native is
//! built a second time.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;
use std::{env, fs};

use serde_json::Value;

#[test]
fn mistakes_are_explained_by_the_compiler() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let mut programs: Vec<PathBuf> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "rs"))
        .collect();
    programs.sort();
    assert!(!programs.is_empty());
    let wrong: Vec<String> = programs.iter().filter_map(|program| check(program)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is wrong with the outcome of one program.
fn check(program: &Path) -> Option<String> {
    let golden = program.with_extension("stderr");
    let said = compile(program);
    if env::var_os("UPDATE").is_some() {
        fs::write(&golden, said).unwrap();
        return None;
    }
    let expected = fs::read_to_string(&golden).unwrap_or_default();
    (said != expected).then(|| {
        format!("{}\n--- expected\n{expected}--- the compiler says\n{said}", program.display())
    })
}

/// What the compiler says about a program.
fn compile(program: &Path) -> String {
    let deps = env::current_exe().unwrap().parent().unwrap().to_path_buf();
    let mut search = std::ffi::OsString::from("dependency=");
    search.push(&deps);
    let mut library = std::ffi::OsString::from("thalweg=");
    library.push(newest_library(&deps));
    let out = env::temp_dir().join(format!("thalweg-compile-fail-{}", std::process::id()));
    fs::create_dir_all(&out).unwrap();
    let output = Command::new(rustc())
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--error-format=json"])
        .args(["-A", "warnings", "--crate-name=program"])
        .arg("--out-dir")
        .arg(&out)
        .arg("-L")
        .arg(search)
        .arg("--extern")
        .arg(library)
        .arg(program)
        .output()
        .unwrap();
    fs::remove_dir_all(&out).unwrap();
    assert!(!output.status.success(), "{} compiles", program.display());
    let text = String::from_utf8(output.stderr).unwrap();
    let diagnostics = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    diagnostics.fold(String::new(), |said, diagnostic| said + &first_lines(&diagnostic))
}

/// The library that was built last: whichever features it has, it is of the sources as they are.
fn newest_library(deps: &Path) -> PathBuf {
    let built = |path: &Path| fs::metadata(path).and_then(|m| m.modified()).ok();
    let libraries = fs::read_dir(deps).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?;
        (name.starts_with("libthalweg-") && name.ends_with(".rlib")).then_some(path)
    });
    libraries.max_by_key(|path| built(path).unwrap_or(SystemTime::UNIX_EPOCH)).unwrap()
}

/// The compiler beside the cargo that runs this test.
fn rustc() -> PathBuf {
    let cargo = env::var_os("CARGO").map(PathBuf::from);
    let beside = cargo.map(|cargo| cargo.with_file_name("rustc"));
    beside.filter(|rustc| rustc.exists()).unwrap_or_else(|| "rustc".into())
}

/// Message, labels and notes of a diagnostic, without what depends on the library's own lines.
fn first_lines(diagnostic: &Value) -> String {
    let message = diagnostic["message"].as_str().unwrap_or_default();
    if diagnostic["level"] != "error" || message.starts_with("aborting due to") {
        return String::new();
    }
    let code = diagnostic["code"]["code"].as_str().map(|c| format!("[{c}]")).unwrap_or_default();
    let mut said = format!("error{code}: {message}\n");
    for span in diagnostic["spans"].as_array().unwrap() {
        let (line, label) = (&span["line_start"], span["label"].as_str().unwrap_or_default());
        let mark = if span["is_primary"] == true { '^' } else { '-' };
        writeln!(said, "  line {line} {mark} {label}").unwrap();
    }
    for note in diagnostic["children"].as_array().unwrap() {
        let (level, text) = (note["level"].as_str().unwrap(), note["message"].as_str().unwrap());
        let is_ours = note["spans"].as_array().unwrap().is_empty();
        if is_ours && level == "note" && !text.starts_with("required") {
            writeln!(said, "  note: {text}").unwrap();
        }
    }
    said
}
