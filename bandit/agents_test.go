package bandit_test

import (
	"fmt"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

// The number of agents with their own categories is limited. The sessions of all other agents share the category of the
// agent "other", also after a restart and in a clone.
func TestAgentNamesAddFewCategories(t *testing.T) {
	c := bandit.New()
	scopes, all := map[string]bool{}, []trial.Delta(nil)
	for i := range 20_000 {
		a := &trial.Assignment{Decided: true, Category: fmt.Sprintf("job-%d|gpt|m", i), Model: "gpt", Base: 0.5}
		c.DropProvisional(c.AddProvisional(a, 1, 1))
		c.BoundNames(a)
		ds := append(a.ClosingDeltas(), bandit.Contribution(a, 1, 1)...)
		for _, d := range ds {
			scopes[d.Key.Scope] = true
		}
		c.Add(ds)
		all = append(all, ds...)
	}
	if len(scopes) > 40 {
		t.Errorf("20,000 agent names added %d counter scopes, want at most 40", len(scopes))
	}
	restarted := bandit.New()
	restarted.Add(all)
	for name, c := range map[string]*bandit.Chooser{"chooser": c, "restarted chooser": restarted, "clone": c.Clone()} {
		for category, want := range map[string]float64{"job-5|gpt|m": 1, "job-19999|gpt|m": 19_968, "other|gpt|m": 19_968} {
			if n, _ := c.Baseline(category); n != want {
				t.Errorf("%s: category %s has %g sessions, want %g", name, category, n, want)
			}
		}
		a := &trial.Assignment{Category: "new|gpt|m", Model: "gpt"}
		if c.BoundNames(a); a.Category != "other|gpt|m" {
			t.Errorf("%s: a new agent is counted in category %q, want other|gpt|m", name, a.Category)
		}
	}
}

func TestOpenSessionsBeyondAgentLimitShareBaseline(t *testing.T) {
	c := bandit.New()
	for i := range 40 {
		a := &trial.Assignment{Decided: true, Category: fmt.Sprintf("agent-%d|gpt|m", i), Model: "gpt", Base: 0.5}
		c.BoundNames(a)
		c.Add(bandit.Contribution(a, 0, 1))
	}
	before, _ := c.Baseline("late|gpt|m")
	open := c.AddProvisional(&trial.Assignment{Decided: true, Category: "later|gpt|m", Model: "gpt", Base: 0.5}, 1, 1)
	n, sum := c.Baseline("late|gpt|m")
	if before != 8 || n != 9 || sum != 1 {
		t.Errorf("baseline = %g sessions before the open session, then %g with sum %g, want 8, 9 and 1", before, n, sum)
	}
	c.DropProvisional(open)
	if n, _ := c.Baseline("late|gpt|m"); n != 8 {
		t.Errorf("after dropping the open session: baseline = %g sessions, want 8", n)
	}
}
