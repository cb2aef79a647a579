package admin

import "precept/report"

// effect is what was measured, with its 95% interval, in units of reward. One that may not be shown
// is nil.
type effect struct{ size, lo, hi float64 }

// shownOf is the effect of a row that may be read: an invalid row has none.
func shownOf(l *report.Row) *effect {
	if l.Verdict == report.Invalid || l.Effect == nil || l.Lo == nil || l.Hi == nil {
		return nil
	}
	return &effect{*l.Effect, *l.Lo, *l.Hi}
}

// globalOf is the same of all lessons together.
func globalOf(g *report.Global) *effect {
	return shownOf(&report.Row{Verdict: g.Verdict, Effect: g.Effect, Lo: g.Lo, Hi: g.Hi})
}

func (e *effect) points() string {
	if e == nil {
		return none
	}
	return points(&e.size)
}

func (e *effect) interval() string {
	if e == nil {
		return "not enough data"
	}
	return points(&e.lo) + " to " + points(&e.hi)
}

// tone colours an interval that excludes nothing-at-all.
func (e *effect) tone() string {
	switch {
	case e != nil && e.lo > 0:
		return "good"
	case e != nil && e.hi < 0:
		return "bad"
	default:
		return ""
	}
}
