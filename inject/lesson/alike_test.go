package lesson

import "testing"

func TestPossibleDuplicates(t *testing.T) {
	newLesson := func(slug, title string, change func(l *Lesson), keywords ...string) *Lesson {
		l := &Lesson{Slug: slug, Title: title, Outcome: "success", State: Active}
		l.Trigger.Keywords = keywords
		if change != nil {
			change(l)
		}
		return l
	}
	b := NewBook([]*Lesson{
		newLesson("pin", "Pin the dependency that moved.", nil, "a dependency that moved", "pip"),
		newLesson("pin-rejected", "Pin moved dependencies", func(l *Lesson) { l.State = Rejected }, "a dependency that moved"),
		newLesson("old-pin", "Pin the dependency", nil, "a dependency that moved"),
		newLesson("other-agent", "Pin the dependency that moved.", func(l *Lesson) { l.Scope.Agent = "reviewer" }, "a dependency that moved"),
		newLesson("never", "Never pin a dependency that moved.", nil, "a dependency that moved"),
		newLesson("other-advice", "Ask a person for the version.", nil, "a dependency that moved"),
		newLesson("other-trigger", "Pin the dependency that moved.", nil, "a flaky pipeline"),
	})
	l := newLesson("pin-again", "Pin the dependency that moved!", func(l *Lesson) {
		l.State, l.Scope.Agent, l.Supersedes = Candidate, "coder", []string{"old-pin"}
	}, "A dependency that moved")
	var got []string
	for _, x := range b.AppendLesson(l).PossibleDuplicates(l) {
		got = append(got, x.Slug)
	}
	if len(got) != 2 || got[0] != "pin" || got[1] != "pin-rejected" {
		t.Errorf("PossibleDuplicates = %q, want pin and pin-rejected", got)
	}
}
