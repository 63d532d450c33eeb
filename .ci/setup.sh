# Sourced by run.sh and test.sh: goes to the root of the clone, finds the tools that a build needs, installs what
# is missing or says what to install, and chooses the folder of build output.

cd "$(dirname "${BASH_SOURCE[0]}")/.."

# One set of packages, features and profile for every step: cargo then builds each dependency once, and the
# native libraries with them. (A step for one package alone would unify features anew and build them again.)
cargo_set=(--release --locked --workspace --all-features)

say() { printf '\n==> %s\n' "$*"; }
die() { # MESSAGE [LINE...]
  echo "error: $1" >&2
  shift
  [ $# = 0 ] || printf '       %s\n' "$@" >&2
  exit 1
}

find_rust() {
  local wanted found cargo beside
  wanted=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' Cargo.toml)
  [ -n "${HOME:-}" ] || HOME=$(eval echo "~$(id -un)")
  export HOME PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH"
  cargo=$(command -v cargo) ||
    die "Rust $wanted or newer is needed and no cargo was found" "Install it with rustup: https://rustup.rs"

  # With another home, rustup's programs look for their toolchains there; they lie beside the programs.
  beside=$(dirname "$(dirname "$(dirname "$cargo")")")/.rustup
  if ! rustc --version >/dev/null 2>&1 && [ -z "${RUSTUP_HOME:-}" ] && [ -d "$beside" ]; then
    export RUSTUP_HOME=$beside
  fi

  found=$(rustc --version | cut -d ' ' -f 2) || die "'rustc --version' fails" "Run: rustup default stable"
  [ "$(printf '%s\n' "$wanted" "$found" | sort -V | head -n 1)" = "$wanted" ] ||
    die "Rust $wanted or newer is needed and this is $found" "Run: rustup update stable"
}

# What RocksDB, librdkafka and their bindings are built with.
missing_native_tools() {
  command -v c++ || command -v g++ || command -v clang++ || echo g++ >&3
  command -v make || echo make >&3
  command -v pkg-config || echo pkg-config >&3
  echo '#include <zlib.h>' | cc -E -x c - || echo zlib1g-dev >&3
  has_libclang || echo libclang-dev >&3
}

has_libclang() {
  local folder
  for folder in "${LIBCLANG_PATH:-/nowhere}" /usr/lib/llvm-*/lib /usr/lib/*-linux-gnu /usr/lib64 /usr/lib64/llvm*/lib \
    /usr/lib /usr/local/lib /opt/homebrew/opt/llvm/lib /Library/Developer/CommandLineTools/usr/lib; do
    compgen -G "$folder/libclang.*" || compgen -G "$folder/libclang-[0-9]*" && return
  done
  return 1
}

# What the tests start a real Apache Kafka with: see integration-tests/kafka.sh.
missing_broker_tools() {
  command -v mvn || echo maven >&3
  local java version
  for java in "${JAVA_HOME:-/nowhere}/bin/java" "$(command -v java)" /usr/lib/jvm/*/bin/java; do
    version=$("$java" -version 2>&1 | sed -n '1s/.*version "\([0-9]*\).*/\1/p')
    [ "${version:-0}" -lt 17 ] || return 0
  done
  echo default-jre-headless >&3
}

# Installs what a probe misses, or says what to install: PROBE PURPOSE [LINE...]
install_missing() {
  local probe=$1 purpose=$2 missing sudo=''
  shift 2
  missing=$({ $probe >/dev/null 2>&1; } 3>&1 | tr '\n' ' ')
  [ -n "$missing" ] || return 0
  [ "$(id -u)" = 0 ] || sudo='sudo -n'
  if command -v apt-get >/dev/null && ${sudo:-} true 2>/dev/null; then
    say "installing with apt-get: $missing"
    $sudo apt-get -qq update </dev/null
    $sudo env DEBIAN_FRONTEND=noninteractive \
      apt-get -qq install -y --no-install-recommends $missing </dev/null >/dev/null
    missing=$({ $probe >/dev/null 2>&1; } 3>&1 | tr '\n' ' ')
  fi
  [ -z "$missing" ] || die "needed $purpose, and not found: $missing" \
    "Debian, Ubuntu:  sudo apt-get install -y $missing" "$@"
}

find_native_tools() {
  install_missing missing_native_tools 'to build RocksDB and librdkafka' \
    "Fedora:          sudo dnf install -y gcc-c++ make pkgconf zlib-devel clang-devel" \
    "macOS:           xcode-select --install && brew install llvm pkg-config"
}

find_broker_tools() {
  install_missing missing_broker_tools 'to test against a real Apache Kafka' \
    "Fedora:          sudo dnf install -y maven java-latest-openjdk-headless" \
    "macOS:           brew install maven openjdk"
}

# Where no script has built before: this clone, if all programs there are were built from it by hand.
clone_of_programs() {
  local programs=("$CARGO_TARGET_DIR"/release/*.d)
  [ -e "${programs[0]}" ] || return 0
  [ -n "$(grep -LF ": $PWD/" "${programs[@]}")" ] || echo "$PWD"
}

# Build output lies outside the clone, so that a second clone need not build the native libraries again.
choose_target_folder() {
  export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/thalweg/target}
  mkdir -p "$CARGO_TARGET_DIR"

  # Cargo takes two clones of one workspace for the same and judges by file times: what another clone built must go.
  if [ "$(cat "$CARGO_TARGET_DIR/clone" 2>/dev/null || clone_of_programs)" != "$PWD" ]; then
    cargo clean --quiet --release --locked --workspace
    echo "$PWD" >"$CARGO_TARGET_DIR/clone"
  fi

  if ! compgen -G "$CARGO_TARGET_DIR/release/build/librocksdb-sys-*/out/librocksdb.a" >/dev/null; then
    say "the first build compiles RocksDB and librdkafka: about 25 minutes on 2 cores, once"
    echo "    (kept in $CARGO_TARGET_DIR)"
  fi
}

find_rust
find_native_tools
choose_target_folder
