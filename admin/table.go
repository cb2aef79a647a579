package admin

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/report"
)

// table is an effect table with its forest plot: rows of a report on one axis.
type table struct {
	report *report.Report
	rows   []*report.Row
	all    bool                         // the row of all lessons together is first
	truth  func(string) (float64, bool) // demo: true effects are known; else nil
	axis   axis
}

// tableOf lays rows out in the order in which they come. zoom is the reach of the axis, as fit
// takes it.
func tableOf(
	r *report.Report, rows []*report.Row, all bool, zoom float64, truth func(string) (float64, bool),
) table {
	t := table{report: r, rows: rows, all: all, truth: truth}
	var spans []span
	var truths []float64
	if s, ok := spanOf(globalOf(r)); ok && all {
		spans = append(spans, s)
	}
	for _, l := range rows {
		if s, ok := spanOf(shownOf(l)); ok {
			spans = append(spans, s)
		}
		if x := actual(l, truth); x != nil {
			truths = append(truths, *x)
		}
	}
	t.axis = fit(spans, truths, zoom)
	return t
}

// shownOf is the effect that may be read: an invalid row has none.
func shownOf(l *report.Row) (effect, lo, hi *float64) {
	if l.Verdict == report.Invalid {
		return nil, nil, nil
	}
	return l.Effect, l.Lo, l.Hi
}

// globalOf is the same of all lessons together.
func globalOf(r *report.Report) (effect, lo, hi *float64) {
	if r.Global.Verdict == report.Invalid {
		return nil, nil, nil
	}
	return r.Global.Effect, r.Global.Lo, r.Global.Hi
}

// actual is the true effect of a lesson, where it is known.
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

// refusals says that the upstream refused some of the sessions: they have a column then.
func (t *table) refusals() bool {
	for _, l := range t.rows {
		if l.RefusedWith+l.RefusedWithout > 0 {
			return true
		}
	}
	return false
}

// html is the table. With sorts its heads sort the page.
func (t *table) html(f frame, sorts bool) g.Node {
	caption := "Effect on the reward of a session, measured against sessions in which the lesson was " +
		"withheld by a coin."
	if t.report.Provisional {
		caption += " Sessions that have not closed are counted: provisional."
	}
	refusals := t.refusals()
	return h.Table(
		h.Class("effects cards"),
		h.Caption(g.Text(caption)),
		columns(t.heads(f, sorts, refusals)...),
		h.TBody(
			g.Iff(t.all, func() g.Node { return t.together(refusals) }),
			g.Map(t.rows, func(l *report.Row) g.Node { return t.lesson(f, l, refusals) }),
		),
	)
}

func (t *table) heads(f frame, sorts, refusals bool) []g.Node {
	by := func(key, name string, down bool) g.Node {
		if !sorts {
			return nil
		}
		return g.Group{space(), f.sorter(key, name, "", down)}
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
		column(
			h.Class("plot"), h.Span(h.Class("hidden-text"), g.Text("Forest plot, "+t.axis.text())),
			t.axis.scale(),
		),
		column(word("injected"), by("told", "told sessions", true), small(word("withheld"), g.Text(", sessions"))),
		wordColumn(word("over-time"), small(word("needs"), by("needs", "missing picks", true))),
		g.If(refusals, column(word("refused"), small(g.Text("with / without")))),
		column(word("tokens"), by("tokens", "tokens", true)),
	}
}

// cells are what all rows have.
type cells struct {
	class                string
	name, verdict        g.Node
	effect, lo, hi, true *float64
	tone                 string
	injected, withheld   string
	overTime             g.Node
	refused              [2]int64 // with and without
	tokens               string
}

func (t *table) row(c *cells, refusals bool) g.Node {
	return h.Tr(
		g.If(c.class != "", h.Class(c.class)),
		c.name,
		c.verdict,
		cell(
			"Effect, points", h.Class("effect "+c.tone),
			g.Text(points(c.effect)), small(g.Text(interval(c.effect, c.lo, c.hi))),
		),
		g.If(t.truth != nil, cell("True effect, points", g.Text(points(c.true)))),
		h.Td(h.Class("plot"), t.axis.plot(c.effect, c.lo, c.hi, c.true)),
		cell("Injected, withheld", g.Text(c.injected), small(g.Text(c.withheld))),
		cell("Over time, progress", h.Class("text over"), c.overTime),
		g.If(refusals, cell("Refused with / without", g.Text(count(c.refused[0])+" / "+count(c.refused[1])))),
		cell("Tokens", g.Text(c.tokens)),
	)
}

// together is the row of all lessons together.
func (t *table) together(refusals bool) g.Node {
	r := &t.report.Global
	c := cells{
		class: "all", name: rowHead(h.Class("name"), g.Text("all lessons together")),
		injected: count(r.NTreated), withheld: count(r.NControl) + " control", tokens: none,
		refused: [2]int64{r.RefusedTreated, r.RefusedControl},
	}
	c.effect, c.lo, c.hi = globalOf(t.report)
	c.tone = tone(c.lo, c.hi)
	c.verdict = verdictCell(string(r.Verdict), c.tone, "Sessions that may get lessons against those that may get none.")
	return t.row(&c, refusals)
}

func (t *table) lesson(f frame, l *report.Row, refusals bool) g.Node {
	a := advise(l)
	c := cells{
		name: rowHead(
			h.Class("name"), h.A(h.Href(f.lesson(l.Slug)), quoted(l.Slug)),
			g.If(l.State != "", small(g.Text(l.State))),
		),
		verdict: verdictCell(a.Words, a.Tone, a.Next), tone: a.Tone, true: actual(l, t.truth),
		injected: count(l.NInjected), withheld: count(l.NWithheld), overTime: overTime(l),
		refused: [2]int64{l.RefusedWith, l.RefusedWithout}, tokens: count(l.Tokens),
	}
	c.effect, c.lo, c.hi = shownOf(l)
	return t.row(&c, refusals)
}

func verdictCell(words, tone, next string) g.Node {
	return h.Td(h.Class("text wrap verdict"), h.Strong(h.Class(tone), g.Text(words)), small(g.Text(next)))
}

// cell is a cell of a table that becomes cards on a narrow screen, where label stands before it.
func cell(label string, children ...g.Node) g.Node {
	return h.Td(h.Data("label", label), g.Group(children))
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
