package bandit

import (
	"cmp"
	"slices"

	"precept/bandit/trial"
)

// SetPriors replaces the priors with priors fitted by a replica.
func (c *Chooser) SetPriors(p Priors) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.priors = p.sanitize()
}

// Priors returns the current priors.
func (c *Chooser) Priors() Priors {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.priors
}

// Refit returns priors fitted to the lessons with at least five injections, discounted by age. It does not change the
// chooser; SetPriors does.
func (c *Chooser) Refit() Priors {
	p, es := c.fitInput()
	p = p.refit(es)
	if r := fitRegression(c.sortedCells(), p.RewardVariance); r != nil { // not under the lock, because requests need it
		p.Regression = r
	}
	return p.sanitize()
}

func (c *Chooser) fitInput() (p Priors, es []evidence) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p = c.priors
	p.RewardVariance = c.rewardVariance()
	byKey := func(x, y *arm) int { return cmp.Compare(x.key, y.key) }
	for _, a := range slices.SortedFunc(c.allArms(), byKey) { // float sums depend on the order
		a.mu.Lock()
		e := a.discounted(c.ageWeights).nonNegative()
		a.mu.Unlock()
		if e.injected >= 5 {
			es = append(es, e)
		}
	}
	return p, es
}

// rewardVariance returns the reward variance around the model. As long as nearly all rewards are 0 or 1, it is a binary
// reward's variance. The caller holds mu.
func (c *Chooser) rewardVariance() float64 {
	n, graded := float64(c.tenant[iRewarded]), float64(c.tenant[iGraded])
	if n < 50*trial.FixedScale || graded < 0.05*n {
		return startRewardVariance
	}
	return clip(float64(c.tenant[iSquares])/n, 0.01, 0.25)
}
