package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject/lesson"
	"precept/store"
)

type lessonView struct {
	slug       string
	lesson     *lesson.Lesson // nil if the bank lacks it
	row        *report.Row    // row for the current text, or else the last row, or nil
	trueEffect *float64       // true effect in the demo, else nil
	sinceStart []effectAt     // effects computed since the server's start
	block      string         // text that sessions get, if any
	findings   []lesson.Finding
	events     []lesson.Event
	older      []oldText
	prices     Prices
	mean       meanPrice // mean input price in the lesson's sessions
	stored     storedFigures
	backtest   backtestView
}

// maxEventsRead is how many of the newest audit log events are searched for events on a lesson.
const maxEventsRead = 2000

func (s *Server) lessonPage(c echo.Context) error {
	r, err := s.readReport(c)
	if err != nil {
		return err
	}
	ctx, tenant := c.Request().Context(), r.key.Tenant
	v := lessonView{slug: param(c, "slug")}
	v.read(ctx, &s.options, tenant, s.decisions.recent(trial.LessonSlug(v.slug), s.options.Now()))
	v.splitRows(r.report.Lessons)
	if v.lesson == nil && v.row == nil && r.problem == "" {
		return s.show(c, pageContent{Title: "Unknown lesson", Main: errorPage, Err: echo.NewHTTPError(http.StatusNotFound,
			"no lesson has this name, and the store has no counters for it")})
	}
	v.prices = s.options.Program.Prices()
	v.mean = s.weeklyMeanPrice(c, tenant, &v.prices, func(x *store.SessionItem) bool { return slices.Contains(x.Injected, v.slug) })
	if v.row != nil {
		v.trueEffect, v.sinceStart = trueEffects(s.options.TrueEffect).bySlug(v.slug), r.sinceStart(v.row.Arm)
	}
	v.stored.survey, v.stored.old, v.stored.err = s.surveys.get(ctx, tenant, maxPageWait)
	if v.stored.survey != nil {
		readOlderTexts(ctx, s.options.Read.Archive, v.stored.survey, tenant, v.older)
	}
	if c.QueryParam("backtest") != "" && v.lesson != nil {
		v.backtest = runBacktest(ctx, s.options.Read.Survey, tenant, v.lesson)
	}
	return s.show(c, pageContent{
		Title: v.title(), Main: v.html, Head: chartScripts(), Live: r.asOf.Old || v.stored.old, Counted: r.asOf, Problem: r.problem,
	})
}

// read sets the fields that come from the bank. decided is the lesson after a decision in the last seconds, or nil.
// Matches by likeness (similar words) are measured separately, under a slug with a suffix; read removes the suffix.
func (v *lessonView) read(ctx context.Context, o *Options, tenant string, decided *lesson.Lesson) {
	slug := trial.LessonSlug(v.slug)
	if events, err := o.Read.Library.Log(ctx, maxEventsRead); err == nil {
		v.events = slices.DeleteFunc(slices.Clone(events), func(e lesson.Event) bool { return e.Slug != slug })
		slices.Reverse(v.events)
	}
	book := o.Read.Library.Book()
	switch l, ok := book.Get(slug); {
	case decided != nil:
		v.lesson, v.block = decided, o.Read.Library.Block(tenant, decided)
	case ok:
		v.lesson, v.block, v.findings = l, o.Read.Library.Block(tenant, l), o.Read.Library.Findings(l)
	case book.Archived(slug):
		if l, err := o.Read.Library.Archived(ctx, slug); err == nil {
			v.lesson, v.block = l, o.Read.Library.Block(tenant, l)
		}
	}
}

// splitRows sets row to the current text's row, and older to the other rows. Without a current text, row is the last
// row, which is then in older as well.
func (v *lessonView) splitRows(rows []report.Row) {
	var last *report.Row
	for i := range rows {
		r := &rows[i]
		if r.Slug != v.slug {
			continue
		}
		current := v.lesson == nil || r.State != string(lesson.Archived) || r.ContentHash == v.lesson.ContentHash
		last = r
		if v.row == nil && !isPast(r) && current {
			v.row = r
			continue
		}
		v.older = append(v.older, oldText{row: r})
	}
	v.row = cmp.Or(v.row, last)
}

func (v *lessonView) title() string {
	if v.lesson == nil {
		return v.slug
	}
	return cmp.Or(v.lesson.Title, v.slug)
}

