package admin

import (
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/lesson"
	"precept/report"
)

// find is a word of the glossary; without a definition where there is none, which the tests of the
// pages look for.
func find(key string) term {
	terms := glossary()
	i := slices.IndexFunc(terms, func(t term) bool { return t.Key == key })
	if i < 0 {
		return term{Key: key, Name: key}
	}
	return terms[i]
}

// word is a word of the glossary, its definition one hover, tap or key away.
func word(key string) g.Node { return wordOf(find(key)) }

func wordOf(t term) g.Node {
	return h.Button(
		h.Type("button"), h.Class("term"), h.PopoverTarget("def-"+t.Key), h.Title(t.Text), g.Text(t.Name),
	)
}

// stat is a figure with its unit and its definition, which are its term's.
type stat struct {
	term  term
	value string
	note  string // what it is measured against, or since when
	tone  string // good, bad, warn or nothing
}

func statOf(key, value, note, tone string) stat { return stat{find(key), value, note, tone} }

// unit is what the value counts: one session, two sessions.
func (s stat) unit() string {
	if s.value == "1" {
		return strings.TrimSuffix(s.term.Unit, "s")
	}
	return s.term.Unit
}

// figures are numbers, each with its unit and definition.
func figures(list []stat) g.Node {
	if len(list) == 0 {
		return nil
	}
	return h.Dl(h.Class("stats"), g.Map(list, func(s stat) g.Node {
		unit := s.unit()
		return h.Div(
			toned(s.tone),
			h.Dt(wordOf(s.term)),
			h.Dd(
				h.Span(h.Class("value"), g.Text(s.value)),
				g.If(unit != "", g.Group{space(), h.Span(h.Class("unit"), g.Text(unit))}),
				g.If(s.note != "", small(g.Text(s.note))),
			),
		)
	}))
}

// sorter is a column's head that sorts this page: first as it is most wanted (down is largest
// first), the second time the other way. It says text, or shows an arrow alone.
func (f frame) sorter(key, name, text string, down bool) g.Node {
	keys, orders := [2]string{key, "-" + key}, [2]string{"smallest first", "largest first"}
	first := when(down, 1, 0)
	next, arrow := first, when(text == "", "↕", "")
	for i, mark := range []string{"▲", "▼"} {
		if f.query.Get("sort") == keys[i] {
			next, arrow = when(i == first, 1-first, first), mark
		}
	}
	return h.A(
		h.Class("sort"), h.Href(f.With("sort", keys[next])), labelled("Sort by "+name+", "+orders[next]), g.Text(text),
		g.If(arrow != "", g.Group{space(), h.Span(h.Aria("hidden", "true"), g.Text(arrow))}),
	)
}

// rowsPerPage is how many rows of a table a page shows.
const rowsPerPage = 100

// pager says which rows are shown.
type pager struct{ number, from, to, total int }

// pageOf cuts the rows that the query's page names out of total. A page beyond the last is the
// last.
func (f frame) pageOf(total, size int) pager {
	n, err := strconv.Atoi(f.query.Get("page"))
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n, max(1, (total+size-1)/size))
	return pager{n, (n - 1) * size, min(n*size, total), total}
}

// html says which rows are shown, and leads to the others.
func (p pager) html(f frame) g.Node {
	to := func(page int, rel, text string) g.Node {
		return h.A(h.Href(f.With("page", strconv.Itoa(page))), h.Rel(rel), g.Text(text))
	}
	return pagerOf(
		h.Span(g.Textf("%d to %d of %d", p.from+1, p.to, p.total)),
		g.If(p.from > 0, to(p.number-1, "prev", "Previous")),
		g.If(p.to < p.total, to(p.number+1, "next", "Next")),
	)
}

func pagerOf(children ...g.Node) g.Node {
	return h.Nav(h.Class("pager"), labelled("Rows"), g.Group(children))
}

