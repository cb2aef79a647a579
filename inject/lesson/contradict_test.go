package lesson

import (
	"fmt"
	"slices"
	"testing"
)

// Contradicting must not compare the lesson with every lesson in the book, which would need more allocations.
func TestContradictingUsesIndex(t *testing.T) {
	var list []*Lesson
	for i := range 50 {
		list = append(list, &Lesson{Slug: fmt.Sprintf("l%02d", i), State: Active, Outcome: "success", Trigger: Trigger{Keywords: []string{fmt.Sprintf("number %d", i)}}})
	}
	list = append(list, &Lesson{Slug: "other", State: Active, Outcome: "failure", Trigger: Trigger{Keywords: []string{"number 7"}}})
	b := NewBook(list)
	if got := b.Contradicting(list[7]); len(got) != 1 || got[0].Slug != "other" {
		t.Fatalf("Contradicting(l07) = %v, want only the lesson \"other\"", got)
	}
	if n := testing.AllocsPerRun(20, func() { b.Contradicting(list[3]) }); n > 20 {
		t.Errorf("Contradicting with 51 lessons allocates %.0f times, want at most 20", n)
	}
}

func TestOppositeTitlesContradict(t *testing.T) {
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"Always wait for the page before clicking", "Never wait for the page before clicking", true},
		{"Always wait ...", "Never wait ...", true},
		{"Always wait for the selector", "Never wait", true},
		{"Wait for CI", "Do not wait for CI", true},
		{"Wait for CI", "Don’t wait for CI", true},
		{"Retry a 503", "Avoid retrying a 503", true},
		{"Use pnpm", "Never use pnpm.", true},
		{"Run the tests before a push", "Skip the tests", true},
		{"When paging, wait for the page", "When paging, never wait for the page", true},
		{"Immer auf die Seite warten", "Nie auf die Seite warten", true},
		{"Toujours attendre la page", "Ne jamais attendre la page", true},
		{"总是等待页面", "不要等待页面", true},
		{"Never skip the tests", "Always run the tests", false},
		{"Never wait for the page", "Avoid waiting for the page", false},
		{"Always run the tests", "Never push on a Friday", false},
		{"Always wait for the page", "Never click before the page is there", false},
		{"Use pnpm", "Use npm", false},
		{"Always", "Never", false},
		{"", "", false},
	} {
		a, b := newClaim(&Lesson{Title: tc.a}), newClaim(&Lesson{Title: tc.b})
		if got, reverse := a.hasOppositeAdvice(b), b.hasOppositeAdvice(a); got != tc.want || reverse != tc.want {
			t.Errorf("%q and %q: hasOppositeAdvice = %t, in reverse order %t, want %t", tc.a, tc.b, got, reverse, tc.want)
		}
	}
}

// Rejected, archived, superseded and expired lessons contradict no lesson.
func TestContradictingDependsOnState(t *testing.T) {
	newLesson := func(slug, title, outcome, source string, state State) *Lesson {
		l := lessonWithKeywords(slug, "load more")
		l.Title, l.Outcome, l.State, l.Approval.Source = title, outcome, state, source
		return l
	}
	for _, state := range []State{Candidate, Quarantined, Trial, Active, Caution, Benched} {
		for _, outcome := range []string{"success", "failure", "mixed"} {
			always := newLesson("always-wait", "Always wait for the page", "success", "", Active)
			never := newLesson("never-wait", "Never wait for the page", outcome, "distill", state)
			b := NewBook([]*Lesson{always, never})
			for _, l := range b.Lessons() {
				if got := b.Contradicting(l); len(got) != 1 {
					t.Errorf("%s, %s: %s contradicts %d lessons, want 1", state, outcome, l.Slug, len(got))
				}
				if got := (Checker{}).CheckLesson(l, b); !slices.ContainsFunc(got, func(f Finding) bool { return f.Code == codeContradiction }) {
					t.Errorf("%s, %s: findings for %s = %v, want a contradiction", state, outcome, l.Slug, got)
				}
			}
		}
	}
	for _, state := range []State{Rejected, Archived, Superseded, Expired} {
		b := NewBook([]*Lesson{
			newLesson("always-wait", "Always wait for the page", "success", "", Active),
			newLesson("never-wait", "Never wait for the page", "failure", "", state),
		})
		if got := b.Contradicting(b.Lessons()[0]); len(got) > 0 {
			t.Errorf("always-wait contradicts %d lessons although never-wait is %s, want 0", len(got), state)
		}
	}
}
