package lesson

import "testing"

// A possible duplicate has a trigger in common and a similar title, in any state. A lesson is not a duplicate if it is
// for another agent, is about another action, advises the opposite, has no trigger in common, or is superseded by the
// lesson.
func TestAlikeFindsPossibleDuplicates(t *testing.T) {
	of := func(slug, title string, change func(l *Lesson), keywords ...string) *Lesson {
		l := &Lesson{Slug: slug, Title: title, Outcome: "success", State: Active}
		l.Trigger.Keywords = keywords
		if change != nil {
			change(l)
		}
		return l
	}
	b := NewBook([]*Lesson{
		of("pin", "Pin the dependency that moved.", nil, "a dependency that moved", "pip"),
		of("pin-rejected", "Pin moved dependencies", func(l *Lesson) { l.State = Rejected }, "a dependency that moved"),
		of("old-pin", "Pin the dependency", nil, "a dependency that moved"),
		of("other-agent", "Pin the dependency that moved.", func(l *Lesson) { l.Scope.Agent = "reviewer" }, "a dependency that moved"),
		of("never", "Never pin a dependency that moved.", nil, "a dependency that moved"),
		of("other-act", "Ask a person for the version.", nil, "a dependency that moved"),
		of("other-trigger", "Pin the dependency that moved.", nil, "a flaky pipeline"),
	})
	l := of("pin-again", "Pin the dependency that moved!", func(l *Lesson) {
		l.State, l.Scope.Agent, l.Supersedes = Candidate, "coder", []string{"old-pin"}
	}, "A dependency that moved")
	var got []string
	for _, x := range b.And(l).Alike(l) {
		got = append(got, x.Slug)
	}
	if len(got) != 2 || got[0] != "pin" || got[1] != "pin-rejected" {
		t.Errorf("Alike = %q, want pin and pin-rejected", got)
	}
}
