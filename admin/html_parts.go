package admin

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/lesson"
	"precept/report"
)

// word is a word of the glossary, its definition one hover, tap or key away.
func word(key string) g.Node { return wordOf(find(key)) }

func wordOf(t term) g.Node {
	return h.Button(h.Type("button"), h.Class("term"), h.PopoverTarget("def-"+t.Key), h.Title(t.Text), g.Text(t.Name))
}

// figures are numbers, each with its unit and definition.
func figures(list []stat) g.Node {
	return h.Dl(h.Class("stats"), g.Map(list, func(s stat) g.Node {
		return h.Div(
			toned(s.Tone),
			h.Dt(wordOf(s.Term)),
			h.Dd(
				h.Span(h.Class("value"), g.Text(s.Value)),
				g.If(s.Unit() != "", g.Group{space(), h.Span(h.Class("unit"), g.Text(s.Unit()))}),
				g.If(s.Note != "", small(g.Text(s.Note))),
			),
		)
	}))
}

// rows says which rows are shown, and leads to the others.
func (p pager) html() g.Node {
	shown := "none"
	if p.Total > 0 {
		shown = strconv.Itoa(p.First) + " to " + strconv.Itoa(p.Last) + " of " + strconv.Itoa(p.Total)
	}
	return pagerOf(
		h.Span(g.Text(shown)),
		g.If(p.Prev != "", h.A(h.Href(p.Prev), h.Rel("prev"), g.Text("Previous"))),
		g.If(p.Next != "", h.A(h.Href(p.Next), h.Rel("next"), g.Text("Next"))),
	)
}

func pagerOf(children ...g.Node) g.Node {
	return h.Nav(h.Class("pager"), labelled("Rows"), g.Group(children))
}

// olderPager leads through a list that is read from its newest entry on.
func olderPager(shown g.Node, first, next string) g.Node {
	return pagerOf(
		shown,
		g.If(first != "", h.A(h.Href(first), g.Text("Newest"))),
		g.If(next != "", h.A(h.Href(next), h.Rel("next"), g.Text("Older"))),
	)
}

// html is a column's head that sorts.
func (s sorter) html() g.Node {
	return h.A(
		h.Class("sort"), h.Href(s.Href), g.If(s.Label != "", labelled(s.Label)), g.Text(s.Name),
		g.If(s.Arrow != "", g.Group{space(), h.Span(h.Aria("hidden", "true"), g.Text(s.Arrow))}),
	)
}

// seen tells a form's handler which text and state of a lesson the person saw.
func seen(l *lesson.Lesson) g.Node {
	return g.Group{hiddenField("text", l.ContentHash), hiddenField("state", string(l.State))}
}

// facetList is what a lesson fires on.
func facetList(facets []facet, never string) g.Node {
	one := func(name string, values ...g.Node) g.Node {
		return h.Div(h.Dt(g.Text(name)), h.Dd(values...))
	}
	if len(facets) == 0 {
		return h.Dl(h.Class("facets"), one("never", g.Text(never)))
	}
	return h.Dl(h.Class("facets"), g.Map(facets, func(f facet) g.Node {
		return one(f.Name, g.Map(f.Values, func(v string) g.Node { return g.Group{code(v), space()} }))
	}))
}

// findingList is what the checks say of a lesson.
func findingList(list []lesson.Finding, attributes ...g.Node) g.Node {
	return h.Ul(g.Group(attributes), g.Map(list, func(f lesson.Finding) g.Node {
		return h.Li(h.Class(when(f.Severity == lesson.Error, "bad", "warn")), g.Text(f.String()))
	}))
}

// diffText is a diff, line by line.
func diffText(lines []diffLine) g.Node {
	return h.Pre(h.Class("diff"), g.Map(lines, func(l diffLine) g.Node {
		return h.Span(h.Class(l.Kind), g.Text(l.Mark+" "), quoted(l.Text), g.Text("\n"))
	}))
}

// windows is a field for the window of a report, with the usual ones to choose from.
func windows(value string) g.Node {
	return g.Group{
		h.Label(g.Text("Window "), h.Input(h.Name("window"), h.Value(value), h.Placeholder("all"), g.Attr("size", "4"), h.List("windows"))),
		h.DataList(h.ID("windows"), h.Option(h.Value("24h")), h.Option(h.Value("7d")), h.Option(h.Value("30d"))),
	}
}

// bands is an effect over time as a table.
func bands(list []report.Band) g.Node {
	return h.Details(
		h.Summary(g.Text("The same as a table")),
		scroll(labelled("Effect over time"), h.Table(
			h.Class("figures"),
			columns(wordColumn(g.Text("Day, UTC")), column(g.Text("Effect, points")), column(g.Text("from")), column(g.Text("to"))),
			h.TBody(g.Map(list, func(b report.Band) g.Node {
				return h.Tr(rowHead(g.Text(b.Date)), h.Td(g.Text(points(&b.Effect))), h.Td(g.Text(points(&b.Lo))), h.Td(g.Text(points(&b.Hi))))
			})),
		)),
	)
}

// noLessons teaches who has none.
func noLessons() g.Node {
	command := func(text string) g.Node { return h.Code(g.Text(text)) }
	return empty(
		"No lesson has matched yet",
		h.P(g.Text("A lesson is a LESSON.md file that says when it applies and what to do then. There are three ways to get the first:")),
		h.Ul(
			h.Li(g.Text("Write one: "), command("precept lessons new"), g.Text(" puts a file into the lessons directory, and it is in force within two seconds.")),
			h.Li(g.Text("Take a set that others wrote: "), command("precept lessons import"), g.Text(", or the starter lessons of "), command("precept init"), g.Text(".")),
			h.Li(g.Text("Point an agent at precept's data listener and let "), command("precept distill"), g.Text(" make some out of what goes wrong; they wait in the queue.")),
		),
		h.P(g.Text("Numbers appear when sessions in which a lesson matched have closed. To see how that looks now, run "), command("precept demo"), g.Text(".")),
	)
}
