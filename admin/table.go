package admin

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/store"
)

// trueEffects returns a lesson's true effect on the reward. The function is nil outside the demo.
type trueEffects func(slug string) (float64, bool)

func (t trueEffects) bySlug(slug string) *float64 {
	if t != nil {
		if x, ok := t(slug); ok {
			return &x
		}
	}
	return nil
}

// effectTable is a forest plot with columns of numbers. Its rows come from one report and share one axis.
type effectTable struct {
	report      *report.Report
	rows        []*report.Row
	hasTotalRow bool // the first row is for all lessons together
	trueEffects trueEffects
	axis        axis
	refusals    bool // show refused sessions
}

// newEffectTable returns a table of rows in the given order; zoom is as in fitAxis.
func newEffectTable(r *report.Report, rows []*report.Row, hasTotalRow bool, zoom float64, trueEffects trueEffects) effectTable {
	t := effectTable{report: r, rows: rows, hasTotalRow: hasTotalRow, trueEffects: trueEffects}
	var effects []*effect
	var drawnTrueEffects []float64
	if hasTotalRow {
		effects = append(effects, globalEffect(&r.Global))
	}
	for _, l := range rows {
		effects = append(effects, rowEffect(l))
		t.refusals = t.refusals || l.RefusedWith+l.RefusedWithout > 0
		if x := trueEffects.bySlug(l.Slug); x != nil {
			drawnTrueEffects = append(drawnTrueEffects, *x)
		}
	}
	t.axis = fitAxis(effects, drawnTrueEffects, zoom)
	return t
}

func (t *effectTable) html(f frame, sortable bool) g.Node {
	caption := "Effect on a session's reward, compared with sessions in which the lesson was withheld at random."
	if t.report.Provisional {
		caption += " The figures are provisional, because they include open sessions."
	}
	return h.Table(
		h.Class("effects cards"),
		h.Caption(g.Text(caption)),
		headingRow(t.headings(f, sortable)...),
		h.TBody(
			g.If(t.hasTotalRow, t.row(f, totalRow(&t.report.Global), true)),
			t.groups(f),
		),
	)
}

// groups returns the rows, with a heading above each group. Rows that are not sorted by group have no headings.
func (t *effectTable) groups(f frame) g.Node {
	hasHeadings := len(t.rows) > 0 && t.rows[0].Group() != report.NotInUse && slices.IsSortedFunc(t.rows, func(x, y *report.Row) int { return cmp.Compare(x.Group(), y.Group()) })
	group, columns := report.InUse, 7
	for _, optional := range []bool{t.trueEffects != nil, t.refusals} {
		columns += ifElse(optional, 1, 0)
	}
	return g.Map(t.rows, func(l *report.Row) g.Node {
		isFirst := l.Group() != group
		group = l.Group()
		return g.Group{
			g.If(hasHeadings && isFirst, h.Tr(h.Class("unit"), h.Th(h.Scope("rowgroup"), h.ColSpan(strconv.Itoa(columns)), g.Text(group.Title())))),
			t.row(f, l, false),
		}
	})
}

func (t *effectTable) headings(f frame, sortable bool) []g.Node {
	by := func(key, name string, down bool) g.Node {
		return g.Iff(sortable, func() g.Node { return g.Group{space(), f.sortLink(key, name, "", down)} })
	}
	name := g.Text("Lesson")
	if sortable {
		name = f.sortLink("name", "Lesson", "Lesson", false)
	}
	return []g.Node{
		wordColumn(name),
		wordColumn(termButton("verdict"), g.Text(", and next action"), by("verdict", "verdict", false)),
		numberColumn(termButton("effect"), by("effect", "effect", true), smallLine(g.Text("points, "), termButton("interval"))),
		g.If(t.trueEffects != nil, numberColumn(termButton("truth"), smallLine(g.Text("points")))),
		t.axis.head("Forest plot, " + t.axis.text()),
		numberColumn(termButton("injected"), by("rewarded", "rewarded sessions", true), smallLine(termButton("withheld")), smallLine(g.Text("rewarded sessions"))),
		wordColumn(termButton("over-time"), smallLine(termButton("needs"), by("needs", "missing picks", true))),
		g.If(t.refusals, numberColumn(termButton("refused"), smallLine(g.Text("with / without")))),
		numberColumn(termButton("tokens"), by("tokens", "tokens", true)),
	}
}

