package bandit

import (
	"cmp"
	"math"
	"slices"
	"time"

	"precept/trial"
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
func (c *Chooser) Maxima(now time.Time) []Delta {
	c.Today(now)
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
		if a := c.scope(string(k), false); a != nil {
			out = a.rise(out, k, now)
		}
	}
	return out
}

// rise compares both e-values with their maxima.
func (a *arm) rise(out []Delta, k Arm, now time.Time) []Delta {
	a.mu.Lock()
	defer a.mu.Unlock()
	if up := trial.Fixed(logE(a.up)); up > a.emaxUp {
		a.emaxUp = up
		out = append(out, Delta{Key: Key{Scope: string(k), Field: fEmaxUp}, Value: up})
	}
	if dn := trial.Fixed(logE(a.dn)); dn > a.emaxDown {
		a.emaxDown = dn
		out = append(out, Delta{Key: Key{Scope: string(k), Field: fEmaxDown}, Value: dn})
	}
	return a.settle(a.bank(out, k, now), k, now)
}

// settle keeps how far from 0 the arm's own interval has ever been, and marks an arm whose interval
// lay within what matters. Both stay, as the mark of bank does, for the same reason: the smaller
// holdout that follows widens the interval again. They may, because the interval holds at all times
// at once. The caller holds mu.
func (a *arm) settle(out []Delta, k Arm, now time.Time) []Delta {
	n, z, zz := real64(a.total[iN]), real64(a.total[iZ]), real64(a.total[iZZ])
	injected, withheld := real64(a.sum[iM1]), real64(a.sum[iM0])
	if !Enough(n, injected, withheld) {
		return out
	}
	raise := func(kept *int64, field string, v int64) {
		if v > *kept {
			*kept = v
			out = append(out, Delta{Key: Key{Scope: string(k), Field: field}, Value: v})
		}
	}
	m := z / n
	v := math.Max(zz/n-m*m, leastVariance)
	if Claimable(injected, withheld) {
		far := trial.Fixed(-logExclusion(m, n, v, TightLesson))
		if m > 0 {
			raise(&a.outUp, fOutUp, far)
		} else {
			raise(&a.outDown, fOutDown, far)
		}
	}
	if w := HalfWidth(n, v, TightLesson); a.idleAt == 0 && m-w >= -Material && m+w <= Material {
		raise(&a.idleAt, fIdleAt, max(now.Unix(), 1))
	}
	return out
}

// settled says that the arm has a verdict of its own, for which it need not be withheld as often
// any more. The caller holds mu.
func (a *arm) settled() bool {
	bar := trial.Fixed(-math.Log(Alpha))
	return a.idleAt > 0 || a.outUp >= bar && a.outDown < bar
}

// bankedAt is the evidence at which a lesson counts as proven for its holdout: p = 1/20, for this
// lesson by itself. The report's "proven" asks for more, because it corrects for all lessons;
// waiting for that would cost the agents one fifth of a good lesson for many sessions, and it is no
// claim that anybody reads.
const bankedAt = 20

// bank marks an arm whose holdout may shrink from now on; the caller holds mu. The mark stays: the
// smaller holdout widens the interval again, and that must not take the proof back.
func (a *arm) bank(out []Delta, k Arm, now time.Time) []Delta {
	if a.provenAt != 0 || real64(a.emaxUp) < math.Log(bankedAt) {
		return out
	}
	a.provenAt = max(now.Unix(), 1)
	return append(out, Delta{Key: Key{Scope: string(k), Field: fProvenAt}, Value: a.provenAt})
}

// Proof is the largest p-value that counts as a discovery over all arms ever tested, in both
// directions; -1 when none does.
func (c *Chooser) Proof() float64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var ps []float64
	tests := 0
	for _, a := range c.arms {
		a.mu.Lock()
		if a.total[iN] > 0 || a.emaxUp > 0 || a.emaxDown > 0 {
			tests += 2
			for _, e := range [2]int64{a.emaxUp, a.emaxDown} {
				if p := PValue(float64(e) / Unit); p <= DiscoveryRate {
					ps = append(ps, p)
				}
			}
		}
		a.mu.Unlock()
	}
	slices.SortFunc(ps, cmp.Compare[float64])
	return Discoveries(ps, tests, DiscoveryRate)
}
