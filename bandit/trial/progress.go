package trial

import "math"

// Progress is the state of an arm's measurement. It determines how large a share is withheld, and when a trial ends.
type Progress struct {
	Proven     bool // the e-value for help reached 20 at some time
	Concluded  bool // the interval was above 0 at some time and never below 0, or was within 3 points of 0
	TrialEnded bool // the trial has the requested width or number of picks
}

// Progress returns the arm's state. until is the half-width at which the arm's trial ends, or 0 for no limit. planned
// is the name of the arm's planned trial, or empty if there is none. open is the number of rewarded picks that are not
// in the counters yet.
func (c *Counters) Progress(k Arm, until float64, planned string, open int64) (p Progress) {
	if s := c.scopeSums(string(k), false); k != "" && s != nil {
		s.mu.Lock()
		p = Progress{
			Proven: s.row(rowMaxima)[iProvenAt] > 0, Concluded: s.isConcluded(), TrialEnded: s.hasReachedWidth(until),
		}
		s.mu.Unlock()
	}
	if n := PlannedPicks(planned); n > 0 && !p.TrialEnded {
		t := getOrAdd(&c.mu, c.planned, PlannedScope(k, planned), false)
		p.TrialEnded = t.count()+open >= n
	}
	return p
}

// TrialPicks returns how many closed rewarded picks a planned trial has.
func (c *Counters) TrialPicks(k Arm, name string) int64 {
	return getOrAdd(&c.mu, c.planned, PlannedScope(k, name), false).count()
}

// isConcluded reports whether the arm's interval alone gives a verdict. The caller holds mu.
func (s *sums) isConcluded() bool {
	bar := Fixed(-math.Log(Alpha))
	v := s.row(rowMaxima)
	return v[iNoEffectAt] > 0 || v[iMaxAbove] >= bar && v[iMaxBelow] < bar
}

// hasReachedWidth reports whether the interval was ever as narrow as the trial requires. Only the width counts: a trial
// that ended because of the interval's position would be biased. The caller holds mu.
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