func (v *lessonView) html(f frame) g.Node {
	return g.Group{
		f.breadcrumb("/lessons"),
		title(v.title(), v.about()),
		windowNote(f),
		openSessionsNote(f, v.row),
		v.cautionNote(),
		v.newestDecision(f),
		g.Iff(v.row != nil, func() g.Node {
			return g.Group{verdictLine(v.row), statList(lessonStats(f, v.row, v.trueEffect)), lessonSessions(f, v.row.Slug)}
		}),
		g.Iff(v.lesson != nil && f.MayAct, func() g.Node { return actionForms(f, v.lesson, v.row) }),
		g.Iff(v.row != nil && len(v.row.Outcomes) > 0, func() g.Node {
			return section("outcomes", "Outcomes in every session", outcomeTable(f, v.row))
		}),
		g.Iff(v.row != nil && len(v.row.Models.Effects) > 0, func() g.Node {
			return section("models", "Models", modelTable(f, v.row))
		}),
		section("time", "Effect over time", lessonOverTime(v.row, v.trueEffect, v.sinceStart), sources(f, v.row)),
		g.Iff(v.lesson != nil, func() g.Node { return g.Group{v.texts(), v.trigger(f)} }),
		section("rewards", "Rewards with and without the lesson", v.stored.rewards(f, v.slug)),
		g.Iff(v.row != nil && v.row.LOODelta != nil, func() g.Node {
			return section("gap", "The difference without randomisation", h.P(g.Text(differenceNote(v.row))))
		}),
		section("opinion", "Judge's opinion", opinions(v.row)),
		g.Iff(v.row != nil, func() g.Node {
			return section("cost", "Cost", statList(lessonCosts(v.row, &v.prices, &v.mean)), v.mean.note(&v.prices))
		}),
		g.If(len(v.findings) > 0, section("checks", "Checks", findingList(v.findings))),
		section("history", "History", olderTexts(f, v.older, v.slug, v.block), eventsTable(v.events)),
	}
}

func sources(f frame, r *report.Row) g.Node {
	if r == nil || len(r.Sources()) == 0 {
		return nil
	}
	return mutedText(g.Text(strings.Join(r.Sources(), " ")+" "), h.A(h.Href(f.helpHref("EXPERIMENT#narrower-intervals")), g.Text("More")))
}

// windowNote says which sessions the page counts, and links to the page for all closed sessions. If the page counts
// all closed sessions, windowNote returns nil.
func windowNote(f frame) g.Node {
	window, open := f.query.Get("window"), f.query.Get("provisional")
	if d, err := ParseWindow(window); err != nil || d == 0 {
		window = ""
	}
	provisional, _ := strconv.ParseBool(open)
	if window == "" && !provisional {
		return nil
	}
	text := ifElse(provisional, "The effects include open sessions", "The effects include only closed sessions") +
		ifElse(window == "", ".", ", in the window "+escapeHidden(window)+".")
	return h.P(h.Class("warning"), g.Text(text+" "), h.A(h.Href(f.WithQuery("window", "", "provisional", "")), g.Text("Show all closed sessions")))
}

// openSessionsNote returns a link to the report with open sessions, or nil if no open session matches the lesson.
func openSessionsNote(f frame, r *report.Row) g.Node {
	if r == nil || r.OpenMatched == 0 {
		return nil
	}
	return h.P(g.Text("Not counted below: "+countNoun(r.OpenMatched, "open session")+" with a match. "),
		h.A(h.Href(f.WithQuery("provisional", "true")), g.Text("Include the open sessions")))
}

func (v *lessonView) about() g.Node {
	line := g.Group{code(v.slug)}
	state := ""
	switch {
	case v.row != nil && (v.lesson == nil || v.row.State == string(v.lesson.State)):
		state = rowState(v.row)
	case v.lesson != nil:
		state = string(v.lesson.State)
	}
	if state != "" {
		line = append(line, g.Text(" · "), termButton("state"), g.Text(": "+state))
	}
	if v.lesson != nil && v.lesson.Category != "" {
		line = append(line, g.Text(" · in "), untrustedText(v.lesson.Category))
	}
	return mutedText(line)
}

// texts returns the lesson as written, and the block that the model sees.
func (v *lessonView) texts() g.Node {
	block := warning("The lesson does not fit into inject.budget_bytes, so no session gets the lesson. Shorten the text, or raise the budget.")
	if v.block != "" {
		block = g.Group{
			textBox(h.Pre(untrustedText(v.block))),
			mutedText(g.Text("This block is inserted before the user's words, or at the top of the tool result that fired the lesson. " +
				"Other lessons in the turn share the first and the last line.")),
		}
	}
	return h.Section(
		h.Class("pair"),
		h.Div(h.H2(g.Text("The text")), textBox(prose(v.lesson.Body))),
		h.Div(h.H2(g.Text("As the model sees it")), block),
	)
}

func (v *lessonView) trigger(f frame) g.Node {
	description := v.lesson.Trigger.Description
	return section(
		"trigger", "Triggers",
		g.If(description != "", h.P(h.Dir("auto"), untrustedText(description))),
		triggerList(v.lesson, "The lesson has no words, tags or errors as triggers."),
		g.Iff(!f.Viewer, func() g.Node { return v.backtest.details(f) }),
	)
}
