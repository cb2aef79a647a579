package admin

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/report"
)

func (v *overviewView) html(f frame) g.Node {
	return g.Group{
		title("Overview", v.form()),
		v.needs(f),
		g.Map(v.Warnings, problem),
		g.Map(v.Notes, func(note string) g.Node { return h.P(h.Class("note"), g.Text(note)) }),
		g.Iff(len(v.Stats) > 0, func() g.Node { return figures(v.Stats) }),
		v.effects(f),
		v.health(),
		quiet(
			g.If(v.Definition != "", g.Text("Reward: "+v.Definition+". ")),
			g.Text("An effect is measured by withholding the lesson at random; 5 points are 0.05 of reward."),
		),
	}
}

func (v *overviewView) form() g.Node {
	price := "none"
	if v.Configured.Input > 0 {
		price = strconv.FormatFloat(v.Configured.Input, 'g', -1, 64)
	}
	return h.Form(
		h.Method("get"), h.Action("/"),
		h.Label(g.Text("Tenant "), h.Input(h.Name("tenant"), h.Value(v.Tenant), h.MaxLength("256"), g.Attr("size", "10"))),
		windows(v.Window),
		h.Label(
			h.Title("What a million input tokens cost you, in your currency"), g.Text("Price of 1M tokens "),
			h.Input(h.Name("price"), h.Value(v.Price), g.Attr("inputmode", "decimal"), h.Placeholder(price), g.Attr("size", "4")),
		),
		h.Label(h.Class("check"), h.Input(h.Type("checkbox"), h.Name("provisional"), h.Value("true"), g.If(v.Provisional, h.Checked())), g.Text(" with open sessions")),
		h.Button(g.Text("Show")),
	)
}

// needs is what a person should look at.
func (v *overviewView) needs(f frame) g.Node {
	if len(v.Needs) > 0 {
		return h.Section(h.Class("needs"), labelledBy("needs"), heading("needs", "Needs you"), h.Ul(g.Map(v.Needs, func(n need) g.Node {
			return h.Li(h.Class(n.Tone), h.A(h.Href(n.Href), g.Text(n.Text)))
		})))
	}
	return g.If(f.Problem == "", h.P(h.Class("rested"), g.Text("Nothing needs you: no fault, no lesson that harms, none that waits for approval.")))
}

// effects is the table of lessons, and how their effect went over time.
func (v *overviewView) effects(f frame) g.Node {
	if len(v.Table.Rows) == 0 {
		return g.If(f.Problem == "", noLessons())
	}
	return g.Group{
		heading("effects", "What each lesson does"),
		scroll(labelledBy("effects"), v.Table.html(nil)),
		quiet(
			g.If(v.Lessons > overviewRows, g.Textf("The first %d of %d. ", overviewRows, v.Lessons)),
			h.A(h.Href(f.Link("/lessons")), g.Text("All lessons, to sort and filter")),
		),
		heading("time", "Treated against control over time"),
		v.overTime(),
		g.If(v.Means != "", chartOf(v.Means, "Mean reward of treated and control sessions by day; the numbers are in the table below")),
		g.Iff(len(v.Days) > 0, func() g.Node { return meansTable(v.Days) }),
	}
}

func (v *overviewView) overTime() g.Node {
	const label = "Effect of all lessons together in points, with its 95% interval"
	switch {
	case v.Effects == "":
		return quiet(g.Text("The band is drawn as soon as there is an effect to show twice: it takes 50 sessions, of which at least 10 in control."))
	case v.Since:
		return g.Group{
			chartOf(v.Effects, label),
			quiet(g.Text("As this page showed it since the server started. From the second day on it is drawn from the counters, day by day.")),
		}
	default:
		return g.Group{chartOf(v.Effects, label+"; the numbers are in the table below"), bands(v.Bands)}
	}
}

func meansTable(days []report.Day) g.Node {
	return h.Details(
		h.Summary(g.Text("Mean rewards by day, as a table")),
		scroll(labelled("Mean rewards by day"), h.Table(
			h.Class("figures"),
			columns(wordColumn(g.Text("Day, UTC")), column(g.Text("Treated, points")), column(g.Text("sessions")), column(g.Text("Control, points")), column(g.Text("sessions"))),
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
	if len(v.Figures) == 0 {
		return nil
	}
	return g.Group{
		heading("health", "Health"),
		h.Table(h.Class("figures"), labelledBy("health"), h.TBody(g.Map(v.Figures, figureRow))),
	}
}

func figureRow(x Figure) g.Node {
	return h.Tr(rowHead(g.Text(x.Name)), h.Td(h.Class(when(x.Bad, "text bad", "text")), quoted(grouped(x.Value))))
}
