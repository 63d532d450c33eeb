use crate::page_views::{PER_MINUTE, PROGRAM, VIEWS};
use crate::support::Place;

const FIXED: &str = env!("CARGO_BIN_EXE_page-views-fixed");

const LIVE: [&str; 4] = ["run", "--until-end", "--input", "views"];

/// What the fixed program counts from 14:00 on.
const FIXED_PER_MINUTE: &str = "\
2025-06-01T14:00:00Z /home 2
2025-06-01T14:01:00Z /home 2
2025-06-01T14:00:00Z /news 1
";

fn replay(place: &Place, program: &str, from: &str, more: &[&str]) -> String {
    place.results(program, &[&["replay", "--from", from][..], more].concat())
}

#[test]
fn the_past_is_counted_again_from_a_time_on_beside_the_live_application() {
    let place = Place::new();
    place.file("views", VIEWS);
    place.results(PROGRAM, &LIVE);
    for name in ["fixed", "again"] {
        let replayed = replay(&place, FIXED, "2025-06-01T14:00:00Z", &["--as", name]);
        assert_eq!(replayed, FIXED_PER_MINUTE);
    }
    // The live application goes on as if nothing had been.
    assert_eq!(place.results(PROGRAM, &LIVE), PER_MINUTE);
    let mut of_replays = std::fs::read_dir(place.path(".thalweg"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect::<Vec<_>>();
    of_replays.sort();
    let own = ["log", "page-views", "page-views-replay-again", "page-views-replay-fixed"];
    assert_eq!(of_replays, own);
}

#[test]
fn a_replay_from_the_beginning_repeats_the_live_results() {
    let place = Place::new();
    place.file("views", VIEWS);
    place.results(PROGRAM, &LIVE);
    assert_eq!(replay(&place, PROGRAM, "beginning", &[]), PER_MINUTE);
}

#[test]
fn a_replay_ends_where_it_is_told_to() {
    let place = Place::new();
    place.file("views", VIEWS);
    place.results(PROGRAM, &LIVE);
    let until = ["--until", "2025-06-01T14:00:00Z"];
    let replayed = replay(&place, PROGRAM, "beginning", &until);
    assert_eq!(replayed, "2025-06-01T13:59:00Z /home 1\n");
}

#[test]
fn a_warm_up_fills_windows_and_writes_nothing() {
    let place = Place::new();
    place.file("views", VIEWS);
    place.results(PROGRAM, &LIVE);
    let cut = replay(&place, PROGRAM, "2025-06-01T14:00:10Z", &[]);
    assert!(cut.contains("2025-06-01T14:00:00Z /home 2\n"), "{cut}");
    let warm = replay(&place, PROGRAM, "2025-06-01T14:00:10Z", &["--warm-up", "1m"]);
    assert!(warm.contains("2025-06-01T14:00:00Z /home 3\n"), "{warm}");
    assert!(!warm.contains("T13:59"), "{warm}");
}

#[test]
fn a_replay_that_finds_nothing_says_what_there_is() {
    let place = Place::new();
    place.file("views", VIEWS);
    place.results(PROGRAM, &LIVE);
    for from in ["2030-01-01T00:00:00Z", "99"] {
        let ended = place.run(FIXED, &["replay", "--from", from]);
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
        let warning = " WARN nothing was replayed: no record lies in the range asked for; `views` has the offsets 0 to ";
        let times = ", about 2025-06-01T13:59:30Z to 2025-06-01T14:01:30Z\n";
        assert!(ended.stderr.contains(warning), "{}", ended.stderr);
        assert!(ended.stderr.contains(times), "{}", ended.stderr);
    }
}

#[test]
fn a_name_is_used_once_until_its_replay_is_removed_or_replaced() {
    let place = Place::new();
    place.file("views", VIEWS);
    place.results(PROGRAM, &LIVE);
    let from = "2025-06-01T14:00:00Z";
    let again = ["replay", "--from", from, "--as", "fixed"];
    assert_eq!(replay(&place, FIXED, from, &["--as", "fixed"]), FIXED_PER_MINUTE);
    let refused = place.run(FIXED, &again);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("`--replace`"), "{}", refused.stderr);
    assert_eq!(replay(&place, FIXED, from, &["--as", "fixed", "--replace"]), FIXED_PER_MINUTE);
    assert_eq!(place.results(FIXED, &["replays"]), "fixed\n");
    assert_eq!(place.results(FIXED, &["replays", "--remove", "fixed"]), "");
    assert!(!place.path(".thalweg/page-views-replay-fixed").exists());
    assert_eq!(replay(&place, FIXED, from, &["--as", "fixed"]), FIXED_PER_MINUTE);
    assert_eq!(place.results(PROGRAM, &LIVE), PER_MINUTE);
}
