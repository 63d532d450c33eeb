//! What is refused before anything is done, and what is said of a run that is cut short.

use thalweg_connectors::Timestamp;

use super::*;

#[test]
fn an_output_that_is_an_input_is_refused_and_nothing_is_done() {
    let (url, broker) = broker("refused-output");
    let text = text_file("a\n");
    let same = text.path.replace("/text", "/./text");
    let arguments = ["run", "--until-end", "--broker", &url, "--input", &text.path, "--output"];
    let (code, error) = run(&app(), &[&arguments[..], &[&same]].concat());
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("`--output` cannot be used: ") && error.contains(&same), "{error}");
    assert_eq!(std::fs::read_to_string(&text.path).unwrap(), "a\n");
    assert!(broker.admin().unwrap().list().unwrap().is_empty(), "nothing was begun");
}

#[test]
fn an_input_for_an_undeclared_topic_hints_at_the_declared_one() {
    let (url, _) = broker("refused-input");
    let text = text_file("a\n");
    let argument = format!("nope={}", text.path);
    let (code, error) = run(&app(), &["run", "--broker", &url, "--input", &argument]);
    assert_eq!(code, 2, "{error}");
    assert!(
        error.contains("declares no input `nope`, but `lines`, and there is no file "),
        "{error}"
    );

    let (code, error) = run(&app(), &["run", "--broker", &url, "--input", "-", "--input", "-"]);
    assert_eq!(code, 2, "{error}");
    assert!(error.contains("`-` is given twice"), "{error}");

    // A file may be called so.
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("nope=text");
    std::fs::write(&path, "a\n").unwrap();
    let path = path.display().to_string();
    let arguments = ["run", "--until-end", "--broker", &url, "--input", &path];
    assert_eq!(run(&app(), &arguments), (0, String::new()));
}

#[test]
fn a_topic_with_an_impossible_number_of_partitions_is_named() {
    let (url, broker) = broker("refused-partitions");
    for partitions in [0, -1, 100_001, i32::MAX] {
        let app = app().topic("odd", partitions);
        let (code, error) = run(&app, &["run", "--until-end", "--broker", &url]);
        assert_eq!(code, 2, "{error}");
        assert!(error.contains(&format!("topic `odd` with {partitions} partitions")), "{error}");
    }
    assert!(broker.admin().unwrap().list().unwrap().is_empty(), "nothing was begun");
}

#[test]
fn a_run_to_the_end_that_is_stopped_before_says_so() {
    let (url, _) = broker("cut-short");
    let text = text_file("a\n");
    let (asked, shutdown) = tokio::sync::oneshot::channel::<()>();
    let (release, released) = std::sync::mpsc::channel::<()>();
    let gate = Mutex::new((Some(asked), released));
    // Asks for the stop while the only line is being read.
    let feed = LineFeed::to("lines").timestamp(move |_| {
        let mut gate = gate.lock().unwrap();
        if let Some(asked) = gate.0.take() {
            asked.send(()).ok();
            gate.1.recv().ok();
        }
        Ok::<_, io::Error>(Timestamp(1))
    });
    let app = App { inputs: vec![feed], ..app() };
    let sources = Sources {
        code: app.settings.clone(),
        assignments: vec![format!("broker={url}")],
        ..Sources::default()
    };
    let settings = Settings::load(&sources).unwrap();
    let args = RunArgs { until_end: true, input: vec![text.path.clone()], output: None };
    let run = Run { app, settings, mode: Mode::Live(args) };
    let log = tempfile::NamedTempFile::new().unwrap();
    let subscriber = tracing_subscriber::fmt()
        .with_ansi(false)
        .with_writer(Mutex::new(log.reopen().unwrap()))
        .finish();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let ended = tracing::subscriber::with_default(subscriber, || {
        runtime.block_on(run.until(async move {
            shutdown.await.ok();
        }))
    });
    drop(release);
    assert!(ended.unwrap().is_none());
    let log = std::fs::read_to_string(log.path()).unwrap();
    let warning = log.lines().find(|line| line.contains(" WARN "));
    assert!(warning.is_some_and(|w| w.contains("stopped before it came to its end")), "{log}");
}