func (t *effectTable) row(f frame, l *report.Row, isTotal bool) g.Node {
	value, note := effectText(l)
	a, e, trueEffect := advise(l), rowEffect(l), t.trueEffects.bySlug(l.Slug)
	name := g.Group{h.A(h.Href(f.lessonHref(l.Slug)), untrustedText(l.Slug)), g.If(l.State != "", smallLine(g.Text(rowState(l))))}
	injected, withheld := f.armLink(l.NInjected, l.Slug, store.FateInjected), f.armLink(l.NWithheld, l.Slug, store.FateWithheld)
	progress, tokens := overTime(l), countText(l.Tokens)
	if isTotal {
		a = advice{Words: string(l.Verdict), NextAction: "Sessions that may get lessons, compared with control sessions.", Tone: e.tone()}
		name, progress, tokens = g.Group{g.Text("all lessons together")}, nil, noValue
		injected, withheld = f.armLink(l.NInjected, "", store.FateTreated), g.Group{f.armLink(l.NWithheld, "", store.FateControl), g.Text(" control")}
	}
	return h.Tr(
		g.If(isTotal, h.Class("all")),
		rowHead(h.Class("name"), name),
		h.Td(h.Class("text wrap verdict"), h.Strong(h.Class(a.Tone), g.Text(a.Words)), smallLine(g.Text(a.NextAction)),
			g.Iff(l.RarelyChosen() != "", func() g.Node { return smallLine(g.Text(sentence(l.RarelyChosen()))) }),
			g.Iff(l.ZeroNote() != "", func() g.Node { return smallLine(g.Text("The interval contains 0: " + l.ZeroNote() + ".")) }),
			g.If(isCautionByCounts(l), smallLine(h.Strong(h.Class("warn"), g.Text("became a caution")))),
			provenOutcomes(l),
			g.If(l.Guardrail != "", smallLine(h.Strong(h.Class("bad"), g.Text("guardrail: "+l.Guardrail))))),
		cell("Effect, points", h.Class("effect "+a.Tone), g.Text(value), smallLine(g.Text(note))),
		g.If(t.trueEffects != nil, cell("True effect, points", g.Text(points(trueEffect)))),
		t.axis.cell(e, trueEffect),
		cell("Injected, withheld", injected, smallLine(withheld)),
		cell("Over time, progress", h.Class("text over"), progress),
		g.If(t.refusals, cell("Refused with / without", g.Text(countText(l.RefusedWith)+" / "+countText(l.RefusedWithout)))),
		cell("Tokens", g.Text(tokens)),
	)
}

// provenOutcomes returns the outcomes that a lesson provably lowers. A drop in recurring errors can be proven much
// sooner than an effect on the reward.
func provenOutcomes(l *report.Row) g.Node {
	var lines g.Group
	for i := range l.Outcomes {
		if x := &l.Outcomes[i]; x.Verdict.Proven() && x.Verdict.Direction() < 0 {
			lines = append(lines, smallLine(h.Strong(h.Class("good"), g.Text(x.Name+" "+string(x.Verdict)))))
		}
	}
	return lines
}

func totalRow(r *report.Global) *report.Row {
	return &report.Row{
		Verdict: r.Verdict, Effect: r.Effect, Lo: r.Lo, Hi: r.Hi, NInjected: r.NTreated, NWithheld: r.NControl,
		RefusedWith: r.RefusedTreated, RefusedWithout: r.RefusedControl,
	}
}

// overTime returns a small chart, the rewarded picks so far, and how many a verdict needs.
func overTime(l *report.Row) g.Node {
	progress := smallLine(g.Text("enough picks"))
	switch done, wanted := l.Rewarded, l.Rewarded+l.RoundedNeeds(); {
	case l.NeedsUnclear:
		progress = smallLine(g.Text(progressText(l)))
	case l.NeedsPicks > 0:
		progress = g.Group{
			h.Progress(
				h.Max(strconv.FormatInt(wanted, 10)), h.Value(strconv.FormatInt(done, 10)),
				ariaLabel(fmt.Sprintf("%d of %d picks", done, wanted)),
			),
			smallLine(g.Text(progressText(l))),
		}
	}
	return g.Group{sparkline(l.Days), progress}
}