// olderPager leads through a list that is read from its newest entry on: back to them from behind
// after, and on to what comes behind next.
func (f frame) olderPager(shown g.Node, after, next string) g.Node {
	return pagerOf(
		shown,
		g.If(after != "", h.A(h.Href(f.With("after", "")), g.Text("Newest"))),
		g.If(next != "", h.A(h.Href(f.With("after", next)), h.Rel("next"), g.Text("Older"))),
	)
}

// seen tells a form's handler which text and state of a lesson the person saw.
func seen(l *lesson.Lesson) g.Node {
	return g.Group{hiddenField("text", l.ContentHash), hiddenField("state", string(l.State))}
}

// facetList is what a lesson fires on: the fields of its trigger that say something.
func facetList(l *lesson.Lesson, never string) g.Node {
	one := func(name string, values ...g.Node) g.Node {
		return h.Div(h.Dt(g.Text(name)), h.Dd(values...))
	}
	t := &l.Trigger
	var out g.Group
	for _, f := range []struct {
		name   string
		values []string
	}{
		{"fires on the words", t.Keywords},
		{"or on the tags", t.Tags},
		{"or on errors like", t.ErrorPatterns},
		{"not on", t.NotKeywords},
		{"only with the tools", t.Tools},
		{"only for the models", t.Models},
		{"only for", targets(t.Targets)},
	} {
		if len(f.values) > 0 {
			value := func(v string) g.Node { return g.Group{code(v), space()} }
			out = append(out, one(f.name, g.Map(f.values, value)))
		}
	}
	if out == nil {
		out = g.Group{one("never", g.Text(never))}
	}
	return h.Dl(h.Class("facets"), out)
}

// targets are whom a lesson is for, in words.
func targets(list []lesson.Target) (out []string) {
	for _, t := range list {
		var parts []string
		for _, p := range [][2]string{{"agent", t.Operator}, {"role", t.Role}, {"skill", t.Skill}} {
			if p[1] != "" {
				parts = append(parts, p[0]+" "+p[1])
			}
		}
		out = append(out, strings.Join(parts, " and "))
	}
	return out
}

// findingList is what the checks say of a lesson.
func findingList(list []lesson.Finding, attributes ...g.Node) g.Node {
	return h.Ul(g.Group(attributes), g.Map(list, func(f lesson.Finding) g.Node {
		return h.Li(h.Class(when(f.Severity == lesson.Error, "bad", "warn")), g.Text(f.String()))
	}))
}

// bandTable is an effect over time as a table.
func bandTable(list []report.Band) g.Node {
	return h.Details(
		h.Summary(g.Text("The same as a table")),
		scroll(labelled("Effect over time"), h.Table(
			h.Class("figures"),
			columns(
				wordColumn(g.Text("Day, UTC")), column(g.Text("Effect, points")), column(g.Text("from")),
				column(g.Text("to")),
			),
			h.TBody(g.Map(list, func(b report.Band) g.Node {
				return h.Tr(
					rowHead(g.Text(b.Date)), h.Td(g.Text(points(&b.Effect))), h.Td(g.Text(points(&b.Lo))),
					h.Td(g.Text(points(&b.Hi))),
				)
			})),
		)),
	)
}

// noLessons teaches who has none.
func noLessons() g.Node {
	command := func(text string) g.Node { return h.Code(g.Text(text)) }
	return empty(
		"No lesson has matched yet",
		h.P(g.Text("A lesson is a LESSON.md file that says when it applies and what to do then. "+
			"There are three ways to get the first:")),
		h.Ul(
			h.Li(
				g.Text("Write one: "), command("precept lessons new"),
				g.Text(" puts a file into the lessons directory, and it is in force within two seconds."),
			),
			h.Li(
				g.Text("Take a set that others wrote: "), command("precept lessons import"),
				g.Text(", or the starter lessons of "), command("precept init"), g.Text("."),
			),
			h.Li(
				g.Text("Point an agent at precept's data listener and let "), command("precept distill"),
				g.Text(" make some out of what goes wrong; they wait in the queue."),
			),
		),
		h.P(
			g.Text("Numbers appear when sessions in which a lesson matched have closed. To see how that looks now, run "),
			command("precept demo"), g.Text("."),
		),
	)
}
