#!/usr/bin/env bash
# Runs every check of Thalweg: format, lints, tests, conformance with Kafka Streams, documentation, dependency policy.
# All steps run even if one fails; the exit code is 0 only if all passed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/.ci/setup.sh"

find_broker_tools

report='' failed=0

step() { # NAME COMMAND [ARGUMENT...]
  local name=$1 start=$SECONDS result=ok
  shift
  say "$name"
  "$@" </dev/null || result=FAILED failed=1
  report+=$(printf '%-12s %-6s %5d s' "$name" "$result" $((SECONDS - start)))$'\n'
}

lints() { cargo clippy "${cargo_set[@]}" --all-targets -- -D warnings; }

tests() { cargo test "${cargo_set[@]}" --no-fail-fast; }

# Fails if a scenario fails that is not listed, or if a listed one passes.
conformance() {
  "$CARGO_TARGET_DIR/release/conformance" --expected integration-tests/conformance/expected-failures.txt \
    integration-tests/conformance/scenarios
}

# `--examples` makes cargo unify features as it does for tests; without it dependencies are built again.
documentation() {
  RUSTDOCFLAGS='-D warnings' cargo doc "${cargo_set[@]}" --no-deps --lib --examples
}

policy() {
  if cargo deny --version >/dev/null 2>&1; then
    cargo deny --locked check --hide-inclusion-graph bans licenses sources
  else
    echo 'cargo-deny is not installed; the structure tests checked deny.toml'
  fi
}

for tool in fmt clippy; do
  cargo $tool --version >/dev/null 2>&1 || die "'cargo $tool' is missing" 'Run: rustup component add rustfmt clippy'
done

step format cargo fmt --all --check
step lints lints
step tests tests
step conformance conformance
step docs documentation
step policy policy

say "summary"
printf '%s%-19s %5d s\n' "$report" total "$SECONDS"
exit $failed
