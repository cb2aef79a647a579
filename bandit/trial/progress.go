package trial

import "math"

// Progress is how far the evidence of an arm has come, by the coins alone: what says how often it
// goes on being withheld, and whether its trial is over.
type Progress struct {
	Proven  bool // E+ once reached 20
	Settled bool // its interval once lay above 0, or within what matters
	Reached bool // its trial has come to the width, or has the picks, that were asked for
}

// Progress tells how far an arm has come whose trial ends at a half-width (0: not by width), or
// after the picks of a planned trial ("": none). open is how many told picks of that trial the
// caller knows of beyond those that were counted.
func (c *Counters) Progress(k Arm, until float64, planned string, open int64) (p Progress) {
	if s := c.scope(string(k), false); k != "" && s != nil {
		s.mu.Lock()
		p = Progress{
			Proven: s.maxima[iProvenAt] > 0, Settled: s.settled(), Reached: s.reached(until),
		}
		s.mu.Unlock()
	}
	if n := Planned(planned); n > 0 && !p.Reached {
		look := entryOf(&c.mu, c.looks, LookScope(k, planned), false)
		p.Reached = look.count()+open >= n
	}
	return p
}

// settled says that the arm has a verdict of its own, for which it need not be withheld as often
// any more. The caller holds mu.
func (s *sums) settled() bool {
	bar := Fixed(-math.Log(Alpha))
	return s.maxima[iIdleAt] > 0 || s.maxima[iOutUp] >= bar && s.maxima[iOutDown] < bar
}

// reached says whether the arm's interval has been as narrow as a trial was to make it. The caller
// holds mu. It asks for the width alone, so that nobody stops a trial because of where the interval
// lies; and once is enough, because the smaller holdout after the trial widens it again.
func (s *sums) reached(until float64) bool {
	n := real64(s.total[iN])
	if !(until > 0) || n < MinPicks {
		return false
	}
	_, v := Moments(n, real64(s.total[iZ]), real64(s.total[iZZ]))
	w := HalfWidth(n, v, TightLesson)
	if s.narrowest == 0 || w < s.narrowest {
		s.narrowest = w
	}
	return s.narrowest <= until
}
