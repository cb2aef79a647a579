package ledger_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"precept/inject/ledger"
	"precept/internal/file"
)

func TestEntryNamesTheFailedCommand(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, tc := range []struct {
		name        string
		failure     ledger.Failure
		command     []string
		cause, rule string // an empty rule leaves rule and file unchecked
		file        string
	}{
		{
			"a test",
			ledger.Failure{Tool: "go test", Type: ledger.TypeTest, File: "cart/cart_test.go", Subject: "TestTotal", Error: "got 3"},
			[]string{"go", "test", "./..."},
			"Found by `go test ./...` (go test): TestTotal.",
			"Run `go test ./...` after changing what cart/cart_test.go tests, before you say that the work is done.", "cart/cart_test.go",
		},
		{
			"a linter finding",
			ledger.Failure{Tool: "ruff", Type: ledger.TypeLint, File: "cart.py", Error: "F401"},
			[]string{"ruff", "check"},
			"Found by `ruff check` (ruff).", "Run `ruff check` after editing cart.py, before you say that the work is done.", "cart.py",
		},
		{
			"an unknown file",
			ledger.Failure{Tool: "make", Type: ledger.TypeTest, File: ".", Error: "no"},
			[]string{"make", "a`b"},
			"Found by `` make 'a`b' `` (make).", "Run `` make 'a`b' `` after the last edit, before you say that the work is done.", ".",
		},
		{
			"a long file name and a long command",
			ledger.Failure{Tool: "x", Type: ledger.TypeLint, File: strings.Repeat("d/", 3000) + "f.go", Subject: long, Error: "no"},
			[]string{"x", long},
			"Found by `x " + strings.Repeat("é", 198) + "...` (x): " + strings.Repeat("é", 200) + "....", "", "",
		},
	} {
		e := tc.failure.Entry("INT-7", tc.command)
		if e.IntentID != "INT-7" || e.Type != tc.failure.Type || e.Error != tc.failure.Error || e.Cause != tc.cause {
			t.Errorf(`%s: entry = %+v, want intent "INT-7", type %q, error %q and cause %q`, tc.name, e, tc.failure.Type, tc.failure.Error, tc.cause)
		}
		if tc.rule != "" && (e.Rule != tc.rule || e.File != tc.file) {
			t.Errorf("%s: rule = %q, file = %q, want rule %q, file %q", tc.name, e.Rule, e.File, tc.rule, tc.file)
		}
		if err := e.Validate(); err != nil || !strings.HasSuffix(tc.failure.File, e.File) || !strings.Contains(e.Rule, e.File) && e.File != "." {
			t.Errorf("%s: err = %v, file = %q, rule = %q, want a valid entry, with a file that is the end of the path and occurs in the rule",
				tc.name, err, e.File, e.Rule)
		}
		if e.Resolution == "" {
			t.Errorf("%s: resolution is empty, want a placeholder", tc.name)
		}
	}
}

