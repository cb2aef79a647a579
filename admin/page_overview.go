package admin

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject/lesson"
	"precept/store"
)

type overviewView struct {
	pageReport    pageReport
	rows          []*report.Row // rows with data, of lessons in use
	unused        []*report.Row // rows with data, of lessons not in use
	trueEffects   trueEffects
	tasks         []task
	figures       []Figure
	prices        Prices
	mean          meanPrice     // mean input price in the last seven days
	unmatched     []*report.Row // active lessons that never matched
	matchedInOpen []*report.Row // active lessons that matched only in open sessions
	dataURL       string        // base URL for agents
	tenants       []string      // other tenants with data, if this one has none
}

// task is an open task for the user.
type task struct {
	text, href, tone string
	sessions         string // link to the sessions concerned
}

const overviewRows = 25 // lessons in the overview's table

func (s *Server) overview(c echo.Context) error {
	r, err := s.readReport(c)
	if err != nil {
		return err
	}
	v := overviewView{
		pageReport: r, trueEffects: s.options.TrueEffect, prices: s.options.Program.Prices().withInputPrice(c.QueryParam("price")), dataURL: s.options.Address.DataURL, figures: s.options.Program.Figures(c.Request().Context()),
	}
	for i := range r.report.Lessons { // a lesson that is not active and was never picked is in no list
		switch l := &r.report.Lessons[i]; {
		case l.Matched == 0 && l.Picked == 0 && l.Rewarded == 0 && l.Effect == nil && lesson.State(l.State).IsActive():
			if r.report.Open.MatchedArm(l.Arm) > 0 {
				v.matchedInOpen = append(v.matchedInOpen, l)
			} else {
				v.unmatched = append(v.unmatched, l)
			}
		case l.Picked > 0 && l.Group() == report.NotInUse:
			v.unused = append(v.unused, l)
		case l.Picked > 0 || lesson.State(l.State).IsActive():
			v.rows = append(v.rows, l)
		}
	}
	sortByEffect(v.rows)
	sortByEffect(v.unused)
	v.mean = s.weeklyMeanPrice(c, r.key.Tenant, &v.prices, func(x *store.SessionItem) bool { return !x.Control })
	v.tasks = s.pendingTasks(&v, linkFrame(c))
	if v.isEmpty() {
		v.tenants = s.otherTenants(c.Request().Context(), r.key.Tenant)
	}
	return s.show(c, pageContent{
		Title: "lessons and effects", Main: v.html, Head: chartScripts(), Live: true, Counted: r.asOf, Problem: r.problem,
	})
}

// otherTenants returns at most 20 other tenants with data, or none if the store does not answer.
func (s *Server) otherTenants(ctx context.Context, tenant string) []string {
	const most = 20
	names, err := s.tenantNames(ctx)
	if err != nil {
		return nil
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == tenant })
	return names[:min(len(names), most)]
}

func (s *Server) tenantNames(ctx context.Context) ([]string, error) {
	if s.options.Program.Tenants == nil {
		return nil, nil
	}
	names, err := s.options.Program.Tenants(ctx)
	return slices.Sorted(slices.Values(names)), err
}

// isEmpty reports whether no lesson has data and no session is treated or control.
func (v *overviewView) isEmpty() bool {
	return len(v.rows)+len(v.unused) == 0 && v.pageReport.report.Global.NTreated+v.pageReport.report.Global.NControl == 0
}

// pendingTasks returns the tasks, most urgent first.
func (s *Server) pendingTasks(v *overviewView, f frame) (out []task) {
	for _, x := range v.figures {
		if x.Bad {
			out = append(out, task{text: x.Name + ": " + x.Value, href: "#health", tone: "bad"})
		}
	}
	invalid, harm, cautions := 0, 0, 0
	harmful := ""
	for i := range v.pageReport.report.Lessons {
		l := &v.pageReport.report.Lessons[i]
		if isCautionByCounts(l) {
			cautions++
		}
		switch advise(l).Group {
		case "invalid":
			invalid++
		case "harms":
			if lesson.State(l.State).IsActive() {
				harm, harmful = harm+1, l.Slug
			}
		}
	}
	add := func(n int, one, many, href, tone string) {
		if n > 0 {
			out = append(out, task{text: ifElse(n == 1, one, countText(n)+" "+many), href: href, tone: tone})
		}
	}
	add(invalid, "A lesson has unreliable numbers", "lessons have unreliable numbers",
		f.linkInReport("/lessons", "verdict", "invalid"), "bad")
	if harm == 1 {
		out = append(out, task{"The active lesson " + harmful + " does harm", f.lessonHref(harmful), "bad", f.sessionsInWindow("lesson", harmful, "arm", store.FateInjected, "verdict", "poor")})
	} else {
		add(harm, "", "active lessons do harm", f.linkInReport("/lessons", "verdict", "harms"), "bad")
	}
	add(cautions, "Poor results turned a lesson into a caution", "lessons became cautions because of poor results", f.linkInReport("/lessons", "verdict", "caution"), "warn")
	add(len(s.waitingLessons()), "A lesson waits for approval", "lessons wait for approval", f.Link("/queue"), "warn")
	return out
}

