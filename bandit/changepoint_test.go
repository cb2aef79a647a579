package bandit_test

import (
	"math"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

// addDay adds to arm a, on one day, n rewarded injections with the mean residual level, and n/4
// withheld picks with the mean residual 0.
func addDay(c *bandit.Chooser, day int32, n int, level float64) {
	for i := range n {
		y := float64(i/4%2) - 0.5
		c.Add([]trial.Delta{delta("a@1", "n1", day, trial.One), delta("a@1", "s1", day, trial.Fixed(level+y))})
		if i%4 == 0 {
			c.Add([]trial.Delta{delta("a@1", "n0", day, trial.One), delta("a@1", "s0", day, trial.Fixed(y))})
		}
	}
}

// The belief about a lesson that turns harmful is negative after 600 sessions of the same day, in
// spite of 2,400 earlier rewards. Without a change of the effect the belief stays.
func TestChangeIsDetectedWithinADay(t *testing.T) {
	c := bandit.New()
	c.Advance(10, 30)
	k := lesson("a")
	addDay(c, 10, 2000, 0.1)
	before := c.Posterior(k)
	addDay(c, 10, 400, 0.1)
	if p := c.Posterior(k); math.Abs(p.Mean-before.Mean) > 0.01 || p.Var > before.Var {
		t.Errorf("without a change the belief is %+v, want about the mean of %+v and no larger variance", p, before)
	}
	addDay(c, 10, 600, -0.1)
	if p := c.Posterior(k); p.Mean > 0 {
		t.Errorf("the belief about a harmful lesson is %+v, want a mean of at most 0; before the change %+v", p, before)
	}
	if s := c.Measured().Stats(k.Arm); s.Days[0].N1 != 3000 {
		t.Errorf("the report lost sessions of the first day: got %+v, want N1 = 3000", s.Days)
	}
}

// After a restart only the totals of the days can be compared.
func TestChangeIsDetectedBetweenDays(t *testing.T) {
	var days []trial.Delta
	for d := range int32(20) {
		level := int64(trial.One / 10)
		if d >= 17 {
			level = -level
		}
		days = append(days, delta("a@1", "n1", d, 100*trial.One), delta("a@1", "s1", d, 100*level),
			delta("a@1", "n0", d, 25*trial.One))
	}
	c := bandit.New()
	c.Advance(19, 1000)
	c.Add(days)
	if p := c.Posterior(lesson("a")); p.Mean > 0 {
		t.Errorf("the belief is %+v, want a mean of at most 0", p)
	}
	if p := c.Counted(lesson("a")); p.Mean > 0 {
		t.Errorf("the belief of the report is %+v, want a mean of at most 0 after the change", p)
	}
	// three slightly worse days of thirty are no change
	c = bandit.New()
	c.Advance(19, 1000)
	for i := range days {
		if days[i].Key.Field == "s1" && days[i].Key.Day >= 17 {
			days[i].Value = 100 * 7 * trial.One / 100
		}
	}
	c.Add(days)
	if p := c.Posterior(lesson("a")); p.Mean < 0.07 {
		t.Errorf("after three slightly worse days the belief is %+v, want a mean of at least 0.07", p)
	}
}

// The snapshots of an arm are limited in number, ascend in sessions and days, and reach the latest
// sessions.
func TestSnapshotHistoryIsBounded(t *testing.T) {
	c := bandit.New()
	for i := range 20_000 {
		c.Add([]trial.Delta{delta("a@1", "n1", int32(i/3000), trial.One), delta("a@1", "s1", int32(i/3000), 1)})
		if i%97 == 0 { // a withdrawn reward does not disturb the estimate
			c.Add([]trial.Delta{delta("a@1", "n1", int32(i/3000), -trial.One), delta("a@1", "s1", int32(i/3000), -1)})
		}
	}
	injected, days := c.Snapshots("a@1")
	if len(injected) > bandit.MaxSnapshots || len(injected) < bandit.MaxSnapshots/2 {
		t.Fatalf("the history has %d snapshots, want %d to %d", len(injected), bandit.MaxSnapshots/2, bandit.MaxSnapshots)
	}
	for i := 1; i < len(injected); i++ {
		if injected[i] <= injected[i-1] || days[i] < days[i-1] {
			t.Fatalf("snapshot %d: got injected %v and days %v, want both in ascending order", i, injected, days)
		}
	}
	if last := injected[len(injected)-1]; last < 17_000 {
		t.Errorf("the last snapshot was taken after %v sessions, want at least 17000", last)
	}
}
