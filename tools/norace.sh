#!/usr/bin/env bash
# norace.sh: the tests of files that are built without the race detector: simulations, timings, and runs of thousands of sessions,
# which one goroutine works through or which a neighbour plays with the detector. It would cost them ten times the time and find nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(git ls-files -co --exclude-standard '*_test.go' | xargs grep -l '^//go:build !race')
names=$(grep -ho '^func Test[A-Za-z0-9_]*' $files | cut -c6- | sort -u | paste -sd'|')
rooms=$(printf './%s\n' $(dirname $files) | sort -u)
exec "${GO:-go}" test -shuffle=on -timeout 20m -run "^($names)\$" $rooms
