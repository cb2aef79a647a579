package bandit

import (
	"math"

	"precept/bandit/trial"
)

// cautionTightest is the number of sessions at which the test for a caution is most sensitive.
const cautionTightest = 100

// cautionChance is the probability that a lesson without effect ever becomes a caution, or the
// reverse. The probability is small, because a caution begins a new arm without the evidence of the
// advice.
const cautionChance = 0.002

// cautionMinAlone is the minimum number of sessions of a lesson that is judged without a session for
// comparison. With a fifth withheld, one in a thousand lessons gets there without any withheld
// session.
const cautionMinAlone = 30

// Published returns the rewards of the sessions with the lesson above and below the rewards of the
// sessions that matched without the lesson. Both are 0 while the difference is within chance, at
// any number of evaluations: with a fixed number of standard errors, a lesson without effect would soon
// become a caution and stay a caution. A lesson is a caution if worse exceeds better. Raw counts
// and expectations by category fail, because both measure the difficulty of the sessions, and good
// lessons fire in hard sessions. Where nothing is ever withheld, the expectation by category is the
// only comparison.
func (c *Chooser) Published(k trial.Arm) (better, worse float64) {
	s := c.measured.Stats(k)
	n, better, worse := s.Rewards.M1, s.Rewards.Better, s.Rewards.Worse
	if n == 0 {
		return 0, 0
	}
	size, tight := n, float64(cautionTightest)
	e := c.without(k)
	switch without := e.n0 + e.nu; {
	case without > 0:
		mean := (e.s0 + e.su) / without
		better, worse = better-n*math.Max(0, mean), worse+n*math.Min(0, mean)
		size, tight = n*without/(n+without), tight/5 // a difference of two means, the smaller group with a fifth of the sessions
	case n < cautionMinAlone:
		return 0, 0
	}
	if trial.Exclusion((worse-better)/n, size, c.Priors().Sigma2, tight) > cautionChance {
		return 0, 0
	}
	return math.Max(0, better), math.Max(0, worse)
}

// without returns the evidence of the sessions in which an arm matched without an injection.
func (c *Chooser) without(k trial.Arm) evidence {
	a := c.arm(k, false)
	if a == nil {
		return evidence{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	total := (&arm{buckets: a.buckets}).total() // without open sessions
	return evidence{n0: fromFixed(total[iN0]), s0: fromFixed(total[iS0]), nu: fromFixed(total[iNU]), su: fromFixed(total[iSU])}.nonNegative()
}
