package bandit

import (
	"math"

	"precept/bandit/trial"
)

// add takes the deltas of one scope in.
func (a *arm) add(ds []trial.Delta) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range ds {
		if at, ok := find(&ds[i]); ok {
			a.buckets.At(ds[i].Day)[at.at] += ds[i].Value
			a.total[at.at] += ds[i].Value
			a.stamp = 0
		}
	}
	a.remember()
}

// discounted is the evidence as of a clock; it is computed once a day and after each change. The
// buckets are added in the order of days, so that two replicas with the same counters believe the
// same to the last bit; but for what open sessions told one of them, and for the moment at which
// each saw a change point.
func (a *arm) discounted(t *clock) evidence {
	if a.stamp != t.stamp {
		a.seen = a.history(t)
		a.stamp = t.stamp
	}
	return a.seen
}

// counted is the evidence of the counters alone: without what open sessions told, and with no
// change point but those that show between days.
func (a *arm) counted(t *clock) evidence {
	return (&arm{buckets: a.buckets, total: a.total}).history(t)
}

// history is the evidence as the sessions' records have it: by age, and where the lesson changed,
// hardly what lies before.
func (a *arm) history(t *clock) evidence {
	s := a.weighed(t, math.MaxInt32)
	if at, changed := a.changePoint(); changed {
		gone := a.before(&at, t)
		for f := range s {
			s[f] -= (1 - changeKeep) * gone[f]
		}
	}
	for f := range s {
		s[f] += float64(a.provisional[f])
	}
	return evidenceOf(s)
}
