package bandit

import (
	"math"

	"precept/bandit/trial"
)

// Change points. A new model or another code base can turn a helpful lesson into a harmful lesson.
// The discount by days forgets old evidence within weeks. The chooser notices sooner, because the
// rewards of the sessions with the lesson change. The chooser searches for a change point between
// any two parts of an arm's history, and gives the part before a change point almost no weight. The
// report is unaffected: a report keeps every session, and shows windows.
const (
	changeSpread   = 3.5  // standard errors; all arms are tested all the time
	changeShift    = 0.04 // in units of reward; a smaller change may come from offsets that have not converged
	changeSessions = 30   // on each side
	changeKeep     = 0.05 // weight of the evidence before the change point
)

// Density of snapshots: a snapshot every 50 rewarded injections, and half as many each time the
// list is full. Snapshots are local to the process; after a restart the ends of days remain.
const (
	snapshotEvery = 50 * trial.One
	maxSnapshots  = 32
)

// takeSnapshot adds a snapshot of the evidence if a snapshot is due. The caller holds mu.
func (a *arm) takeSnapshot() {
	n, m := a.total[iN1]+a.provisional[iN1], &a.snapshots
	if m.every == 0 {
		m.every = snapshotEvery
	}
	if k := len(m.list); (k > 0 && n < m.list[k-1].v[iN1]+m.every) || n < m.every || len(a.buckets) == 0 {
		return
	}
	if len(m.list) == maxSnapshots {
		for i := range maxSnapshots / 2 {
			m.list[i] = m.list[2*i+1]
		}
		m.list, m.every = m.list[:maxSnapshots/2], 2*m.every
	}
	s := snapshot{day: a.buckets[len(a.buckets)-1].Key}
	for f := range s.v {
		s.v[f] = a.total[f] + a.provisional[f]
	}
	m.list = append(m.list, s)
}

// changePoint returns the moment at which the rewards with the lesson changed most. found is false
// without a significant change. The caller holds mu.
func (a *arm) changePoint() (point snapshot, found bool) {
	n, s := float64(a.total[iN1]+a.provisional[iN1])/trial.One, float64(a.total[iS1]+a.provisional[iS1])/trial.One
	best := changeSpread
	try := func(t *snapshot) {
		nBefore, sBefore := real64(t.v[iN1]), real64(t.v[iS1])
		if nBefore < changeSessions || n-nBefore < changeSessions {
			return
		}
		shift := math.Abs((s-sBefore)/(n-nBefore) - sBefore/nBefore)
		if z := shift / math.Sqrt(startSigma2*(1/nBefore+1/(n-nBefore))); shift > changeShift && z > best {
			best, point, found = z, *t, true
		}
	}
	var sum snapshot
	for i := 0; i < len(a.buckets)-1; i++ {
		sum.day = a.buckets[i].Key
		for f := range sum.v {
			sum.v[f] += a.buckets[i].V[f]
		}
		try(&sum)
	}
	for i := range a.snapshots.list {
		try(&a.snapshots.list[i])
	}
	return point, found
}

// sumsBefore returns the discounted sums before a change point.
func (a *arm) sumsBefore(point *snapshot, t *clock) (s [armFields]float64) {
	rest := point.v
	for i := range a.buckets {
		b := &a.buckets[i]
		if b.Key > point.day {
			break
		}
		w := t.weight(b.Key)
		for f := range s {
			part := b.V[f]
			if b.Key == point.day {
				part = rest[f] // the last day counts up to the snapshot
			}
			rest[f] -= part
			s[f] += w * float64(part)
		}
	}
	return s
}
