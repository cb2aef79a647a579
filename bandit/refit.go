package bandit

import (
	"maps"
	"slices"

	"precept/bandit/trial"
)

// SetPriors puts priors in force that a replica has fitted.
func (c *Chooser) SetPriors(p Priors) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.priors = p.sane()
}

// Priors are those in force.
func (c *Chooser) Priors() Priors {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.priors
}

// Refit fits the priors in force to the lessons that were injected at least five times (discounted)
// and returns them with the next version. Nothing changes until SetPriors.
func (c *Chooser) Refit() Priors {
	c.mu.RLock()
	defer c.mu.RUnlock()
	p := c.priors
	p.Sigma2 = c.residual()
	var es []evidence
	for _, k := range slices.Sorted(maps.Keys(c.arms)) { // in a fixed order: sums of floats depend on it
		a := c.arms[k]
		a.mu.Lock()
		e := a.discounted(c.clock).safe()
		a.mu.Unlock()
		if e.n1 >= 5 {
			es = append(es, e)
		}
	}
	return p.refit(es).sane()
}

// residual is the variance of a reward around the model: that of a binary reward while nearly all
// rewards are 0 or 1, else what was measured. The caller holds mu.
func (c *Chooser) residual() float64 {
	n, graded := float64(c.tenant[iTold]), float64(c.tenant[iGraded])
	if n < 50*trial.One || graded < 0.05*n {
		return startSigma2
	}
	return clip(float64(c.tenant[iRes2])/n, 0.01, 0.25)
}
