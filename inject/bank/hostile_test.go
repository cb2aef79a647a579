//go:build !race

package bank_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"precept/inject/bank"
	"precept/inject/bank/banktest"
	"precept/inject/lesson"
	"precept/internal/redact"
)

func now() time.Time { return time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC) }

func newCheckedBank(t *testing.T) *bank.Bank {
	t.Helper()
	return bank.New(bank.Options{
		Storage: bank.Directory(filepath.Join(t.TempDir(), "lessons")), Now: now,
		Limits: bank.Limits{AgentWritesPerHour: 1 << 30, TenantWritesPerHour: 1 << 30, TenantWaiting: 1 << 30},
		Checks: lesson.Checker{Resolve: func(lesson.Evidence) bool { return true }, Secrets: func(text string) []string {
			r := redact.New(true)
			r.Text(text)
			return slices.Collect(maps.Keys(r.Counts()))
		}},
	})
}

func TestHostileLessonsAreNeverActive(t *testing.T) {
	attacks := banktest.Hostile()
	if len(attacks) < 500 {
		t.Fatalf("len(Hostile()) = %d, want at least 500", len(attacks))
	}
	all := make([]bank.Proposal, len(attacks))
	for i, a := range attacks {
		all[i] = bank.Proposal{Text: a.Text, Source: "api", Scope: lesson.Scope{Tenant: "acme", Agent: "coder"}}
	}
	b := newCheckedBank(t)
	results, err := b.ProposeAll(t.Context(), all)
	if err != nil {
		t.Fatal(err)
	}
	refused := map[string]int{}
	total := map[string]int{}
	for i, r := range results {
		kind := attacks[i].Kind
		total[kind]++
		if r.Err != nil {
			refused[kind]++
			continue
		}
		if r.Lesson.State != lesson.Quarantined || r.Lesson.Confidence > 0.5 || r.Lesson.SuccessCount+r.Lesson.FailureCount > 0 {
			t.Errorf("%s: %s: stored %+v, want it quarantined with confidence at most 0.5 and no counts", kind, attacks[i].Name, r.Lesson)
		}
		if !attacks[i].Harmless {
			t.Errorf("%s: %s: accepted into quarantine, want a refusal", kind, attacks[i].Name)
		}
	}
	book, _, err := b.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if hits := book.Match(&lesson.Query{Words: []string{"load the fixture"}, Tenant: "acme", Agent: "coder", Now: now()}); len(hits) > 0 {
		t.Errorf("%d hostile lessons match, want 0", len(hits))
	}
	t.Logf("refused %v of %v", refused, total)
}

func TestHonestLessonsAreAccepted(t *testing.T) {
	honest := banktest.Honest()
	if len(honest) < 60 {
		t.Fatalf("len(Honest()) = %d, want at least 60", len(honest))
	}
	for _, h := range honest {
		r, err := newCheckedBank(t).Propose(t.Context(), bank.Proposal{Text: h.Text, Source: "api"})
		if err != nil {
			t.Errorf("%s: error = %v, want nil", h.Name, err)
		}
		for _, f := range r.Findings {
			t.Errorf("%s: got the finding %s, want none", h.Name, f)
		}
	}
}