func (v *overviewView) html(f frame) g.Node {
	nothing := v.isEmpty()
	return g.Group{
		title("Overview"),
		v.taskList(f),
		v.form(f),
		g.If(len(v.tenants) > 0, h.P(
			h.Class("warning"), g.Text("This page shows the tenant "), untrustedText(f.Tenant), g.Text(". Other tenants have data:"),
			g.Map(v.tenants, func(name string) g.Node {
				return g.Group{space(), h.A(h.Href(f.WithQuery("tenant", name)), untrustedText(name))}
			}),
		)),
		g.If(!nothing, g.Map(reportWarnings(&v.pageReport.report), problem)),
		g.Map(v.pageReport.report.OtherDefinitions, func(e report.DefinitionCount) g.Node {
			return h.P(h.Class("warning"), g.Textf("Not included: %s that closed with another reward definition: %s.",
				countNoun(e.Sessions, "session"), definitionText(e.RewardDefinition)))
		}),
		g.Iff(v.pageReport.report.Flow.Closed > 0, func() g.Node {
			return g.Group{
				mutedText(g.Text(v.pageReport.report.FlowSentence()+". "), h.A(h.Href(f.helpHref("EXPERIMENT#sessions-outside-of-the-experiment")), g.Text("Reasons"))),
				v.countBases(),
			}
		}),
		g.If(v.pageReport.report.Global.MeasuredRules > 0, mutedText(g.Text(v.pageReport.report.Global.RulesNote()))),
		g.Iff(v.pageReport.report.Open != nil, func() g.Node {
			open := v.pageReport.report.Open
			return mutedText(g.Text(open.String()), g.If(open.Sessions > 0, g.Group{space(), h.A(h.Href(f.Link("/sessions", "verdict", store.StillOpen)), g.Text("Show the open sessions"))}))
		}),
		g.Iff(nothing && f.page.Problem == "", func() g.Node {
			if len(v.matchedInOpen) > 0 {
				return v.openSessionsPage(f)
			}
			return v.welcomePage(f)
		}),
		g.Iff(!nothing, func() g.Node {
			return g.Group{
				newNetResult(&v.pageReport.report, v.prices, v.mean).html(f), v.effects(f),
				section("more", "Figures", statList(gainStats(f, &v.pageReport.report, &v.prices, &v.mean))),
			}
		}),
		g.If(len(v.figures) > 0, section("health", "Health", figureTable("health", v.figures))),
		mutedText(
			g.If(v.pageReport.report.RewardDefinition != "", g.Text("Reward: "+definitionText(v.pageReport.report.RewardDefinition)+". ")),
			g.Text("An effect is measured by withholding the lesson at random; 5 points are a reward of 0.05."),
		),
	}
}

// countBases says which sessions each count on the dashboard covers, so that a reader can reconcile the counts.
func (v *overviewView) countBases() g.Node {
	r := &v.pageReport.report
	lines := append(r.Flow.Groups(), r.Reporting.Sentence()+"; effects, mean rewards and the net result count these sessions")
	if r.Window != "" {
		lines = append(lines, "these counts ignore the window; the effects and the figures below do not")
	}
	lines = append(lines, "sessions and traffic pages count all stored sessions: also open and excluded sessions, and each session in a run")
	return collapsible("How the counts add up", h.Ul(g.Map(lines, func(line string) g.Node { return h.Li(g.Text(sentence(line))) })))
}

// openSessionsPage is the overview while lessons have matched only in open sessions.
func (v *overviewView) openSessionsPage(f frame) g.Node {
	return emptyState(
		"No session with a match has closed yet",
		h.P(g.Textf("In open sessions, %s matched:", countNoun(len(v.matchedInOpen), "lesson"))),
		h.Ul(limitedList(v.matchedInOpen, h.Li, func(l *report.Row) g.Node {
			return h.Li(h.A(h.Href(f.lessonHref(l.Slug)), untrustedText(l.Slug)), g.Text(", "+countNoun(v.pageReport.report.Open.MatchedArm(l.Arm), "open session")))
		})),
		h.P(
			g.Text("Until the sessions close, "), h.A(h.Href(f.WithQuery("provisional", "true")), g.Text("include the open sessions here")),
			g.Text(" or with "), code("precept report --provisional"), g.Text(". With Live checked above, the page refreshes itself."),
		),
	)
}

func lessonLinks(f frame, summary string, list []*report.Row) g.Node {
	return collapsible(summary, h.Ul(limitedList(list, h.Li, func(l *report.Row) g.Node {
		return h.Li(h.A(h.Href(f.lessonHref(l.Slug)), untrustedText(l.Slug)))
	})))
}

