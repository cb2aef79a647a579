package ledger_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/bank"
	"precept/ledger"
	"precept/lesson"
)

// What was recorded is read again, by the same words, among what people wrote beside it.
func TestEntries(t *testing.T) {
	for _, eol := range []string{"\n", "\r\n"} {
		l := at(t, strings.ReplaceAll("# A\n\n## Lessons Learned\n\n- by hand\n- [2026] half\n    - **File:** `x`\n", "\n", eol))
		want := []ledger.Entry{entry(1), entry(2)}
		want[1].Error, want[1].File = "a <!-- b ** c: d", "src/od`d.go"
		record(t, l, want...)
		got := ledger.Entries([]byte(text(t, l) + eol + "## Next" + eol + strings.ReplaceAll(bullet, "\n", eol)))
		if len(got) != 2 || got[0].Entry != want[0] || !got[0].At.Equal(clock()) {
			t.Fatalf("%q: %+v", eol, got)
		}
		if got[1].Entry != want[1] {
			t.Errorf("%q: %+v", eol, got[1])
		}
	}
}

func TestLessons(t *testing.T) {
	for _, c := range []struct{ file, err, keyword, pattern string }{
		{"src/cart.go", "TestTotal/empty: Total([]) = 1, want 0", "src/cart.go", ""},
		{"ts/a.ts", "TS2322: Type 'string' is not assignable to type 'number'.", "ts/a.ts", "is not assignable to type"},
		{"store.py", "F401 `os` imported but unused", "store.py", "imported but unused"},
		{"main.go", "declared and not used: x", "", "declared and not used: x"},
		{"index.ts", "x = 3", "", ""},
		{".", "connect ECONNREFUSED 127.0.0.1:5432", "", "connect ECONNREFUSED"},
		{"a/main.go", "cannot find module `left pad` in the cache of this machine", "a/main.go", "in the cache of this machine"},
	} {
		e := entry(1)
		e.File, e.Error = c.file, c.err
		l := at(t, "")
		record(t, l, e)
		got := ledger.Lessons([]byte(text(t, l)))
		if c.keyword == "" && c.pattern == "" {
			if len(got) != 0 {
				t.Errorf("%s: what cannot fire became a lesson", c.file)
			}
			continue
		}
		if len(got) != 1 {
			t.Fatalf("%s: %d lessons", c.file, len(got))
		}
		k, p := strings.Join(got[0].Trigger.Keywords, "|"), strings.Join(got[0].Trigger.ErrorPatterns, "|")
		if k != c.keyword || p != c.pattern {
			t.Errorf("%s: keywords %q, patterns %q", c.err, k, p)
		}
	}
}

// A bank takes what a ledger proposes, quarantined; what was approved fires on the file and on the error, for its agent.
func TestLessonsReachABank(t *testing.T) {
	l := at(t, "")
	for n := range 20 {
		e := entry(n)
		e.File, e.Error = fmt.Sprintf("src/part%d/cart.go", n), fmt.Sprintf("Type 'x%d' is not assignable to anything", n)
		record(t, l, e)
	}
	b := bank.New(bank.Options{Place: bank.Directory(t.TempDir()), Now: clock})
	scope := lesson.Scope{Tenant: "default", Agent: "coder"}
	for _, own := range []bool{false, true} {
		for i, x := range ledger.Lessons([]byte(text(t, l))) {
			if i%2 == 0 == own {
				continue
			}
			r, err := b.Propose(context.Background(), bank.Proposal{Lesson: x, Source: "ledger", By: "test", Scope: scope, Own: own})
			if err != nil || r.Lesson.State.Fires() != own {
				t.Fatal(own, err, r.Findings)
			}
		}
	}
	book, problems, err := b.List(context.Background())
	if err != nil || len(problems) != 0 || book.Len() != 20 {
		t.Fatal(book.Len(), problems, err)
	}
	q := lesson.Query{Words: []string{"please mend src/part18/cart.go and src/part19/cart.go"}, Tenant: "default", Agent: "coder", Now: time.Now()}
	hits := book.Match(&q)
	if len(hits) != 1 || !strings.HasPrefix(hits[0].Lesson.Slug, "test-the-empty-list-") || !slices.Contains(hits[0].Lesson.Lines(600), "Test the empty list.") {
		t.Fatalf("%+v", hits)
	}
	q.Agent = "other"
	if hits = book.Match(&q); len(hits) != 0 {
		t.Fatal("another agent gets it")
	}
}
