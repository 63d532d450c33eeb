//! `docker-compose.yml` and the image of the examples: what they say agrees with itself, with the scripts and with the programs.
#![allow(clippy::unwrap_used, reason = "a check panics on failure")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use yaml_rust2::{Yaml, YamlLoader};

const EXAMPLE: &str = "page-views";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn read(path: &str) -> String {
    let full = root().join(path);
    std::fs::read_to_string(&full).unwrap_or_else(|e| panic!("cannot read {full:?}: {e}"))
}

fn compose() -> Yaml {
    let mut documents = YamlLoader::load_from_str(&read("docker-compose.yml")).unwrap();
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

fn service(name: &str) -> Yaml {
    let service = compose()["services"][name].clone();
    assert!(!service.is_badvalue(), "there is no service '{name}'");
    service
}

fn entries(map: &Yaml) -> Vec<(String, Yaml)> {
    let entries = map.as_hash().into_iter().flatten();
    entries.map(|(key, value)| (key.as_str().unwrap().to_owned(), value.clone())).collect()
}

fn texts(list: &Yaml) -> Vec<String> {
    let texts = list.as_vec().into_iter().flatten();
    texts.map(|text| text.as_str().expect("everything in a list is quoted").to_owned()).collect()
}

fn setting(service: &Yaml, name: &str) -> String {
    let value = service["environment"][name].as_str();
    value.unwrap_or_else(|| panic!("'{name}' is missing, or not quoted")).to_owned()
}

/// `HOST-PORT:CONTAINER-PORT` of what a service publishes, all of it on the loopback interface.
fn published(service: &Yaml) -> Vec<(String, String)> {
    let ports = texts(&service["ports"]).into_iter();
    ports
        .map(|port| match port.split(':').collect::<Vec<_>>()[..] {
            ["127.0.0.1", host, container] => (host.to_owned(), container.to_owned()),
            _ => panic!("'{port}' is not 127.0.0.1:PORT:PORT"),
        })
        .collect()
}

/// The default that a script's own table of its environment gives: the word behind the variable and what it means.
fn default_of(script: &str, variable: &str) -> String {
    let text = read(script);
    let line = text.lines().find(|line| line.trim_start_matches(['#', ' ']).starts_with(variable));
    line.unwrap().rsplit("  ").next().unwrap().trim().to_owned()
}

/// `NAME://HOST:PORT` of a list of Kafka's listeners.
fn listeners(list: &str) -> Vec<(String, String)> {
    let split = |listener: &str| {
        let (name, address) = listener.split_once("://").unwrap();
        (name.to_owned(), address.to_owned())
    };
    list.split(',').map(split).collect()
}

#[test]
fn every_service_can_be_had_and_what_it_names_is_there() {
    let (compose, mut ports) = (compose(), BTreeSet::new());
    let services = entries(&compose["services"]);
    let names: Vec<&str> = services.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["kafka", "registry", "collector", EXAMPLE]);
    for (name, service) in &services {
        match (service["image"].as_str(), service["build"]["dockerfile"].as_str()) {
            (Some(image), None) => {
                let tag = image.split_once(':').unwrap_or_else(|| panic!("'{image}' has no tag")).1;
                assert!(tag.starts_with(|c: char| c.is_ascii_digit()), "'{image}' may move");
            }
            (None, Some(file)) => assert!(root().join(file).is_file(), "there is no {file}"),
            _ => panic!("'{name}' has neither an image nor a build, or both"),
        }
        for (host, _) in published(service) {
            assert!(ports.insert(host.clone()), "port {host} is published twice");
        }
        for (other, _) in entries(&service["depends_on"]) {
            assert!(names.contains(&other.as_str()), "'{name}' waits for '{other}', which is none");
        }
        for volume in texts(&service["volumes"]) {
            let from = volume.split(':').next().unwrap();
            match from.strip_prefix("./") {
                Some(file) => assert!(root().join(file).exists(), "there is no {file}"),
                None => assert!(
                    entries(&compose["volumes"]).iter().any(|(volume, _)| volume == from),
                    "volume '{from}' is not declared"
                ),
            }
        }
    }
}

#[test]
fn kafka_is_the_one_of_the_tests_at_the_address_of_the_script() {
    let kafka = service("kafka");
    let version = default_of("integration-tests/kafka.sh", "KAFKA_VERSION");
    assert_eq!(kafka["image"].as_str().unwrap(), format!("apache/kafka:{version}"));
    let port = default_of("integration-tests/kafka.sh", "KAFKA_PORT");
    assert_eq!(published(&kafka), [(port.clone(), port.clone())]);

    let bound = listeners(&setting(&kafka, "KAFKA_LISTENERS"));
    let told = listeners(&setting(&kafka, "KAFKA_ADVERTISED_LISTENERS"));
    let protocols = setting(&kafka, "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP");
    for (name, address) in &bound {
        assert!(protocols.split(',').any(|p| p == format!("{name}:PLAINTEXT")), "{name}");
        let port = address.strip_prefix(':').expect("it listens on all interfaces");
        let told = told.iter().find(|(told, _)| told == name);
        let is_controller = setting(&kafka, "KAFKA_CONTROLLER_LISTENER_NAMES") == *name;
        assert_eq!(told.is_none(), is_controller, "{name}");
        assert!(told.is_none_or(|(_, address)| address.ends_with(&format!(":{port}"))), "{name}");
    }
    assert!(told.contains(&("HOST".into(), format!("127.0.0.1:{port}"))));
    assert!(
        bound.iter().any(|(name, _)| *name == setting(&kafka, "KAFKA_INTER_BROKER_LISTENER_NAME"))
    );
}

