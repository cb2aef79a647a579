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

// Decode reports each fault of an entry on one line. Validate accepts a field of the largest length, and refuses a
// longer field.
func TestDecodeAcceptsTheLargestFields(t *testing.T) {
	for body, faults := range map[string]int{
		`{"intent_id":"I","type":7,"file":"a.go","error":"e","cause":"c","resolution":"r","rule":"do"}`:    2, // type is not a string, and not one of the known types
		`{"intent_id":"I","type":"lint","file":null,"error":"e","cause":"c","resolution":"r","rule":"do"}`: 1,
		`{"intent_id":"I","file":"a.go","error":"e","cause":"c","resolution":"r","rule":"do"}`:             1,
		`{}`: 7,
	} {
		_, err := ledger.Decode(strings.NewReader(body))
		if err == nil || strings.Count(err.Error(), "\n")+1 != faults {
			t.Errorf("Decode(%s): got error %v, want %d faults, each on one line", body, err, faults)
		}
	}
	e := entry(1)
	for name, c := range map[string]struct {
		field    *string
		maxChars int
	}{"intent_id": {&e.IntentID, 200}, "file": {&e.File, 1024}, "cause": {&e.Cause, 4096}, "resolution": {&e.Resolution, 4096}, "rule": {&e.Rule, 4096}} {
		for n, fits := range map[int]bool{c.maxChars: true, c.maxChars + 1: false} {
			*c.field = strings.Repeat("ü", n)
			if err := e.Validate(); (err == nil) != fits {
				t.Errorf("%s of %d characters: got error %v, want valid: %t", name, n, err, fits)
			}
		}
		*c.field = "x"
	}
	body := `{"intent_id":"I","type":"lint","file":"a.go","error":"e","cause":"c","resolution":"r","rule":"do"}`
	if _, err := ledger.Decode(strings.NewReader(body + strings.Repeat(" ", 8<<20-len(body)))); err != nil {
		t.Errorf("an entry of 8 MiB: got error %v, want none", err)
	}
}

// Each field of an entry becomes one line in the file, without characters that terminals or browsers hide. The error
// patterns of its lesson are parts of the error.
func TestEachFieldOfAnEntryIsOneCleanLine(t *testing.T) {
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
			t.Fatalf("Record gives %+v, error %v, want status %s", r, err, ledger.Recorded)
		}
		after, err := os.ReadFile(l.Path)
		if err != nil || bytes.Count(after, []byte("\n")) != 11 || bytes.ContainsAny(after, "\x00\x07\x1b\r\u200b\u202e\ufffd") || bytes.Contains(after, []byte("<!--")) {
			t.Fatalf("the file is %q, error %v, want 11 lines without control or hidden characters and without <!--", after, err)
		}
		got := ledger.Entries(after)
		if len(got) != 1 || got[0].Entry.Error != strings.ReplaceAll(r[0].Entry.Error, "&lt;!--", "<!--") {
			t.Fatalf("file %q is read as %+v, want one entry with error %q", after, got, r[0].Entry.Error)
		}
		for _, lesson := range ledger.Lessons(after) {
			for _, p := range lesson.Trigger.ErrorPatterns {
				if !strings.Contains(got[0].Entry.Error, p) {
					t.Fatalf("the error pattern of the lesson is %q, want a part of error %q", p, got[0].Entry.Error)
				}
			}
		}
	})
}

// The second record of a failure does not write the file. The trace has both operations, without the entry.
func TestKnownEntryLeavesTheFileUnchanged(t *testing.T) {
	l := ledgerWith(t, "# Agent\n")
	record(t, l, entry(1))
	before, err := os.Stat(l.Path)
	if err != nil {
		t.Fatal(err)
	}
	record(t, l, entry(1))
	if after, err := os.Stat(l.Path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the second record replaced the file, error %v, want the same file", err)
	}
	for i, status := range []string{"recorded", "duplicate"} {
		if line := trace(t, l)[i]; line["status"] != status || line["entry"] != nil || line["signature"] == "" || line["file"] != "src/cart.go" {
			t.Errorf("line %d of the trace is %v, want status %s, a signature, the file src/cart.go and no entry", i, line, status)
		}
	}
}
