package admin

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
)

// effect is a measured effect on the reward, with a 95% interval. A nil effect is not shown.
type effect struct{ size, lo, hi float64 }

// rowEffect returns a row's effect, or nil if there is none or the verdict is invalid.
func rowEffect(l *report.Row) *effect {
	if l.Verdict == report.Invalid || l.Effect == nil || l.Lo == nil || l.Hi == nil {
		return nil
	}
	return &effect{*l.Effect, *l.Lo, *l.Hi}
}

func globalEffect(g *report.Global) *effect {
	return rowEffect(&report.Row{Verdict: g.Verdict, Effect: g.Effect, Lo: g.Lo, Hi: g.Hi})
}

// stillCounting is shown in place of a figure with too little data.
const stillCounting = "counting …"

func (e *effect) points() string {
	if e == nil {
		return stillCounting
	}
	return points(&e.size)
}

func (e *effect) interval() string {
	if e == nil {
		return "not enough data"
	}
	return points(&e.lo) + " to " + points(&e.hi)
}

// tone returns "good" if the interval is above 0, "bad" if it is below 0, and "" otherwise.
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

// Sizes in SVG units.
const (
	plotWidth  = 240.0
	plotMargin = 10.0
)

// axis maps effects to the plot width. All rows on a page share one axis, which contains 0.
type axis struct {
	lo, hi, step float64
	factor       float64 // from an effect to the number on the scale
	unit         string
}

// fitAxis returns a plot's axis. If zoom is positive, the axis reaches from -zoom to zoom points. If zoom is 0, the
// axis contains all effects, but not the ends of the widest intervals, which usually belong to lessons with little
// data. If zoom is negative, the axis contains all intervals.
func fitAxis(effects []*effect, trueEffects []float64, zoom float64) axis {
	if zoom > 0 {
		return roundedAxis(-zoom/100, zoom/100)
	}
	lo, hi := 0.0, 0.0
	for _, x := range trueEffects {
		lo, hi = min(lo, x), max(hi, x)
	}
	var below, above []float64 // distances from 0 to the bounds
	for _, e := range effects {
		if e != nil {
			lo, hi = min(lo, e.size), max(hi, e.size)
			below, above = append(below, -e.lo), append(above, e.hi)
		}
	}
	if zoom < 0 {
		return roundedAxis(min(lo, -quantile(below, 1)), max(hi, quantile(above, 1)))
	}
	const medians = 1.75 // the axis ends at this multiple of the median distance; an interval that reaches further gets an arrowhead
	reach := medians * max(quantile(below, 0.5), quantile(above, 0.5))
	return roundedAxis(min(lo, -min(reach, quantile(below, 0.9))), max(hi, min(reach, quantile(above, 0.9))))
}

// quantile returns the smallest value that is at least as large as a given share of the values, or 0 if there are
// none. quantile sorts values in place.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(share*float64(len(values))))-1)]
}

// roundedAxis returns an axis that contains the range from lo to hi, limited to -1 to 1. The ends are multiples of
// the smallest step that gives at most six steps.
func roundedAxis(lo, hi float64) axis {
	lo, hi = max(lo, -1), min(hi, 1)
	if hi-lo < 0.02 {
		lo, hi = min(lo, -0.01), max(hi, 0.01)
	}
	steps := []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5}
	i := slices.IndexFunc(steps, func(s float64) bool { return math.Ceil(hi/s-1e-9)-math.Floor(lo/s+1e-9) <= 6 })
	step := steps[i] // the range is at most 2, that is, four of the largest steps
	return axis{math.Floor(lo/step+1e-9) * step, math.Ceil(hi/step-1e-9) * step, step, 100, "points"}
}

// xCoordinate returns an effect's x coordinate. An effect beyond the axis gets the nearer end.
func (a axis) xCoordinate(x float64) string {
	shown := max(a.lo, min(a.hi, x))
	return coordinate(plotMargin + (shown-a.lo)/(a.hi-a.lo)*(plotWidth-2*plotMargin))
}

