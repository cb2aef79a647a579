package learn_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"precept/internal/label"
	"precept/internal/session"
	"precept/learn"
)

// countCalls returns how often the backend operation op was called since the last takeCalls.
func (f *fixture) countCalls(op string) (n int) {
	for _, call := range f.backend.takeCalls() {
		if call == op {
			n++
		}
	}
	return n
}

func TestCloseContinuesAfterFailedBatch(t *testing.T) {
	t.Parallel()
	last := sessionID("last")
	f := newFixture(t, func(o *options) {
		o.Hooks.Before = func(step label.Step, id session.ID, _ string) {
			if step == "close" && id != last {
				panic("poison")
			}
		}
	})
	for i := range learn.CloseBatch {
		f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(injected))
	}
	f.clock.add(time.Second)
	f.beginSession(tenantA, "last", newAssignment(injected))
	f.advancePastClose()
	assertEqual(t, "last session's version", f.settledState(last).Version, 1)
	assertEqual(t, "closed sessions in the metrics", f.Learner.Metrics.Closed.Load(), 1)
	assertEqual(t, "sessions set aside", f.Store.Metrics.SetAside.Load(), learn.CloseBatch)
}

func TestPanicDuringShutdownIsRecorded(t *testing.T) {
	t.Parallel()
	p := &panickingStep{step: "correct", id: sessionID("s")}
	f := newFixture(t, func(o *options) { o.Hooks.Before = p.before })
	id := f.addSession("s", newAssignment(injected))
	f.advancePastClose()
	f.postFeedback(tenantA, id, userScore("late", 1, 1))
	if err := f.drain(); err != nil {
		t.Fatal(err)
	}
	assertEqual(t, "panics", p.panics.Load(), 1)
	if m := f.deadLetters(); len(m) != 1 {
		t.Errorf("dead letters = %+v, want 1 item", m)
	} else if m[0].ID != id {
		t.Errorf("dead letters: ID = %v, want %v", m[0].ID, id)
	} else if m[0].Step != "correct" {
		t.Errorf(`dead letters: Step = %q, want "correct"`, m[0].Step)
	}
}

func TestUnsampledExchangesAreCountedEveryFewSeconds(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.addSession("s", newAssignment(injected))
	for _, want := range []int{1, 0, 1, 0} {
		f.closeDue(f.ctx())
		assertEqual(t, "CountUnsampled calls", f.countCalls("unsampled"), want)
		f.clock.add(learn.CountInterval / 2)
	}
}

// The learner fits the priors again after a number of rewards, including those that it reads only at close.
func TestRewardReadAtCloseCountsTowardRefit(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	f.Beliefs(tenantA)
	f.RefitAfter(tenantA, 2)
	for i, fitted := range []bool{false, true, false} {
		id := f.beginSession(tenantA, fmt.Sprint("s", i), newAssignment(injected))
		f.Deliver(f.ctx())
		f.postFeedback(tenantA, id, userScore("a", 1, 1))
		f.clock.add(closeAge + time.Second)
		f.Deliver(f.ctx())
		f.backend.takeCalls()
		f.closeDue(f.ctx())
		assertEqual(t, fmt.Sprintf("session s%d: rewarded", i), f.settledState(id).Rewarded, true)
		assertEqual(t, fmt.Sprintf("session s%d: priors written", i), slices.Contains(f.backend.takeCalls(), "priors"), fitted)
	}
}
