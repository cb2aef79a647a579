package bandit_test

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"precept/bandit"
	"precept/bandit/trial"
)

func newOpenSession(t interface{ Fatal(...any) }, c *bandit.Chooser, n int) *trial.Assignment {
	a := &trial.Assignment{Category: "x", Day: 5}
	bandit.Decide(bandit.Config{K: 1, Epsilon: 0.2, Control: 0.1, Salt: "early"}, c, a, fmt.Sprint("s", n), lessons("a", "b"), 1)
	if !a.Decided {
		t.Fatal("after Decide: Decided = false, want true")
	}
	return a
}

// A provisional reward (of a session that is still open) affects the chooser, but not the report. Dropping the reward
// restores the previous state.
func TestProvisionalRewardAffectsOnlyTheChooser(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := bandit.New()
		for i := range 40 {
			a := newOpenSession(t, c, i)
			c.Add(a.ClosingDeltas())
			c.Add(bandit.Contribution(a, float64(i%2), 1))
		}
		before, cloned := snapshot(c), snapshot(c.Clone())
		var open []bandit.Provisional
		for i := range rapid.IntRange(1, 20).Draw(t, "open") {
			y := rapid.Float64Range(0, 1).Draw(t, "y")
			open = append(open, c.AddProvisional(newOpenSession(t, c, 100+i), y, 1))
		}
		during := snapshot(c)
		if !reflect.DeepEqual(during.stats, before.stats) || !reflect.DeepEqual(during.global, before.global) {
			t.Fatalf("measurements with open sessions = %+v and %+v, want unchanged %+v and %+v", during.stats, during.global, before.stats, before.global)
		}
		if n, _ := c.Baseline("x"); n != 40+float64(len(open)) {
			t.Fatalf("Baseline = %v sessions, want %v", n, 40+float64(len(open)))
		}
		if reflect.DeepEqual(during.beliefs, before.beliefs) {
			t.Fatalf("after provisional rewards: beliefs = %+v, want a change", during.beliefs)
		}
		if !reflect.DeepEqual(snapshot(c.Clone()), cloned) {
			t.Fatalf("clone state = %+v, want %+v, without provisional rewards", snapshot(c.Clone()), cloned)
		}
		if rapid.Bool().Draw(t, "reload") {
			fresh := c.Clone()
			fresh.Inherit(c)
			if c = fresh; !reflect.DeepEqual(snapshot(c), during) {
				t.Fatalf("state after Inherit = %+v, want %+v, with the provisional rewards", snapshot(c), during)
			}
		}
		for _, e := range rapid.Permutation(open).Draw(t, "order") {
			c.DropProvisional(e)
		}
		if after := snapshot(c); !reflect.DeepEqual(after, before) {
			t.Fatalf("state after DropProvisional = %+v, want %+v", after, before)
		}
	})
}

type chooserState struct {
	stats   []trial.Stats
	global  trial.Stats
	beliefs []bandit.Posterior
	n, sum  float64
}

// snapshot returns the beliefs and the baseline, which a provisional reward changes, and the measurements, which a
// provisional reward must not change.
func snapshot(c *bandit.Chooser) (s chooserState) {
	for _, action := range lessons("a", "b") {
		s.stats = append(s.stats, c.TrialCounters().Stats(action.Arm))
		s.beliefs = append(s.beliefs, c.Posterior(action))
	}
	s.global = c.TrialCounters().Global()
	s.n, s.sum = c.Baseline("x")
	return s
}

func TestExcludedSessionAddsNoProvisionalReward(t *testing.T) {
	c := bandit.New()
	a := newOpenSession(t, c, 1)
	a.Excluded = true
	before := snapshot(c)
	if e := c.AddProvisional(a, 1, 1); e.Rewarded() || !reflect.DeepEqual(snapshot(c), before) {
		t.Errorf("excluded session: AddProvisional = %+v, state = %+v, want no reward and state %+v", e, snapshot(c), before)
	}
	var none bandit.Provisional
	c.DropProvisional(none)
}
