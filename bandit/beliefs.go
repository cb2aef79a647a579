package bandit

import (
	"math"

	"precept/bandit/trial"
)

// reading is a way to read an arm's evidence.
type reading func(*arm, *clock) evidence

// Posterior is what the chooser believes of an action's arm, today.
func (c *Chooser) Posterior(k Action) Posterior { return c.posterior(k, (*arm).discounted, true) }

// Counted is what the counters alone make one believe: the same on every replica, after a restart,
// and whatever the order in which rewards were told. The chooser's own belief knows more: what open
// sessions told, and a change point within a day.
func (c *Chooser) Counted(k Action) Posterior { return c.posterior(k, (*arm).counted, false) }

func (c *Chooser) posterior(k Action, how reading, chooses bool) Posterior {
	var open int64
	if chooses && k.Trial != "" {
		c.mu.RLock()
		open = c.open[trial.LookScope(k.Arm, k.Trial)]
		c.mu.RUnlock()
	}
	far := c.measured.Progress(k.Arm, k.Until, k.Trial, open)
	c.mu.RLock()
	defer c.mu.RUnlock()
	b := c.priors.update(c.read(k.Arm, how), c.prior(k, how))
	return Posterior{
		Mean: b.m, Var: b.v, Match: b.del, Proven: far.Proven, Reached: far.Reached,
		Probe:   b.benched(),
		Leaning: b.leaning(), Trusted: b.trusted(), Settled: far.Settled,
	}
}

// Baseline is the sessions of a category and the sum of their rewards less what lessons explain.
func (c *Chooser) Baseline(category string) (n, sum float64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b := c.cats[categoryScope(category)]
	if b == nil {
		return 0, 0
	}
	return real64(b.v[iCN] + b.provisional[iCN]), real64(b.v[iCS] + b.provisional[iCS])
}

// RawCounts are the rewards of the sessions that had the lesson, as successes and failures.
func (c *Chooser) RawCounts(k trial.Arm) (successes, failures float64) {
	s := c.measured.Stats(k)
	return s.Y1, max(0, s.M1-s.Y1)
}

// MeanAt is the posterior mean effect as it would be with only the sessions that started before a
// day: whether a lesson has been without promise for long is read off the buckets, so that nobody
// has to keep a diary.
func (c *Chooser) MeanAt(k Action, day int32) float64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	before := func(a *arm, t *clock) evidence {
		return evidenceOf(a.weighed(newClock(0, day, t.halfLife), day))
	}
	return c.priors.update(c.read(k.Arm, before), c.prior(k, (*arm).counted)).m
}

// read is the evidence of an arm, none of one that is not known. The caller holds mu.
func (c *Chooser) read(k trial.Arm, how reading) evidence {
	a := c.arms[k]
	if a == nil {
		return evidence{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return how(a, c.clock)
}

// prior is the mean that an action starts from. The heir of a superseded lesson gets half of what
// that came to, but starts no lower than any newcomer; an edited text gets half of what the old
// text came to, but stays where it can be tried. The caller holds mu.
func (c *Chooser) prior(k Action, how reading) float64 {
	own := c.priors.mean(k.Confidence)
	parent, floor := c.before(k), minPrior
	if parent == "" {
		parent = k.Parent
	}
	if parent != "" && parent.Slug() != k.Slug {
		floor = minMu0
	}
	if parent == "" || parent == k.Arm {
		return own
	}
	return math.Max(floor, c.priors.update(c.read(parent, how), own).m/2)
}

// before finds the text that a lesson had before this one: the arm of the same slug that was first
// used last, and before this arm was. The caller holds mu.
func (c *Chooser) before(k Action) trial.Arm {
	arms := c.slugs[k.Slug]
	if len(arms) == 0 || (len(arms) == 1 && arms[0] == k.Arm) {
		return ""
	}
	limit, ok := c.firstUse(k.Arm)
	if !ok {
		limit = math.MaxInt32
	}
	var best trial.Arm
	newest := int32(math.MinInt32)
	for _, other := range arms {
		first, ok := c.firstUse(other)
		if other == k.Arm || !ok || first > limit || (first == limit && other > k.Arm) {
			continue
		}
		if first > newest || (first == newest && other > best) {
			best, newest = other, first
		}
	}
	return best
}

func (c *Chooser) firstUse(k trial.Arm) (day int32, ok bool) {
	a := c.arms[k]
	if a == nil {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.buckets) == 0 {
		return 0, false
	}
	return a.buckets[0].Key, true
}
