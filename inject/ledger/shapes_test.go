package ledger_test

import (
	"fmt"
	"strings"
	"testing"

	"precept/inject/ledger"
)

func TestFailuresReadsEachOutputFormat(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{
			"eslint's compact form", "/home/dev/shop/cart.ts: line 3, col 7, Error - 'x' is not defined (no-undef)\n",
			"eslint | lint | cart.ts | 'x' is not defined (no-undef)",
		},
		{"a warning in eslint's compact form", "cart.ts: line 3, col 7, Warning - 'x' is unused (no-unused-vars)\n", ""},
		{
			"eslint's unix form", "cart.js:3:7: 'x' is not defined [Error/no-undef]\n",
			"eslint | lint | cart.js | 'x' is not defined (no-undef)",
		},
		{"a warning in eslint's unix form", "cart.js:3:7: 'x' is unused [Warning/no-unused-vars]\n", ""},
		{"a parse error in eslint's unix form", "cart.js:3:7: Parsing error [Error]\n", "eslint | lint | cart.js | Parsing error"},
		{
			"eslint's JSON", `[{"filePath":"/home/dev/shop/a.js","messages":[{"ruleId":"semi","severity":2,"message":"Missing semicolon."},` +
				`{"ruleId":"eqeqeq","severity":1,"message":"Expected ===."}]}]` + "\n",
			"eslint | lint | a.js | Missing semicolon (semi)",
		},
		{"truncated eslint JSON", `[{"filePath":"/home/dev/shop/a.js","messages":[{"ruleId":"semi","sev` + "\n", ""},
		{"tsc", "src/cart.ts(12,9): error TS2322: Type 'string' is not a number.\n", "tsc | static-analysis | src/cart.ts | TS2322: Type 'string' is not a number."},
		{"tsc --pretty", "src/cart.ts:12:9 - error TS2322: Type 'string' is not a number.\n", "tsc | static-analysis | src/cart.ts | TS2322: Type 'string' is not a number."},
		{"a C compiler", "cart.c:7:12: error: 'total' undeclared\n", "compiler | static-analysis | cart.c | 'total' undeclared"},
		{"a fatal C compiler error", "cart.c:7:12: fatal error: a.h: No such file\n", "compiler | static-analysis | cart.c | a.h: No such file"},
		{"a C compiler warning", "cart.c:7:12: warning: unused variable\n", ""},
		{"a C compiler note", "cart.c:7:12: note: declared here\n", ""},
		{"a JavaScript log line", "cart.js:7:12: started\n", ""},
		{"vet", "vet: cart/cart.go:9: undefined: total\n", "go vet | static-analysis | cart/cart.go | undefined: total"},
		{"a Go log line", "cart.go:9: started\n", ""},
		{"golangci-lint", "cart.go:9:2: Error return value is not checked (errcheck)\n", "golangci-lint | lint | cart.go | Error return value is not checked (errcheck)"},
		{"pylint", "shop/cart.py:3:0: C0114: Missing module docstring (missing-module-docstring)\n", "pylint | lint | shop/cart.py | C0114 Missing module docstring (missing-module-docstring)"},
		{"mypy", "cart.py:3: error: Incompatible types  [assignment]\n", "mypy | static-analysis | cart.py | Incompatible types [assignment]"},
		{
			"mypy --pretty", "cart.py:3: error: Incompatible types in assignment (expression has type\n\"str\", variable has type \"int\")  [assignment]\n",
			`mypy | static-analysis | cart.py | Incompatible types in assignment (expression has type "str", variable has type "int") [assignment]`,
		},
		{
			"mypy, a message cut by the next message", "cart.py:3: error: Incompatible types in\ncart.py:4: error: Second  [name-defined]\n",
			"mypy | static-analysis | cart.py | Incompatible types in\nmypy | static-analysis | cart.py | Second [name-defined]",
		},
		{"mypy, a code more than six lines below", "cart.py:3: error: Incompatible types\nand\nfive\nlines\nof\nother\nthings\nhere  [x]\n", "mypy | static-analysis | cart.py | Incompatible types"},
		{"a Python position without an error", "cart.py:3: started\n", ""},
		{"ruff's long form", "F401 [*] `os` imported but unused\n --> shop/cart.py:1:8\n  |\n", "ruff | lint | shop/cart.py | F401 `os` imported but unused"},
		{"rustc", "error[E0425]: cannot find value `total`\n --> src/main.rs:3:5\n", "cargo check | static-analysis | src/main.rs | E0425: cannot find value `total`"},
		{"rustc's short form", "src/main.rs:3:5: error[E0425]: cannot find value `total`\n", "cargo check | static-analysis | src/main.rs | E0425: cannot find value `total`"},
		{"clippy's short form", "src/main.rs:3:5: error: this is a clippy complaint\n", "cargo clippy | lint | src/main.rs | this is a clippy complaint"},
		{
			"clippy", "error: this loop never loops\n --> src/main.rs:3:5\n  |\n  = note: `#[deny(clippy::never-loop)]` on by default\n",
			"cargo clippy | lint | src/main.rs | this loop never loops (clippy::never_loop)",
		},
		{"an error without a position", "error: could not compile `shop`\n", ""},
		{
			"cargo test before 1.73", "---- cart::total stdout ----\nthread 'cart::total' panicked at 'got 3', src/cart.rs:9:5\nnote: run with\n",
			"cargo test | test | src/cart.rs | cart::total: got 3",
		},
		{
			"cargo test", "---- cart::total stdout ----\nthread 'cart::total' panicked at src/cart.rs:9:5:\nassertion failed\n  left: 3\nnote: run with\n\nfailures:\n",
			"cargo test | test | src/cart.rs | cart::total: assertion failed left: 3",
		},
		{
			"two cargo tests, one without output", "---- a stdout ----\n---- b stdout ----\nthread 'b' panicked at src/cart.rs:9:5:\nno\n\nfailures:\n",
			"cargo test | test | . | a: the test failed without a message\ncargo test | test | src/cart.rs | b: no",
		},
		{"pytest's summary", "FAILED tests/test_cart.py::test_total - assert 3 == 4\n", "pytest | test | tests/test_cart.py | test_total: assert 3 == 4"},
		{"a pytest summary without a message", "ERROR tests/test_cart.py\n", "pytest | test | tests/test_cart.py | the test cannot be collected"},
		{
			"a pytest section and the summary", "____ test_total ____\n\nE   assert 3 == 4\nE   more\n\ntests/test_cart.py:9: AssertionError\n==== short test summary info ====\n" +
				"FAILED tests/test_cart.py::test_total - assert 3...\n",
			"pytest | test | tests/test_cart.py | test_total: assert 3 == 4",
		},
		{
			"a pytest section without a summary", "____ test_total ____\n\nE   assert 3 == 4\n\ntests/test_cart.py:9: AssertionError\n",
			"pytest | test | tests/test_cart.py | test_total: assert 3 == 4",
		},
		{"a pytest section without an error", "____ test_total ____\n\nsomething\n", ""},
		{"pytest --tb=line", "/home/dev/shop/tests/test_cart.py:9: AssertionError: assert 3 == 4\n", "pytest | test | tests/test_cart.py | AssertionError: assert 3 == 4"},
		{
			"go test", "--- FAIL: TestTotal (0.00s)\n    cart_test.go:7: got 3, want 4\n    cart_test.go:8: more\nFAIL\nFAIL\texample.com/shop/cart\t0.004s\n",
			"go test | test | cart/cart_test.go | TestTotal: got 3, want 4",
		},
		{"go test without a message", "--- FAIL: TestTotal (0.00s)\nFAIL\nFAIL\texample.com/shop/cart\t0.004s\n", "go test | test | cart | TestTotal: the test failed without a message"},
		{
			"go test with a panic", "--- FAIL: TestTotal (0.00s)\npanic: no cart [recovered]\n\ngoroutine 1 [running]:\n\t/usr/lib/go/src/testing/testing.go:3 +0x1\n" +
				"\t/home/dev/shop/cart/cart.go:9 +0x2\nFAIL\texample.com/shop/cart\t0.004s\n",
			"go test | test | cart/cart.go | TestTotal: panic: no cart",
		},
		{"a package with a panic in TestMain", "panic: no database\nFAIL\texample.com/shop/cart\t0.004s\n", "go test | test | cart | the package failed: panic: no database"},
		{"a package that fails without a test", "cannot open the database\nFAIL\texample.com/shop/cart\t0.004s\n", "go test | test | cart | the package failed: cannot open the database"},
		{
			"a Go subtest", "--- FAIL: TestTotal (0.00s)\n    --- FAIL: TestTotal/empty (0.00s)\n        cart_test.go:7: got 3\nFAIL\nFAIL\texample.com/shop\t0.004s\n",
			"go test | test | cart_test.go | TestTotal/empty: got 3",
		},
		{
			"testify", "--- FAIL: TestTotal (0.00s)\n    cart_test.go:7: \n        \tError Trace:\t/home/dev/shop/cart_test.go:7\n        \tError:      \tNot equal: \n" +
				"        \t            \texpected: 4\n        \t            \tactual  : 3\nFAIL\nFAIL\texample.com/shop\t0.004s\n",
			"go test | test | cart_test.go | TestTotal: Not equal: expected: 4 actual : 3",
		},
		{
			"jest", "FAIL src/cart.test.js\n  ● totals › adds\n\n    expect(received).toBe(expected)\n\n    Expected: 4\n    Received: 3\n\n      at Object.<anonymous> (src/cart.test.js:3:1)\n",
			"jest | test | src/cart.test.js | totals › adds: expect(received).toBe(expected), Expected: 4, Received: 3",
		},
		{
			"vitest", " FAIL  src/cart.test.ts > adds\n FAIL  src/cart.test.ts > subtracts\nAssertionError: expected 3 to be 4\n",
			"vitest | test | src/cart.test.ts | adds: AssertionError: expected 3 to be 4\nvitest | test | src/cart.test.ts | subtracts: AssertionError: expected 3 to be 4",
		},
	} {
		var got []string
		for _, f := range ledger.Failures(ledger.Output{Text: tc.text, Dir: "/home/dev/shop", Module: "example.com/shop"}) {
			got = append(got, fmt.Sprintf("%s | %s | %s | %s", f.Tool, f.Type, f.File, f.Error))
		}
		if strings.Join(got, "\n") != tc.want {
			t.Errorf("%s: failures =\n%s\nwant\n%s", tc.name, strings.Join(got, "\n"), tc.want)
		}
	}
}
