package bandit

import (
	"math"

	"precept/bandit/trial"
)

// cautionTightestAt is the number of sessions at which the test for a caution is most sensitive.
const cautionTightestAt = 100

// cautionLevel is the level of the test of Published: the largest probability that a lesson without effect ever
// passes, in either direction. The level is small, because a caution begins a new arm without the evidence of the
// advice.
const cautionLevel = 0.002

// cautionMinAlone is the minimum number of sessions with a lesson for a caution if no session matched without the
// lesson. With a fifth of the picks withheld, one in a thousand lessons reaches this number without a withheld session.
const cautionMinAlone = 30

// CautionEvidence returns the sums of the rewards of the sessions with the lesson above and below the rewards of the
// sessions that matched without the lesson. A lesson is presented as a caution if worse exceeds better.
//
// Both sums are 0 unless the difference passes a test that is valid at any number of evaluations. With a test at a
// fixed number of standard errors, a lesson without effect would soon become a caution. The counts of the advice
// would then stop, and the lesson would stay a caution.
//
// Raw counts and expectations by category cannot decide on a caution, because both contain the difficulty of the
// sessions, and good lessons fire in hard sessions. The expectation by category is used only if no session matched
// without the lesson, because it is then the only comparison.
func (c *Chooser) CautionEvidence(k trial.Arm) (better, worse float64) {
	s := c.measured.Stats(k)
	n, better, worse := s.Rewards.M1, s.Rewards.Better, s.Rewards.Worse
	if n == 0 {
		return 0, 0
	}
	size, tightestAt := n, float64(cautionTightestAt)
	e := c.evidenceWithout(k)
	switch without := e.n0 + e.nu; {
	case without > 0:
		mean := (e.s0 + e.su) / without
		better, worse = better-n*math.Max(0, mean), worse+n*math.Min(0, mean)
		size, tightestAt = n*without/(n+without), tightestAt/5 // a difference of two means, the smaller group with a fifth of the sessions
	case n < cautionMinAlone:
		return 0, 0
	}
	if trial.IntervalPValue((worse-better)/n, size, c.Priors().Sigma2, tightestAt) > cautionLevel {
		return 0, 0
	}
	return math.Max(0, better), math.Max(0, worse)
}

// evidenceWithout returns the evidence of the sessions in which an arm matched without an injection.
func (c *Chooser) evidenceWithout(k trial.Arm) evidence {
	a := c.arm(k, false)
	if a == nil {
		return evidence{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	total := (&arm{buckets: a.buckets}).total() // without open sessions
	return evidence{n0: fromFixed(total[iN0]), s0: fromFixed(total[iS0]), nu: fromFixed(total[iNU]), su: fromFixed(total[iSU])}.nonNegative()
}
