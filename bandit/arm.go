package bandit

import (
	"sync"

	"precept/bandit/trial"
)

// arm is the chooser's state for one trial.Arm (a lesson in one text and presentation). mu guards all fields except key
// and next, and is a leaf lock. local and cached are pointers to save memory: most arms need neither.
type arm struct {
	key  trial.Arm
	next *arm // guarded by Chooser.mu

	mu      sync.Mutex
	buckets trial.Table // by day
	local   *localState // nil means no state
	cached  *discounted // nil means stale
}

// localState is what only this process knows about an arm.
type localState struct {
	provisional [armFieldCount]int64 // sums over open sessions
	snapshots   snapshots            // sums at earlier moments
}

// discounted is evidence weighted by age.
type discounted struct {
	stamp uint64 // ageWeights.stamp of the weights
	evidence
}

// clone copies the counters, but not the state that only this process has.
func (a *arm) clone() *arm {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &arm{key: a.key, buckets: a.buckets}
}

// The caller holds mu.
func (a *arm) ensureLocal() *localState {
	if a.local == nil {
		a.local = &localState{}
	}
	return a.local
}

func (s *localState) isZero() bool {
	return s.provisional == [armFieldCount]int64{} && len(s.snapshots.list) == 0
}

// total returns the sums over all buckets and over the rewards in open sessions. The caller holds mu.
func (a *arm) total() (v [armFieldCount]int64) {
	if a.local != nil {
		v = a.local.provisional
	}
	var r trial.Row
	for it := a.buckets; it.Next(&r); {
		for f := range v {
			v[f] += r.Values[f]
		}
	}
	return v
}

// bucket holds one day's sums.
type bucket struct {
	day  int32
	sums [armFieldCount]int64
}

func (a *arm) appendBuckets(dst []bucket) []bucket {
	var r trial.Row
	for it := a.buckets; it.Next(&r); {
		dst = append(dst, bucket{int32(r.At), [armFieldCount]int64(r.Values[:armFieldCount])}) //nolint:gosec // a day number fits in an int32
	}
	return dst
}

func weightedSums(buckets []bucket, t *ageWeights, before int32) (s [armFieldCount]float64) {
	for i := range buckets {
		if buckets[i].day >= before {
			break
		}
		w := t.weight(buckets[i].day)
		for f := range s {
			s[f] += w * float64(buckets[i].sums[f])
		}
	}
	return s
}

// snapshot holds an arm's sums at one moment, to find a change within a day.
type snapshot struct {
	day  int32 // newest bucket in the snapshot
	sums [armFieldCount]int64
}

type snapshots struct {
	list     []snapshot
	interval int64 // number of rewarded injections between two snapshots, in millionths
}
