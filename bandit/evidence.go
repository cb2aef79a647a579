package bandit

import (
	"math"

	"precept/bandit/trial"
)

// add adds the deltas of one scope.
func (a *arm) add(ds []trial.Delta) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range ds {
		if pos, ok := find(&ds[i]); ok {
			a.buckets.At(ds[i].Key.Day)[pos.index] += ds[i].Value
			a.total[pos.index] += ds[i].Value
			a.stamp = 0
		}
	}
	a.takeSnapshot()
}

// discounted returns the evidence as of a clock, computed once a day and after each change. The
// buckets are added in the order of days, so that replicas with the same counters agree to the last
// bit, except for rewards of open sessions and the moment of a change point.
func (a *arm) discounted(t *clock) evidence {
	if a.stamp != t.stamp {
		a.cached = a.history(t)
		a.stamp = t.stamp
	}
	return a.cached
}

// counted returns the evidence of the counters alone: without rewards of open sessions, and with
// change points between days only.
func (a *arm) counted(t *clock) evidence {
	return (&arm{buckets: a.buckets, total: a.total}).history(t)
}

// history returns the evidence weighted by age, with almost no weight before a change point.
func (a *arm) history(t *clock) evidence {
	s := a.weightedSums(t, math.MaxInt32)
	if point, changed := a.changePoint(); changed {
		early := a.sumsBefore(&point, t)
		for f := range s {
			s[f] -= (1 - changeKeep) * early[f]
		}
	}
	for f := range s {
		s[f] += float64(a.provisional[f])
	}
	return evidenceOf(s)
}
