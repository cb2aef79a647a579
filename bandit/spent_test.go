package bandit

import (
	"testing"

	"precept/trial"
)

// What a session cost goes to the arm in which each lesson was, to the token, however long it was.
func TestSpent(t *testing.T) {
	a := &Assignment{Picks: []Pick{{Arm: "in@1", Eps: 0.2, Injected: true}, {Arm: "out@1", Eps: 0.5}, {Arm: "sure@1", Injected: true}}}
	c := New()
	c.Add(a.Spent(trial.Usage{Input: 123_456_789, Cached: 100_000_001}))
	c.Add(a.Spent(trial.Usage{Input: 11, Cached: 12})) // more than there is: a broken upstream
	c.Add(a.Spent(trial.Usage{}))                      // it did not say
	want := Spending{2, 123_456_800, 100_000_012}
	if got := c.Stats("in@1").Spent; got != [2]Spending{1: want} {
		t.Errorf("injected: %+v", got)
	}
	if got := c.Stats("out@1").Spent; got != [2]Spending{0: want} {
		t.Errorf("withheld: %+v", got)
	}
	if got := c.Stats("sure@1").Spent; got != [2]Spending{} {
		t.Errorf("without a coin: %+v", got)
	}
	a.Excluded = true
	if got := a.Spent(trial.Usage{Input: 1}); got != nil {
		t.Errorf("excluded: %v", got)
	}
	for _, f := range []string{"", "0", "spent", "spent2", "cached", "closed1"} {
		if i, ok := spentField(f); ok {
			t.Errorf("%q is field %d", f, i)
		}
	}
}
