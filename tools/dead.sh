#!/usr/bin/env bash
# Functions that the program never reaches, by x/tools' deadcode. What only tests call is dead, too; the exceptions say why not.
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