#[test]
fn registry_and_collector_are_where_their_comments_and_configurations_say() {
    assert_eq!(published(&service("registry")), [("28081".into(), "8080".into())]);
    let collector = service("collector");
    let inside = setting(&collector, "COLLECTOR_CONFIG");
    let inside = YamlLoader::load_from_str(&inside).unwrap().remove(0);
    let protocols = entries(&inside["receivers"]["otlp"]["protocols"]);
    let ports: Vec<String> = protocols
        .iter()
        .map(|(_, protocol)| {
            protocol["endpoint"].as_str().unwrap().rsplit(':').next().unwrap().into()
        })
        .collect();
    let published = published(&collector);
    assert_eq!(published.iter().map(|(_, port)| port.clone()).collect::<Vec<_>>(), ports);
    let text = read("docker-compose.yml");
    for (host, _) in published {
        assert!(text.contains(&format!("at {host}")), "no comment names {host}");
    }
    for (_, pipeline) in entries(&inside["service"]["pipelines"]) {
        for kind in ["receivers", "exporters"] {
            for name in texts(&pipeline[kind]) {
                assert!(!inside[kind][name.as_str()].is_badvalue(), "{kind} have no '{name}'");
            }
        }
    }
}

/// The example with the settings of its service; `set` replaces some of them.
fn example(arguments: &[&str], set: &[(&str, &str)]) -> Output {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_example-page-views"));
    command.args(arguments).current_dir(&folder).env_clear();
    for (name, value) in entries(&service(EXAMPLE)["environment"]) {
        command.env(name, value.as_str().unwrap());
    }
    command.envs(set.iter().copied()).output().unwrap()
}

#[test]
fn the_example_takes_its_settings_and_finds_kafka() {
    let (this, kafka) = (service(EXAMPLE), service("kafka"));
    let output = example(&["config"], &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for (name, value) in entries(&this["environment"]) {
        let (value, is_secret) = (value.as_str().unwrap(), name == "THALWEG_HTTP_TOKEN");
        assert_ne!(
            text.contains(value),
            is_secret,
            "{name}={value} in what 'config' prints:\n{text}"
        );
    }
    let told = listeners(&setting(&kafka, "KAFKA_ADVERTISED_LISTENERS"));
    let broker = setting(&this, "THALWEG_BROKER");
    let broker = broker.strip_prefix("kafka://").unwrap();
    assert!(told.iter().any(|(_, address)| address == broker), "{broker} is not advertised");
    let token = setting(&this, "THALWEG_HTTP_TOKEN");
    assert!(read("docker-compose.yml").contains(&format!("Authorization: Bearer {token}\"")));
    let http = setting(&this, "THALWEG_HTTP_ADDRESS");
    assert_eq!(http.rsplit(':').next().unwrap(), published(&this)[0].1);
}

#[test]
fn the_example_counts_the_sample_that_it_is_given() {
    let this = service(EXAMPLE);
    let command = texts(&this["command"]);
    assert_eq!(command[..3], [EXAMPLE, "run", "--input"]);
    let mount = texts(&this["volumes"]).into_iter().find(|v| v.contains(command[3].as_str()));
    let mount = mount.expect("the input is mounted");
    let file = root().join(mount.split(':').next().unwrap());
    let output = example(
        &["run", "--until-end", "--input", file.to_str().unwrap()],
        &[
            ("THALWEG_BROKER", "mem://"),
            ("THALWEG_STATE_DIR", "state"),
            ("THALWEG_HTTP_ADDRESS", "127.0.0.1:0"),
        ],
    );
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let results = String::from_utf8(output.stdout).unwrap();
    // The line that is ten seconds late and more is in the file, and in no window.
    let lines: Vec<&str> = results.lines().collect();
    assert!(lines.contains(&"2025-06-01T14:00:00Z /home 3"), "{results}");
    let counted: u64 =
        lines.iter().map(|l| l.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    let sample = std::fs::read_to_string(file).unwrap();
    assert_eq!(counted, sample.lines().count() as u64, "{results}");
}

#[test]
fn the_image_is_built_with_what_the_scripts_need_and_has_every_example() {
    let docker = read("examples/Dockerfile");
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let rust = manifest["workspace"]["package"]["rust-version"].as_str().unwrap();
    assert!(
        docker.contains(&format!("FROM rust:{rust}-")),
        "the image has another Rust than {rust}"
    );

    // The names of packages that the set-up asks for: `… || echo PACKAGE >&3` in the probe of native tools.
    let setup = read(".ci/setup.sh");
    let probe =
        setup.split("missing_native_tools() {").nth(1).unwrap().split("\n}").next().unwrap();
    let packages: Vec<&str> = probe
        .lines()
        .filter_map(|line| line.rsplit_once("echo ")?.1.strip_suffix(" >&3"))
        .collect();
    assert!(packages.len() >= 5, "{packages:?}");
    for package in packages {
        let mut words = docker.split_whitespace();
        assert!(words.any(|word| word == package), "the image is built without {package}");
    }

    let examples: toml::Table = read("examples/Cargo.toml").parse().unwrap();
    for program in examples["bin"].as_array().unwrap() {
        let name = program["name"].as_str().unwrap();
        assert!(docker.contains(&format!("/target/release/{name} ")), "{name} is not copied");
    }
}
