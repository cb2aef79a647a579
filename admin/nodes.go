package admin

import (
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// untrustedText returns untrusted text, which an agent, a client or a file wrote. The text is escaped and cut at
// maxShownText, and hidden characters become visible. Texts of this package use g.Text.
func untrustedText(text string) g.Node {
	return g.Text(escapeHidden(truncateBytes(text, maxShownText)))
}

// limitedList returns a node from render for each of the first 100 elements of a list. If there are more elements, the
// result ends with a node from renderRest that states the number of the other elements.
func limitedList[T any](list []T, renderRest func(...g.Node) g.Node, render func(T) g.Node) g.Node {
	const maxItems = 100
	if len(list) <= maxItems {
		return g.Map(list, render)
	}
	return append(g.Map(list[:maxItems], render), renderRest(g.Text("and "+countText(len(list)-maxItems)+" more")))
}

// lastRow returns the last row of a table with at most six columns, as one cell that spans the columns.
func lastRow(children ...g.Node) g.Node {
	return h.Tr(h.Td(h.Class("text quiet"), h.ColSpan("6"), g.Group(children)))
}

// space returns a space that separates two nodes on a line.
func space() g.Node { return g.Text(" ") }

// toneClass returns the class attribute for a tone, or nothing for an empty tone.
func toneClass(tone string) g.Node { return g.If(tone != "", h.Class(tone)) }

func mutedText(children ...g.Node) g.Node {
	return h.P(h.Class("quiet"), g.Group(children))
}

func warning(text string) g.Node { return h.P(h.Class("warning"), g.Text(text)) }

// problem returns an alert with the reason why a part of the page is missing.
func problem(text string) g.Node {
	return h.P(h.Class("problem"), h.Role("alert"), untrustedText(text))
}

// ariaLabel returns the attribute that names a part of a page for screen readers. ariaLabelledBy refers to the HTML id
// of the heading instead.
func ariaLabel(name string) g.Node { return h.Aria("label", name) }

func ariaLabelledBy(id string) g.Node { return h.Aria("labelledby", id) }

// heading returns a heading with an HTML id, to which ariaLabelledBy refers.
func heading(id, text string) g.Node { return h.H2(h.ID(id), g.Text(text)) }

// section returns a part of a page with a heading that labels it.
func section(id, title string, children ...g.Node) g.Node {
	return h.Section(ariaLabelledBy(id), heading(id, title), g.Group(children))
}

// title returns the heading of a page.
func title(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("heading"), h.H1(untrustedText(truncateChars(text, 200))), g.Group(children))
}

// emptyState returns the content that is shown in place of an empty list.
func emptyState(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("empty"), h.H2(g.Text(text)), g.Group(children))
}

// collapsible returns content that a click on a line opens. summary is the text of the line.
func collapsible(summary string, children ...g.Node) g.Node {
	return h.Details(h.Summary(g.Text(summary)), g.Group(children))
}

// textBox returns a text on the background that lesson texts have.
func textBox(text g.Node) g.Node { return h.Div(h.Class("paper"), text) }

// smallLine returns a second, smaller line of a cell, such as a unit.
func smallLine(children ...g.Node) g.Node { return h.Small(children...) }

func code(text string) g.Node { return h.Code(untrustedText(text)) }

// prose returns a text with its line breaks, in the direction of its script.
func prose(text string) g.Node { return h.Pre(h.Dir("auto"), untrustedText(text)) }

// keyboardKeys returns the names of keyboard keys.
func keyboardKeys(names ...string) g.Node {
	var out g.Group
	for i, name := range names {
		out = append(out, g.If(i > 0, space()), h.Kbd(g.Text(name)))
	}
	return out
}

// timeNode returns a time in UTC, which page.js converts to the reader's time zone.
func timeNode(at time.Time, attributes ...g.Node) g.Node {
	if at.IsZero() {
		return g.Text(noValue)
	}
	at = at.UTC()
	return h.Time(h.DateTime(at.Format(time.RFC3339)), g.Group(attributes), g.Text(at.Format("2006-01-02 15:04 UTC")))
}

// script returns the element that loads a script of this server after the page.
func script(name string) g.Node { return h.Script(h.Src("/static/"+name), h.Defer()) }

func icon(size string) g.Node {
	return h.Img(h.Src("/static/icon.svg"), h.Alt(""), h.Width(size), h.Height(size))
}

// scrollRegion returns wide content in a region that scrolls, also by the keyboard. name is the result of labelled or
// ariaLabelledBy.
func scrollRegion(name g.Node, children ...g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.Role("region"), name, h.TabIndex("0"), g.Group(children))
}

// grid returns a scrollable table with its column headings and its rows.
func grid(name g.Node, head g.Node, rows ...g.Node) g.Node {
	return scrollRegion(name, h.Table(h.Class("figures"), head, h.TBody(rows...)))
}

// cards returns a scrollable table as grid does. On a narrow screen, each row becomes a card. The cells must therefore
// come from cell, which labels them.
func cards(name g.Node, head g.Node, rows ...g.Node) g.Node {
	return scrollRegion(name, h.Table(h.Class("figures cards"), head, h.TBody(rows...)))
}

// headingRow returns the row with the column headings of a table.
func headingRow(heads ...g.Node) g.Node { return h.THead(h.Tr(heads...)) }

// numberColumn returns the heading of a column of numbers. wordColumn returns the heading of a column of words.
func numberColumn(children ...g.Node) g.Node { return h.Th(h.Scope("col"), g.Group(children)) }

func wordColumn(children ...g.Node) g.Node {
	return h.Th(h.Scope("col"), h.Class("text"), g.Group(children))
}

// numberColumns returns the headings of several columns of numbers. words returns the headings of several columns of
// words.
func numberColumns(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return numberColumn(g.Text(name)) })
}

func wordColumns(names ...string) g.Node {
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
