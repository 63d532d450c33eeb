#!/usr/bin/env bash
# Builds Thalweg and runs its main job: count the words of a text, exactly once, on the embedded log.
# Then compares the result with what the shell counts.
#
#   ./run.sh                    the source code of RocksDB, 30 MB that the build has fetched anyway
#   ./run.sh FILE               a text of your own
#   ./run.sh [FILE] OPTION...   with options for the job; ./run.sh --help lists them
set -euo pipefail
called_from=$PWD
source "$(dirname "${BASH_SOURCE[0]}")/.ci/setup.sh"

job=word-count
work=.thalweg/run

text=''
case ${1:-} in
  '' | -*) ;;
  /*) text=$1 && shift ;;
  *) text=$called_from/$1 && shift ;;
esac
[ -z "$text" ] || [ -r "$text" ] || die "cannot read the text '$text'"

case " $* " in
  *' --output '* | *' --output='*)
    die '--output is not for ./run.sh: it compares the results with the shell, and leaves them in .thalweg/run/counts.txt' \
      "For a file of your own, run the program: $CARGO_TARGET_DIR/release/$job run --until-end --input FILE --output FILE" ;;
esac

say 'building'
# `--test structure` makes cargo unify features as it does for tests, so that ./test.sh builds no dependency again.
cargo build "${cargo_set[@]}" --bins --test structure
job=$CARGO_TARGET_DIR/release/$job

case " $* " in *' --help '* | *' -h '*) exec "$job" run --help ;; esac

rm -rf "$work"
mkdir -p "$work"
if [ -z "$text" ]; then
  version=$(sed -n '/^name = "librocksdb-sys"$/{n;s/.*"\(.*\)".*/\1/p;}' Cargo.lock)
  text=$work/rocksdb-sources.txt
  find "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"librocksdb-sys-$version"/rocksdb -type f \
    \( -name '*.cc' -o -name '*.h' \) -print0 | LC_ALL=C sort -z | xargs -0 cat >"$text"
fi

say "counting the words of $text ($(wc -c <"$text" | tr -d ' ') bytes)"
case " $* " in *' --broker'*) ;; *) set -- --broker "log://$work/log" "$@" ;; esac
time "$job" run --until-end --state-dir "$work/state" --input "$text" "$@" >"$work/counts.txt"

say 'the most frequent words'
sort -k1,1nr -k2 "$work/counts.txt" | sed -n 1,10p

say 'comparing with the shell'
normal() { awk 'NF == 2 { print $1, $2 }' | LC_ALL=C sort; }
LC_ALL=C tr -s '[:space:]' '\n' <"$text" | LC_ALL=C sort | uniq -c | normal >"$work/expected.txt"
normal <"$work/counts.txt" | diff - "$work/expected.txt" >"$work/difference.txt" ||
  die "the counts differ, see $work/difference.txt"
echo "all $(wc -l <"$work/expected.txt" | tr -d ' ') words have the counts of 'tr | sort | uniq -c'"
