package admin

import (
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// quoted returns untrusted text, which an agent, a client or a file wrote. The text is escaped and cut at
// maxShownText, and hidden characters become visible. Texts of this package use g.Text.
func quoted(text string) g.Node { return g.Text(visible(truncateBytes(text, maxShownText))) }

// some returns a node from render for each of the first 100 elements of a list. If there are more elements, the result
// ends with a node from renderRest that states the number of the other elements.
func some[T any](list []T, renderRest func(...g.Node) g.Node, render func(T) g.Node) g.Node {
	const maxItems = 100
	if len(list) <= maxItems {
		return g.Map(list, render)
	}
	return append(g.Map(list[:maxItems], render), renderRest(g.Text("and "+count(len(list)-maxItems)+" more")))
}

// lastRow returns the last row of a table with at most six columns, as one cell that spans the columns.
func lastRow(children ...g.Node) g.Node {
	return h.Tr(h.Td(h.Class("text quiet"), h.ColSpan("6"), g.Group(children)))
}

// space returns a space that separates two nodes on a line.
func space() g.Node { return g.Text(" ") }

// toned returns the class attribute for a tone, or nothing for an empty tone.
func toned(tone string) g.Node { return g.If(tone != "", h.Class(tone)) }

func mutedText(children ...g.Node) g.Node {
	return h.P(h.Class("quiet"), g.Group(children))
}

func warning(text string) g.Node { return h.P(h.Class("warning"), g.Text(text)) }

// problem returns an alert with the reason why a part of the page is missing.
func problem(text string) g.Node {
	return h.P(h.Class("problem"), h.Role("alert"), quoted(text))
}

// labelled returns the attribute that names a part of a page for screen readers. labelledBy refers to the HTML id of
// the heading instead.
func labelled(name string) g.Node { return h.Aria("label", name) }

func labelledBy(id string) g.Node { return h.Aria("labelledby", id) }

// heading returns a heading with an HTML id, to which labelledBy refers.
func heading(id, text string) g.Node { return h.H2(h.ID(id), g.Text(text)) }

// section returns a part of a page with a heading that labels it.
func section(id, title string, children ...g.Node) g.Node {
	return h.Section(labelledBy(id), heading(id, title), g.Group(children))
}

// title returns the heading of a page.
func title(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("heading"), h.H1(quoted(truncateChars(text, 200))), g.Group(children))
}

// empty returns the content that is shown in place of an empty list.
func empty(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("empty"), h.H2(g.Text(text)), g.Group(children))
}

// folded returns content that a click on a line opens. summary is the text of the line.
func folded(summary string, children ...g.Node) g.Node {
	return h.Details(h.Summary(g.Text(summary)), g.Group(children))
}

// paper returns a text on the background that lesson texts have.
func paper(text g.Node) g.Node { return h.Div(h.Class("paper"), text) }

// small returns a second, smaller line of a cell, such as a unit.
func small(children ...g.Node) g.Node { return h.Small(children...) }

func code(text string) g.Node { return h.Code(quoted(text)) }

// prose returns a text with its line breaks, in the direction of its script.
func prose(text string) g.Node { return h.Pre(h.Dir("auto"), quoted(text)) }

// keys returns the names of keyboard keys.
func keys(names ...string) g.Node {
	var out g.Group
	for i, name := range names {
		out = append(out, g.If(i > 0, space()), h.Kbd(g.Text(name)))
	}
	return out
}

// timeOf returns a time in UTC, which page.js converts to the reader's time zone.
func timeOf(at time.Time, attributes ...g.Node) g.Node {
	if at.IsZero() {
		return g.Text(none)
	}
	at = at.UTC()
	return h.Time(h.DateTime(at.Format(time.RFC3339)), g.Group(attributes), g.Text(at.Format("2006-01-02 15:04 UTC")))
}

// script returns the element that loads a script of this server after the page.
func script(name string) g.Node { return h.Script(h.Src("/static/"+name), h.Defer()) }

func icon(size string) g.Node {
	return h.Img(h.Src("/static/icon.svg"), h.Alt(""), h.Width(size), h.Height(size))
}

// scroll returns wide content in a region that scrolls, also by the keyboard. name is the result of labelled or
// labelledBy.
func scroll(name g.Node, children ...g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.Role("region"), name, h.TabIndex("0"), g.Group(children))
}

// grid returns a scrollable table with its column headings and its rows.
func grid(name g.Node, head g.Node, rows ...g.Node) g.Node {
	return scroll(name, h.Table(h.Class("figures"), head, h.TBody(rows...)))
}

// cards returns a scrollable table as grid does. On a narrow screen, each row becomes a card. The cells must therefore
// come from cell, which labels them.
func cards(name g.Node, head g.Node, rows ...g.Node) g.Node {
	return scroll(name, h.Table(h.Class("figures cards"), head, h.TBody(rows...)))
}

// columns returns the row with the column headings of a table.
func columns(heads ...g.Node) g.Node { return h.THead(h.Tr(heads...)) }

// column returns the heading of a column of numbers. wordColumn returns the heading of a column of words.
func column(children ...g.Node) g.Node { return h.Th(h.Scope("col"), g.Group(children)) }

func wordColumn(children ...g.Node) g.Node {
	return h.Th(h.Scope("col"), h.Class("text"), g.Group(children))
}

// numbers returns the headings of several columns of numbers. words returns the headings of several columns of words.
func numbers(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return column(g.Text(name)) })
}

func words(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return wordColumn(g.Text(name)) })
}

// rowHead returns the heading of a row.
func rowHead(children ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(children)) }

// numberCells returns table cells with numbers. wordCells returns table cells with words.
func numberCells(texts ...string) g.Node {
	return g.Map(texts, func(text string) g.Node { return h.Td(g.Text(text)) })
}

func wordCells(children ...g.Node) g.Node {
	return g.Map(children, func(n g.Node) g.Node { return h.Td(h.Class("text"), n) })
}

// cell returns a table cell with a label. The label is shown before the content where the rows of the table become
// cards.
func cell(label string, children ...g.Node) g.Node {
	return h.Td(h.Data("label", label), g.Group(children))
}
