package bandit

import (
	"math"

	"precept/bandit/trial"
)

// cautionTightestAt is the number of sessions at which the test for a caution is most sensitive.
const cautionTightestAt = 100

// cautionLevel is the largest probability that a lesson without an effect ever passes the CautionEvidence test, in
// either direction. The level is small because a caution is a new arm without evidence.
const cautionLevel = 0.002

// cautionMinAlone is how many sessions a lesson needs before it can become a caution, if every match was injected.
const cautionMinAlone = 30

// CautionEvidence compares the rewards with the lesson to the mean reward in matching sessions without the lesson.
// better is the sum of the distances above this mean, and worse the sum of the distances below. A lesson is presented
// as a caution if worse exceeds better.
//
// Both sums are 0 unless the difference passes a test that is valid however often it is repeated. A test at a fixed
// number of standard errors would soon turn a lesson without an effect into a caution. The lesson would then stay a
// caution, because no session would get the advice any more.
//
// If no session matched without the lesson, the sums are relative to the expected rewards, which do not show how hard
// the matching sessions are.
func (c *Chooser) CautionEvidence(k trial.Arm) (better, worse float64) {
	s := c.trialCounters.Stats(k)
	n, better, worse := s.Rewards.M1, s.Rewards.Better, s.Rewards.Worse
	if n == 0 {
		return 0, 0
	}
	size, tightestAt := n, float64(cautionTightestAt)
	e := c.evidenceWithout(k)
	switch without := e.withheld + e.unpicked; {
	case without > 0:
		mean := (e.withheldSum + e.unpickedSum) / without
		better, worse = better-n*math.Max(0, mean), worse+n*math.Min(0, mean)
		size, tightestAt = n*without/(n+without), tightestAt/5 // the smaller group has a fifth of the sessions
	case n < cautionMinAlone:
		return 0, 0
	}
	if trial.IntervalPValue((worse-better)/n, size, c.Priors().RewardVariance, tightestAt) > cautionLevel {
		return 0, 0
	}
	return math.Max(0, better), math.Max(0, worse)
}

// evidenceWithout returns the evidence from sessions with a match but without an injection.
func (c *Chooser) evidenceWithout(k trial.Arm) evidence {
	a := c.arm(k, false)
	if a == nil {
		return evidence{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	total := (&arm{buckets: a.buckets}).total() // without open sessions
	return evidence{
		withheld: fromFixed(total[iN0]), withheldSum: fromFixed(total[iS0]),
		unpicked: fromFixed(total[iNU]), unpickedSum: fromFixed(total[iSU]),
	}.nonNegative()
}
