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

// calls returns the number of backend calls of one operation since the previous call of takeCalls.
func (r *fixture) calls(op string) (n int) {
	for _, call := range r.be.takeCalls() {
		if call == op {
			n++
		}
	}
	return n
}

// If the close of every session in a batch panics, the session after the batch still closes in the same pass.
func TestSessionAfterFailingBatchCloses(t *testing.T) {
	t.Parallel()
	last := sessionOf("last")
	r := newFixture(t, func(o *options) {
		o.Hooks.Before = func(step label.Step, id session.ID, _ string) {
			if step == "close" && id != last {
				panic("poison")
			}
		}
	})
	for i := range learn.CloseBatch {
		r.beginSession(tenantA, fmt.Sprint("s", i), picked(true))
	}
	r.clk.add(time.Second)
	r.beginSession(tenantA, "last", picked(true))
	r.advancePastClose()
	same(t, "version of the last session", r.applied(last).Version, 1)
	same(t, "closed sessions in the tally", r.Learner.Tally.Closed.Load(), 1)
	same(t, "sessions set aside", r.Store.Tally.SetAside.Load(), learn.CloseBatch)
}

// If a correction panics while the program stops, the session is recorded as a dead letter.
func TestPanicDuringShutdownIsRecorded(t *testing.T) {
	t.Parallel()
	p := &panickingStep{step: "correct", id: sessionOf("s")}
	r := newFixture(t, func(o *options) { o.Hooks.Before = p.before })
	id := r.addSession("s", picked(true))
	r.advancePastClose()
	r.postFeedback(tenantA, id, score("late", 1, 1))
	if err := r.drain(); err != nil {
		t.Fatal(err)
	}
	same(t, "panics", p.panics.Load(), 1)
	if m := r.deadLetters(); len(m) != 1 || m[0].ID != id || m[0].Step != "correct" {
		t.Errorf("dead letters = %+v, want one for session %v and step \"correct\"", m, id)
	}
}

// The learner counts exchanges without a sample every few seconds, not at each search for due sessions.
func TestUnsampledExchangesAreCountedEveryFewSeconds(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.addSession("s", picked(true))
	for _, want := range []int{1, 0, 1, 0} {
		r.closeDue(r.ctx())
		same(t, "calls of Unsampled", r.calls("unsampled"), want)
		r.clk.add(learn.UnsampledEvery / 2)
	}
}

// A reward that the learner reads only at close counts toward the number of rewards after which the priors are fitted,
// here 2.
func TestRewardReadAtCloseCountsTowardRefit(t *testing.T) {
	t.Parallel()
	r := newFixture(t, nil)
	r.Beliefs(tenantA)
	r.RefitAfter(tenantA, 2)
	for i, fitted := range []bool{false, true, false} {
		id := r.beginSession(tenantA, fmt.Sprint("s", i), picked(true))
		r.Deliver(r.ctx())
		r.postFeedback(tenantA, id, score("a", 1, 1))
		r.clk.add(closeAge + time.Second)
		r.Deliver(r.ctx())
		r.be.takeCalls()
		r.closeDue(r.ctx())
		same(t, fmt.Sprintf("session s%d: rewarded", i), r.applied(id).Rewarded, true)
		same(t, fmt.Sprintf("session s%d: priors written", i), slices.Contains(r.be.takeCalls(), "priors"), fitted)
	}
}
