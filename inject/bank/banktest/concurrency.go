package banktest

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"precept/inject/bank"
	"precept/inject/lesson"
)

func testConcurrentWrites(t *testing.T, f *fixture) {
	t.Helper()
	const writers, lessonsEach = 4, 3
	var wg sync.WaitGroup
	for w := range writers {
		b := f.open(bank.Limits{}) // as in another process
		wg.Go(func() {
			for i := range lessonsEach {
				slug := fmt.Sprintf("at-once-%c%c", 'a'+w, 'a'+i)
				if _, err := b.Propose(t.Context(), bank.Proposal{Lesson: draft(slug), Source: "api"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	book, problems, err := f.Bank.List(t.Context())
	if err != nil || book.Len() != writers*lessonsEach || len(problems) > 0 {
		t.Errorf("List: problems = %v, err = %v, want none, nil and %d lessons", problems, err, writers*lessonsEach)
	}
	if got := f.events(t); len(got) != writers*lessonsEach {
		t.Errorf("got %d events, want %d", len(got), writers*lessonsEach)
	}
}

// testConcurrentRecords tests that concurrent calls of Record lose no lesson and use no number twice.
func testConcurrentRecords(t *testing.T, f *fixture) {
	t.Helper()
	const n = 300
	texts := map[string][]byte{}
	for i := range n {
		slug := fmt.Sprintf("known-%03d", i)
		texts[slug+".md"] = manualText(slug)
	}
	if _, _, err := f.Bank.Replace(t.Context(), texts, "ann"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			l := draft(fmt.Sprintf("written-%03d", i))
			l.Slug = ""
			scope := lesson.Scope{Tenant: "acme", Agent: fmt.Sprint("agent-", i%10)}
			r, outcome, err := f.Bank.Record(t.Context(), bank.Proposal{Lesson: l, Source: "writ", Scope: scope})
			if err != nil || outcome != bank.RecordedNew || r.Lesson.Number == 0 {
				t.Errorf("Record(lesson %d): recorded as %s, err = %v, want %s with a number", i, outcome, err, bank.RecordedNew)
			}
		})
	}
	wg.Wait()
	book, problems, err := f.Bank.List(t.Context())
	if err != nil || book.Len() != 2*n || len(problems) > 0 {
		t.Fatalf("List: problems = %v, err = %v, want none, nil and %d lessons", problems, err, 2*n)
	}
	numbers := map[lesson.Scope]map[int]bool{}
	for _, l := range book.Lessons() {
		if l.Number > 0 {
			if numbers[l.Scope] == nil {
				numbers[l.Scope] = map[int]bool{}
			}
			numbers[l.Scope][l.Number] = true
		}
	}
	for scope, used := range numbers {
		if len(used) != n/10 || !used[1] || !used[n/10] {
			t.Errorf("scope %v: numbers = %v, want 1 to %d", scope, used, n/10)
		}
	}
}

// testOutdatedTexts tests that changing an outdated version or text writes nothing.
func testOutdatedTexts(t *testing.T, f *fixture) {
	t.Helper()
	before, err := f.storage.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Bank.Put(t.Context(), "one.md", manualText("one"), "ann"); err != nil {
		t.Fatal(err)
	}
	current, err := f.storage.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]bank.Change{
		"old version":                {Version: before.Version, Edits: []bank.Edit{{Name: "two.md", New: manualText("two")}}},
		"old text":                   {Version: current.Version, Edits: []bank.Edit{{Name: "one.md", Old: []byte("other"), New: manualText("one")}}},
		"new text under a used name": {Version: current.Version, Edits: []bank.Edit{{Name: "one.md", New: manualText("one")}}},
		"deletion of a missing text": {Version: current.Version, Edits: []bank.Edit{{Name: "two.md", New: manualText("two")}, {Name: "no.md", Old: []byte("x")}}},
	} {
		if err := f.storage.Commit(t.Context(), c); !errors.Is(err, bank.ErrChanged) {
			t.Errorf("Commit(%s) error = %v, want %v", name, err, bank.ErrChanged)
		}
	}
	if after, err := f.storage.Read(t.Context()); err != nil || len(after.Texts) != 1 || after.Version != current.Version {
		t.Errorf("Read: %d texts, version %s, err = %v, want 1 text and version %s", len(after.Texts), after.Version, err, current.Version)
	}
}
