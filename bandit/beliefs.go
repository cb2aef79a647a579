package bandit

import (
	"math"

	"precept/bandit/trial"
)

// evidenceFunc returns an arm's evidence, weighted by age.
type evidenceFunc func(*arm, *ageWeights) evidence

// Posterior returns the belief about the action's arm, as of today.
func (c *Chooser) Posterior(action Action) Posterior {
	return c.posterior(action, (*arm).discounted, true)
}

// TrialBegan reports whether the arm's planned trial has a rewarded pick, in a closed or open session.
func (c *Chooser) TrialBegan(k trial.Arm, name string) bool {
	c.mu.RLock()
	open := c.openPicks[trial.PlannedScope(k, name)]
	c.mu.RUnlock()
	return open > 0 || c.trialCounters.TrialPicks(k, name) > 0
}

// PosteriorFromCounters returns the belief from the counters alone, so the belief is identical on every replica and
// after a restart. Posterior also uses the rewards in open sessions, and change points (sudden changes in the rewards)
// within a day.
func (c *Chooser) PosteriorFromCounters(action Action) Posterior {
	return c.posterior(action, (*arm).counted, false)
}

// posterior returns the belief from the evidence that readEvidence returns. If withOpen is true, picks in open sessions
// also count towards a planned trial.
func (c *Chooser) posterior(action Action, readEvidence evidenceFunc, withOpen bool) Posterior {
	var open int64
	if withOpen && action.Trial != "" {
		c.mu.RLock()
		open = c.openPicks[trial.PlannedScope(action.Arm, action.Trial)]
		c.mu.RUnlock()
	}
	progress := c.trialCounters.Progress(action.Arm, action.Until, action.Trial, open)
	c.mu.RLock()
	defer c.mu.RUnlock()
	b := c.priors.posterior(c.armEvidence(action.Arm, readEvidence), c.prior(action, readEvidence))
	return Posterior{
		Mean: b.mean, Var: b.variance, MatchEffect: b.matchEffect, Proven: progress.Proven, TrialEnded: progress.TrialEnded,
		Benched: b.isBenched(),
		Leaning: b.isLeaning(), Trusted: b.isTrusted(), Concluded: progress.Concluded,
	}
}

// Baseline returns the number of rewarded sessions in a category (agent, model and message length), and the sum of
// their rewards minus the predicted lesson effects.
func (c *Chooser) Baseline(category string) (n, sum float64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b := c.categories[categoryScope(c.withCountedAgent(category))]
	if b == nil {
		return 0, 0
	}
	return fromFixed(b.closed[iCN] + b.provisional[iCN]), fromFixed(b.closed[iCS] + b.provisional[iCS])
}

// Rewards returns the number of rewarded sessions in the counters.
func (c *Chooser) Rewards() int {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int(c.tenant[iRewarded] / trial.FixedScale)
}

// IsModelUnseen reports whether an arm's evidence comes from other models only.
func (c *Chooser) IsModelUnseen(k trial.Arm, model string) bool {
	return c.trialCounters.IsModelUnseen(k, model)
}

// RawCounts returns sums over the rewards y with the lesson: the sum of y as successes, and the sum of 1 - y as
// failures.
func (c *Chooser) RawCounts(k trial.Arm) (successes, failures float64) {
	s := c.trialCounters.Stats(k)
	return s.Rewards.Y1, max(0, s.Rewards.M1-s.Rewards.Y1)
}

// MeanBefore returns the posterior mean effect from the sessions that started before a day.
func (c *Chooser) MeanBefore(action Action, day int32) float64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	evidenceBefore := func(a *arm, t *ageWeights) evidence {
		return newEvidence(weightedSums(a.appendBuckets(nil), newAgeWeights(0, day, t.halfLife), day))
	}
	return c.priors.posterior(c.armEvidence(action.Arm, evidenceBefore), c.prior(action, (*arm).counted)).mean
}

// The caller holds mu.
func (c *Chooser) armEvidence(k trial.Arm, readEvidence evidenceFunc) evidence {
	a := c.find(k)
	if a == nil {
		return evidence{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return readEvidence(a, c.ageWeights)
}

// prior returns an action's prior mean effect. An edited text starts from half the old text's mean. A lesson that
// supersedes another starts from half the other lesson's mean. The result is always positive, because a lesson without
// an expected gain would never be tried. The caller holds mu.
func (c *Chooser) prior(action Action, readEvidence evidenceFunc) float64 {
	newLessonMean := c.priors.mean(action.Confidence)
	parent, floor := c.previousArm(action), minPriorMean
	if parent == "" {
		parent = action.Parent
	}
	if parent != "" && parent.Slug() != action.Slug {
		floor = minMeanEffect
	}
	if parent == "" || parent == action.Arm {
		return newLessonMean
	}
	return math.Max(floor, c.priors.posterior(c.armEvidence(parent, readEvidence), newLessonMean).mean/2)
}

// previousArm returns the arm of the lesson's previous text. Among the arms with the same slug that were used before
// this arm, it is the one whose first use is the latest. The caller holds mu.
func (c *Chooser) previousArm(action Action) trial.Arm {
	texts := c.arms[action.Slug]
	if texts == nil || (texts.next == nil && texts.key == action.Arm) {
		return ""
	}
	limit, ok := c.firstUse(action.Arm)
	if !ok {
		limit = math.MaxInt32
	}
	var best trial.Arm
	newest := int32(math.MinInt32)
	for text := texts; text != nil; text = text.next {
		other := text.key
		first, ok := c.firstUse(other)
		if other == action.Arm || !ok || first > limit || (first == limit && other > action.Arm) {
			continue
		}
		if first > newest || (first == newest && other > best) {
			best, newest = other, first
		}
	}
	return best
}

func (c *Chooser) firstUse(k trial.Arm) (day int32, ok bool) {
	a := c.find(k)
	if a == nil {
		return 0, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var first trial.Row
	oldest := a.buckets
	ok = oldest.Next(&first)
	return int32(first.At), ok //nolint:gosec // a day number fits in an int32
}
