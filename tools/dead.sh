#!/usr/bin/env bash
# Lists unreachable functions, found by deadcode of x/tools. A function that only tests call is unreachable. The exceptions below have a reason each.
set -euo pipefail
cd "$(dirname "$0")/.."
found=$("${GO:-go}" tool -modfile=tools/go.mod deadcode ./... | grep -vE "$(grep -v '^#' <<'EXCEPT' | paste -sd '|' -
# test support: packages that only tests import (floors_test.go)
^inject/bank/banktest/
^store/storetest/
^test/
# the inverse of Splice: strip(splice(body)) == body is the promise that the tests of wire and inject hold
^internal/wire/splice\.go:.* (Strip|strip|Request\.inserted|Request\.holds)$
EXCEPT
)" || true)
[ -z "$found" ] || { echo "dead code, delete it:"; echo "$found"; exit 1; }
