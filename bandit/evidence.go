package bandit

import (
	"math"

	"precept/bandit/trial"
)

func (a *arm) add(ds []trial.Delta) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.buckets.Change(func(bucket func(group uint8, at int64) *[trial.Columns]int64) {
		for i := range ds {
			if pos, ok := findPosition(&ds[i]); ok {
				bucket(0, int64(ds[i].Key.Day))[pos.index] += ds[i].Value
				a.cached = nil
			}
		}
	})
	a.takeSnapshot()
}

// discounted returns the evidence discounted by age. It computes the evidence once a day and after each change. The
// buckets are added in day order, so that replicas agree to the last bit.
func (a *arm) discounted(t *ageWeights) evidence {
	if a.cached == nil || a.cached.stamp != t.stamp {
		a.cached = &discounted{t.stamp, a.history(t)}
	}
	return a.cached.evidence
}

// counted returns the evidence without rewards in open sessions. It considers only change points between days.
func (a *arm) counted(t *ageWeights) evidence {
	return (&arm{buckets: a.buckets}).history(t)
}

// history returns the evidence in all buckets, and gives evidence before a change point almost no weight.
func (a *arm) history(t *ageWeights) evidence {
	var room [64]bucket // on the stack
	buckets := a.appendBuckets(room[:0])
	s := weightedSums(buckets, t, math.MaxInt32)
	if point, changed := a.changePoint(buckets); changed {
		early := sumsBefore(buckets, &point, t)
		for f := range s {
			s[f] -= (1 - oldEvidenceWeight) * early[f]
		}
	}
	if a.local != nil {
		for f := range s {
			s[f] += float64(a.local.provisional[f])
		}
	}
	return newEvidence(s)
}
