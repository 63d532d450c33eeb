use crate::support::Place;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_word-count");

const RUN: [&str; 2] = ["run", "--until-end"];

fn run(place: &Place, more: &[&str]) -> String {
    place.results(PROGRAM, &[&RUN[..], more].concat())
}

#[test]
fn words_are_counted_by_ascii_white_space_whatever_their_encoding() {
    let place = Place::new();
    let text = b"to be\tor not\x0bto\x0cbe\r\n\n  \xff\xfe \xc3\xa4\nTo";
    place.file("text", text);
    let ended =
        place.run(PROGRAM, &[&RUN[..], &["--input", "text", "--output", "counts"]].concat());
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(0), ""), "{}", ended.stderr);
    let counts = std::fs::read(place.path("counts")).unwrap();
    assert_eq!(counts, b"1 To\n2 be\n1 not\n1 or\n2 to\n1 \xc3\xa4\n1 \xff\xfe\n");
}

#[test]
fn a_line_is_counted_once_however_often_the_program_runs() {
    let place = Place::new();
    place.file("text", "a b\na\n");
    assert_eq!(run(&place, &["--input", "text"]), "2 a\n1 b\n");
    assert_eq!(run(&place, &["--input", "text"]), "2 a\n1 b\n");
    place.file("text", "a b\na\nb\n");
    assert_eq!(run(&place, &["--input", "text"]), "2 a\n2 b\n");
    place.file("more", "c\n");
    assert_eq!(run(&place, &["--input", "text", "--input", "more"]), "2 a\n2 b\n1 c\n");
}

#[test]
fn a_large_text_has_the_counts_of_a_plain_loop() {
    let place = Place::new();
    let mut text = String::new();
    let mut expected = std::collections::BTreeMap::<String, u64>::new();
    // A sequence without pattern: the low bits of a linear congruential generator are left out.
    let mut seed = 7u64;
    for _ in 0..300_000 {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let word = format!("w{}", (seed >> 40) % 5_000);
        text.push_str(&word);
        text.push(if seed >> 61 == 0 { '\n' } else { ' ' });
        *expected.entry(word).or_default() += 1;
    }
    place.file("text", text);
    let expected: String = expected.iter().map(|(word, n)| format!("{n} {word}\n")).collect();
    assert_eq!(run(&place, &["--input", "text", "--workers", "2"]), expected);
}

#[test]
fn its_durable_names_stay_the_same() {
    let described = Place::new().results(PROGRAM, &["describe"]);
    let names = |mark: &str| -> Vec<String> {
        let parts = described.split(mark).skip(1);
        parts.map(|part| part.split([']', ')']).next().unwrap().to_owned()).collect()
    };
    assert_eq!(names("(topics: ["), ["lines", "by-word-repartition"]);
    assert_eq!(names("(topic: "), ["by-word-repartition", "word-totals"]);
    let stores: Vec<String> = names("(stores: [").into_iter().filter(|s| !s.is_empty()).collect();
    assert_eq!(stores, ["word-counts"]);
}

#[test]
fn its_versions_are_told() {
    let version = Place::new().results(PROGRAM, &["--version"]);
    assert!(version.starts_with("word-count with thalweg "), "{version}");
    assert!(version.contains(", RocksDB "), "{version}");
    assert_eq!(version.contains(", librdkafka "), cfg!(feature = "kafka"), "{version}");
}
