package bandit

import (
	"math"

	"precept/bandit/trial"
)

// RefitEvery is the number of rewards between two refits. One replica publishes the result for all.
const RefitEvery = 250

// Priors is the belief about a lesson without evidence. The effect is normal with a mean near MeanEffect. The match
// effect is normal with mean 0.
type Priors struct {
	Version        int64   `json:"version"`
	MeanEffect     float64 `json:"mu0"`
	EffectVariance float64 `json:"t02"`
	MatchVariance  float64 `json:"w2"`
	RewardVariance float64 `json:"sigma2"` // reward variance around the model

	Regression *Regression `json:"regression,omitempty"` // nil below RefitEvery rewards

	Rewards int `json:"rewards,omitempty"` // rewarded sessions at the fit, including open sessions; 0 means unknown
}

// Starting values, also for the pseudoLessons in a refit.
const (
	startMeanEffect     = 0.01
	startPriorVariance  = 0.04 * 0.04
	startMatchVariance  = 0.1 * 0.1
	startRewardVariance = 0.24 // variance of a binary reward

	minMeanEffect    = 0.01 // a refit never goes below the three minima here
	minPriorVariance = 0.0002
	minMatchVariance = 0.0005
	pseudoLessons    = 10    // lessons with the starting values that a refit adds to the tenant's lessons
	minPriorMean     = 0.001 // smallest prior mean; a lesson with 0 or less would never be tried

	confidenceSlope = 0.04 // change in the prior mean per unit of declared confidence
)

// DefaultPriors returns the priors for a tenant without history.
func DefaultPriors() Priors {
	return Priors{MeanEffect: startMeanEffect, EffectVariance: startPriorVariance, MatchVariance: startMatchVariance, RewardVariance: startRewardVariance}
}

// sanitize replaces unusable numbers, because other processes write the stored priors.
func (p Priors) sanitize() Priors {
	usableOr := func(x, smallest, fallback float64) float64 {
		if !(x >= smallest && x <= 1) {
			return fallback
		}
		return x
	}
	p.MeanEffect = usableOr(p.MeanEffect, minMeanEffect, startMeanEffect)
	p.EffectVariance = usableOr(p.EffectVariance, minPriorVariance, startPriorVariance)
	p.MatchVariance = usableOr(p.MatchVariance, minMatchVariance, startMatchVariance)
	p.RewardVariance = usableOr(p.RewardVariance, 0.001, startRewardVariance)
	if !p.Regression.isUsable() {
		p.Regression = nil
	}
	return p
}

func (p Priors) mean(confidence float64) float64 {
	if !(confidence >= 0 && confidence <= 1) {
		confidence = 0.5
	}
	return math.Max(minPriorMean, p.MeanEffect+confidenceSlope*(confidence-0.5))
}

// evidence holds discounted session counts and residual sums for three groups of sessions: lesson injected, lesson
// withheld, and match without a pick.
type evidence struct{ injected, injectedSum, withheld, withheldSum, unpicked, unpickedSum float64 }

func newEvidence(s [armFieldCount]float64) evidence {
	for f := range s {
		s[f] /= trial.FixedScale
	}
	return evidence{s[iN1], s[iS1], s[iN0], s[iS0], s[iNU], s[iSU]}
}

// nonNegative replaces negative counts. A count is negative if a correction arrives before the reward that it corrects.
func (e evidence) nonNegative() evidence {
	pair := func(n, s *float64) {
		if !(*n > 0) || math.IsNaN(*s) {
			*n, *s = 0, 0
		}
	}
	pair(&e.injected, &e.injectedSum)
	pair(&e.withheld, &e.withheldSum)
	pair(&e.unpicked, &e.unpickedSum)
	return e
}

// belief holds an arm's mean and variance, for the effect and for the match effect.
type belief struct{ mean, variance, matchEffect, matchVariance, picks float64 }

// posterior returns a linear model's posterior. In the model, the expected residual in a session with a match is the
// match effect, plus the lesson's effect if the lesson was injected. The noise variance is RewardVariance.
func (p Priors) posterior(e evidence, priorMean float64) belief {
	e = e.nonNegative()
	rest, sum := e.withheld+e.unpicked, e.withheldSum+e.unpickedSum
	// a, b and d are the posterior's precision matrix, with the match effect first; r0 and r1 are the right-hand side.
	a := 1/p.MatchVariance + (rest+e.injected)/p.RewardVariance
	b := e.injected / p.RewardVariance
	d := 1/p.EffectVariance + e.injected/p.RewardVariance
	r0 := (sum + e.injectedSum) / p.RewardVariance
	r1 := priorMean/p.EffectVariance + e.injectedSum/p.RewardVariance
	det := a*d - b*b
	return belief{
		mean: (a*r1 - b*r0) / det, variance: a / det, matchEffect: (d*r0 - b*r1) / det, matchVariance: d / det,
		picks: e.injected + e.withheld,
	}
}

// refit fits the priors to the arms' evidence in three expectation maximisation steps. It adds pseudoLessons artificial
// lessons, so that a tenant's first few lessons change the priors little.
func (p Priors) refit(arms []evidence) Priors {
	for range 3 {
		bs := make([]belief, len(arms))
		mean := pseudoLessons * startMeanEffect
		for i, e := range arms {
			bs[i] = p.posterior(e, p.MeanEffect)
			mean += bs[i].mean
		}
		k := float64(len(arms)) + pseudoLessons
		p.MeanEffect = math.Max(minMeanEffect, mean/k)
		t, w := pseudoLessons*startPriorVariance, pseudoLessons*startMatchVariance
		for _, b := range bs {
			t += (b.mean-p.MeanEffect)*(b.mean-p.MeanEffect) + b.variance
			w += b.matchEffect*b.matchEffect + b.matchVariance
		}
		p.EffectVariance = math.Max(minPriorVariance, t/k)
		p.MatchVariance = math.Max(minMatchVariance, w/k)
	}
	p.Version++
	return p
}
