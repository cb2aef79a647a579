package admin

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

func (v *breakdownView) html(f frame) g.Node {
	return g.Group{
		title("Breakdown", h.Nav(h.Class("ways"), labelled("Break down by"), g.Map(v.Ways, func(w zoom) g.Node {
			return h.A(h.Href(f.Link("/breakdown", "by", w.Key)), g.If(w.Key == v.By, h.Aria("current", "true")), g.Text(w.Name))
		}))),
		h.P(h.Class("warning"), g.Textf("Exploratory. The coins are tossed for all sessions together, so an effect in a part of them is a hint to look closer, not a verdict. "+
			"Effects are drawn towards the mean of their lesson, and intervals are widened for the %d cells that are looked at.", v.Looks)),
		v.cells(f),
	}
}

func (v *breakdownView) cells(f frame) g.Node {
	switch {
	case len(v.Rows) > 0:
		return g.Group{scroll(labelled("Effects by "+v.Name), v.table()), v.Pager.html()}
	case v.Reading:
		return empty("The stored sessions are being read", h.P(g.Text("It takes some seconds the first time. The table stands here then, by itself.")))
	case f.Problem != "":
		return nil
	default:
		return v.tooFew()
	}
}

func (v *breakdownView) table() g.Node {
	points := func() g.Node { return small(g.Text("points")) }
	sessions := func() g.Node { return small(g.Text("sessions")) }
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
			wordColumn(g.Text(v.Name)), wordColumn(g.Text("Lesson")), column(word("exploratory"), points()),
			column(h.Class("plot"), h.Span(h.Class("hidden-text"), g.Text("Forest plot")), axisOf(v.Ticks)),
			column(word("corrected"), points()), column(g.Text("As measured"), points()),
			column(word("injected"), sessions()), column(word("withheld"), sessions()),
		),
		h.TBody(g.Map(v.Rows, breakdownRow.html)),
	)
}

func (r breakdownRow) html() g.Node {
	lesson := g.Text("all together, against control")
	if !r.All {
		lesson = h.A(h.Href(r.Href), quoted(r.Lesson))
	}
	return h.Tr(
		g.If(r.All, h.Class("all")),
		rowHead(h.Class("name"), quoted(r.Value)),
		h.Td(h.Class("text wrap"), lesson),
		cell("Shrunken effect, points", h.Class("effect "+r.Tone), g.Text(r.Shrunken)),
		h.Td(h.Class("plot"), r.Plot.html()),
		cell("Corrected interval, points", g.Text(r.Interval)),
		cell("As measured, points", g.Text(r.Effect)),
		cell("Injected, sessions", g.Text(r.Injected)),
		cell("Withheld, sessions", g.Text(r.Withheld)),
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
