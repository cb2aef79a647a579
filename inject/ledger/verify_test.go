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

// The entry of a failure names the command that found the failure.
func TestEntryNamesTheFailingCommand(t *testing.T) {
	long := strings.Repeat("é", 300)
	for _, c := range []struct {
		name          string
		failure       ledger.Failure
		command       []string
		cause, advice string
		file          string
	}{
		{
			"a test",
			ledger.Failure{Tool: "go test", Type: ledger.TypeTest, File: "cart/cart_test.go", Subject: "TestTotal", Error: "got 3"},
			[]string{"go", "test", "./..."},
			"Found by `go test ./...` (go test): TestTotal.",
			"Run `go test ./...` after changing what cart/cart_test.go tests, before you say that the work is done.", "cart/cart_test.go",
		},
		{
			"a rule",
			ledger.Failure{Tool: "ruff", Type: ledger.TypeLint, File: "cart.py", Error: "F401"},
			[]string{"ruff", "check"},
			"Found by `ruff check` (ruff).", "Run `ruff check` after editing cart.py, before you say that the work is done.", "cart.py",
		},
		{
			"an unknown file",
			ledger.Failure{Tool: "make", Type: ledger.TypeTest, File: ".", Error: "no"},
			[]string{"make", "a`b"},
			"Found by `` make a`b `` (make).", "Run `` make a`b `` after the last edit, before you say that the work is done.", ".",
		},
		{
			"a long name",
			ledger.Failure{Tool: "x", Type: ledger.TypeLint, File: strings.Repeat("d/", 3000) + "f.go", Subject: long, Error: "no"},
			[]string{"x", long},
			"Found by `x " + strings.Repeat("é", 198) + "...` (x): " + strings.Repeat("é", 200) + "....", "", "",
		},
	} {
		e := c.failure.Entry("INT-7", c.command)
		if e.IntentID != "INT-7" || e.Type != c.failure.Type || e.Error != c.failure.Error || e.Cause != c.cause {
			t.Errorf(`%s: got %+v, want intent "INT-7", type %q, error %q and cause %q`, c.name, e, c.failure.Type, c.failure.Error, c.cause)
		}
		if c.advice != "" && (e.Rule != c.advice || e.File != c.file) {
			t.Errorf("%s: the rule is %q of file %q, want %q of %q", c.name, e.Rule, e.File, c.advice, c.file)
		}
		if err := e.Validate(); err != nil || !strings.HasSuffix(c.failure.File, e.File) || !strings.Contains(e.Rule, e.File) && e.File != "." {
			t.Errorf(`%s: got error %v, want a file that ends in %q, and a rule with %q unless the file is "."`, c.name, err, e.File, e.File)
		}
		if e.Resolution == "" {
			t.Errorf("%s: the resolution is empty, want a placeholder", c.name)
		}
	}
}

// The lesson of an open failure has no word about a repair, and names the rule or the test of the
// tool.
func TestLessonOfOpenFailureNamesTheRule(t *testing.T) {
	for text, subject := range map[string]string{
		"a.py:3: error: Bad type  [assignment]\n": "assignment", "a.py:3: error: Bad type\n": "", "a.py:3:1: F401 `os` imported\n": "F401", "a.js:3:7: no x [Error/no-undef]\n": "no-undef",
		"a.ts(3,7): error TS2322: no\n": "TS2322", "a.go:3:4: unchecked error (errcheck)\n": "errcheck", "error[E0425]: no x\n --> a.rs:3:5\n": "E0425", "FAILED a.py::test_a - no\n": "test_a",
	} {
		found := ledger.Failures(ledger.Output{Text: text})
		if len(found) != 1 || found[0].Subject != subject {
			t.Errorf("%q: got %+v, want one entry in found and Subject = %q", text, found, subject)
			continue
		}
		l := at(t, "")
		record(t, l, found[0].Entry("INT-7", []string{"make", "check"}))
		content, err := os.ReadFile(l.Path)
		if err != nil {
			t.Fatal(err)
		}
		for _, made := range ledger.Lessons(content) {
			if strings.Contains(made.Advice, "mended") || !strings.Contains(made.Advice, "Why: Found by `make check`") || subject != "" && !strings.Contains(made.Advice, ": "+subject+".") {
				t.Errorf("%q: the advice is %q, want the command of the failure and its rule", text, made.Advice)
			}
		}
	}
}

