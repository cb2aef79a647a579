package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"precept/inject/ledger"
)

// failureLines returns the failures in the output of a tool that ran in /home/dev/shop, one failure per line.
func failureLines(text string) string {
	var got []string
	for _, f := range ledger.Failures(ledger.Output{Text: text, Dir: "/home/dev/shop", Module: "example.com/shop"}) {
		got = append(got, fmt.Sprintf("%s | %s | %s", f.Tool, f.File, f.Error))
	}
	return strings.Join(got, "\n")
}

// A closed pipe, for example, can end a tool's output in the middle of a failure.
func TestTruncatedOutputKeepsCompleteFailures(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"ruff, cut before the position", "F401 `os` imported but unused", ""},
		{"ruff, cut after the position", "F401 `os` imported but unused\n --> shop/cart.py:1:8", "ruff | shop/cart.py | F401 `os` imported but unused"},
		{"rustc, cut before the position", "error[E0425]: cannot find value `total`", ""},
		{"rustc, cut after the position", "error[E0425]: cannot find value `total`\n --> src/main.rs:3:5", "cargo check | src/main.rs | E0425: cannot find value `total`"},
		{"clippy, cut before the rule", "error: this loop never loops\n --> src/main.rs:3:5\n  |", "cargo check | src/main.rs | this loop never loops"},
		{"cargo test, cut before the message", "---- cart::total stdout ----", "cargo test | . | cart::total: the test failed without a message"},
		{"cargo test, cut after the position", "---- cart::total stdout ----\nthread 'cart::total' panicked at src/cart.rs:9:5:", "cargo test | src/cart.rs | cart::total: the test failed without a message"},
		{"mypy, cut in a message", "cart.py:3: error: Incompatible types in assignment (expression has", "mypy | cart.py | Incompatible types in assignment (expression has"},
		{"jest, cut after a test name", "FAIL src/cart.test.js\n  ● totals › adds", "jest | src/cart.test.js | totals › adds"},
		{"vitest, cut after a test name", " FAIL  src/cart.test.ts > adds", ""},
		{"go test, cut before the package ends", "--- FAIL: TestTotal (0.00s)\n    cart_test.go:7: got 3", "go test | cart_test.go | TestTotal: got 3"},
		{"go test, cut after the position", "--- FAIL: TestTotal (0.00s)\n    cart_test.go:7: ", "go test | . | TestTotal: the test failed without a message"},
		{"truncated go test JSON line", `{"Action":"output","Package":"example.com/shop","Te`, ""},
		{"go test JSON, cut before the package ends", `{"Action":"output","Package":"example.com/shop","Test":"TestA","Output":"--- FAIL: TestA (0.00s)\n"}` + "\n" + `{"Action":"output","Package":"example.com/shop","Test":"TestA","Output":"    a_test.go:7: one\n"}`, "go test | a_test.go | TestA: one"},
		{"truncated eslint JSON", `[{"filePath":"/home/dev/shop/a.js","messages":[{"ruleId":"r-1","severity":2,"mess`, ""},
		{"pytest, cut in a section", "____ test_total ____\n\nE   assert 3 == 4", "pytest | . | test_total: assert 3 == 4"},
	} {
		if got := failureLines(tc.text); got != tc.want {
			t.Errorf("%s: failures =\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
}

// Lines from a different failure, a passing test or a quotation do not belong to the failure's error.
func TestFailuresExcludesUnrelatedLines(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"an error below a file name", "/home/dev/shop/a.js\n  3:7  error  'x' is not defined  no-undef\n", "eslint | a.js | 'x' is not defined (no-undef)"},
		{"an error after a blank line", "/home/dev/shop/a.js\n\n  3:7  error  'x' is not defined  no-undef\n", ""},
		{"two files", "a.js\n  3:7  error  one  r-1\n\nb.js\n  4:7  error  two\n", "eslint | a.js | one (r-1)\neslint | b.js | two"},
		{"warnings beside an error", "a.js\n  3:7  warning  one  r-1\n  4:7  error  two  r-2\n", "eslint | a.js | two (r-2)"},
		{"warnings that fail the linter", "a.js\n  3:7  warning  one  r-1\n", "eslint | a.js | one (r-1)"},
		{"a blank line before vitest's error", " FAIL  a.test.ts > adds\n\nAssertionError: 3 is not 4\n", "vitest | a.test.ts | adds: AssertionError: 3 is not 4"},
		{"a failing vitest suite", " FAIL  a.test.ts [ a.test.ts ]\nError: no such file\n", "vitest | a.test.ts | Error: no such file"},
		{"a jest test without a file", "  ● totals › adds\n\n    expect(received)\n", ""},
		{"two jest tests", "FAIL a.test.js\n  ● one\n\n    no\n\n  ● two\n\n    never\n", "jest | a.test.js | one: no\njest | a.test.js | two: never"},
		{"a jest test without a message, and another test", "FAIL a.test.js\n  ● one\n\n  ● two\n\n    no\n", "jest | a.test.js | one\njest | a.test.js | two: no"},
		{"a jest test without a message, and another file", "FAIL a.test.js\n  ● one\n\nFAIL b.test.js\n  ● two\n\n    no\n", "jest | a.test.js | one\njest | b.test.js | two: no"},
		{"a jest test with a position but no message", "FAIL a.test.js\n  ● one\n\n    at a.test.js:3:1\n    Expected: 4\n", "jest | a.test.js | one"},
		{"source code that jest quotes", "FAIL a.test.js\n  ● one\n\n    > 3 | expect(x)\n", "jest | a.test.js | one"},
		{"a mypy message and a quotation", "a.py:3: error: Bad type in\n    x = 3\n", "mypy | a.py | Bad type in"},
		{"six mypy message lines", "a.py:3: error: a\nb\nc\nd\ne\nf\ng  [misc]\n", "mypy | a.py | a b c d e f g [misc]"},
		{"seven mypy message lines, which are too many", "a.py:3: error: a\nb\nc\nd\ne\nf\ng\nh  [misc]\n", "mypy | a.py | a"},
		{"a Rust position below a ruff rule", "F401 `os` imported\n --> src/lib.rs:1:8\n", ""},
		{"a ruff rule with a name in parentheses", "a.py:3:1: E999 cannot parse (syntax)\n", "ruff | a.py | E999 cannot parse (syntax)"},
		{"a rustc error with a code and the word clippy", "src/main.rs:3:5: error[E0001]: ask clippy\n", "cargo check | src/main.rs | E0001: ask clippy"},
		{"another test's output", "--- FAIL: TestA (0.00s)\n    a_test.go:7: one\n--- PASS: TestB (0.00s)\n    b_test.go:8: two\nFAIL\texample.com/shop\t0.1s\n", "go test | a_test.go | TestA: one"},
		{"a passing test's log line before the failure", "=== RUN   TestB\n    b_test.go:8: two\n=== RUN   TestA\n    a_test.go:7: one\n--- FAIL: TestA (0.00s)\n--- PASS: TestB (0.00s)\nFAIL\texample.com/shop\t0.1s\n", "go test | a_test.go | TestA: one"},
		{"the first of two panics", "--- FAIL: TestA (0.00s)\npanic: one\npanic: two\nFAIL\texample.com/shop\t0.1s\n", "go test | . | TestA: panic: one"},
		{"an assertion that is not a comparison", "--- FAIL: TestA (0.00s)\n    a_test.go:7: \n\tError Trace:\ta_test.go:7\n\tError:\tShould be true\n\texpected: 4\nFAIL\texample.com/shop\t0.1s\n", "go test | a_test.go | TestA: Should be true"},
		{"two packages with one test each", "--- FAIL: TestA (0.00s)\n    a_test.go:7: one\nFAIL\texample.com/shop/a\t0.1s\n--- FAIL: TestA (0.00s)\n    a_test.go:7: two\nFAIL\texample.com/shop/b\t0.1s\n", "go test | a/a_test.go | TestA: one\ngo test | b/a_test.go | TestA: two"},
		{"a package that does not build", "./a.go:3:4: undefined: x\nFAIL\texample.com/shop [build failed]\n", "go vet | a.go | undefined: x"},
		{"a package in another module", "--- FAIL: TestA (0.00s)\n    a_test.go:7: one\nFAIL\texample.org/other\t0.1s\n", "go test | example.org/other/a_test.go | TestA: one"},
		{"two pytest sections, one in the summary", "____ test_a ____\nE   one\na.py:9: X\n____ test_b ____\nE   two\nb.py:9: X\n==== short test summary info ====\nFAILED b.py::test_b - t...\n", "pytest | b.py | test_b: two"},
		{"lines after the pytest sections", "____ test_a ____\nE   one\na.py:9: X\n==== warnings summary ====\nE   no\nb.py:3: W\n", "pytest | a.py | test_a: one"},
		{"a failed pytest test without a message", "FAILED a.py::test_a\n", "pytest | a.py | test_a: the test failed"},
		{"a file that pytest cannot collect, without a message", "ERROR a.py\n", "pytest | a.py | the test cannot be collected"},
		{"a test in a class", "____ TestCart.test_a ____\nE   one\n==== short test summary info ====\nFAILED a.py::TestCart::test_a - o...\n", "pytest | a.py | TestCart::test_a: one"},
		{"a fixture that fails", "____ ERROR at setup of test_a ____\nE   no database\n==== short test summary info ====\nERROR a.py::test_a - n...\n", "pytest | a.py | test_a: no database"},
		{"a path outside the project", "/usr/lib/x.go:3:4: undefined: x\n", "go vet | /usr/lib/x.go | undefined: x"},
		{"three tools, in output order", "--- FAIL: TestA (0.00s)\n    a_test.go:7: one\nFAIL\texample.com/shop\t0.1s\n./b.go:3:4: undefined: x\nF401 `os` imported\n --> c.py:1:8\n", "go test | a_test.go | TestA: one\ngo vet | b.go | undefined: x\nruff | c.py | F401 `os` imported"},
		{"three tools, in the reverse order", "F401 `os` imported\n --> c.py:1:8\n./b.go:3:4: undefined: x\n--- FAIL: TestA (0.00s)\n    a_test.go:7: one\nFAIL\texample.com/shop\t0.1s\n", "ruff | c.py | F401 `os` imported\ngo vet | b.go | undefined: x\ngo test | a_test.go | TestA: one"},
		{"a passing test's log line after a silent failed test", "--- FAIL: TestA (0.00s)\n--- PASS: TestB (0.00s)\n    b_test.go:8: two\nFAIL\texample.com/shop\t0.1s\n", "go test | . | TestA: the test failed without a message"},
		{"two stack frames in the project", "--- FAIL: TestA (0.00s)\npanic: one\n\ngoroutine 1 [running]:\n\t/home/dev/shop/a.go:9 +0x2\n\t/home/dev/shop/b.go:9 +0x2\nFAIL\texample.com/shop\t0.1s\n", "go test | a.go | TestA: panic: one"},
		{"the last line in a package without a failed test", "no database\n\nFAIL\nFAIL\texample.com/shop\t0.1s\n", "go test | . | the package failed: no database"},
		{"JSON that is not an event, as the last line", `{"level":"fatal","msg":"no database"}` + "\nFAIL\texample.com/shop\t0.1s\n", `go test | . | the package failed: {"level":"fatal","msg":"no database"}`},
		{"a test that prints a compiler line", `{"Action":"output","Package":"example.com/shop","Test":"TestA","Output":"a.go:3:4: a note\n"}`, ""},
		{"compiler output in JSON", `{"ImportPath":"example.com/shop","Action":"build-output","Output":"./a.go:3:4: undefined: x\n"}` + "\n" + `{"ImportPath":"example.com/shop","Action":"build-fail"}`, "go vet | a.go | undefined: x"},
		{"interleaved JSON from two packages", strings.Join([]string{
			`{"Action":"output","Package":"example.com/shop/a","Output":"=== RUN   TestA\n"}`, `{"Action":"output","Package":"example.com/shop/b","Output":"=== RUN   TestB\n"}`,
			`{"Action":"output","Package":"example.com/shop/a","Output":"    a_test.go:7: one\n"}`, `{"Action":"output","Package":"example.com/shop/b","Output":"    b_test.go:8: two\n"}`,
			`{"Action":"output","Package":"example.com/shop/b","Output":"--- FAIL: TestB (0.00s)\n"}`, `{"Action":"output","Package":"example.com/shop/a","Output":"--- FAIL: TestA (0.00s)\n"}`,
		}, "\n"), "go test | b/b_test.go | TestB: two\ngo test | a/a_test.go | TestA: one"},
		{"an eslint message with two lines", "a.js\n  3:7  error  one\n    and more of it\n  4:7  error  two  r-2\n", "eslint | a.js | one\neslint | a.js | two (r-2)"},
		{"a log line with a position in JavaScript", "a.js:3:4: started\n", ""},
		{"a Python rule code with a colon", "a.py:3:80: E501: line too long\n", "ruff | a.py | E501 line too long"},
		{"a warning at a Rust position", "src/main.rs:3:5: warning: unused variable\n", ""},
		{"a note at a C position", "src/main.c:3:5: note: declared here\n", ""},
		{"a fatal error at a C position", "src/main.c:3:5: fatal error: x.h: No such file\n", "compiler | src/main.c | x.h: No such file"},
		{"an actual value without a comparison", "--- FAIL: TestA (0.00s)\n    a_test.go:7: no luck\n    actual: 4\nFAIL\texample.com/shop\t0.1s\n", "go test | a_test.go | TestA: no luck"},
		{"rustc's short form without a code", "src/main.rs:3:5: error: expected a semicolon\n", "cargo check | src/main.rs | expected a semicolon"},
		{"a mypy message, and a tag further down", "a.py:3: error: Bad type in\n    x = 3\nsee also  [misc]\n", "mypy | a.py | Bad type in"},
		{"a mypy message, a blank line and a tag", "a.py:3: error: Bad type\n\nsee also  [misc]\n", "mypy | a.py | Bad type"},
		{"an empty message", "a.py:3: error: \u200b\n", ""},
		{"a position without a ruff rule", "something\n --> shop/cart.py:1:8\n", ""},
		{"a ruff rule without a position", "F401 `os` imported\nmore\n", ""},
		{"the first of two clippy rules", "error: never loops\n --> src/main.rs:3:5\n  = note: `#[deny(clippy::never-loop)]` on by default\n  = help: https://rust-lang.github.io/rust-clippy/master/index.html#other\n", "cargo clippy | src/main.rs | never loops (clippy::never_loop)"},
		{"a clippy rule after a blank line", "error: never loops\n --> src/main.rs:3:5\n\n  = note: `#[deny(clippy::never-loop)]`\n", "cargo check | src/main.rs | never loops"},
		{"a cargo test without output, and a panic after the failures", "---- a stdout ----\n\nfailures:\n    a\nthread 'x' panicked at src/x.rs:1:1:\nno\n", "cargo test | . | a: the test failed without a message"},
		{"the first of two panics in a cargo test", "---- a stdout ----\nthread 'a' panicked at src/x.rs:1:1:\none\n\nthread 'a' panicked at src/y.rs:1:1:\ntwo\n", "cargo test | src/x.rs | a: one"},
		{"the first of two panics, before Rust 1.73", "---- a stdout ----\nthread 'a' panicked at 'one', src/x.rs:1:1\nthread 'a' panicked at 'two', src/y.rs:1:1\n", "cargo test | src/x.rs | a: one"},
		{"a stack after a panic", "---- a stdout ----\nthread 'a' panicked at src/x.rs:1:1:\none\nstack backtrace:\n   0: core\n", "cargo test | src/x.rs | a: one"},
		{"a failed file in the pytest summary", "FAILED tests/test_cart.py\n", ""},
		{"two pytest tests with the same name", "____ test_a ____\nE   one\na.py:9: X\n____ test_a ____\nE   two\nb.py:9: X\n==== short test summary info ====\nFAILED a.py::test_a - o...\nFAILED b.py::test_a - t...\n", "pytest | a.py | test_a: one\npytest | b.py | test_a: two"},
		{"a file that pytest cannot collect", "____ ERROR collecting a.py ____\nE   no module x\n==== short test summary info ====\nERROR a.py\n", "pytest | a.py | no module x"},
		{"one failure at two lines", "a.go:3:4: undefined: x\na.go:9:4: undefined: x\n", "go vet | a.go | undefined: x"},
	} {
		if got := failureLines(tc.text); got != tc.want {
			t.Errorf("%s: failures =\n%s\nwant\n%s", tc.name, got, tc.want)
		}
	}
	if got := ledger.Failures(ledger.Output{Text: "/home/dev/shop/a.go:3:4: undefined: x\n"}); len(got) != 1 || got[0].File != "/home/dev/shop/a.go" {
		t.Errorf("unknown project folder: failures = %+v, want one with the whole path", got)
	}
}

