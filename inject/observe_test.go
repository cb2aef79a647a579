package inject

import (
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/inject/lesson"
	"precept/internal/wire"
)

func newErrorLesson(slug, pattern string) *lesson.Lesson {
	l := activeLesson(slug, "", "Look.")
	l.Trigger.Keywords, l.Trigger.ErrorPatterns = nil, []string{pattern}
	return l
}

// outcomesAtClose returns the pick's outcomes as if the session closed now.
func (s *testSession) outcomesAtClose(t *testing.T, slug string) trial.Measurement {
	t.Helper()
	a := s.rec.Assignment.Clone()
	a.Observe(s.rec.Thread.Totals)
	p, ok := a.Pick(slug)
	if !ok {
		t.Fatalf("assignment = %+v, want a pick for %s", a, slug)
	}
	return p.Measurement
}

func (s *testSession) endTurnWithUsage(input, output int) {
	s.rec.AddReply(&wire.Reply{Complete: true, Usage: wire.Usage{Input: input, Output: output}})
	s.rec.RecordActivity(s.now)
}

// Errors count only after the pick (the turn in which the lesson was chosen). The failed call that triggers the lesson
// does not count, and each later failed call counts once.
func TestOutcomesAreMeasuredEquallyInBothArms(t *testing.T) {
	for _, form := range forms() {
		var seen [2]trial.Measurement
		for arm, epsilon := range []float64{0, 1} {
			cfg := injectAll()
			cfg.Bandit.Epsilon = epsilon
			s := newTestSession(t, form, cfg, newBook(newErrorLesson("wait", "omega lock"), activeLesson("other", "nothing", "Look.")), "s")
			s.agent.addUserMessage("build")
			s.send()
			s.endTurnWithUsage(100, 10)
			step := func(cmd, out string, failed bool) {
				s.addCallWithResult(cmd, out, failed)
				s.send()
				s.send() // a retry
				s.restart()
				s.now = s.now.Add(time.Second)
				s.endTurnWithUsage(200, 20)
			}
			step("make", "omega lock", true) // the pick
			if m := s.outcomesAtClose(t, "wait"); !m.Outcomes.Has(trial.Recurrence) || m.Recurred || m.After[trial.Errors] != 0 || m.After[trial.Turns] != 0 || m.After[trial.Tokens] != 220 {
				t.Errorf("%s: outcomes at the pick = %+v, want 220 tokens and all others 0", form, m)
			}
			step("make x", "the sky is blue", true)
			if m := s.outcomesAtClose(t, "wait"); m.Recurred || m.After[trial.Errors] != 1 {
				t.Errorf("%s: outcomes after a different error = %+v, want 1 error and no recurrence", form, m)
			}
			step("ls", "fine", false)
			step("make y", "omega lock", true)
			s.agent.addAnswer("done")
			s.agent.addUserMessage("No, that is wrong. Undo it.")
			s.send()
			seen[arm] = s.outcomesAtClose(t, "wait")
			if got, want := seen[arm].After, [trial.OutcomeCount]int64{
				trial.Recurrence: 1, trial.Errors: 2, trial.Loops: 0, trial.Corrections: 1, trial.Turns: 4, trial.Tokens: 880, trial.Seconds: 12_000,
			}; got != want {
				t.Errorf("%s, epsilon %v: outcomes after the pick = %v, want %v", form, epsilon, got, want)
			}
		}
		if seen[0] != seen[1] {
			t.Errorf("%s: outcomes = %+v with the lesson and %+v without, want equal outcomes", form, seen[0], seen[1])
		}
	}
}

// An upstream can refuse a request with a lesson. If the failures after the refusal did not count, the lesson would
// seem better than it is.
func TestRefusedSessionIsObservedToItsEnd(t *testing.T) {
	s := newTestSession(t, plainChat, injectAll(), newBook(newErrorLesson("wait", "omega lock")), "s")
	s.agent.addUserMessage("build")
	s.send()
	s.endTurn()
	s.addFailedCall("make", "omega lock")
	s.send()
	New(injectAll()).RecordRefusal(s.rec)
	for range 2 {
		s.endTurn()
		s.addFailedCall("make", "omega lock")
		s.plan(s.agent.body())
	}
	if m := s.outcomesAtClose(t, "wait"); !m.Recurred || m.After[trial.Errors] != 2 || m.After[trial.Loops] == 0 {
		t.Errorf("refused session's outcomes = %+v, want a recurrence, 2 errors and a loop", m)
	}
}

// A recurrence is a later occurrence of the error that a lesson is about. Only distilled lessons are about an error.
func TestRecurrenceIsMeasuredForDistilledLesson(t *testing.T) {
	distilled := activeLesson("distilled", "omega", "Look.")
	distilled.Approval.Source = "distill"
	s := newTestSession(t, plainChat, injectAll(), newBook(activeLesson("plain", "omega", "Look."), distilled), "s")
	s.agent.addUserMessage("omega")
	s.send()
	s.endTurn()
	s.addFailedCall("make", "error: omega")
	s.send()
	if m := s.outcomesAtClose(t, "plain"); m.Outcomes.Has(trial.Recurrence) || m.Recurred && m.After[trial.Recurrence] == 0 || m.After[trial.Errors] != 1 {
		t.Errorf("plain lesson's outcomes = %+v, want 1 error and no recurrence", m)
	}
	if m := s.outcomesAtClose(t, "distilled"); !m.Outcomes.Has(trial.Recurrence) || !m.Recurred {
		t.Errorf("distilled lesson's outcomes = %+v, want a recurrence", m)
	}
}
