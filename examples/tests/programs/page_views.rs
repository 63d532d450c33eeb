use crate::support::Place;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_page-views");

/// Three minutes, a late view that counts, and one that comes too late.
pub(crate) const VIEWS: &str = "\
2025-06-01T13:59:30Z /home browser
2025-06-01T14:00:05Z /home browser
2025-06-01T14:00:10Z /home robot
2025-06-01T14:00:20Z /news browser
2025-06-01T14:00:30Z /news robot
2025-06-01T14:01:00Z /home browser
2025-06-01T14:00:59Z /home browser
2025-06-01T14:01:20Z /home robot
2025-06-01T14:01:30Z /home browser
2025-06-01T14:00:58Z /home browser
";

pub(crate) const PER_MINUTE: &str = "\
2025-06-01T13:59:00Z /home 1
2025-06-01T14:00:00Z /home 3
2025-06-01T14:01:00Z /home 3
2025-06-01T14:00:00Z /news 2
";

#[test]
fn views_are_counted_in_the_minute_in_which_they_happened() {
    let place = Place::new();
    place.file("views", VIEWS);
    let run = ["run", "--until-end", "--input", "views"];
    assert_eq!(place.results(PROGRAM, &run), PER_MINUTE);
    assert_eq!(place.results(PROGRAM, &run), PER_MINUTE);
}

#[test]
fn a_line_without_a_time_is_named_and_nothing_is_lost_once_it_is_right() {
    let place = Place::new();
    let run = ["run", "--until-end", "--input", "views"];
    let wrong = "2025-06-01T14:01:20Z";
    place.file("views", VIEWS.replace(wrong, "half past two"));
    let ended = place.run(PROGRAM, &run);
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""), "{}", ended.stderr);
    let at = VIEWS.find(wrong).unwrap();
    let message = format!("error: cannot take views:8 (byte {at}): no timestamp found; ");
    assert!(ended.stderr.contains(&message), "{}", ended.stderr);
    place.file("views", VIEWS);
    assert_eq!(place.results(PROGRAM, &run), PER_MINUTE);
}

#[test]
fn a_view_before_1970_is_refused_and_not_stamped_anew() {
    let place = Place::new();
    place.file("views", format!("{VIEWS}1969-12-31T23:00:00Z /home browser\n"));
    let ended = place.run(PROGRAM, &["run", "--until-end", "--input", "views"]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let message = "the timestamp -3600000 ms (1969-12-31T23:00:00Z) is before 1970; ";
    assert!(ended.stderr.contains("error: cannot take views:11 "), "{}", ended.stderr);
    assert!(ended.stderr.contains(message), "{}", ended.stderr);
}

#[test]
fn bad_lines_are_left_out_and_named_where_that_is_asked_for() {
    let place = Place::new();
    place.file("views", format!("half past two\n{VIEWS}"));
    let go_on = ["--set", "deserialization.exception.handler=continue"];
    let ended =
        place.run(PROGRAM, &[&["run", "--until-end", "--input", "views"], &go_on[..]].concat());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), PER_MINUTE), "{}", ended.stderr);
    assert!(ended.stderr.contains("left out views:1: no timestamp found"), "{}", ended.stderr);
    assert!(ended.stderr.contains(" skipped=1 "), "{}", ended.stderr);
}