// A new entry directly follows a list. After any other text, there is a blank line before the entry.
func TestNewEntryFollowsListOrBlankLine(t *testing.T) {
	for last, blank := range map[string]bool{
		"- by hand": false, "* by hand": false, "+ by hand": false, "- by hand\n  and more": false, "- by hand\n\tand more": false,
		"Some words.": true, "### A heading": true, "| a | table |": true, "1. a number": true,
	} {
		l := newLedger(t, "## Lessons Learned\n\n"+last+"\n")
		record(t, l, newEntry(1))
		want := last + "\n"
		if blank {
			want += "\n"
		}
		if got := readLedger(t, l); got != "## Lessons Learned\n\n"+want+bullet {
			t.Errorf("file with an entry after %q =\n%s\nwant\n%s", last, got, "## Lessons Learned\n\n"+want+bullet)
		}
	}
}

// Entries skips an entry if the file, the error or the rule is missing. If another field is missing, the advice of the
// entry's lesson has no line for this field.
func TestEntriesNeedFileErrorAndRule(t *testing.T) {
	all := strings.Split(strings.TrimSuffix(bullet, "\n"), "\n")
	fields := strings.Join(all[1:], "\n")
	for name, tc := range map[string]struct {
		text    string
		entries int
	}{
		"a blank line in the entry": {strings.Replace(bullet, "    - **Cause", "\n    - **Cause", 1), 1},
		"tabs before the fields":    {strings.ReplaceAll(bullet, "    -", "\t-"), 1},
		"no time":                   {strings.Replace(bullet, "2026-03-04T05:06:07Z", "yesterday", 1), 1},
		"a ticked manual item":      {"- [x] by hand\n" + fields, 0},
		"an item between fields":    {strings.Join(all[:4], "\n") + "\n- [x] by hand\n" + all[6], 0},
		"a field that occurs twice": {bullet + "    - **Corrective Rule:** Another rule.\n", 1},
	} {
		got := ledger.Entries([]byte("## Lessons Learned\n\n" + tc.text))
		if len(got) != tc.entries {
			t.Errorf("%s: entries = %+v, want %d", name, got, tc.entries)
		}
		for _, e := range got {
			if e.Entry != newEntry(1) || e.At.IsZero() != (name == "no time") {
				t.Errorf("%s: got %+v, want entry %+v and zero time: %v", name, e, newEntry(1), name == "no time")
			}
		}
	}
	without := func(label string) string {
		return "## Lessons Learned\n\n" + strings.Join(slices.DeleteFunc(slices.Clone(all), func(line string) bool { return strings.Contains(line, label) }), "\n") + "\n"
	}
	for label, n := range map[string]int{"**File:**": 0, "**Error Summary:**": 0, "**Corrective Rule:**": 0, "**Cause:**": 1, "**Resolution:**": 1, "**Intent ID:**": 1} {
		text := []byte(without(label))
		if got := ledger.Entries(text); len(got) != n {
			t.Errorf("without %s: entries = %+v, want %d", label, got, n)
		}
		for _, l := range ledger.Lessons(text) {
			if strings.Contains(l.Advice, "Why:") != (label != "**Cause:**") || strings.Contains(l.Advice, "What mended it:") != (label != "**Resolution:**") {
				t.Errorf("without %s: advice = %q, want a line for each field that the entry has", label, l.Advice)
			}
			if ref := l.Evidence[0].Ref; ref != map[bool]string{true: ledger.FileName, false: "INT-1"}[label == "**Intent ID:**"] {
				t.Errorf("without %s: evidence = %q, want the entry's intent id, or the ledger's file name if the entry has no id", label, ref)
			}
		}
	}
	if got := ledger.Entries([]byte("# No section\n\n" + bullet)); len(got) != 0 {
		t.Errorf("entry outside the section: entries = %+v, want none", got)
	}
	interrupted := strings.Replace("## Lessons Learned\n\n"+bullet, "    - **Cause:**", "A hand-written line.\n    - **Cause:**", 1)
	if got := ledger.Entries([]byte(interrupted)); len(got) != 0 {
		t.Errorf("entry with another line between the fields: entries = %+v, want none", got)
	}
	newer := strings.Replace(bullet, "the sum is 1", "the total is wrong again", 1)
	list := ledger.Lessons([]byte("## Lessons Learned\n\n" + bullet + bullet + newer + bullet))
	if len(list) != 2 || !strings.Contains(list[0].Trigger.Description, "the sum is 1") || !strings.Contains(list[1].Trigger.Description, "the total is wrong again") {
		t.Errorf("got %d lessons for two failures, want two, with the lesson of the last entry first", len(list))
	}
}

