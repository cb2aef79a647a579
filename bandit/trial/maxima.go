package trial

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// DiscoveryRate is the share of false ones tolerated among the lessons called proven.
const DiscoveryRate = 0.05

// Maxima looks at the arms that changed since it was last called, and returns the running maxima
// that rose: the caller keeps them, merged by maximum, and other replicas Raise them. They are in
// force here already. It also says what day it is (see Today), so a recorder that calls it after
// each batch needs no clock work of its own.
//
// The maxima stand outside the sums because they remember the path: evidence once reached stays, as
// a p-value may, while the sums would follow every later correction.
func (c *Counters) Maxima(now time.Time) []Delta {
	c.dirtyMu.Lock()
	changed := make([]Arm, 0, len(c.dirty))
	for k := range c.dirty {
		changed = append(changed, k)
	}
	clear(c.dirty)
	c.dirtyMu.Unlock()
	slices.Sort(changed)
	var out []Delta
	for _, k := range changed {
		out = c.scope(string(k), true).rise(out, k, now)
	}
	return out
}

// rise compares both e-values with their maxima.
func (s *sums) rise(out []Delta, k Arm, now time.Time) []Delta {
	s.mu.Lock()
	defer s.mu.Unlock()
	out = s.raise(out, k, fEmaxUp, Fixed(logE(s.up())))
	out = s.raise(out, k, fEmaxDown, Fixed(logE(s.down())))
	return s.markSettled(s.markProven(out, k, now), k, now)
}

// raise raises a maximum; the caller holds mu.
func (s *sums) raise(out []Delta, k Arm, field string, v int64) []Delta {
	kept := &s.maxima[fields[field].at]
	if v <= *kept {
		return out
	}
	*kept = v
	return append(out, Delta{Key{Scope: string(k), Field: field}, v})
}

// markSettled keeps how far from 0 the arm's own interval has ever been, and marks an arm whose
// interval lay within what matters. Both stay, as the mark of markProven does, for the same reason:
// the smaller holdout that follows widens the interval again. They may, because the interval holds
// at all times at once. The caller holds mu.
func (s *sums) markSettled(out []Delta, k Arm, now time.Time) []Delta {
	n := real64(s.total[iN])
	injected, withheld := real64(s.overall[iM1]), real64(s.overall[iM0])
	if !Enough(n, injected, withheld) {
		return out
	}
	m, v := Moments(n, real64(s.total[iZ]), real64(s.total[iZZ]))
	if Claimable(injected, withheld) {
		side := fOutUp
		if !(m > 0) {
			side = fOutDown
		}
		out = s.raise(out, k, side, Fixed(-logExclusion(m, n, v, TightLesson)))
	}
	if w := HalfWidth(n, v, TightLesson); s.maxima[iIdleAt] == 0 && m-w >= -Material && m+w <= Material {
		out = s.raise(out, k, fIdleAt, max(now.Unix(), 1))
	}
	return out
}

// provenAt is the evidence at which a lesson counts as proven for its holdout: p = 1/20, for this
// lesson by itself. The report's "proven" asks for more, because it corrects for all lessons;
// waiting for that would cost the agents one fifth of a good lesson for many sessions, and it is no
// claim that anybody reads.
const provenAt = 20

// markProven marks an arm whose holdout may shrink from now on; the caller holds mu. The mark
// stays: the smaller holdout widens the interval again, and that must not take the proof back.
func (s *sums) markProven(out []Delta, k Arm, now time.Time) []Delta {
	if s.maxima[iProvenAt] != 0 || real64(s.maxima[iEmaxUp]) < math.Log(provenAt) {
		return out
	}
	return s.raise(out, k, fProvenAt, max(now.Unix(), 1))
}

// Proof is up to which p-value evidence is a discovery over all arms ever tested, in both
// directions, -1 when none is, and the p-value at which one more would be one.
func (c *Counters) Proof() (bar, next float64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var ps []float64
	tests := 0
	for _, s := range c.arms {
		s.mu.Lock()
		if s.total[iN] > 0 || s.maxima[iEmaxUp] > 0 || s.maxima[iEmaxDown] > 0 {
			tests += 2
			for _, e := range s.maxima[:iEmaxDown+1] {
				if p := PValue(float64(e) / One); p <= DiscoveryRate {
					ps = append(ps, p)
				}
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(ps, cmp.Compare[float64])
	return Discoveries(ps, tests, DiscoveryRate), NextDiscovery(ps, tests, DiscoveryRate)
}
