#!/usr/bin/env bash
# fuzz.sh RUNS: runs every fuzz target in the module on RUNS inputs.
# The limit is a number of inputs and not a time: Go's fuzzer, up to 1.26, sometimes reports the time limit as a failure
# (go.dev/issue/75804).
# A package is built once for all targets. A failing input remains in the package's testdata/fuzz as a test.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=$1
go=${GO:-go}
work=$PWD/.cache/fuzz
mkdir -p "$work/corpus"

targets=$(git ls-files --cached --others --exclude-standard '*_test.go' | xargs -r grep -Eo '^func Fuzz[A-Za-z0-9_]*' /dev/null | sed 's/:func /:/' | sort)
[ -n "$targets" ] || { echo "no fuzz targets"; exit 0; }
count=$(wc -l <<<"$targets")

echo "fuzz: $count targets, $runs inputs each"
failed=0 built=
while IFS=: read -r file name; do
  dir=$(dirname "$file")
  bin=$work/${dir//\//_}.test
  if [ "$built" != "$dir" ]; then
    # Coverage finds more with many inputs; with few, compiling every dependency takes longer than the inputs. SQLite is
    # never instrumented: that takes two minutes, and no target is about SQLite.
    guide=()
    if [ "$runs" -ge 20000 ] && [[ $("$go" list -deps -test "./$dir") != *modernc.org/sqlite* ]]; then guide=(-fuzz .); fi
    "$go" test -c "${guide[@]}" -o "$bin" "./$dir"
    built=$dir
  fi
  # A new input is minimised in at most 20 tries, so that the runs go into the search. The ten-minute limit ends a
  # target that hangs.
  if out=$(cd "$dir" && timeout 600 "$bin" -test.run '^$' -test.fuzz "^${name}\$" -test.fuzztime "${runs}x" -test.fuzzminimizetime 20x -test.fuzzcachedir "$work/corpus/$dir" 2>&1); then
    printf 'ok   %s %s %s\n' "$dir" "$name" "$(grep -o 'elapsed: [^,]*, execs: [0-9]*' <<<"$out" | tail -n 1)"
  else
    failed=1
    printf 'FAIL %s %s\n%s\n' "$dir" "$name" "$out"
  fi
done <<<"$targets"
exit "$failed"
