package store

import (
	"testing"
	"time"

	"precept/bandit"
)

var looked = bandit.Candidate{Slug: "look-twice", Arm: "look-twice@0123456789ab", Confidence: 0.5} //nolint:gochecknoglobals // the lesson of picked

// The chooser learns from what an open session told; the counters, and with them the report, wait for its closing.
func TestTheChooserKnowsEarly(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	mean := func() float64 { return r.Beliefs(us).Posterior(looked).Mean }
	id := r.played("s", picked(true))
	prior := mean()
	r.tell(us, id, score("f1", 1, 1))
	r.resettle(r.ctx())
	up := mean()
	if up <= prior {
		t.Fatalf("a success was told: %v, was %v", up, prior)
	}
	same(t, "counters of an open session", r.counters(us), none)
	r.tell(us, id, score("f2", 2, 0))
	r.resettle(r.ctx())
	if down := mean(); down >= prior {
		t.Fatalf("it was a failure: %v, was %v", down, prior)
	}
	r.age()
	same(t, "open sessions", len(r.early.sessions), 0)
	closed := mean()
	again := openRig(t, r.dir, r.clk, nil)
	if fresh := again.Beliefs(us).Posterior(looked).Mean; fresh != closed {
		t.Errorf("believed %v of a closed session; the store says %v", closed, fresh)
	}
}

// After a restart, what open sessions told is learned again; so it is when another process has closed them meanwhile.
func TestEarlySurvivesARestartAndAnotherReplica(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.played("s", picked(true))
	r.tell(us, id, score("f1", 1, 1))
	r.resettle(r.ctx())
	want := r.Beliefs(us).Posterior(looked)
	r.clk.add(time.Minute)
	again := openRig(t, r.dir, r.clk, nil)
	again.closeDue(again.ctx())
	sameList(t, "failures", again.failed(), nil)
	if got := again.Beliefs(us).Posterior(looked); got != want {
		t.Errorf("after a restart %+v, was %+v", got, want)
	}
	same(t, "recalled", again.early.recalled, true)
	r.age() // the other one closes it
	same(t, "open sessions there", len(again.early.sessions), 1)
	r.clk.add(time.Minute)
	again.closeDue(again.ctx())
	same(t, "open sessions", len(again.early.sessions), 0)
}
