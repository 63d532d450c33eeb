//! Logs go to standard error; `THALWEG_LOG`, else `RUST_LOG`, says which.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// What is logged when nobody says.
const DEFAULT: &str = "info";

/// Starts logging; does nothing when the program has set up its own already. Returns what is wrong with `THALWEG_LOG`.
pub(super) fn start(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let (filter, problem) = filter(variable);
    let colours = std::io::stderr().is_terminal();
    // An error means that there is a subscriber already, which then is the program's own choice.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Lossy(io::stderr()))
        .log_internal_errors(false)
        .with_ansi(colours)
        .with_target(false)
        .try_init();
    problem
}

/// A writer that loses what it cannot write: a closed pipe or a full disk behind the log must not stop a run.
struct Lossy<W>(W);

impl<W: Write> Write for Lossy<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = self.0.write_all(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let _ = self.0.flush();
        Ok(())
    }
}

fn filter(variable: impl Fn(&str) -> Option<String>) -> (EnvFilter, Option<String>) {
    let default = || EnvFilter::new(DEFAULT);
    if let Some(text) = variable("THALWEG_LOG") {
        let takes = "`THALWEG_LOG` takes a level such as `debug`, or `warn,thalweg=debug`";
        if let Some(word) = unknown_level(&text) {
            let levels = "the levels are off, error, warn, info, debug and trace";
            return (default(), Some(format!("{takes}, and not `{word}`: {levels}")));
        }
        return match EnvFilter::try_new(&text) {
            Ok(filter) => (filter, None),
            Err(_) => (default(), Some(takes.to_owned())),
        };
    }
    // `RUST_LOG` may be meant for other programs: what cannot be read is ignored.
    let text = variable("RUST_LOG");
    let filter = text.and_then(|text| EnvFilter::try_new(text).ok());
    (filter.unwrap_or_else(default), None)
}

/// A word that stands alone and is no level. It would be taken for the name of a module, and all others would fall silent.
fn unknown_level(text: &str) -> Option<&str> {
    let words = text.split(',').map(str::trim);
    let mut alone =
        words.filter(|word| !word.is_empty() && !word.contains(['=', '[', ']', '{', '}']));
    alone.find(|word| word.parse::<LevelFilter>().is_err())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Broken;

    impl Write for Broken {
        fn write(&mut self, _bytes: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
    }

    #[test]
    fn a_line_that_cannot_be_written_is_lost_and_nothing_else() {
        let mut writer = Lossy(Broken);
        assert!(writer.write_all(b"line").and_then(|()| writer.flush()).is_ok());
    }

    #[test]
    fn a_word_that_is_no_level_is_reported_and_silences_nothing() {
        for (text, word) in [
            ("inof", Some("inof")),
            ("warn, thalweg", Some("thalweg")),
            ("INFO", None),
            ("off", None),
            ("warn,thalweg=debug,", None),
            ("warn,[span{field=1,other=2}]=debug", None),
        ] {
            assert_eq!(unknown_level(text), word, "{text}");
        }
        let (chosen, problem) = filter(|_| Some("inof".to_owned()));
        let problem = problem.unwrap_or_default();
        assert_eq!(chosen.to_string(), "info");
        assert!(problem.contains("and not `inof`: the levels are off, error, "), "{problem}");
    }

    #[test]
    fn the_own_variable_wins_and_a_bad_one_is_a_problem() {
        for (own, rust, chosen, bad) in [
            (None, None, "info", false),
            (None, Some("debug"), "debug", false),
            (None, Some("a=b=c"), "info", false),
            (Some("warn"), Some("debug"), "warn", false),
            (Some("a=b=c"), Some("debug"), "info", true),
        ] {
            let (filter, problem) = filter(|name| match name {
                "THALWEG_LOG" => own.map(str::to_owned),
                _ => rust.map(str::to_owned),
            });
            assert_eq!((filter.to_string().as_str(), problem.is_some()), (chosen, bad));
        }
    }
}
