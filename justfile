# Short names for what the scripts and cargo do. `./run.sh` and `./test.sh` need no `just`.

# One set of packages, features and profile, so that dependencies are built once.
set_ := "--release --locked --workspace --all-features"

export CARGO_TARGET_DIR := env("CARGO_TARGET_DIR", env("XDG_CACHE_HOME", env("HOME") / ".cache") / "thalweg/target")

# List the recipes.
default:
    @just --list

# Run the main job: a word count, exactly once, on the embedded log.
run *args:
    ./run.sh {{ args }}

# Run every check, as continuous integration does.
test:
    ./test.sh

# Check types quickly, without the native libraries.
check:
    cargo check --release --workspace --no-default-features

# Check format and lints.
lint:
    cargo fmt --all --check
    cargo clippy {{ set_ }} --all-targets -- -D warnings

# Run the tests whose names contain a text.
only name:
    cargo test {{ set_ }} -- {{ name }}

# Run the scenarios that Kafka Streams recorded.
conformance *args:
    cargo build {{ set_ }} --bins --test structure
    "$CARGO_TARGET_DIR/release/conformance" {{ args }} integration-tests/conformance/scenarios

# Measure the engine in process, without a broker.
bench workload="passthrough" store="memory" records="4000000":
    cargo build {{ set_ }} --bins --test structure
    "$CARGO_TARGET_DIR/release/bench-peer" --driver --workload {{ workload }} --store {{ store }} --records {{ records }} --rounds 5

# Build the documentation of all crates.
docs:
    RUSTDOCFLAGS="-D warnings" cargo doc {{ set_ }} --no-deps --lib --examples