func coordinate(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// ticks returns the marked effects: the multiples of step.
func (a axis) ticks() (out []float64) {
	for i := math.Round(a.lo / a.step); i <= math.Round(a.hi/a.step); i++ {
		out = append(out, i*a.step)
	}
	return out
}

func (a axis) text() string { return points(&a.lo) + " to " + points(&a.hi) + " points" }

func stroke(class, d string) g.Node { return g.El("path", h.Class(class), g.Attr("d", d)) }

func drawing(class, size, label string, children ...g.Node) g.Node {
	return h.SVG(
		h.Class(class), g.Attr("viewBox", "0 0 "+size), h.Role("img"), ariaLabel(label), g.Group(children),
	)
}

func (a axis) scale() g.Node {
	decimals := max(0, int(math.Ceil(-math.Log10(a.step*a.factor)-1e-9)))
	return drawing("forest", "240 24", "scale in "+a.unit, g.Map(a.ticks(), func(x float64) g.Node {
		text := "0"
		if x != 0 {
			text = withSign(x*a.factor, decimals)
		}
		return g.Group{
			g.El("text", g.Attr("x", a.xCoordinate(x)), g.Attr("y", "16"), g.Text(text)),
			stroke("tick", "M"+a.xCoordinate(x)+" 20v4"),
		}
	}))
}

// plot draws one row: the interval, the effect and the true effect if known. An arrowhead marks an interval beyond the
// axis.
func (a axis) plot(e *effect, trueEffect *float64) g.Node {
	label := "no effect yet"
	if e != nil {
		label = fmt.Sprintf("effect %s points, from %s to %s", points(&e.size), points(&e.lo), points(&e.hi))
	}
	if trueEffect != nil {
		label += "; true effect " + points(trueEffect)
	}
	return a.row(e, trueEffect, label, e.tone())
}

func (a axis) row(e *effect, trueEffect *float64, label, tone string) g.Node {
	marks := g.Map(a.ticks(), func(x float64) g.Node {
		return stroke(ifElse(x == 0, "zero", "grid"), "M"+a.xCoordinate(x)+" -80v190")
	})
	below := func(x float64) bool { return x < a.lo-1e-9 }
	above := func(x float64) bool { return x > a.hi+1e-9 }
	if e != nil {
		marks = append(
			marks,
			stroke("reach", "M"+a.xCoordinate(e.lo)+" 15H"+a.xCoordinate(e.hi)),
			g.If(below(e.lo), stroke("cut", "M"+a.xCoordinate(e.lo)+" 11l-6 4 6 4z")),
			g.If(above(e.hi), stroke("cut", "M"+a.xCoordinate(e.hi)+" 11l6 4-6 4z")),
			g.If(!below(e.size) && !above(e.size), g.El(
				"circle", h.Class("effect"), g.Attr("cx", a.xCoordinate(e.size)), g.Attr("cy", "15"), g.Attr("r", "4.5"))),
		)
	}
	if trueEffect != nil {
		marks = append(marks, stroke("truth", "M"+a.xCoordinate(*trueEffect)+" 5v20"))
	}
	return drawing("forest "+tone, "240 30", label, marks)
}

const (
	sparkWidth  = 84.0
	sparkHeight = 22.0
)

// sparkline returns a small chart with the effect over 60 days, or nil for fewer than two days.
func sparkline(days []report.Band) g.Node {
	const maxPoints = 60
	days = days[max(0, len(days)-maxPoints):]
	if len(days) < 2 {
		return nil
	}
	lo, hi := 0.0, 0.0
	for _, d := range days {
		lo, hi = min(lo, d.Effect), max(hi, d.Effect)
	}
	if hi-lo < 1e-6 {
		hi = lo + 1e-6
	}
	y := func(x float64) string { return coordinate(2 + (hi-x)/(hi-lo)*(sparkHeight-4)) }
	var b strings.Builder
	for i, d := range days {
		x := 1 + float64(i)/float64(len(days)-1)*(sparkWidth-2)
		fmt.Fprintf(&b, "%s,%s ", coordinate(x), y(d.Effect))
	}
	first, last := days[0], days[len(days)-1]
	label := fmt.Sprintf("effect from %s points on %s to %s points on %s",
		points(&first.Effect), first.Date, points(&last.Effect), last.Date)
	return drawing("spark", "84 22", label,
		stroke("zero", "M0 "+y(0)+"H84"), g.El("polyline", g.Attr("points", strings.TrimSpace(b.String()))))
}

func (a axis) head(name string) g.Node {
	return numberColumn(h.Class("plot"), h.Span(h.Class("hidden-text"), g.Text(name)), a.scale())
}

func (a axis) cell(e *effect, trueEffect *float64) g.Node {
	return h.Td(h.Class("plot"), a.plot(e, trueEffect))
}