// The path in an entry becomes a keyword of the entry's lesson only if the path is specific. The error pattern is the
// part of the error that does not vary.
func TestEntryLessonMatchesPathAndError(t *testing.T) {
	for _, tc := range []struct{ file, err, keyword, pattern string }{
		{"src/a*b.go", "cannot resolve the address of it", "", "cannot resolve the address of it"},
		{"Makefile", "cannot resolve the address of it", "", "cannot resolve the address of it"},
		{strings.Repeat("long/", 20) + "a.go", "cannot resolve the address of it", "", "cannot resolve the address of it"},
		{strings.Repeat("long/", 19) + "ab.go", "too short", strings.Repeat("long/", 19) + "ab.go", ""},
		{"a/b.go", "E0308 mismatched types, see E0308", "a/b.go", "E0308 mismatched types, see E0308"},
		{"a/b.go", `expected "a b c" and then some more words`, "a/b.go", "and then some more words"},
		{"a/b.go", "expected `many words which nobody else has` and then some more", "a/b.go", "and then some more"},
		{"a/b.go", "expected \"one\" and then `two` and so it goes on", "a/b.go", "and so it goes on"},
		{"a/b.go", "so it is no 1", "a/b.go", ""},
		{"a/b.go", "ten letters", "a/b.go", "ten letters"},
		{"a/b.go", "now nine 4 l", "a/b.go", ""},
		{"a/b.go", strings.Repeat("nine and ", 10) + "a longer ending", "a/b.go", strings.Repeat("nine and ", 10) + "a longer"},
		{"a/b.go", strings.Repeat("nine and ", 11) + "z", "a/b.go", strings.Repeat("nine and ", 11) + "z"},
		{"a/b.go", strings.Repeat("nine and ", 10) + "unforeseeable end", "a/b.go", strings.TrimSpace(strings.Repeat("nine and ", 10))},
		{"a/b.go", "stop * with another star", "a/b.go", "with another star"},
		{"a/b.go", "the words before 17 are fewer than the words that stand behind it", "a/b.go", "are fewer than the words that stand behind it"},
		{"a/b.go", strings.Repeat("word ", 30), "a/b.go", strings.TrimSpace(strings.Repeat("word ", 20))},
	} {
		e := newEntry(1)
		e.File, e.Error = tc.file, tc.err
		l := newLedger(t, "")
		record(t, l, e)
		list := ledger.Lessons([]byte(readLedger(t, l)))
		if (len(list) == 1) != (tc.keyword+tc.pattern != "") {
			t.Errorf("file %s, error %s: got %d lessons, want one lesson: %t", tc.file, tc.err, len(list), tc.keyword+tc.pattern != "")
		}
		for _, got := range list {
			if k, p := strings.Join(got.Trigger.Keywords, "|"), strings.Join(got.Trigger.ErrorPatterns, "|"); k != tc.keyword || p != tc.pattern {
				t.Errorf("file %s, error %s: keywords = %q, error patterns = %q, want keywords %q, error patterns %q", tc.file, tc.err, k, p, tc.keyword, tc.pattern)
			}
		}
	}
}
