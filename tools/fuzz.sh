#!/usr/bin/env bash
# fuzz.sh SECONDS TOTAL: runs every fuzz target of the module for SECONDS, or for its share of TOTAL when there are many.
set -euo pipefail
seconds=$1 total=$2
go=${GO:-go}

targets=$(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' . | sed 's/:func /:/' | sort)
[ -n "$targets" ] || { echo "no fuzz targets"; exit 0; }
count=$(wc -l <<<"$targets")
share=$((total / count))
[ "$share" -ge "$seconds" ] || seconds=$share
[ "$seconds" -ge 1 ] || seconds=1

echo "fuzz: $count targets, ${seconds}s each"
failed=0
while IFS=: read -r file name; do
  # An input worth keeping is cut down by 20 tries, not for a minute: the time is for looking.
  if ! out=$("$go" test -run '^$' -fuzz "^${name}\$" -fuzztime "${seconds}s" -fuzzminimizetime 20x "$(dirname "$file")" 2>&1); then
    failed=1
    printf 'FAIL %s %s\n%s\n' "$(dirname "$file")" "$name" "$out"
  else
    printf 'ok   %s %s %s\n' "$(dirname "$file")" "$name" "$(grep -o 'execs: [0-9]*' <<<"$out" | tail -n 1)"
  fi
done <<<"$targets"
exit "$failed"
