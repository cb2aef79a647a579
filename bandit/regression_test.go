package bandit_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

// sessionWithFacts returns a session whose first request came at the given hour and offered the given number of tools.
func sessionWithFacts(agent string, hour, tools int) trial.Assignment {
	return trial.Assignment{Category: agent + "|gpt|m", StartUnix: int64(86_400*20_000 + 3600*hour), Day: 20_000, Tools: tools, Decided: true, Base: 0.5}
}

// easyMornings returns the deltas of n sessions. Of the sessions in the morning, 80% succeed, and of those in the
// evening, 40%.
func easyMornings(n int) (deltas [][]trial.Delta) {
	r := seededRand("mornings")
	for i := range n {
		hour, chance := 7, 0.8
		if i%2 == 0 {
			hour, chance = 20, 0.4
		}
		a := sessionWithFacts(fmt.Sprint("agent-", r.IntN(2)), hour, 20*r.IntN(2))
		y := 0.0
		if r.Float64() < chance {
			y = 1
		}
		deltas = append(deltas, bandit.Contribution(&a, y, 1))
	}
	return deltas
}

// A regression predicts the reward from facts that are known before the random decision. Decide stores the prediction
// as the Base of the session.
func TestRegressionPredictsRewardFromFacts(t *testing.T) {
	c := bandit.New()
	for _, ds := range easyMornings(2000) {
		c.Add(ds)
	}
	morning, evening := sessionWithFacts("agent-0", 7, 0), sessionWithFacts("agent-0", 20, 0)
	if _, ok := c.Expected(&morning); ok {
		t.Error("Expected without a regression: ok = true, want false")
	}
	c.SetPriors(c.Refit())
	for at, want := range map[*trial.Assignment]float64{&morning: 0.8, &evening: 0.4} {
		if got, ok := c.Expected(at); !ok || math.Abs(got-want) > 0.05 {
			t.Errorf("session at %d: Expected = %.3f, %v, want about %.1f", at.StartUnix, got, ok, want)
		}
	}
	a := trial.Assignment{Category: evening.Category, StartUnix: evening.StartUnix, Day: evening.Day}
	bandit.Decide(bandit.Config{K: 1, Epsilon: 0.2, Salt: "s"}, c, &a, "one", []bandit.Action{{Slug: "a", Arm: "a@1", Confidence: 0.5}}, 1)
	if math.Abs(a.Base-0.4) > 0.05 {
		t.Errorf("evening session: Base = %.3f, want about 0.4", a.Base)
	}
	unknownAgent := sessionWithFacts("new", 7, 60)
	if got, ok := c.Expected(&unknownAgent); !ok || got < 0.6 || got > 0.9 {
		t.Errorf("unknown agent in the morning: Expected = %.3f, %v, want 0.6 to 0.9", got, ok)
	}
}

// If no fact predicts the reward, the predictions stay close to the mean.
func TestRegressionIgnoresUninformativeFacts(t *testing.T) {
	r, c := seededRand("noise"), bandit.New()
	for range 1000 {
		a := sessionWithFacts(fmt.Sprint("agent-", r.IntN(10)), r.IntN(24), r.IntN(50))
		c.Add(bandit.Contribution(&a, float64(r.IntN(2)), 1))
	}
	c.SetPriors(c.Refit())
	var worst float64
	for hour := range 24 {
		a := sessionWithFacts("agent-3", hour, 10)
		got, _ := c.Expected(&a)
		worst = max(worst, math.Abs(got-0.5))
	}
	if worst > 0.08 {
		t.Errorf("worst prediction differs from the mean 0.5 by %.3f, want at most 0.08", worst)
	}
}

// The regression must be the same if a replica adds the sessions in a different order, or withdraws a session and adds
// it again.
func TestRegressionDoesNotDependOnOrder(t *testing.T) {
	all := easyMornings(600)
	one, two := bandit.New(), bandit.New()
	for _, ds := range all {
		one.Add(ds)
	}
	two.Add(all[7])
	two.Add(trial.Negate(all[7]))
	for _, ds := range slices.Backward(all) {
		two.Add(ds)
	}
	a, err := json.Marshal(one.Refit())
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(two.Refit())
	if err != nil {
		t.Fatal(err)
	}
	if string(a) != string(b) {
		t.Errorf("replica priors differ: %s and %s", a, b)
	}
}

// With fewer than RefitEvery rewards, there is no regression. SetPriors drops a regression that contains an infinite
// effect.
func TestRegressionNeedsEnoughRewardsAndFiniteEffects(t *testing.T) {
	c := bandit.New()
	for _, ds := range easyMornings(bandit.RefitEvery - 1) {
		c.Add(ds)
	}
	if p := c.Refit(); p.Regression != nil {
		t.Errorf("%d rewards: regression = %+v, want none", bandit.RefitEvery-1, p.Regression)
	}
	p := c.Priors()
	p.Regression = &bandit.Regression{Effects: map[string]map[string]float64{"hour": {"1": math.Inf(1)}}}
	if c.SetPriors(p); c.Priors().Regression != nil {
		t.Errorf("after SetPriors with an infinite effect: regression = %+v, want none", c.Priors().Regression)
	}
}

// A store from an older version contains sums per category, but no facts. Baseline must still use these sums.
func TestBaselineKeepsOlderStoreCategorySums(t *testing.T) {
	c := bandit.New()
	c.Add([]trial.Delta{delta("x:agent-0|gpt|m", "cn", 0, 10*trial.FixedScale), delta("x:agent-0|gpt|m", "cs", 0, 7*trial.FixedScale)})
	a := sessionWithFacts("agent-0", 7, 0)
	c.Add(bandit.Contribution(&a, 1, 1))
	if n, sum := c.Baseline(a.Category); n != 11 || sum != 8 {
		t.Errorf("Baseline = %v, %v, want 11, 8", n, sum)
	}
}
