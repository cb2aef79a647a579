package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/report"
)

// truths knows the demo's true effects; elsewhere it is nil.
type truths func(slug string) (float64, bool)

// of is the true effect of a lesson; nil where it is not known.
func (t truths) of(slug string) *float64 {
	if t != nil {
		if x, ok := t(slug); ok {
			return &x
		}
	}
	return nil
}

// table is an effect table with its forest plot: rows of a report on one axis.
type table struct {
	report   *report.Report
	rows     []*report.Row
	all      bool // the row of all lessons together is first
	truth    truths
	axis     axis
	refusals bool // the upstream refused some of the sessions: they have a column then
}

// tableOf lays rows out in the order in which they come. zoom is the reach of the axis, as fit
// takes it.
func tableOf(r *report.Report, rows []*report.Row, all bool, zoom float64, truth truths) table {
	t := table{report: r, rows: rows, all: all, truth: truth}
	var effects []*effect
	var known []float64
	if all {
		effects = append(effects, globalOf(&r.Global))
	}
	for _, l := range rows {
		effects = append(effects, shownOf(l))
		t.refusals = t.refusals || l.RefusedWith+l.RefusedWithout > 0
		if x := truth.of(l.Slug); x != nil {
			known = append(known, *x)
		}
	}
	t.axis = fit(effects, known, zoom)
	return t
}

// html is the table. With sorts its heads sort the page.
func (t *table) html(f frame, sorts bool) g.Node {
	caption := "Effect on the reward of a session, measured against sessions in which the lesson was " +
		"withheld by a coin."
	if t.report.Provisional {
		caption += " Sessions that have not closed are counted: provisional."
	}
	return h.Table(
		h.Class("effects cards"),
		h.Caption(g.Text(caption)),
		columns(t.heads(f, sorts)...),
		h.TBody(
			g.If(t.all, t.together()),
			g.Map(t.rows, func(l *report.Row) g.Node { return t.lesson(f, l) }),
		),
	)
}

func (t *table) heads(f frame, sorts bool) []g.Node {
	by := func(key, name string, down bool) g.Node {
		return g.Iff(sorts, func() g.Node { return g.Group{space(), f.sorter(key, name, "", down)} })
	}
	name := g.Text("Lesson")
	if sorts {
		name = f.sorter("name", "Lesson", "Lesson", false)
	}
	return []g.Node{
		wordColumn(name),
		wordColumn(word("verdict"), g.Text(", and what to do"), by("verdict", "verdict", false)),
		column(word("effect"), by("effect", "effect", true), small(g.Text("points, "), word("interval"))),
		g.If(t.truth != nil, column(word("truth"), small(g.Text("points")))),
		t.axis.head("Forest plot, " + t.axis.text()),
		column(word("injected"), by("told", "told sessions", true), small(word("withheld"), g.Text(", sessions"))),
		wordColumn(word("over-time"), small(word("needs"), by("needs", "missing picks", true))),
		g.If(t.refusals, column(word("refused"), small(g.Text("with / without")))),
		column(word("tokens"), by("tokens", "tokens", true)),
	}
}

// cells are what all rows have.
type cells struct {
	name, verdict      g.Node
	effect             *effect
	true               *float64
	tone               string
	injected, withheld string
	overTime           g.Node
	refused            [2]int64 // with and without
	tokens             string
}

func (t *table) row(c *cells, attributes ...g.Node) g.Node {
	return h.Tr(
		g.Group(attributes), rowHead(h.Class("name"), c.name), c.verdict,
		cell(
			"Effect, points", h.Class("effect "+c.tone),
			g.Text(c.effect.points()), small(g.Text(c.effect.interval())),
		),
		g.If(t.truth != nil, cell("True effect, points", g.Text(points(c.true)))),
		t.axis.cell(c.effect, c.true),
		cell("Injected, withheld", g.Text(c.injected), small(g.Text(c.withheld))),
		cell("Over time, progress", h.Class("text over"), c.overTime),
		g.If(t.refusals, cell("Refused with / without", g.Text(count(c.refused[0])+" / "+count(c.refused[1])))),
		cell("Tokens", g.Text(c.tokens)),
	)
}

// together is the row of all lessons together.
func (t *table) together() g.Node {
	r := &t.report.Global
	e := globalOf(r)
	return t.row(&cells{
		name: g.Text("all lessons together"), effect: e, tone: e.tone(),
		verdict:  verdictCell(string(r.Verdict), e.tone(), "Sessions that may get lessons against those that may get none."),
		injected: count(r.NTreated), withheld: count(r.NControl) + " control",
		refused: [2]int64{r.RefusedTreated, r.RefusedControl}, tokens: none,
	}, h.Class("all"))
}

