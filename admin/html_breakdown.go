package admin

import (
	"cmp"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/report"
)

func (v *breakdownView) html(f frame) g.Node {
	return g.Group{
		title("Breakdown", h.Nav(h.Class("ways"), labelled("Break down by"), g.Map(ways(), func(w zoom) g.Node {
			return h.A(h.Href(f.Link("/breakdown", "by", w.Key)), g.If(w.Key == v.By, h.Aria("current", "true")), g.Text(w.Name))
		}))),
		h.P(h.Class("warning"), g.Textf("Exploratory. The coins are tossed for all sessions together, so an effect in a part of them is a hint to look closer, not a verdict. "+
			"Effects are drawn towards the mean of their lesson, and intervals are widened for the %d cells that are looked at.", v.Looks)),
		v.cells(f),
	}
}

func (v *breakdownView) cells(f frame) g.Node {
	switch {
	case len(v.Cells) > 0:
		return g.Group{scroll(labelled("Effects by "+v.Name), v.table(f)), v.Pager.html()}
	case v.Reading:
		return empty("The stored sessions are being read", h.P(g.Text("It takes some seconds the first time. The table stands here then, by itself.")))
	case f.Problem != "":
		return nil
	default:
		return v.tooFew()
	}
}

func (v *breakdownView) table(f frame) g.Node {
	ticks := v.Axis.Ticks()
	unit := func(name string) g.Node { return small(g.Text(name)) }
	return h.Table(
		h.Class("effects cards"),
		h.Caption(
			g.If(v.Sessions != "", g.Group{
				g.Text("Of " + v.Sessions + " closed sessions with a reward since " + v.Since),
				g.If(!v.Whole, g.Text(", the newest that could be read in time")), g.Text("."),
			}),
			g.If(v.Thin > 0, g.Textf(" Not shown for too little data (under 50 sessions, or under 10 in an arm): %d.", v.Thin)),
		),
		columns(
			wordColumn(g.Text(v.Name)), wordColumn(g.Text("Lesson")), column(word("exploratory"), unit("points")),
			column(h.Class("plot"), h.Span(h.Class("hidden-text"), g.Text("Forest plot")), axisOf(ticks)),
			column(word("corrected"), unit("points")), column(g.Text("As measured"), unit("points")),
			column(word("injected"), unit("sessions")), column(word("withheld"), unit("sessions")),
		),
		h.TBody(g.Map(v.Cells, func(x report.Cell) g.Node { return v.row(f, x, ticks) })),
	)
}

// row is one cell: a lesson, or all together, in a part of the sessions.
func (v *breakdownView) row(f frame, x report.Cell, ticks []tick) g.Node {
	part := cmp.Or(x.Value, "unknown")
	if v.By == report.OfLength {
		part = cmp.Or(lengths(x.Value), part)
	}
	lesson := h.A(h.Href(f.lesson(x.Slug)), quoted(x.Slug))
	if x.Slug == "" {
		lesson = g.Text("all together, against control")
	}
	return h.Tr(
		g.If(x.Slug == "", h.Class("all")),
		rowHead(h.Class("name"), quoted(part)),
		h.Td(h.Class("text wrap"), lesson),
		cell("Shrunken effect, points", h.Class("effect "+tone(&x.Lo, &x.Hi)), g.Text(points(&x.Shrunken))),
		h.Td(h.Class("plot"), v.Axis.plot(ticks, &x.Shrunken, &x.Lo, &x.Hi, nil).html()),
		cell("Corrected interval, points", g.Text(points(&x.Lo)+" to "+points(&x.Hi))),
		cell("As measured, points", g.Text(points(&x.Effect))),
		cell("Injected, sessions", g.Text(count(x.Injected))),
		cell("Withheld, sessions", g.Text(count(x.Withheld))),
	)
}

// tooFew says how much data it takes, and how much there is.
func (v *breakdownView) tooFew() g.Node {
	stored := ""
	if v.Sessions != "" {
		stored = v.Sessions + " such sessions are stored since " + v.Since
		if v.Thin > 0 {
			stored += ", in " + count(v.Thin) + " cells that are still too small"
		}
		stored += "."
	}
	return empty(
		"No part of the sessions has enough data yet",
		h.P(g.Text("A cell is shown from 50 closed sessions with a reward on, of which at least 10 were injected and 10 withheld. "+stored)),
		h.P(
			g.Text("Agents are told apart by "), h.Code(g.Text("Precept-Agent")), g.Text(", the path form "),
			h.Code(g.Text("/p/agent=NAME/v1")), g.Text(", or their User-Agent."),
		),
	)
}
