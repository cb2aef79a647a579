package bandit

import (
	"math"

	"precept/bandit/trial"
)

// tightCaution is at how many sessions the failures of a lesson are told from chance best: fifteen
// that all fail where one in two would succeed make a caution.
const tightCaution = 100

// turnsCaution is the chance with which a lesson that does nothing may ever become a caution, or
// the opposite. It is small, because a caution begins a new arm: what was counted of the advice
// says nothing of it.
const turnsCaution = 0.002

// aloneCaution is how many sessions must have had a lesson before it is judged with no session to
// compare them with: where a fifth is withheld, one in a thousand lessons comes so far without any.
const aloneCaution = 30

// Published is what the sessions that had the lesson did above and below what the sessions that it
// matches do without it. Both are 0 while they differ by no more than chance makes them differ,
// however often one looks: a lesson that does nothing, looked at after every session, would soon
// stand among the cautions by a fixed number of standard errors, and there it would stay. A lesson
// is a caution when worse exceeds better. Raw counts of successes and failures would not do, nor
// what the kind of work lets expect: both measure how hard the sessions are in which the lesson
// fires, and good lessons fire in hard ones. Where nothing is ever withheld, what the kind of work
// lets expect is all there is.
func (c *Chooser) Published(k trial.Arm) (better, worse float64) {
	s := c.measured.Stats(k)
	n, better, worse := s.M1, s.Better, s.Worse
	if n == 0 {
		return 0, 0
	}
	looks, tight := n, float64(tightCaution)
	e := c.without(k)
	switch without := e.n0 + e.nu; {
	case without > 0:
		mean := (e.s0 + e.su) / without
		better, worse = better-n*math.Max(0, mean), worse+n*math.Min(0, mean)
		looks, tight = n*without/(n+without), tight/5 // a difference of two means, the smaller of them of a fifth of the sessions
	case n < aloneCaution:
		return 0, 0
	}
	if trial.Exclusion((worse-better)/n, looks, c.Priors().Sigma2, tight) > turnsCaution {
		return 0, 0
	}
	return math.Max(0, better), math.Max(0, worse)
}

// without is all that is known of the sessions that an arm matched and that did not have it.
func (c *Chooser) without(k trial.Arm) evidence {
	a := c.arm(k, false)
	if a == nil {
		return evidence{}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return evidence{
		n0: real64(a.total[iN0]), s0: real64(a.total[iS0]), nu: real64(a.total[iNU]),
		su: real64(a.total[iSU]),
	}.safe()
}