// welcomePage is the overview before the first match.
func (v *overviewView) welcomePage(f frame) g.Node {
	base := cmp.Or(v.dataURL, "http://127.0.0.1:8080") + "/v1"
	return emptyState(
		"precept is ready",
		h.P(g.Text("The base URL for agents is "), code(base), g.Text(". No lesson has matched yet. The next three steps:")),
		h.Ol(
			h.Li(g.Text("Point an agent at the base URL: "), code("OPENAI_BASE_URL="+base), g.Text(", or start an agent with "), code("precept run -- AGENT"), g.Text(". The sessions appear under "), h.A(h.Href(f.Link("/sessions")), g.Text("Sessions")), g.Text(".")),
			h.Li(g.Text("Add lessons: "), code("precept init --starter"), g.Text(" writes starter lessons, "), code("precept lessons import"), g.Text(" reads existing ones, and "), code("precept lessons new"), g.Text(" writes one: active at once with "), code("--advice"), g.Text(", otherwise a candidate that fires after "), code("precept lessons approve SLUG"), g.Text(". A change takes effect within two seconds.")),
			h.Li(g.Text("Have a test or a person rate the sessions: "), h.A(h.Href(f.helpHref("SAMPLES#feedback")), g.Text("feedback")), g.Text(". Effects appear when rewarded sessions with a matching lesson have closed.")),
		),
		h.P(g.Text("To see an example now, run "), code("precept demo"), g.Text(".")),
	)
}

func (v *overviewView) form(f frame) g.Node {
	price := "none"
	if v.mean.known {
		price = strconv.FormatFloat(v.mean.price.Input, 'g', 4, 64)
	}
	return filterForm(
		"/", "Choose what is counted", f.withoutFilters("window", "price", "provisional"),
		textField("Tenant", "tenant", f.Tenant, "10"),
		windowField(f.query.Get("window")),
		textField(
			"Price per 1M tokens", "price", f.query.Get("price"), "8", g.Attr("inputmode", "decimal"), h.Placeholder(price),
			h.Title("Price per million input tokens, in your currency"),
		),
		checkboxField("with open sessions", "provisional", "true", v.pageReport.key.Provisional),
	)
}

func (v *overviewView) taskList(f frame) g.Node {
	if len(v.tasks) > 0 {
		return h.Section(
			h.Class("needs"), ariaLabelledBy("needs"), heading("needs", "Needs a person"),
			h.Ul(g.Map(v.tasks, func(n task) g.Node {
				return h.Li(h.Class(n.tone), h.A(h.Href(n.href), untrustedText(truncateChars(n.text, 300))),
					g.If(n.sessions != "", g.Group{g.Text(" · "), h.A(h.Href(n.sessions), g.Text("poor sessions"))}))
			})),
		)
	}
	return g.If(f.page.Problem == "", h.P(h.Class("rested"), g.Text(
		"Nothing urgent: there is no fault, no harmful lesson, and no lesson that waits for approval.")))
}

// effects returns the lessons table and the charts for all lessons together.
func (v *overviewView) effects(f frame) g.Node {
	t := newEffectTable(&v.pageReport.report, v.rows[:min(len(v.rows), overviewRows)], true, 0, v.trueEffects)
	drawn := effectOverTime("All lessons together", "Effect of all lessons together in points, with the 95% interval",
		v.pageReport.report.Global.Bands, nil, v.pageReport.sinceStart(""))
	if drawn == nil {
		drawn = mutedText(g.Textf("The chart starts when the effect has been computed twice. precept computes an effect from %d sessions with a reward, with at least %d in the treated and %d in the control group.", trial.MinPicks, trial.MinPerArm, trial.MinPerArm))
	}
	return g.Group{
		heading("effects", "Effect per lesson"),
		scrollRegion(ariaLabelledBy("effects"), t.html(f, false)),
		mutedText(
			g.If(len(v.rows) > overviewRows, g.Textf("The first %d of %s. ", overviewRows, countText(len(v.rows)))),
			h.A(h.Href(f.linkInReport("/lessons")), g.Text("Sort and filter all lessons")),
		),
		g.Iff(len(v.unused) > 0, func() g.Node {
			t := newEffectTable(&v.pageReport.report, v.unused[:min(len(v.unused), overviewRows)], false, 0, v.trueEffects)
			name := countNoun(len(v.unused), "measured text") + " not in use: paused, retired, edited or removed"
			return collapsible(name, scrollRegion(ariaLabel("Effects of texts not in use"), t.html(f, false)),
				g.If(len(v.unused) > overviewRows, mutedText(g.Textf("The first %d of %s.", overviewRows, countText(len(v.unused))))))
		}),
		g.Iff(len(v.matchedInOpen) > 0, func() g.Node {
			return lessonLinks(f, countNoun(len(v.matchedInOpen), "active lesson")+" that matched only in open sessions", v.matchedInOpen)
		}),
		g.Iff(len(v.unmatched) > 0, func() g.Node {
			return lessonLinks(f, countNoun(len(v.unmatched), "active lesson")+" without a match so far", v.unmatched)
		}),
		section("time", "Treated against control over time", drawn, meansOverTime(v.pageReport.report.Global.Days)),
	}
}
