package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/lesson"
	"precept/report"
)

// lessonView is what the page of one lesson shows.
type lessonView struct {
	slug     string
	lesson   *lesson.Lesson // nil: it is in the bank no more
	row      *report.Row    // what was measured of its text; nil: nothing
	true     *float64       // demo: its true effect; else nil
	since    []look         // what was shown of it since the start
	block    string         // as the model sees it
	findings []lesson.Finding
	events   []lesson.Event
	actions  []action
	older    []oldText
	stored   stored
	tried    tried
}

// eventsRead is how far back the audit log is searched for a lesson.
const eventsRead = 2000

// lessonPage shows one lesson.
func (s *Server) lessonPage(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	r, at, problem := s.readReport(c, q)
	v := lessonView{slug: param(c, "slug")}
	var rows []*report.Row
	for i := range r.Lessons {
		if r.Lessons[i].Slug == v.slug {
			rows = append(rows, &r.Lessons[i])
		}
	}
	v.read(c.Request().Context(), s, q.Tenant)
	if v.lesson == nil && len(rows) == 0 && problem == "" {
		return s.show(c, shown{Title: "No such lesson", Main: failedPage, Err: echo.NewHTTPError(http.StatusNotFound,
			"there is no lesson of this name, and nothing was measured of one")})
	}
	v.measured(rows)
	if v.row != nil {
		v.true = actual(v.row, s.options.Truth)
		if wholeReport(c) {
			v.since = s.history.of(historyKey{q.Tenant, v.row.Arm})
		}
	}
	v.readStored(c, s, q.Tenant)
	return s.show(c, shown{
		Title: v.title(), Main: v.html, Head: charts(), Live: at.Old || v.stored.old, Counted: at, Problem: problem,
	})
}

// read fills in what the bank says.
func (v *lessonView) read(ctx context.Context, s *Server, tenant string) {
	lib := s.options.Library
	if lib == nil {
		return
	}
	if events, err := lib.Log(ctx, eventsRead); err == nil {
		v.events = slices.DeleteFunc(slices.Clone(events), func(e lesson.Event) bool { return e.Slug != v.slug })
		slices.Reverse(v.events)
	}
	l, ok := lib.Book().Get(v.slug)
	if !ok {
		return
	}
	v.lesson, v.block, v.findings = l, lib.Block(tenant, l), lib.Findings(l)
	if s.options.Keep != nil {
		v.actions = actionsOf(l.State)
	}
}

// measured finds the row of the text that is in the bank now, and keeps the others as older texts.
func (v *lessonView) measured(rows []*report.Row) {
	for _, r := range rows {
		if v.row == nil && !past(r) {
			v.row = r
			continue
		}
		v.older = append(v.older, oldText{row: r})
	}
	if v.row == nil && len(rows) > 0 {
		v.row = rows[len(rows)-1]
	}
}

func (v *lessonView) title() string {
	if v.lesson == nil {
		return v.slug
	}
	return cmp.Or(v.lesson.Title, v.slug)
}

func (v *lessonView) html(f frame) g.Node {
	return g.Group{
		h.P(h.Class("crumb"), h.A(h.Href(f.Link("/lessons")), g.Text("Lessons"))),
		title(v.title(), v.about()),
		g.Iff(v.row != nil, func() g.Node { return g.Group{v.verdict(), figures(v.figures())} }),
		v.forms(f),
		section("time", "Effect over time", v.overTime(), g.Iff(v.row != nil, func() g.Node { return looksTable(v.row.Looks) })),
		g.Iff(v.lesson != nil, func() g.Node { return g.Group{v.texts(), v.trigger(f)} }),
		section("rewards", "Rewards with it and without it", v.rewards()),
		g.Iff(v.row != nil && v.row.LOODelta != nil, func() g.Node {
			return section("gap", "What observation alone would say", h.P(g.Text(gap(v.row))))
		}),
		section("opinion", "Opinion of the judge, beside the measurement", v.opinions()),
		g.Iff(v.row != nil, func() g.Node { return section("cost", "What it costs", figures(v.costs())) }),
		g.Iff(len(v.findings) > 0, func() g.Node { return section("checks", "Checks", findingList(v.findings)) }),
		section("history", "History", v.olderTexts(f), v.log()),
	}
}

// about is the line below the title.
func (v *lessonView) about() g.Node {
	line := g.Group{code(v.slug)}
	state := ""
	switch {
	case v.lesson != nil:
		state = string(v.lesson.State)
	case v.row != nil:
		state = v.row.State
	}
	if state != "" {
		line = append(line, g.Text(" · "), word("state"), g.Text(": "+state))
	}
	if v.lesson != nil && v.lesson.Category != "" {
		line = append(line, g.Text(" · in "), quoted(v.lesson.Category))
	}
	return quiet(line)
}

func (v *lessonView) verdict() g.Node {
	a := advise(v.row)
	if a.Words == "" {
		return nil
	}
	note := v.row.Note
	if v.row.Widened() || saysNote(v.row.Verdict) {
		note = ""
	}
	return h.P(
		h.Class("verdict-line"), h.Strong(h.Class(a.Tone), g.Text(a.Words+".")), g.Text(" "+a.Next),
		g.If(note != "", g.Group{space(), h.Span(h.Class("quiet"), g.Text("("+note+")"))}),
	)
}

// texts are the lesson as it was written, and as the model sees it.
func (v *lessonView) texts() g.Node {
	block := warning("It does not fit into inject.budget_bytes, so no session gets it. Shorten it, or raise the budget.")
	if v.block != "" {
		block = g.Group{
			paper(h.Pre(quoted(v.block))),
			quiet(g.Text("This block stands before the user's own words, or at the top of the tool result that fired it. " +
				"Other lessons of the turn share its head and end.")),
		}
	}
	return h.Section(
		h.Class("pair"),
		h.Div(h.H2(g.Text("The text")), paper(prose(v.lesson.Body))),
		h.Div(h.H2(g.Text("As the model sees it")), block),
	)
}

// paper is what a text of a lesson stands on.
func paper(text g.Node) g.Node { return h.Div(h.Class("paper"), text) }

func (v *lessonView) trigger(f frame) g.Node {
	description := v.lesson.Trigger.Description
	return section(
		"trigger", "When it fires",
		g.If(description != "", h.P(h.Dir("auto"), quoted(description))),
		facetList(v.lesson, "It has no words, tags or errors to fire on."),
		v.tried.html(f),
	)
}

func (v *lessonView) opinions() g.Node {
	if v.row == nil || v.row.Opinions == nil {
		return quiet(
			g.Text("No judge has said anything of it. "), h.Code(g.Text("precept distill")),
			g.Text(" asks one for sessions in which lessons were in force; its opinion would stand here, "+
				"and in no number above."),
		)
	}
	o := v.row.Opinions
	return h.P(g.Textf("In the sessions that it read, the judge found the lesson followed %d %s, ignored %d, "+
		"irrelevant %d, contradicted %d. This is an opinion; no number above holds it.",
		o.Followed, plural(o.Followed, "time", "times"), o.Ignored, o.Irrelevant, o.Contradicted))
}
