#!/usr/bin/env bash
# Lists unreachable functions, found by deadcode from x/tools. A function called only by tests is unreachable. Each
# exception below has a reason.
set -euo pipefail
cd "$(dirname "$0")/.."
found=$("${GO:-go}" tool -modfile=tools/go.mod deadcode ./... | grep -vE "$(grep -v '^#' <<'EXCEPT' | paste -sd '|' -
# test support: packages that only tests import (floors_test.go)
^inject/bank/banktest/
^store/storetest/
^test/
# the inverse of Splice: the wire and inject tests check that strip(splice(body)) == body
^internal/wire/splice\.go:.* (Strip|strip|Request\.inserted|Request\.holds)$
EXCEPT
)" || true)
[ -z "$found" ] || { echo "dead code, delete it:"; echo "$found"; exit 1; }
