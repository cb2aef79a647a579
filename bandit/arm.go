package bandit

import (
	"slices"
	"sync"

	"precept/bandit/trial"
)

// arm is the chooser's knowledge of one arm. mu guards all fields and is a leaf lock.
type arm struct {
	mu      sync.Mutex
	buckets trial.Rows[int32, [armFields]int64] // by day
	total   [armFields]int64

	provisional [armFields]int64 // rewards of open sessions
	snapshots   snapshots        // earlier states of the evidence

	stamp  uint64   // clock of seen; 0: stale
	cached evidence // discounted evidence
}

// clone copies the counters. State that only this process has is left out.
func (a *arm) clone() *arm {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &arm{buckets: slices.Clone(a.buckets), total: a.total}
}

// weightedSums returns the sums over the buckets before a day, each bucket weighted by its age.
func (a *arm) weightedSums(t *clock, before int32) (s [armFields]float64) {
	for i := range a.buckets {
		if a.buckets[i].Key >= before {
			break
		}
		w := t.weight(a.buckets[i].Key)
		for f := range s {
			s[f] += w * float64(a.buckets[i].V[f])
		}
	}
	return s
}

// snapshot is the state of the evidence at a moment, with the rewards of open sessions.
type snapshot struct {
	day int32 // newest bucket of the snapshot
	v   [armFields]int64
}

type snapshots struct {
	list  []snapshot
	every int64
}
