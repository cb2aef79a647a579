package report

import (
	"math"
	"slices"
	"strings"
)

// axis is the effect at the right end of a plot; the left end is the negative effect.
type axis float64

const plotWidth = 21 // odd: 0 is in the middle

// plot draws an interval as "---o---", with a | at 0, and an arrow where the interval exceeds the axis.
func (a axis) plot(effect, lo, hi *float64) string {
	cells := []byte(strings.Repeat(" ", plotWidth))
	cells[plotWidth/2] = '|'
	if effect == nil || lo == nil || hi == nil {
		return string(cells)
	}
	first, last := a.cell(*lo), a.cell(*hi)
	for i := first; i <= last; i++ {
		if cells[i] == ' ' {
			cells[i] = '-'
		}
	}
	if *lo < -float64(a) {
		cells[first] = '<'
	}
	if *hi > float64(a) {
		cells[last] = '>'
	}
	cells[a.cell(*effect)] = 'o'
	return string(cells)
}

func (a axis) cell(x float64) int {
	half := float64(plotWidth / 2)
	if math.IsNaN(x) {
		return plotWidth / 2
	}
	return int(math.Round(half + math.Max(-1, math.Min(1, x/float64(a)))*half))
}

// plotAxis returns a table's axis. A few wide intervals of new lessons may exceed the axis, so that narrow intervals
// stay readable.
func (r Report) plotAxis() axis {
	var ends []float64
	addEnds := func(lo, hi *float64) {
		if lo != nil && hi != nil {
			ends = append(ends, math.Max(math.Abs(*lo), math.Abs(*hi)))
		}
	}
	addEnds(r.Global.Lo, r.Global.Hi)
	for i := range r.Lessons {
		addEnds(r.Lessons[i].Lo, r.Lessons[i].Hi)
	}
	if len(ends) == 0 {
		return 0.1
	}
	slices.Sort(ends)
	typical := ends[len(ends)*3/5]
	for _, step := range []float64{0.05, 0.1, 0.2, 0.3, 0.5} {
		if typical <= step {
			return axis(step)
		}
	}
	return 1
}
