package admin

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"precept/report"
)

// view is what the first page shows, as text.
type view struct {
	Tenant, Window string
	Provisional    bool
	Warnings       []string // what makes the table doubtful
	Notes          []string // what it leaves out
	Caption        string
	Axis           string
	Generated      string
	Definition     string
	Demo           bool
	Rows           []row
	Figures        []Figure
}

// row is one line of the effect table.
type row struct {
	Name, Verdict, Tone      string // Tone: good, bad or nothing
	All                      bool   // all lessons together
	Effect, Truth, Interval  string
	Plot                     *plot
	Injected, Withheld, Told string
	Matched, Picked, Refused string
	Helps, Tokens, State     string
}

// none stands where there is nothing to show yet.
const none = "–"

// fill lays a report out.
func (v *view) fill(r report.Report, truth func(string) (float64, bool)) {
	v.Demo = truth != nil
	v.Generated = r.GeneratedAt.UTC().Format(time.DateTime) + " UTC"
	v.Definition = r.RewardDefinition
	for _, e := range r.Elsewhere {
		v.Notes = append(v.Notes, fmt.Sprintf("Not in these numbers: %d sessions that closed when the reward was %s.", e.Sessions, e.RewardDefinition))
	}
	if len(r.Lessons) == 0 && r.Global.NTreated+r.Global.NControl == 0 {
		return
	}
	v.Caption = "Effect on the reward of a session, measured against sessions in which the lesson was withheld by a coin; largest first."
	if v.Provisional {
		v.Caption += " Sessions that have not closed are counted: provisional."
	}
	if !r.SRM.OK {
		v.Warnings = append(v.Warnings, fmt.Sprintf("The coins do not fall as they should (e-value %.3g): no effect below can be trusted.", r.SRM.EValue))
	}
	if !r.Reporting.OK {
		v.Warnings = append(v.Warnings, "Sessions with and without lessons do not report equally often: effects below may come from who reports.")
	}
	a := scale(r, truth)
	v.Axis = a.text()
	v.Rows = append(v.Rows, globalRow(r, a))
	lessons := slices.Clone(r.Lessons)
	slices.SortStableFunc(lessons, func(x, y report.Row) int {
		return cmp.Or(cmp.Compare(known(y.Effect), known(x.Effect)), cmp.Compare(value(y.Effect), value(x.Effect)), strings.Compare(x.Slug, y.Slug))
	})
	for i := range lessons {
		v.Rows = append(v.Rows, lessonRow(&lessons[i], a, truth))
	}
}

func globalRow(r report.Report, a axis) row {
	g := r.Global
	out := row{
		Name: "all lessons together", All: true, Verdict: string(g.Verdict), Tone: tone(g.Lo, g.Hi),
		Effect: points(g.Effect), Truth: none, Interval: interval(g.Effect, g.Lo, g.Hi), Plot: a.plot(g.Effect, g.Lo, g.Hi, nil),
		Injected: count(g.NTreated), Withheld: count(g.NControl) + " control", Matched: none, Picked: none, Helps: none, Tokens: none,
		Told: count(r.Reporting.ToldTreated + r.Reporting.ToldControl), Refused: refused(g.RefusedTreated, g.RefusedControl),
	}
	return out
}

func lessonRow(l *report.Row, a axis, truth func(string) (float64, bool)) row {
	out := row{
		Name: l.Slug, Verdict: string(l.Verdict), Tone: tone(l.Lo, l.Hi), State: l.State,
		Effect: points(l.Effect), Interval: interval(l.Effect, l.Lo, l.Hi), Truth: none,
		Injected: count(l.NInjected), Withheld: count(l.NWithheld), Told: count(l.Told), Matched: count(l.Matched), Picked: count(l.Picked), Refused: refused(l.RefusedWith, l.RefusedWithout),
		Helps: strconv.FormatFloat(l.PHelps*100, 'f', 0, 64) + "%", Tokens: count(l.Tokens),
	}
	if l.NeedsPicks > 0 {
		out.Verdict += ", needs " + count(l.NeedsPicks) + " more picks"
	}
	var actual *float64
	if truth != nil {
		if x, ok := truth(l.Slug); ok {
			actual, out.Truth = &x, points(&x)
		}
	}
	out.Plot = a.plot(l.Effect, l.Lo, l.Hi, actual)
	return out
}

// refused writes how many sessions the upstream refused, with and without.
func refused(with, without int64) string { return count(with) + " / " + count(without) }

// points writes an effect in points of reward: 0.05 is +5.0.
func points(x *float64) string {
	if x == nil {
		return none
	}
	return strings.Replace(fmt.Sprintf("%+.1f", *x*100), "-", "−", 1)
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
	if x == nil {
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

func count[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }

// The forest plot: numbers of the SVG's own units, so that no style attribute is needed.
const (
	plotWidth  = 220.0
	plotMargin = 8.0
)

// axis maps effects onto the plot's width, symmetrical about zero.
type axis struct{ reach float64 }

// plot is one line of the forest plot.
type plot struct {
	Tone, Label      string
	Zero, Lo, Hi, At string
	Shown, HasTruth  bool
	Truth            string
}

// scale finds an axis that holds every interval, in steps that read well.
func scale(r report.Report, truth func(string) (float64, bool)) axis {
	reach := 0.0
	grow := func(xs ...*float64) {
		for _, x := range xs {
			if x != nil && !math.IsNaN(*x) {
				reach = max(reach, math.Abs(*x))
			}
		}
	}
	grow(r.Global.Lo, r.Global.Hi)
	for i := range r.Lessons {
		grow(r.Lessons[i].Lo, r.Lessons[i].Hi)
		if truth != nil {
			if x, ok := truth(r.Lessons[i].Slug); ok {
				grow(&x)
			}
		}
	}
	for _, step := range []float64{0.05, 0.1, 0.2, 0.3, 0.5} {
		if reach <= step {
			return axis{step}
		}
	}
	return axis{1}
}

func (a axis) text() string {
	return fmt.Sprintf("−%.0f to +%.0f points", a.reach*100, a.reach*100)
}

// at is the place of an effect; what lies beyond the axis is drawn at its end.
func (a axis) at(x float64) string {
	half := plotWidth/2 - plotMargin
	shown := max(-a.reach, min(a.reach, x))
	return strconv.FormatFloat(plotWidth/2+shown/a.reach*half, 'f', 1, 64)
}

func (a axis) plot(effect, lo, hi, truth *float64) *plot {
	p := &plot{Zero: a.at(0), Tone: tone(lo, hi), Label: "no effect is shown yet"}
	if effect != nil && lo != nil && hi != nil {
		p.Shown, p.At, p.Lo, p.Hi = true, a.at(*effect), a.at(*lo), a.at(*hi)
		p.Label = fmt.Sprintf("effect %s points, from %s to %s", points(effect), points(lo), points(hi))
	}
	if truth != nil {
		p.HasTruth, p.Truth = true, a.at(*truth)
		p.Label += "; true effect " + points(truth)
	}
	return p
}
