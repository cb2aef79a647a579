package admin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"precept/report"
)

// The forest plot: numbers of the SVG's own units, so that no style attribute is needed.
const (
	plotWidth  = 240.0
	plotMargin = 10.0
)

// axis maps effects, in units of reward, onto the plot's width. It is the same for all rows of a
// page, and 0 lies on it.
type axis struct {
	lo, hi, step float64
}

// tick is a mark of the axis.
type tick struct {
	At, Text string
	Zero     bool
}

// plot is one line of the forest plot.
type plot struct {
	Tone, Label     string
	Ticks           []tick
	Lo, Hi, At      string
	CutLow, CutHigh bool // the interval goes on beyond the axis
	OffLow, OffHigh bool // the effect itself lies beyond it
	Shown, HasTruth bool
	Truth           string
}

// span is what a row takes of the axis.
type span struct{ lo, effect, hi float64 }

// fit finds the axis that shows all effects, and the intervals of most: the widest, of lessons with
// little data, would press all others to a point, and are cut at its ends. zoom is its reach on
// both sides of 0 in points; 0: fitted, negative: all that there is.
func fit(spans []span, truths []float64, zoom float64) axis {
	if zoom > 0 {
		return rounded(-zoom/100, zoom/100)
	}
	lo, hi := 0.0, 0.0
	for _, x := range truths {
		lo, hi = min(lo, x), max(hi, x)
	}
	lows, highs := make([]float64, 0, len(spans)), make([]float64, 0, len(spans))
	for _, s := range spans {
		if math.IsNaN(s.lo) || math.IsNaN(s.hi) || math.IsNaN(s.effect) {
			continue
		}
		lo, hi = min(lo, s.effect), max(hi, s.effect)
		lows, highs = append(lows, -s.lo), append(highs, s.hi)
	}
	if zoom < 0 {
		return rounded(min(lo, -quantile(lows, 1)), max(hi, quantile(highs, 1)))
	}
	const beyond = 1.75
	reach := beyond * max(quantile(lows, 0.5), quantile(highs, 0.5))
	return rounded(min(lo, -min(reach, quantile(lows, 0.9))), max(hi, min(reach, quantile(highs, 0.9))))
}

// quantile is the smallest value that the share of the values does not exceed; 0 of none.
func quantile(values []float64, share float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[max(0, int(math.Ceil(share*float64(len(values))))-1)]
}

// rounded widens an axis to whole steps, of which there are four to eight.
func rounded(lo, hi float64) axis {
	lo, hi = max(lo, -1), min(hi, 1)
	if hi-lo < 0.02 {
		lo, hi = min(lo, -0.01), max(hi, 0.01)
	}
	steps := []float64{0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.5}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if math.Ceil(hi/s-1e-9)-math.Floor(lo/s+1e-9) <= 6 {
			step = s
			break
		}
	}
	return axis{math.Floor(lo/step+1e-9) * step, math.Ceil(hi/step-1e-9) * step, step}
}

// at is the place of an effect; what lies beyond the axis is drawn at its end.
func (a axis) at(x float64) string {
	shown := max(a.lo, min(a.hi, x))
	return coordinate(plotMargin + (shown-a.lo)/(a.hi-a.lo)*(plotWidth-2*plotMargin))
}

func coordinate(x float64) string { return strconv.FormatFloat(x, 'f', 1, 64) }

// Ticks are the marks of the axis.
func (a axis) Ticks() []tick {
	var out []tick
	for i := math.Round(a.lo / a.step); i <= math.Round(a.hi/a.step); i++ {
		x := i * a.step
		places := 0
		if a.step < 0.01 {
			places = 1
		}
		text := strings.Replace(strconv.FormatFloat(x*100, 'f', places, 64), "-", "−", 1)
		if i > 0 {
			text = "+" + text
		}
		if i == 0 {
			text = "0"
		}
		out = append(out, tick{At: a.at(x), Text: text, Zero: i == 0})
	}
	return out
}

// Text says how far the axis reaches.
func (a axis) Text() string { return points(&a.lo) + " to " + points(&a.hi) + " points" }

// plot draws one row.
func (a axis) plot(ticks []tick, effect, lo, hi, truth *float64) *plot {
	p := &plot{Ticks: ticks, Tone: tone(lo, hi), Label: "no effect is shown yet"}
	if effect != nil && lo != nil && hi != nil {
		p.Shown, p.At, p.Lo, p.Hi = true, a.at(*effect), a.at(*lo), a.at(*hi)
		p.CutLow, p.CutHigh = *lo < a.lo-1e-9, *hi > a.hi+1e-9
		p.OffLow, p.OffHigh = *effect < a.lo-1e-9, *effect > a.hi+1e-9
		p.Label = fmt.Sprintf("effect %s points, from %s to %s", points(effect), points(lo), points(hi))
	}
	if truth != nil {
		p.HasTruth, p.Truth = true, a.at(*truth)
		p.Label += "; true effect " + points(truth)
	}
	return p
}

// spanOf is what a row takes of the axis; ok is false where nothing is shown.
func spanOf(effect, lo, hi *float64) (s span, ok bool) {
	if effect == nil || lo == nil || hi == nil {
		return s, false
	}
	return span{*lo, *effect, *hi}, true
}

// sparkline is the effect over time in a few strokes.
type sparkline struct {
	Line, Zero, Label string
}

const (
	sparkWidth  = 84.0
	sparkHeight = 22.0
)

// spark draws the last days of an effect; nil with fewer than two.
func spark(days []report.Band) *sparkline {
	const most = 60
	days = days[max(0, len(days)-most):]
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
		fmt.Fprintf(&b, "%s,%s ", coordinate(1+float64(i)/float64(len(days)-1)*(sparkWidth-2)), y(d.Effect))
	}
	first, last := days[0], days[len(days)-1]
	return &sparkline{
		Line: strings.TrimSpace(b.String()), Zero: y(0),
		Label: fmt.Sprintf("effect from %s points on %s to %s points on %s", points(&first.Effect), first.Date, points(&last.Effect), last.Date),
	}
}

// byEffect orders rows with an effect before those without, larger first.
func byEffect(x, y *report.Row) int {
	return cmp.Or(cmp.Compare(known(y.Effect), known(x.Effect)), cmp.Compare(value(y.Effect), value(x.Effect)), cmp.Compare(y.Told, x.Told), strings.Compare(x.Slug, y.Slug), strings.Compare(x.Arm, y.Arm))
}
