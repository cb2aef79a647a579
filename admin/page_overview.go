package admin

import (
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/lesson"
	"precept/report"
)

// overviewView is what the first page shows.
type overviewView struct {
	query      Query
	report     report.Report
	rows       []*report.Row // those with something to tell
	truth      func(string) (float64, bool)
	needs      []need
	since      []look // what was shown since the start, where the counters have no days yet
	figures    []Figure
	configured Prices
}

// need is something that needs a person, with the way there.
type need struct{ text, href, tone string }

// overviewRows is how many lessons the first page shows.
const overviewRows = 25

// overview is the first page.
func (s *Server) overview(c echo.Context) error {
	q, err := query(c)
	if err != nil {
		return err
	}
	v := overviewView{query: q, truth: s.options.Truth}
	if s.options.Prices != nil {
		v.configured = s.options.Prices()
	}
	if s.options.Figures != nil {
		v.figures = s.options.Figures(c.Request().Context())
	}
	r, at, problem := s.readReport(c, q)
	v.report = r
	for i := range r.Lessons { // what was put away before anybody got it has nothing to tell
		if l := &r.Lessons[i]; l.Picked > 0 || lesson.State(l.State).Fires() {
			v.rows = append(v.rows, l)
		}
	}
	slices.SortStableFunc(v.rows, byEffect)
	if wholeReport(c) {
		v.since = s.history.of(historyKey{Tenant: q.Tenant})
	}
	v.needs = s.attention(&v, s.frame(c, shown{}))
	return s.show(c, shown{
		Title: "which lesson helped", Main: v.html, Head: charts(), Live: true, Counted: at, Problem: problem,
	})
}

// attention collects what needs a person, the worst first.
func (s *Server) attention(v *overviewView, f frame) (out []need) {
	for _, x := range v.figures {
		if x.Bad {
			out = append(out, need{x.Name + ": " + x.Value, "#health", "bad"})
		}
	}
	invalid, harm := 0, 0
	for i := range v.report.Lessons {
		switch l := &v.report.Lessons[i]; advise(l).Group {
		case "invalid":
			invalid++
		case "harms":
			if lesson.State(l.State).Fires() {
				harm++
			}
		}
	}
	add := func(n int, one, many, href, tone string) {
		if n > 0 {
			out = append(out, need{when(n == 1, one, count(n)+" "+many), href, tone})
		}
	}
	add(invalid, "A lesson has numbers that cannot be trusted", "lessons have numbers that cannot be trusted",
		f.Link("/lessons", "verdict", "invalid"), "bad")
	add(harm, "A lesson in force harms", "lessons in force harm", f.Link("/lessons", "verdict", "harms"), "bad")
	add(len(s.waiting()), "A lesson waits for approval", "lessons wait for approval", f.Link("/queue"), "warn")
	return out
}

// empty says that no session was counted and no lesson is known.
func (v *overviewView) empty() bool {
	g := &v.report.Global
	return len(v.report.Lessons) == 0 && g.NTreated+g.NControl == 0
}

func (v *overviewView) html(f frame) g.Node {
	return g.Group{
		title("Overview", v.form(f)),
		v.needsYou(f),
		g.If(!v.empty(), g.Map(doubts(&v.report), problem)),
		g.Map(v.report.Elsewhere, func(e report.Counted) g.Node {
			return h.P(h.Class("note"), g.Textf("Not in these numbers: %s that closed when the reward was %s.",
				things(e.Sessions, "session"), e.RewardDefinition))
		}),
		g.Iff(!v.empty(), func() g.Node { return figures(v.gains(f)) }),
		v.effects(f),
		v.health(),
		quiet(
			g.If(v.report.RewardDefinition != "", g.Text("Reward: "+v.report.RewardDefinition+". ")),
			g.Text("An effect is measured by withholding the lesson at random; 5 points are 0.05 of reward."),
		),
	}
}

