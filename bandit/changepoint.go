package bandit

import (
	"math"

	"precept/bandit/trial"
)

// Change points. A new model or a different code base can turn a helpful lesson into a harmful one. The discount by age
// takes weeks to forget old evidence. Therefore the chooser searches each arm's rewards for a change, and gives the
// evidence before the change almost no weight.
//
// The report is unaffected, because it keeps every session.
const (
	minChangeDeviations = 3.5  // standard errors; large because each arm is tested many times
	minChangeShift      = 0.04 // in reward units; a smaller change may come from expectations still being learned
	minChangeSessions   = 30   // minimum sessions with the lesson, before and after the change
	oldEvidenceWeight   = 0.05 // weight for the evidence before the change point
)

// At first, an arm takes a snapshot every 50 rewarded injections. Each time the list is full, every second snapshot is
// dropped and the interval is doubled.
const (
	snapshotEvery = 50 * trial.FixedScale
	maxSnapshots  = 32
)

// takeSnapshot adds a snapshot if enough rewarded injections have come since the last one. The caller holds mu.
func (a *arm) takeSnapshot() {
	total := a.total()
	n := total[iN1]
	if n < snapshotEvery || len(a.buckets) == 0 {
		return
	}
	m := &a.ensureLocal().snapshots
	if m.interval == 0 {
		m.interval = snapshotEvery
	}
	if k := len(m.list); (k > 0 && n < m.list[k-1].sums[iN1]+m.interval) || n < m.interval {
		return
	}
	if len(m.list) == maxSnapshots {
		for i := range maxSnapshots / 2 {
			m.list[i] = m.list[2*i+1]
		}
		m.list, m.interval = m.list[:maxSnapshots/2], 2*m.interval
	}
	buckets := a.appendBuckets(nil)
	m.list = append(m.list, snapshot{buckets[len(buckets)-1].day, total})
}

// changePoint returns the moment at which the rewards with the lesson changed most, if that change is significant. The
// caller holds mu.
func (a *arm) changePoint(buckets []bucket) (point snapshot, found bool) {
	var total [armFieldCount]int64
	if a.local != nil {
		total = a.local.provisional
	}
	for i := range buckets {
		for f := range total {
			total[f] += buckets[i].sums[f]
		}
	}
	n, s := float64(total[iN1])/trial.FixedScale, float64(total[iS1])/trial.FixedScale
	best := minChangeDeviations
	consider := func(t *snapshot) {
		nBefore, sBefore := fromFixed(t.sums[iN1]), fromFixed(t.sums[iS1])
		if nBefore < minChangeSessions || n-nBefore < minChangeSessions {
			return
		}
		shift := math.Abs((s-sBefore)/(n-nBefore) - sBefore/nBefore)
		if z := shift / math.Sqrt(startRewardVariance*(1/nBefore+1/(n-nBefore))); shift > minChangeShift && z > best {
			best, point, found = z, *t, true
		}
	}
	var sum snapshot
	for i := 0; i < len(buckets)-1; i++ {
		sum.day = buckets[i].day
		for f := range sum.sums {
			sum.sums[f] += buckets[i].sums[f]
		}
		consider(&sum)
	}
	if a.local != nil {
		for i := range a.local.snapshots.list {
			consider(&a.local.snapshots.list[i])
		}
	}
	return point, found
}

func sumsBefore(buckets []bucket, point *snapshot, t *ageWeights) (s [armFieldCount]float64) {
	remaining := point.sums
	for i := range buckets {
		b := &buckets[i]
		if b.day > point.day {
			break
		}
		w := t.weight(b.day)
		for f := range s {
			part := b.sums[f]
			if b.day == point.day {
				part = remaining[f] // the last day counts up to the snapshot
			}
			remaining[f] -= part
			s[f] += w * float64(part)
		}
	}
	return s
}
