package trial

import "math"

// Progress is the state of the measurement of an arm, which decides the size of the holdout and the end of a trial.
type Progress struct {
	Proven     bool // E+ reached 20 at some time
	Concluded  bool // the interval was above 0 and never below, or within the material size
	TrialEnded bool // the trial has the requested width or number of picks
}

// Progress returns the state of an arm. until is the half-width at which its trial ends (0: no limit), planned is the
// name of its planned trial (empty: none), and open is the number of rewarded picks that are not in the counters yet.
func (c *Counters) Progress(k Arm, until float64, planned string, open int64) (p Progress) {
	if s := c.sumsOf(string(k), false); k != "" && s != nil {
		s.mu.Lock()
		p = Progress{
			Proven: s.row(rowMaxima)[iProvenAt] > 0, Concluded: s.isConcluded(), TrialEnded: s.hasReachedWidth(until),
		}
		s.mu.Unlock()
	}
	if n := PlannedPicks(planned); n > 0 && !p.TrialEnded {
		t := entryOf(&c.mu, c.planned, PlannedScope(k, planned), false)
		p.TrialEnded = t.count()+open >= n
	}
	return p
}

// TrialPicks returns the number of closed rewarded picks of a planned trial.
func (c *Counters) TrialPicks(k Arm, name string) int64 {
	return entryOf(&c.mu, c.planned, PlannedScope(k, name), false).count()
}

// isConcluded reports whether the interval of the arm alone gives a verdict. The caller holds mu.
func (s *sums) isConcluded() bool {
	bar := Fixed(-math.Log(Alpha))
	v := s.row(rowMaxima)
	return v[iNoEffectAt] > 0 || v[iMaxAbove] >= bar && v[iMaxBelow] < bar
}

// hasReachedWidth reports whether the interval was ever as narrow as the trial requires. The width alone decides, so
// that no trial ends because of the position of the interval. The caller holds mu.
func (s *sums) hasReachedWidth(until float64) bool {
	total := s.row(rowTotal)
	n := fromFixed(total[iN])
	if !(until > 0) || n < MinPicks {
		return false
	}
	_, v := Moments(n, fromFixed(total[iZ]), fromFixed(total[iZZ]))
	w := HalfWidth(n, v, LessonTightestAt)
	if s.narrowest == 0 || w < s.narrowest {
		s.narrowest = w
	}
	return s.narrowest <= until
}
