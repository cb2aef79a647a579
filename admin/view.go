package admin

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"precept/report"
)

// table is an effect table with its forest plot.
type table struct {
	Caption  string
	Axis     axis
	Ticks    []tick
	Demo     bool // true effects are known
	Refusals bool // the upstream refused some: it has a column then
	Rows     []row
}

// row is one line of the effect table.
type row struct {
	Name, Href, State       string
	All                     bool // all lessons together
	Advice                  advice
	Effect, Truth, Interval string
	Plot                    *plot
	Spark                   *sparkline
	Injected, Withheld      string
	Refused, Tokens         string
	Needs                   *progress
}

// progress is how much of the picks that a verdict takes there is.
type progress struct {
	Done, Wanted int64
	Text         string
}

// none stands where there is nothing to show yet.
const none = "–"

// doubts are what makes a report's effects doubtful.
func doubts(r *report.Report) (out []string) {
	if !r.SRM.OK {
		out = append(out, fmt.Sprintf("The coins do not fall as they should (e-value %.3g): no effect below can be trusted.", r.SRM.EValue))
	}
	if !r.Reporting.OK {
		out = append(out, "Sessions with and without lessons do not report equally often: effects below may come from who reports.")
	}
	return out
}

// leftOut is what a report does not count.
func leftOut(r *report.Report) (out []string) {
	for _, e := range r.Elsewhere {
		out = append(out, fmt.Sprintf("Not in these numbers: %d sessions that closed when the reward was %s.", e.Sessions, e.RewardDefinition))
	}
	return out
}

// tableOf lays rows out on one axis, in the order in which they come; with all, the row of all
// lessons together is first.
func tableOf(r *report.Report, rows []*report.Row, all bool, zoom float64, truth func(string) (float64, bool), link func(string) string) table {
	t := table{Demo: truth != nil}
	t.Caption = "Effect on the reward of a session, measured against sessions in which the lesson was withheld by a coin."
	if r.Provisional {
		t.Caption += " Sessions that have not closed are counted: provisional."
	}
	var spans []span
	var truths []float64
	if s, ok := spanOf(r.Global.Effect, r.Global.Lo, r.Global.Hi); ok && all {
		spans = append(spans, s)
	}
	for _, l := range rows {
		if s, ok := spanOf(shownOf(l)); ok {
			spans = append(spans, s)
		}
		if x := actual(l, truth); x != nil {
			truths = append(truths, *x)
		}
		t.Refusals = t.Refusals || l.RefusedWith+l.RefusedWithout > 0
	}
	t.Axis = fit(spans, truths, zoom)
	t.Ticks = t.Axis.Ticks()
	if all {
		t.Rows = append(t.Rows, t.global(r))
	}
	for _, l := range rows {
		t.Rows = append(t.Rows, t.lesson(l, truth, link))
	}
	return t
}

// shownOf is the effect that may be read: an invalid row has none.
func shownOf(l *report.Row) (effect, lo, hi *float64) {
	if l.Verdict == report.Invalid {
		return nil, nil, nil
	}
	return l.Effect, l.Lo, l.Hi
}

func actual(l *report.Row, truth func(string) (float64, bool)) *float64 {
	if truth == nil {
		return nil
	}
	x, ok := truth(l.Slug)
	if !ok {
		return nil
	}
	return &x
}

func (t *table) global(r *report.Report) row {
	g := r.Global
	if g.Verdict == report.Invalid {
		g.Effect, g.Lo, g.Hi = nil, nil, nil
	}
	return row{
		Name: "all lessons together", All: true, Advice: advice{Words: string(g.Verdict), Tone: tone(g.Lo, g.Hi), Next: "Sessions that may get lessons against those that may get none."},
		Effect: points(g.Effect), Truth: none, Interval: interval(g.Effect, g.Lo, g.Hi), Plot: t.Axis.plot(t.Ticks, g.Effect, g.Lo, g.Hi, nil),
		Injected: count(g.NTreated), Withheld: count(g.NControl) + " control", Tokens: none,
		Refused: refused(g.RefusedTreated, g.RefusedControl),
	}
}

func (t *table) lesson(l *report.Row, truth func(string) (float64, bool), link func(string) string) row {
	effect, lo, hi := shownOf(l)
	x := actual(l, truth)
	out := row{
		Name: l.Slug, State: l.State, Advice: advise(l), Href: link(l.Slug),
		Effect: points(effect), Interval: interval(effect, lo, hi), Truth: points(x),
		Injected: count(l.NInjected), Withheld: count(l.NWithheld), Refused: refused(l.RefusedWith, l.RefusedWithout),
		Tokens: count(l.Tokens),
		Plot:   t.Axis.plot(t.Ticks, effect, lo, hi, x), Spark: spark(l.Days),
	}
	if l.NeedsPicks > 0 {
		out.Needs = &progress{Done: l.Told, Wanted: l.Told + l.NeedsPicks, Text: count(l.Told) + " of " + count(l.Told+l.NeedsPicks)}
	}
	return out
}

// refused writes how many sessions the upstream refused, with and without.
func refused(with, without int64) string { return count(with) + " / " + count(without) }

// points writes an effect in points of reward: 0.05 is +5.0.
func points(x *float64) string {
	if x == nil {
		return none
	}
	text := strings.Replace(fmt.Sprintf("%+.1f", *x*100), "-", "−", 1)
	if text == "−0.0" {
		return "+0.0"
	}
	return text
}

// interval writes one; without an effect there is none to show.
func interval(effect, lo, hi *float64) string {
	if effect == nil || lo == nil || hi == nil {
		return "not enough data"
	}
	return points(lo) + " to " + points(hi)
}

// tone colours an interval that excludes nothing-at-all.
func tone(lo, hi *float64) string {
	switch {
	case lo != nil && *lo > 0:
		return "good"
	case hi != nil && *hi < 0:
		return "bad"
	default:
		return ""
	}
}

func known(x *float64) int {
	if x == nil || math.IsNaN(*x) {
		return 0
	}
	return 1
}

func value(x *float64) float64 {
	if x == nil {
		return 0
	}
	return *x
}

// grouped is a figure with its number, if it is one, written as count does.
func grouped(figure string) string {
	n, err := strconv.ParseInt(figure, 10, 64)
	if err != nil {
		return figure
	}
	return count(n)
}

// count writes a number of things, in groups of three digits from five digits on.
func count[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	if len(text) < 5 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		if left := len(text) - i; i > 0 && left%3 == 0 && text[i-1] != '-' {
			b.WriteRune('\u202f') // a thin space that does not break
		}
		b.WriteRune(r)
	}
	return b.String()
}
