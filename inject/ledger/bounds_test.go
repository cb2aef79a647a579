package ledger_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"precept/inject/ledger"
)

// Decode returns an error with one line for each problem.
func TestEntryFieldsAreLimited(t *testing.T) {
	for body, wantProblems := range map[string]int{
		`{"intent_id":"I","type":7,"file":"a.go","error":"e","cause":"c","resolution":"r","rule":"do"}`:    2,
		`{"intent_id":"I","type":"lint","file":null,"error":"e","cause":"c","resolution":"r","rule":"do"}`: 1,
		`{"intent_id":"I","file":"a.go","error":"e","cause":"c","resolution":"r","rule":"do"}`:             1,
		`{}`: 7,
	} {
		_, err := ledger.Decode(strings.NewReader(body))
		if err == nil || strings.Count(err.Error(), "\n")+1 != wantProblems {
			t.Errorf("Decode(%s): err = %v, want %d lines, one per problem", body, err, wantProblems)
		}
	}
	e := newEntry(1)
	for name, tc := range map[string]struct {
		field    *string
		maxChars int
	}{"intent_id": {&e.IntentID, 200}, "file": {&e.File, 1024}, "cause": {&e.Cause, 4096}, "resolution": {&e.Resolution, 4096}, "rule": {&e.Rule, 4096}} {
		for n, fits := range map[int]bool{tc.maxChars: true, tc.maxChars + 1: false} {
			*tc.field = strings.Repeat("ü", n)
			if err := e.Validate(); (err == nil) != fits {
				t.Errorf("%s with %d characters: err = %v, want valid: %t", name, n, err, fits)
			}
		}
		*tc.field = "x"
	}
	body := `{"intent_id":"I","type":"lint","file":"a.go","error":"e","cause":"c","resolution":"r","rule":"do"}`
	if _, err := ledger.Decode(strings.NewReader(body + strings.Repeat(" ", 8<<20-len(body)))); err != nil {
		t.Errorf("Decode of an 8 MiB entry: err = %v, want nil", err)
	}
}

// Record removes control characters, and characters that terminals and browsers hide. Every error pattern in the lesson
// made from an entry is a substring of the entry's error.
func TestEntryFieldsBecomeCleanLines(t *testing.T) {
	pieces := []string{"the sum", " of all ", "\n", "\r\n## Next\n", "\x00", "\x07", "\u200b", "\u202e", "\ufffd", "\xff", "\x1b[31m", "\x1b]8;;x\x07", "<!--", "-->", "```", "`a b`", `"`, " 17 ", "*", "- [x] ", "**File:** ", "E0308", "cannot be found in that place"}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) string {
			return "x" + strings.Join(rapid.SliceOfN(rapid.SampledFrom(pieces), 0, 8).Draw(t, name), "")
		}
		e := ledger.Entry{IntentID: draw("intent"), Type: ledger.TypeLint, File: draw("file"), Error: draw("error"), Cause: draw("cause"), Resolution: draw("resolution"), Rule: draw("rule")}
		l := &ledger.Ledger{Path: filepath.Join(dir, ledger.FileName), Now: clock}
		if err := os.WriteFile(l.Path, []byte("# Agent\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		r, _, err := l.Record(context.Background(), e)
		if err != nil || r[0].Status != ledger.Recorded {
			t.Fatalf("Record = %+v, %v, want status %s", r, err, ledger.Recorded)
		}
		after, err := os.ReadFile(l.Path)
		if err != nil || bytes.Count(after, []byte("\n")) != 11 || bytes.ContainsAny(after, "\x00\x07\x1b\r\u200b\u202e\ufffd") || bytes.Contains(after, []byte("<!--")) {
			t.Fatalf("file = %q, err = %v, want 11 lines without control or hidden characters and without <!--", after, err)
		}
		got := ledger.Entries(after)
		if len(got) != 1 || got[0].Entry.Error != strings.ReplaceAll(r[0].Entry.Error, "&lt;!--", "<!--") {
			t.Fatalf("Entries(%q) = %+v, want one entry with error %q", after, got, r[0].Entry.Error)
		}
		for _, lesson := range ledger.Lessons(after) {
			for _, p := range lesson.Trigger.ErrorPatterns {
				if !strings.Contains(got[0].Entry.Error, p) {
					t.Fatalf("lesson's error pattern = %q, want a substring of the error %q", p, got[0].Entry.Error)
				}
			}
		}
	})
}

// The trace has a line for each Record call. The line omits the entry if the ledger contains the entry after the call.
func TestRecordingKnownEntryDoesNotWriteFile(t *testing.T) {
	l := newLedger(t, "# Agent\n")
	record(t, l, newEntry(1))
	before, err := os.Stat(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	record(t, l, newEntry(1))
	if after, err := os.Stat(l.Path); err != nil || !os.SameFile(before, after) {
		t.Errorf("second Record of the same entry: file was replaced, or err = %v; want the same file", err)
	}
	for i, status := range []string{"recorded", "duplicate"} {
		if line := readTrace(t, l)[i]; line["status"] != status || line["entry"] != nil || line["signature"] == "" || line["file"] != "src/cart.go" {
			t.Errorf("trace line %d = %v, want status %s, a signature, file src/cart.go and no entry", i, line, status)
		}
	}
}
