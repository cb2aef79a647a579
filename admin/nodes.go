package admin

import (
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// quoted returns text that an agent, a client or a file wrote: escaped, cut at maxShownText, and with hidden
// characters made visible. Texts of this package use g.Text.
func quoted(text string) g.Node { return g.Text(visible(bounded(text, maxShownText))) }

// some returns the first 100 elements of a list as nodes. last makes the node with the number of further
// elements.
func some[T any](list []T, last func(...g.Node) g.Node, one func(T) g.Node) g.Node {
	const maxItems = 100
	if len(list) <= maxItems {
		return g.Map(list, one)
	}
	return append(g.Map(list[:maxItems], one), last(g.Text("and "+count(len(list)-maxItems)+" more")))
}

// lastRow returns a table row that spans all columns, for the end of a table.
func lastRow(children ...g.Node) g.Node {
	return h.Tr(h.Td(h.Class("text quiet"), h.ColSpan("6"), g.Group(children)))
}

// space returns the space between two nodes of a line.
func space() g.Node { return g.Text(" ") }

// toned returns the class of a tone; an empty tone has none.
func toned(tone string) g.Node { return g.If(tone != "", h.Class(tone)) }

func quiet(children ...g.Node) g.Node {
	return h.P(h.Class("quiet"), g.Group(children))
}

func warning(text string) g.Node { return h.P(h.Class("warning"), g.Text(text)) }

// problem returns the reason for missing content.
func problem(text string) g.Node {
	return h.P(h.Class("problem"), h.Role("alert"), quoted(text))
}

// labelled and labelledBy return the attribute that labels a part of a page for screen readers.
func labelled(name string) g.Node { return h.Aria("label", name) }

func labelledBy(id string) g.Node { return h.Aria("labelledby", id) }

// heading returns a heading that labels a part of the page.
func heading(id, text string) g.Node { return h.H2(h.ID(id), g.Text(text)) }

// section returns a part of a page with its heading.
func section(id, title string, children ...g.Node) g.Node {
	return h.Section(labelledBy(id), heading(id, title), g.Group(children))
}

// title returns the heading of a page.
func title(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("heading"), h.H1(quoted(cut(text, 200))), g.Group(children))
}

// empty returns the text in place of a list without entries.
func empty(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("empty"), h.H2(g.Text(text)), g.Group(children))
}

// folded returns content that opens below a line.
func folded(words string, children ...g.Node) g.Node {
	return h.Details(h.Summary(g.Text(words)), g.Group(children))
}

// paper returns the background of a lesson's text.
func paper(text g.Node) g.Node { return h.Div(h.Class("paper"), text) }

// small returns a second, smaller line of a cell, such as a unit.
func small(children ...g.Node) g.Node { return h.Small(children...) }

func code(text string) g.Node { return h.Code(quoted(text)) }

// prose returns a text as written, in the direction of its script.
func prose(text string) g.Node { return h.Pre(h.Dir("auto"), quoted(text)) }

// keys returns the names of keys of the keyboard.
func keys(names ...string) g.Node {
	var out g.Group
	for i, name := range names {
		out = append(out, g.If(i > 0, space()), h.Kbd(g.Text(name)))
	}
	return out
}

// timeOf returns a time; page.js formats the time in the reader's zone.
func timeOf(at time.Time, more ...g.Node) g.Node {
	if at.IsZero() {
		return g.Text(none)
	}
	at = at.UTC()
	return h.Time(h.DateTime(at.Format(time.RFC3339)), g.Group(more), g.Text(at.Format("2006-01-02 15:04 UTC")))
}

// script returns a deferred script of this server.
func script(name string) g.Node { return h.Script(h.Src("/static/"+name), h.Defer()) }

func icon(size string) g.Node {
	return h.Img(h.Src("/static/icon.svg"), h.Alt(""), h.Width(size), h.Height(size))
}

// scroll makes wide content scrollable, also by keys; name is labelled or labelledBy.
func scroll(name g.Node, children ...g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.Role("region"), name, h.TabIndex("0"), g.Group(children))
}

// grid returns a scrollable table with its head and rows.
func grid(name g.Node, head g.Node, rows ...g.Node) g.Node {
	return scroll(name, h.Table(h.Class("figures"), head, h.TBody(rows...)))
}

// cards returns a table as grid does. On a narrow screen each row is a card; the cells are made by cell.
func cards(name g.Node, head g.Node, rows ...g.Node) g.Node {
	return scroll(name, h.Table(h.Class("figures cards"), head, h.TBody(rows...)))
}

// columns returns the head of a table.
func columns(heads ...g.Node) g.Node { return h.THead(h.Tr(heads...)) }

// column returns the heading of a column of numbers, wordColumn of a column of words.
func column(children ...g.Node) g.Node { return h.Th(h.Scope("col"), g.Group(children)) }

func wordColumn(children ...g.Node) g.Node {
	return h.Th(h.Scope("col"), h.Class("text"), g.Group(children))
}

// numbers and words return the headings of several columns.
func numbers(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return column(g.Text(name)) })
}

func words(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return wordColumn(g.Text(name)) })
}

// rowHead returns the heading of a row.
func rowHead(children ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(children)) }

// numberCells and wordCells return the cells of a row.
func numberCells(texts ...string) g.Node {
	return g.Map(texts, func(text string) g.Node { return h.Td(g.Text(text)) })
}

func wordCells(children ...g.Node) g.Node {
	return g.Map(children, func(n g.Node) g.Node { return h.Td(h.Class("text"), n) })
}

// cell returns a cell of a table that becomes cards on a narrow screen, with label before the
// content.
func cell(label string, children ...g.Node) g.Node {
	return h.Td(h.Data("label", label), g.Group(children))
}