func (t *table) lesson(f frame, l *report.Row) g.Node {
	a := advise(l)
	return t.row(&cells{
		name:    g.Group{h.A(h.Href(f.lesson(l.Slug)), quoted(l.Slug)), g.If(l.State != "", small(g.Text(l.State)))},
		verdict: verdictCell(a.Words, a.Tone, a.Next), tone: a.Tone, effect: shownOf(l), true: t.truth.of(l.Slug),
		injected: count(l.NInjected), withheld: count(l.NWithheld), overTime: overTime(l),
		refused: [2]int64{l.RefusedWith, l.RefusedWithout}, tokens: count(l.Tokens),
	})
}

func verdictCell(words, tone, next string) g.Node {
	return h.Td(h.Class("text wrap verdict"), h.Strong(h.Class(tone), g.Text(words)), small(g.Text(next)))
}

// overTime is how the effect went, and how far its verdict is.
func overTime(l *report.Row) g.Node {
	progress := small(g.Text("enough picks"))
	if l.NeedsPicks > 0 {
		done, wanted := l.Told, l.Told+l.NeedsPicks
		progress = g.Group{
			h.Progress(
				h.Max(strconv.FormatInt(wanted, 10)), h.Value(strconv.FormatInt(done, 10)),
				labelled(fmt.Sprintf("%d of %d picks", done, wanted)),
			),
			small(g.Text(count(done) + " of " + count(wanted))),
		}
	}
	return g.Group{spark(l.Days), progress}
}

// order is how rows are sorted; by effect, the largest first, when the query does not say. Those
// without an effect stand at the end either way.
func order(key string) func(x, y *report.Row) int {
	key, down := strings.CutPrefix(key, "-")
	effects := func(x, y *report.Row) int {
		if x.Effect == nil || y.Effect == nil {
			return cmp.Compare(when(x.Effect == nil, 1, 0), when(y.Effect == nil, 1, 0))
		}
		return cmp.Compare(*x.Effect, *y.Effect) * when(key == "effect" && !down, 1, -1)
	}
	by, known := map[string]func(x, y *report.Row) int{
		"name":    func(x, y *report.Row) int { return strings.Compare(x.Slug, y.Slug) },
		"verdict": func(x, y *report.Row) int { return strings.Compare(advise(x).Group, advise(y).Group) },
		"told":    func(x, y *report.Row) int { return cmp.Compare(x.Told, y.Told) },
		"needs":   func(x, y *report.Row) int { return cmp.Compare(x.NeedsPicks, y.NeedsPicks) },
		"tokens":  func(x, y *report.Row) int { return cmp.Compare(x.Tokens, y.Tokens) },
		"helps":   func(x, y *report.Row) int { return cmp.Compare(x.PHelps, y.PHelps) },
	}[key]
	return func(x, y *report.Row) int {
		first := 0
		if known {
			first = by(x, y) * when(down, -1, 1)
		}
		return cmp.Or(first, effects(x, y), cmp.Compare(y.Told, x.Told), strings.Compare(x.Slug, y.Slug), strings.Compare(x.Arm, y.Arm))
	}
}

// byEffect sorts rows, the largest effect first.
func byEffect(rows []*report.Row) { slices.SortStableFunc(rows, order("")) }

// doubts are what makes a report's effects doubtful.
func doubts(r *report.Report) (out []string) {
	if !r.SRM.OK {
		out = append(out, fmt.Sprintf(
			"The coins do not fall as they should (e-value %.3g): no effect below can be trusted.", r.SRM.EValue))
	}
	if !r.Reporting.OK {
		out = append(out, "Sessions with and without lessons do not report equally often: "+
			"effects below may come from who reports.")
	}
	return out
}

// noLessons teaches who has none.
func noLessons() g.Node {
	return empty(
		"No lesson has matched yet",
		h.P(g.Text("A lesson is a LESSON.md file that says when it applies and what to do then. "+
			"There are three ways to get the first:")),
		h.Ul(
			h.Li(
				g.Text("Write one: "), code("precept lessons new"),
				g.Text(" puts a file into the lessons directory, and it is in force within two seconds."),
			),
			h.Li(
				g.Text("Take a set that others wrote: "), code("precept lessons import"),
				g.Text(", or the starter lessons of "), code("precept init"), g.Text("."),
			),
			h.Li(
				g.Text("Point an agent at precept's data listener and let "), code("precept distill"),
				g.Text(" make some out of what goes wrong; they wait in the queue."),
			),
		),
		h.P(
			g.Text("Numbers appear when sessions in which a lesson matched have closed. To see how that looks now, run "),
			code("precept demo"), g.Text("."),
		),
	)
}