func (v *overviewView) form(f frame) g.Node {
	price := "none"
	if v.configured.Input > 0 {
		price = strconv.FormatFloat(v.configured.Input, 'g', -1, 64)
	}
	return h.Form(
		h.Method("get"), h.Action("/"),
		h.Label(g.Text("Tenant "), h.Input(
			h.Name("tenant"), h.Value(f.Tenant), h.MaxLength("256"), g.Attr("size", "10"),
		)),
		windowField(f.query.Get("window")),
		h.Label(
			h.Title("What a million input tokens cost you, in your currency"), g.Text("Price of 1M tokens "),
			h.Input(
				h.Name("price"), h.Value(f.query.Get("price")), g.Attr("inputmode", "decimal"),
				h.Placeholder(price), g.Attr("size", "4"),
			),
		),
		tickField("with open sessions", "provisional", "true", v.query.Provisional),
		h.Button(g.Text("Show")),
	)
}

// needsYou is what a person should look at.
func (v *overviewView) needsYou(f frame) g.Node {
	if len(v.needs) > 0 {
		return h.Section(
			h.Class("needs"), labelledBy("needs"), heading("needs", "Needs you"),
			h.Ul(g.Map(v.needs, func(n need) g.Node {
				return h.Li(h.Class(n.tone), h.A(h.Href(n.href), g.Text(n.text)))
			})),
		)
	}
	return g.If(f.Problem == "", h.P(h.Class("rested"), g.Text(
		"Nothing needs you: no fault, no lesson that harms, none that waits for approval.")))
}

// effects is the table of lessons, and how their effect went over time.
func (v *overviewView) effects(f frame) g.Node {
	if v.empty() {
		return g.If(f.Problem == "", noLessons())
	}
	t := tableOf(&v.report, v.rows[:min(len(v.rows), overviewRows)], true, 0, v.truth)
	days := v.report.Global.Days
	return g.Group{
		heading("effects", "What each lesson does"),
		scroll(labelledBy("effects"), t.html(f, false)),
		quiet(
			g.If(len(v.rows) > overviewRows, g.Textf("The first %d of %d. ", overviewRows, len(v.rows))),
			h.A(h.Href(f.Link("/lessons")), g.Text("All lessons, to sort and filter")),
		),
		heading("time", "Treated against control over time"),
		v.overTime(),
		chartOf(meansChart(days),
			"Mean reward of treated and control sessions by day; the numbers are in the table below"),
		g.Iff(len(days) > 0, func() g.Node { return meansTable(days) }),
	}
}

func (v *overviewView) overTime() g.Node {
	const label = "Effect of all lessons together in points, with its 95% interval"
	bands := v.report.Global.Bands
	if drawn := chartOf(bandChart("All lessons together", bands, nil), label+"; the numbers are in the table below"); drawn != nil {
		return g.Group{drawn, bandTable(bands)}
	}
	if drawn := chartOf(looksChart("All lessons together", v.since), label); drawn != nil {
		return g.Group{drawn, quiet(g.Text("As this page showed it since the server started. " +
			"From the second day on it is drawn from the counters, day by day."))}
	}
	return quiet(g.Text("The band is drawn as soon as there is an effect to show twice: it takes 50 sessions, " +
		"of which at least 10 in control."))
}

func meansTable(days []report.Day) g.Node {
	return h.Details(
		h.Summary(g.Text("Mean rewards by day, as a table")),
		scroll(labelled("Mean rewards by day"), h.Table(
			h.Class("figures"),
			columns(
				wordColumn(g.Text("Day, UTC")), column(g.Text("Treated, points")), column(g.Text("sessions")),
				column(g.Text("Control, points")), column(g.Text("sessions")),
			),
			h.TBody(g.Map(days, func(d report.Day) g.Node {
				return h.Tr(
					rowHead(g.Text(d.Date)),
					h.Td(g.Text(points(d.MeanTreated))), h.Td(g.Textf("%d", d.NTreated)),
					h.Td(g.Text(points(d.MeanControl))), h.Td(g.Textf("%d", d.NControl)),
				)
			})),
		)),
	)
}

// health is what the service says of itself in short.
func (v *overviewView) health() g.Node {
	if len(v.figures) == 0 {
		return nil
	}
	return g.Group{heading("health", "Health"), figureTable("health", v.figures)}
}

// figureTable is a table of figures below the heading that names it.
func figureTable(heading string, list []Figure) g.Node {
	return h.Table(h.Class("figures"), labelledBy(heading), h.TBody(g.Map(list, func(x Figure) g.Node {
		return h.Tr(
			rowHead(g.Text(x.Name)), h.Td(h.Class(when(x.Bad, "text bad", "text")), quoted(grouped(x.Value))),
		)
	})))
}