// The last lines of an unknown output become the error, and the words of the command give the type.
func TestUnknownOutputGivesItsLastLines(t *testing.T) {
	for _, c := range []struct{ command, text, kind, want string }{
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
		got := ledger.Unread(strings.Fields(c.command), 3, c.text)
		if got.Tool != strings.Fields(c.command)[0] || got.Type != c.kind || got.File != "." || got.Error != c.want {
			t.Errorf("%s: got %+v, want %s: %s", c.command, got, c.kind, c.want)
		}
	}
}

// The trace has verified commands and refused entries, without secrets.
func TestTraceListsVerifiedAndRefusedEntries(t *testing.T) {
	l := at(t, "")
	if err := errors.Join(l.TraceVerify([]string{"go", "test", "-token=sk-a1B2c3D4e5F6g7H8i9"}, 1, 2), l.TraceVerify([]string{"make"}, 0, 0),
		l.TraceRefused(errors.New("cause is missing\nmail bob@example.com"))); err != nil {
		t.Fatal(err)
	}
	lines := trace(t, l)
	for i, want := range []map[string]any{
		{"operation": "verify", "status": "failed", "exit_code": 1.0, "failures": 2.0, "command": "[go test -token=[REDACTED:openai_key:1]]"},
		{"operation": "verify", "status": "passed", "exit_code": 0.0, "failures": 0.0, "command": "[make]"},
		{"operation": "record", "status": "refused", "message": "cause is missing mail [REDACTED:email:1]", "ledger": l.Path},
	} {
		for key, value := range want {
			if got := lines[i][key]; fmt.Sprint(got) != fmt.Sprint(value) {
				t.Errorf("line %d: %s is %v, want %v", i, key, got, value)
			}
		}
		if lines[i]["timestamp"] != "2026-03-04T05:06:07.000Z" {
			t.Errorf("line %d: got the time %v, want \"2026-03-04T05:06:07.000Z\"", i, lines[i]["timestamp"])
		}
	}
}

// Record reports a trace that cannot be written, and the ledger has the entry nevertheless.
func TestUnwritableTraceKeepsTheEntry(t *testing.T) {
	l := at(t, "")
	if err := os.WriteFile(filepath.Join(filepath.Dir(l.Path), filepath.Dir(ledger.TraceFile)), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	results, untraced, err := l.Record(t.Context(), entry(1))
	if err != nil || untraced == nil || len(results) != 1 || results[0].Status != ledger.Recorded {
		t.Errorf("got results %+v, error %v, error %v, want no error, an error, one entry in results and Status = %q", results, untraced, err, ledger.Recorded)
	}
}

// One invalid entry refuses all entries of a call.
func TestRecordRefusesAllOnAnInvalidEntry(t *testing.T) {
	l := at(t, "before\n")
	wrong := entry(2)
	wrong.Rule, wrong.Type = " ", "guess"
	results, _, err := l.Record(t.Context(), entry(1), wrong)
	if err == nil || len(results) > 0 || text(t, l) != "before\n" {
		t.Errorf("got results %v, error %v, text(t, l) %q, want an error, no results and text(t, l) = \"before\\n\"", results, err, text(t, l))
	}
	for _, part := range []string{"rule is missing", `type is "guess"`} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%v does not state that %s", err, part)
		}
	}
}

// The path of a ledger must lead to a file that may be written, or the entry is not recorded.
func TestUnwritablePathIsNoLedger(t *testing.T) {
	for name, spoil := range map[string]func(l *ledger.Ledger) error{
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
		l := at(t, "")
		if err := spoil(l); err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			results, _, err := l.Record(t.Context(), entry(1))
			if err != nil || results[0].Status != ledger.Failed || !strings.Contains(results[0].Message, name) {
				t.Errorf("%s: got results %+v, error %v, want no error, Status = %q and Message with %q", name, results, err, ledger.Failed, name)
			}
		})
	}
}

// Record waits for a writer with the lock, but not forever.
func TestRecordWaitsForALockedLedger(t *testing.T) {
	l := at(t, "")
	dir, err := os.Open(filepath.Dir(l.Path))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := file.TryLock(dir); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := record(t, l, entry(1))
		if r[0].Status != ledger.Failed || !strings.Contains(r[0].Message, "other writers have held it") {
			t.Errorf(`got %+v, want Status = %q and Message with "other writers have held it"`, r, ledger.Failed)
		}
	})
}

// An entry is one JSON object of strings, of at most 8 MiB.
func TestDecodeAcceptsOneObjectOfStrings(t *testing.T) {
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
			t.Errorf("%.20q: got %v, want %s", text, err, want)
		}
	}
	if _, err := ledger.Decode(broken{}); !errors.Is(err, errBroken) {
		t.Errorf("a reader that fails gives %v, want %v", err, errBroken)
	}
}

var errBroken = errors.New("the pipe is broken")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errBroken }
