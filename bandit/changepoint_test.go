package bandit_test

import (
	"math"
	"testing"

	"precept/bandit"
	"precept/bandit/trial"
)

// addDay adds n injected and n/4 withheld picks of arm a on one day. A residual is the reward minus the expected
// reward, and meanResidual is the mean of the residuals. The fields n1 and s1 hold the number and the sum of the
// residuals for injected picks, and n0 and s0 for withheld picks.
func addDay(c *bandit.Chooser, day int32, n int, meanResidual float64) {
	for i := range n {
		y := float64(i/4%2) - 0.5
		c.Add([]trial.Delta{delta("a@1", "n1", day, trial.FixedScale), delta("a@1", "s1", day, trial.Fixed(meanResidual+y))})
		if i%4 == 0 {
			c.Add([]trial.Delta{delta("a@1", "n0", day, trial.FixedScale), delta("a@1", "s0", day, trial.Fixed(y))})
		}
	}
}

// A lesson helps in 2,400 injected picks, and then harms in 600 picks on the same day. The posterior must follow this
// change.
func TestPosteriorFollowsEffectChangeWithinADay(t *testing.T) {
	c := bandit.New()
	c.Advance(10, 30)
	lessonA := lesson("a")
	addDay(c, 10, 2000, 0.1)
	before := c.Posterior(lessonA)
	addDay(c, 10, 400, 0.1)
	if p := c.Posterior(lessonA); math.Abs(p.Mean-before.Mean) > 0.01 || p.Var > before.Var {
		t.Errorf("after 400 more sessions with the same effect: belief = %+v, want the mean to differ by at most 0.01 from %+v and no larger variance", p, before)
	}
	addDay(c, 10, 600, -0.1)
	if p := c.Posterior(lessonA); p.Mean > 0 {
		t.Errorf("harmful lesson: belief = %+v, want Mean <= 0; before the change %+v", p, before)
	}
	if s := c.TrialCounters().Stats(lessonA.Arm); s.Days[0].N1 != 3000 {
		t.Errorf("days in the report = %+v, want N1 = 3000 on the first day", s.Days)
	}
}

// After a restart, a chooser has only each day's totals. Three slightly worse days are not a change.
func TestPosteriorFollowsEffectChangeBetweenDays(t *testing.T) {
	var days []trial.Delta
	for d := range int32(20) {
		level := int64(trial.FixedScale / 10)
		if d >= 17 {
			level = -level
		}
		days = append(days, delta("a@1", "n1", d, 100*trial.FixedScale), delta("a@1", "s1", d, 100*level),
			delta("a@1", "n0", d, 25*trial.FixedScale))
	}
	c := bandit.New()
	c.Advance(19, 1000)
	c.Add(days)
	if p := c.Posterior(lesson("a")); p.Mean > 0 {
		t.Errorf("Posterior = %+v, want Mean <= 0", p)
	}
	if p := c.PosteriorFromCounters(lesson("a")); p.Mean > 0 {
		t.Errorf("PosteriorFromCounters = %+v, want Mean <= 0", p)
	}
	// The last 3 of 20 days have a mean residual of 0.07 instead of 0.1.
	c = bandit.New()
	c.Advance(19, 1000)
	for i := range days {
		if days[i].Key.Field == "s1" && days[i].Key.Day >= 17 {
			days[i].Value = 100 * 7 * trial.FixedScale / 100
		}
	}
	c.Add(days)
	if p := c.Posterior(lesson("a")); p.Mean < 0.07 {
		t.Errorf("after three slightly worse days: Posterior = %+v, want Mean >= 0.07", p)
	}
}

// A snapshot holds an arm's sums at one moment, to find a change in the effect.
func TestSnapshotCountIsLimited(t *testing.T) {
	c := bandit.New()
	for i := range 20_000 {
		c.Add([]trial.Delta{delta("a@1", "n1", int32(i/3000), trial.FixedScale), delta("a@1", "s1", int32(i/3000), 1)})
		if i%97 == 0 { // withdraw a reward
			c.Add([]trial.Delta{delta("a@1", "n1", int32(i/3000), -trial.FixedScale), delta("a@1", "s1", int32(i/3000), -1)})
		}
	}
	sessions, days := c.Snapshots("a@1")
	if len(sessions) > bandit.MaxSnapshots || len(sessions) < bandit.MaxSnapshots/2 {
		t.Fatalf("got %d snapshots, want %d to %d", len(sessions), bandit.MaxSnapshots/2, bandit.MaxSnapshots)
	}
	for i := 1; i < len(sessions); i++ {
		if sessions[i] <= sessions[i-1] || days[i] < days[i-1] {
			t.Fatalf("snapshot %d: session counts = %v, days = %v, want increasing counts and nondecreasing days", i, sessions, days)
		}
	}
	if last := sessions[len(sessions)-1]; last < 17_000 {
		t.Errorf("last snapshot after %v sessions, want at least 17000", last)
	}
}
