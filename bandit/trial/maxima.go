package trial

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// DiscoveryRate is the tolerated share of false discoveries among the proven lessons.
const DiscoveryRate = 0.05

// RaiseMaxima raises the running maxima of the arms that changed since the last call. It returns the raised maxima,
// which the caller stores.
//
// The maxima cannot be computed from the sums: a later correction lowers a sum, but the earlier evidence stays valid.
func (c *Counters) RaiseMaxima(now time.Time) []Delta {
	c.dirtyMu.Lock()
	changed := make([]Arm, 0, len(c.dirtyArms))
	for k := range c.dirtyArms {
		changed = append(changed, k)
	}
	clear(c.dirtyArms)
	c.dirtyMu.Unlock()
	slices.Sort(changed)
	var dst []Delta
	for _, k := range changed {
		dst = c.scopeSums(string(k), true).raiseEValues(dst, k, now)
	}
	return dst
}

func (s *sums) raiseEValues(dst []Delta, k Arm, now time.Time) []Delta {
	s.mu.Lock()
	defer s.mu.Unlock()
	dst = s.raise(dst, k, fEmaxUp, Fixed(logE(s.betsOnHelp())))
	dst = s.raise(dst, k, fEmaxDown, Fixed(logE(s.betsOnHarm())))
	return s.recordConclusion(s.recordProof(dst, k, now), k, now)
}

// raise raises a running maximum to v. The caller holds mu.
func (s *sums) raise(dst []Delta, k Arm, field string, v int64) []Delta {
	index := fields[field].index
	if v <= s.row(rowMaxima)[index] {
		return dst
	}
	s.rows.Change(func(row func(group uint8, at int64) *[Columns]int64) { row(rowMaxima, 0)[index] = v })
	return append(dst, Delta{Key{Scope: string(k), Field: field}, v})
}

// recordConclusion records the interval's largest distance from 0 so far, and the first time that the interval lay
// within MaterialEffect of 0. After a conclusion fewer picks are withheld, so the interval widens again; the earlier
// interval stays valid. The caller holds mu.
func (s *sums) recordConclusion(dst []Delta, k Arm, now time.Time) []Delta {
	total, overall := s.row(rowTotal), s.row(rowOverall)
	n := fromFixed(total[iN])
	injected, withheld := fromFixed(overall[iM1]), fromFixed(overall[iM0])
	if !EnoughForInterval(n, injected, withheld) {
		return dst
	}
	m, v := Moments(n, fromFixed(total[iZ]), fromFixed(total[iZZ]))
	if EnoughForVerdict(injected, withheld) {
		side := fMaxAbove
		if !(m > 0) {
			side = fMaxBelow
		}
		dst = s.raise(dst, k, side, Fixed(-logIntervalPValue(m, n, v, LessonTightestAt)))
	}
	if w := HalfWidth(n, v, LessonTightestAt); s.row(rowMaxima)[iNoEffectAt] == 0 && m-w >= -MaterialEffect && m+w <= MaterialEffect {
		dst = s.raise(dst, k, fNoEffectAt, max(now.Unix(), 1))
	}
	return dst
}

// provenEValue is the e-value at which a lesson starts to be withheld less often. It corresponds to p = 1/20, without a
// correction for the other lessons. The report's verdict "proven" has that correction, so it comes later; if the
// chooser waited for it, a good lesson would be withheld from a fifth of the sessions until then.
const provenEValue = 20

// recordProof records when an arm reached provenEValue. The time is never removed, because the evidence stays valid.
// The caller holds mu.
func (s *sums) recordProof(dst []Delta, k Arm, now time.Time) []Delta {
	if v := s.row(rowMaxima); v[iProvenAt] != 0 || fromFixed(v[iEmaxUp]) < math.Log(provenEValue) {
		return dst
	}
	return s.raise(dst, k, fProvenAt, max(now.Unix(), 1))
}

// DiscoveryBars returns the largest p-value that is a discovery over all arms and both directions, or -1, and the
// p-value at which one more arm would be a discovery.
func (c *Counters) DiscoveryBars() (bar, nextBar float64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var ps []float64
	tests := 0
	for _, s := range c.arms {
		s.mu.Lock()
		if v := s.row(rowMaxima); s.row(rowTotal)[iN] > 0 || v[iEmaxUp] > 0 || v[iEmaxDown] > 0 {
			tests += 2
			for _, e := range v[:iEmaxDown+1] {
				if p := PValue(float64(e) / FixedScale); p <= DiscoveryRate {
					ps = append(ps, p)
				}
			}
		}
		s.mu.Unlock()
	}
	slices.SortFunc(ps, cmp.Compare[float64])
	return Discoveries(ps, tests, DiscoveryRate), NextDiscovery(ps, tests, DiscoveryRate)
}
