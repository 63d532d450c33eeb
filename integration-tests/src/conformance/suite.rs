//! Finds scenario files and runs them all, even if some fail.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::{fs, io};

use super::{Case, Fault, Outcome, Report, Scenario, Verdict, compare};

/// The scenario files among these files and below these folders, sorted within each folder.
///
/// # Errors
/// When a path does not exist or cannot be read.
pub fn scenario_files(roots: &[PathBuf]) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for root in roots {
        collect(root, &mut files)?;
    }
    Ok(files)
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let named =
        |e: io::Error| io::Error::new(e.kind(), format!("cannot read {}: {e}", path.display()));
    if !fs::metadata(path).map_err(named)?.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let entries = fs::read_dir(path).map_err(named)?;
    let mut entries =
        entries.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>().map_err(named)?;
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            collect(&entry, files)?;
        } else if entry.extension().is_some_and(|e| e == "json") {
            files.push(entry);
        }
    }
    Ok(())
}

/// Runs every file with `run` and judges the outcome; a panic fails that scenario only.
pub fn run_all(files: &[PathBuf], run: impl Fn(&Scenario) -> Result<Outcome, Fault>) -> Report {
    Report::new(files.iter().map(|file| case(file, &run)).collect())
}

fn case(file: &Path, run: &impl Fn(&Scenario) -> Result<Outcome, Fault>) -> Case {
    let scenario = match Scenario::read(file) {
        Ok(scenario) => scenario,
        Err(fault) => {
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            return Case {
                name,
                family: "unreadable".into(),
                verdict: Verdict::Broken(fault.to_string()),
            };
        }
    };
    let judged = catch_unwind(AssertUnwindSafe(|| {
        run(&scenario).and_then(|outcome| compare(&scenario, &outcome))
    }));
    let verdict = match judged {
        Ok(Ok(differences)) => Verdict::of(differences),
        Ok(Err(fault)) => Verdict::Broken(fault.to_string()),
        Err(panic) => Verdict::Broken(format!("panicked: {}", panic_message(&*panic))),
    };
    Case { name: scenario.name, family: scenario.family, verdict }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
