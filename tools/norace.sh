#!/usr/bin/env bash
# norace.sh [PACKAGE ...]: runs TestBrowser... and the tests in files built without the race detector: simulations,
# timings, and thousands of sessions.
# These tests use one goroutine, or another test covers the same code with the detector. The detector would make them
# ten times slower.
# The given packages are left out: all their tests run without the detector.
set -euo pipefail
cd "$(dirname "$0")/.."
files=$(git ls-files -co --exclude-standard '*_test.go' | xargs grep -l '^//go:build !race')
names=$(grep -ho '^func Test[A-Za-z0-9_]*' $files | cut -c6- | sort -u | paste -sd'|')
rooms=$(printf 'precept/%s\n' $(dirname $files) | sort -u | grep -vxFf <(printf '%s\n' "$@" none))
exec "${GO:-go}" test -vet=off -shuffle=on -timeout 20m -run "^($names|TestBrowser.*)\$" $rooms
