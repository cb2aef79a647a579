package ledger_test

import (
	"strings"
	"testing"

	"precept/inject/ledger"
)

// The file has hand-written lines before and after the recorded entries.
func TestEntriesReadsRecordedEntries(t *testing.T) {
	for _, eol := range []string{"\n", "\r\n"} {
		l := newLedger(t, strings.ReplaceAll("# A\n\n## Lessons Learned\n\n- by hand\n- [2026] half\n    - **File:** `x`\n", "\n", eol))
		want := []ledger.Entry{newEntry(1), newEntry(2)}
		want[1].Error, want[1].File = "a <!-- b ** c: d", "src/od`d.go"
		record(t, l, want...)
		got := ledger.Entries([]byte(readLedger(t, l) + eol + "## Next" + eol + strings.ReplaceAll(bullet, "\n", eol)))
		if len(got) != 2 || got[0].Entry != want[0] || !got[0].At.Equal(clock()) {
			t.Fatalf("line end %q: entries = %+v, want two, the first %+v with the clock's time", eol, got, want[0])
		}
		if got[1].Entry != want[1] {
			t.Errorf("line end %q: second entry = %+v, want %+v", eol, got[1], want[1])
		}
	}
}

func TestEntryLessonHasPathAndErrorPattern(t *testing.T) {
	for _, tc := range []struct{ file, err, keyword, pattern string }{
		{"src/cart.go", "TestTotal/empty: Total([]) = 1, want 0", "src/cart.go", ""},
		{"ts/a.ts", "TS2322: Type 'string' is not assignable to type 'number'.", "ts/a.ts", "is not assignable to type"},
		{"store.py", "F401 `os` imported but unused", "store.py", "imported but unused"},
		{"main.go", "declared and not used: x", "", "declared and not used: x"},
		{"index.ts", "x = 3", "", ""},
		{".", "connect ECONNREFUSED 127.0.0.1:5432", "", "connect ECONNREFUSED"},
		{"a/b.go", "the registry of this project answered slowly `x` again and again", "a/b.go", "the registry of this project answered slowly"},
		{"a/main.go", "cannot find module `left pad` in the cache of this machine", "a/main.go", "in the cache of this machine"},
	} {
		e := newEntry(1)
		e.File, e.Error = tc.file, tc.err
		l := newLedger(t, "")
		record(t, l, e)
		got := ledger.Lessons([]byte(readLedger(t, l)))
		if tc.keyword == "" && tc.pattern == "" {
			if len(got) != 0 {
				t.Errorf("%s, %s: lessons = %+v, want none, because neither gives a trigger", tc.file, tc.err, got)
			}
			continue
		}
		if len(got) != 1 {
			t.Fatalf("%s, %s: got %d lessons, want 1", tc.file, tc.err, len(got))
		}
		k, p := strings.Join(got[0].Trigger.Keywords, "|"), strings.Join(got[0].Trigger.ErrorPatterns, "|")
		if k != tc.keyword || p != tc.pattern {
			t.Errorf("error %s: keywords = %q, error patterns = %q, want keywords %q, error patterns %q", tc.err, k, p, tc.keyword, tc.pattern)
		}
	}
}