func TestFailureEntryAdviceNamesCommandAndSubject(t *testing.T) {
	for text, subject := range map[string]string{
		"a.py:3: error: Bad type  [assignment]\n": "assignment", "a.py:3: error: Bad type\n": "", "a.py:3:1: F401 `os` imported\n": "F401", "a.js:3:7: no x [Error/no-undef]\n": "no-undef",
		"a.ts(3,7): error TS2322: no\n": "TS2322", "a.go:3:4: unchecked error (errcheck)\n": "errcheck", "error[E0425]: no x\n --> a.rs:3:5\n": "E0425", "FAILED a.py::test_a - no\n": "test_a",
	} {
		found := ledger.Failures(ledger.Output{Text: text})
		if len(found) != 1 || found[0].Subject != subject {
			t.Errorf("%q: failures = %+v, want one with subject %q", text, found, subject)
			continue
		}
		l := newLedger(t, "")
		record(t, l, found[0].Entry("INT-7", []string{"make", "check"}))
		content, err := os.ReadFile(l.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, lesson := range ledger.Lessons(content) {
			if strings.Contains(lesson.Advice, "mended") || !strings.Contains(lesson.Advice, "Why: Found by `make check`") || subject != "" && !strings.Contains(lesson.Advice, ": "+subject+".") {
				t.Errorf("%q: advice = %q, want it to contain `make check` and the subject %q, but no resolution", text, lesson.Advice, subject)
			}
		}
	}
}

// The words in the command decide the failure's type.
func TestUnrecognizedFailureKeepsLastLines(t *testing.T) {
	for _, tc := range []struct{ command, text, kind, want string }{
		{"./check-links", "a\nb\n\n  c\td\n", ledger.TypeAnalysis, "a b c d"},
		{"npm run lint", "1\n2\n3\n4\n5\n6\n7\n", ledger.TypeLint, "3 4 5 6 7"},
		{"gofmt -l .", "cart.go\n", ledger.TypeLint, "cart.go"},
		{"prettier --format", "x\n", ledger.TypeLint, "x"},
		{"make vet", "x\n", ledger.TypeAnalysis, "x"},
		{"make BUILD", "x\n", ledger.TypeAnalysis, "x"},
		{"npx tsc", "x\n", ledger.TypeAnalysis, "x"},
		{"./smoke.sh", "\x1b[31mno answer\x1b[0m at 0xc000012345\n", ledger.TypeTest, "no answer at 0x..."},
		{"./smoke.sh", "\n \n", ledger.TypeTest, "exit status 3 without output"},
		{"./smoke.sh", "first\n" + strings.Repeat("x", ledger.MaxSummary) + "\n", ledger.TypeTest, strings.Repeat("x", ledger.MaxSummary)},
	} {
		got := ledger.UnrecognizedFailure(strings.Fields(tc.command), 3, tc.text)
		if got.Tool != strings.Fields(tc.command)[0] || got.Type != tc.kind || got.File != "." || got.Error != tc.want {
			t.Errorf("%s: failure = %+v, want the first word as tool, type %s, file . and error %q", tc.command, got, tc.kind, tc.want)
		}
	}
}

func TestTraceListsVerifiedAndRefusedEntries(t *testing.T) {
	l := newLedger(t, "")
	if err := errors.Join(l.TraceVerify([]string{"go", "test", "-token=sk-a1B2c3D4e5F6g7H8i9"}, 1, 2), l.TraceVerify([]string{"make"}, 0, 0),
		l.TraceRefused(errors.New("cause is missing\nmail bob@example.com"))); err != nil {
		t.Fatal(err)
	}
	lines := readTrace(t, l)
	for i, want := range []map[string]any{
		{"operation": "verify", "status": "failed", "exit_code": 1.0, "failures": 2.0, "command": "[go test -token=[REDACTED:openai_key:1]]"},
		{"operation": "verify", "status": "passed", "exit_code": 0.0, "failures": 0.0, "command": "[make]"},
		{"operation": "record", "status": "refused", "message": "cause is missing mail [REDACTED:email:1]", "ledger": l.Path},
	} {
		for key, value := range want {
			if got := lines[i][key]; fmt.Sprint(got) != fmt.Sprint(value) {
				t.Errorf("trace line %d: %s = %v, want %v", i, key, got, value)
			}
		}
		if lines[i]["timestamp"] != "2026-03-04T05:06:07.000Z" {
			t.Errorf("trace line %d: timestamp = %v, want \"2026-03-04T05:06:07.000Z\"", i, lines[i]["timestamp"])
		}
	}
}

func TestRecordSucceedsIfTraceIsUnwritable(t *testing.T) {
	l := newLedger(t, "")
	if err := os.WriteFile(filepath.Join(filepath.Dir(l.Path), filepath.Dir(ledger.TraceFile)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	results, traceErr, err := l.Record(t.Context(), newEntry(1))
	if err != nil || traceErr == nil || len(results) != 1 || results[0].Status != ledger.Recorded {
		t.Errorf("Record = %+v, trace error %v, error %v, want only a trace error and one result with status %s", results, traceErr, err, ledger.Recorded)
	}
}

func TestRecordRefusesBatchWithInvalidEntry(t *testing.T) {
	l := newLedger(t, "before\n")
	invalid := newEntry(2)
	invalid.Rule, invalid.Type = " ", "guess"
	results, _, err := l.Record(t.Context(), newEntry(1), invalid)
	if err == nil || len(results) > 0 || readLedger(t, l) != "before\n" {
		t.Fatalf("Record = %v, %v, file = %q, want an error, no result and an unchanged file", results, err, readLedger(t, l))
	}
	for _, part := range []string{"rule is missing", `type is "guess"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("err = %v, want it to contain %q", err, part)
		}
	}
}

func TestRecordReportsWhyLedgerIsUnwritable(t *testing.T) {
	for message, prepare := range map[string]func(l *ledger.Ledger) error{
		"too many links": func(l *ledger.Ledger) error {
			return errors.Join(os.Symlink(l.Path+".b", l.Path), os.Symlink(l.Path, l.Path+".b"))
		},
		"read-only":      func(l *ledger.Ledger) error { return os.WriteFile(l.Path, []byte("x\n"), 0o400) },
		"is a directory": func(l *ledger.Ledger) error { return os.Mkdir(l.Path, 0o700) },
		"directory": func(l *ledger.Ledger) error {
			dir := filepath.Dir(l.Path)
			l.Path = filepath.Join(dir, "file", ledger.FileName)
			return os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)
		},
	} {
		l := newLedger(t, "")
		if err := prepare(l); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			results, _, err := l.Record(t.Context(), newEntry(1))
			if err != nil || results[0].Status != ledger.Failed || !strings.Contains(results[0].Message, message) {
				t.Errorf("Record = %+v, %v, want status %s and message %q", results, err, ledger.Failed, message)
			}
		})
	}
}

func TestRecordFailsWhileTheLedgerIsLocked(t *testing.T) {
	l := newLedger(t, "")
	dir, err := os.Open(filepath.Dir(l.Path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := file.TryLock(dir); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := record(t, l, newEntry(1))
		if r[0].Status != ledger.Failed || !strings.Contains(r[0].Message, "another process has held the lock") {
			t.Errorf(`Record = %+v, want status %s and the message "another process has held the lock"`, r, ledger.Failed)
		}
	})
}

func TestDecodeRefusesInputOtherThanOneObject(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "standard input is empty",
		" \n\t":                          "standard input is empty",
		"[]":                             "does not begin with {",
		"x":                              "not one JSON object",
		`{"type":"test"} {}`:             "text follows the entry",
		`{"type":"test"`:                 "not one JSON object",
		`{"type":`:                       "not one JSON object",
		`{"type" "test"}`:                "not one JSON object",
		`{"type":"test",}`:               "not one JSON object",
		strings.Repeat(" ", 8<<20) + "{": "more than 8 MiB",
	} {
		if _, err := ledger.Decode(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Decode(%.20q): err = %v, want %q", text, err, want)
		}
	}
	if _, err := ledger.Decode(failingReader{}); !errors.Is(err, errBroken) {
		t.Errorf("Decode from a failing reader: err = %v, want %v", err, errBroken)
	}
}

var errBroken = errors.New("the pipe is broken")

type failingReader struct{}

func (failingReader) Read([]byte) (int, error) { return 0, errBroken }
