package bandit

import (
	"slices"
	"sync"

	"precept/bandit/trial"
)

// arm is what the chooser knows of one arm. Guarded by its own mutex, which is held for sums only,
// never while anything else is waited for.
type arm struct {
	mu      sync.Mutex
	buckets trial.Rows[int32, [ofAnArm]int64] // by day
	total   [ofAnArm]int64

	provisional [ofAnArm]int64 // what open sessions have told so far
	snapshots   snapshots      // how the evidence stood earlier

	stamp uint64   // the clock that seen was computed for; 0: stale
	seen  evidence // discounted
}

// clone copies what was counted; what only this process knows is left out.
func (a *arm) clone() *arm {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &arm{buckets: slices.Clone(a.buckets), total: a.total}
}

// weighed sums the buckets before a day, each by its age.
func (a *arm) weighed(t *clock, before int32) (s [ofAnArm]float64) {
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

// snapshot is how the evidence stood at a moment, with what open sessions had told.
type snapshot struct {
	day int32 // the newest bucket then
	v   [ofAnArm]int64
}

type snapshots struct {
	list  []snapshot
	every int64
}