// progressText compares the rewarded picks so far with the number that a verdict needs.
func progressText(l *report.Row) string {
	done := countText(l.Rewarded)
	switch {
	case l.NeedsUnclear:
		return done + " so far"
	case l.RoundedNeeds() == l.NeedsPicks:
		return done + " of " + countText(l.Rewarded+l.NeedsPicks)
	}
	return done + " so far, about " + countText(l.RoundedNeeds()) + " more"
}

// rowOrder returns the row comparison for the value of the "sort" query key, which names a column. A "-" before the
// name reverses the order. Rows with equal values, and all rows if the name is unknown, are sorted by effect, largest
// first, and lessons out of use follow the others. Rows without an effect come last, sorted by number of sessions.
func rowOrder(sortBy string) func(x, y *report.Row) int {
	key, down := strings.CutPrefix(sortBy, "-")
	effects := func(x, y *report.Row) int {
		if x.Effect == nil || y.Effect == nil {
			return cmp.Compare(ifElse(x.Effect == nil, 1, 0), ifElse(y.Effect == nil, 1, 0))
		}
		return cmp.Compare(*x.Effect, *y.Effect) * ifElse(key == "effect" && !down, 1, -1)
	}
	by, known := map[string]func(x, y *report.Row) int{
		"name":     func(x, y *report.Row) int { return strings.Compare(x.Slug, y.Slug) },
		"verdict":  func(x, y *report.Row) int { return strings.Compare(advise(x).Group, advise(y).Group) },
		"rewarded": func(x, y *report.Row) int { return cmp.Compare(x.Rewarded, y.Rewarded) },
		"needs":    func(x, y *report.Row) int { return cmp.Compare(x.NeedsPicks, y.NeedsPicks) },
		"tokens":   func(x, y *report.Row) int { return cmp.Compare(x.Tokens, y.Tokens) },
	}[key]
	return func(x, y *report.Row) int {
		first := 0
		switch {
		case known:
			first = by(x, y) * ifElse(down, -1, 1)
		case key != "effect":
			first = cmp.Compare(x.Group(), y.Group())
		}
		return cmp.Or(first, effects(x, y), cmp.Compare(y.Rewarded, x.Rewarded), cmp.Compare(y.Matched, x.Matched), cmp.Compare(y.OpenMatched, x.OpenMatched), strings.Compare(x.Slug, y.Slug), strings.Compare(x.Arm, y.Arm))
	}
}

func sortByEffect(rows []*report.Row) { slices.SortStableFunc(rows, rowOrder("")) }

// reportWarnings returns the reasons why a report's effects might be wrong.
func reportWarnings(r *report.Report) (out []string) {
	if !r.SRM.OK {
		out = append(out, fmt.Sprintf(
			"The random assignment deviates from the configured probabilities (e-value %.3g): no effect below is reliable.", r.SRM.EValue))
	}
	if !r.Reporting.OK {
		out = append(out, "Sessions with lessons get feedback at a different rate or from different sources than sessions without lessons: "+
			"this difference may explain the effects below.")
	}
	return out
}

func noLessons() g.Node {
	return emptyState(
		"No lesson has matched yet",
		h.P(g.Text("A lesson is a LESSON.md file with triggers and advice. "+
			"There are three ways to get a first lesson:")),
		h.Ul(
			h.Li(
				g.Text("Write one: "), code("precept lessons new"),
				g.Text(" puts a file into the lessons directory. With "), code("--advice"),
				g.Text(", the lesson is active within two seconds; otherwise, it is active after "), code("precept lessons approve SLUG"), g.Text("."),
			),
			h.Li(
				g.Text("Import existing lessons with "), code("precept lessons import"),
				g.Text(", or add the starter lessons with "), code("precept init --starter"), g.Text("."),
			),
			h.Li(
				g.Text("Point an agent at precept's data listener and let "), code("precept distill"),
				g.Text(" derive lessons from failures; they wait in the queue."),
			),
		),
		h.P(
			g.Text("Numbers appear when sessions with a matching lesson have closed. To see an example now, run "),
			code("precept demo"), g.Text("."),
		),
	)
}
