//go:build !race

package bandit_test

import (
	"fmt"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

func TestModelNamesAddFewCounters(t *testing.T) {
	c := bandit.New()
	rows := map[string]bool{}
	for i := range 20_000 {
		name := fmt.Sprint("model-", i)
		a := &trial.Assignment{
			Decided: true, Category: "agent|" + name + "|s", Model: name, Base: 0.5,
			Picks: []trial.Pick{{Slug: "a", Arm: "a@1", Eps: 0.5, Offset: 0.5, Centre: 0.5}},
		}
		c.DropProvisional(c.AddProvisional(a, 1, 1))
		c.BoundNames(a)
		for _, d := range append(a.ClosingDeltas(), bandit.Contribution(a, 1, 1)...) {
			rows[d.Key.Scope+" "+d.Key.Field] = true
			c.Add([]trial.Delta{d})
		}
	}
	if len(rows) > 400 {
		t.Errorf("20,000 model names added %d counters, want at most 400", len(rows))
	}
	if n, _ := c.Baseline("agent|model-5|s"); n != 1 {
		t.Errorf("early model category: %g sessions, want 1", n)
	}
	if n, _ := c.Baseline("agent|other|s"); n < 19_900 {
		t.Errorf("other models category: %g sessions, want at least 19,900", n)
	}
}
