package admin

import (
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// untrustedText escapes text from an agent, a client or a file, cuts it at maxShownText, and makes hidden characters
// visible.
func untrustedText(text string) g.Node {
	return g.Text(escapeHidden(truncateBytes(text, maxShownText)))
}

// limitedList renders the first 100 elements. If there are more, renderRest renders a note with their number.
func limitedList[T any](list []T, renderRest func(...g.Node) g.Node, render func(T) g.Node) g.Node {
	const maxItems = 100
	if len(list) <= maxItems {
		return g.Map(list, render)
	}
	return append(g.Map(list[:maxItems], render), renderRest(g.Text("and "+countText(len(list)-maxItems)+" more")))
}

// lastRow returns a table row with a single cell, in a table with up to six columns.
func lastRow(children ...g.Node) g.Node {
	return h.Tr(h.Td(h.Class("text quiet"), h.ColSpan("6"), g.Group(children)))
}

func space() g.Node { return g.Text(" ") }

func toneClass(tone string) g.Node { return g.If(tone != "", h.Class(tone)) }

func mutedText(children ...g.Node) g.Node {
	return h.P(h.Class("quiet"), g.Group(children))
}

func warning(text string) g.Node { return h.P(h.Class("warning"), g.Text(text)) }

// problem returns an alert that says why part of the page is missing.
func problem(text string) g.Node {
	return h.P(h.Class("problem"), h.Role("alert"), untrustedText(text))
}

func ariaLabel(name string) g.Node { return h.Aria("label", name) }

func ariaLabelledBy(id string) g.Node { return h.Aria("labelledby", id) }

func heading(id, text string) g.Node { return h.H2(h.ID(id), g.Text(text)) }

func section(id, title string, children ...g.Node) g.Node {
	return h.Section(ariaLabelledBy(id), heading(id, title), g.Group(children))
}

func title(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("heading"), h.H1(untrustedText(truncateChars(text, 200))), g.Group(children))
}

func emptyState(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("empty"), h.H2(g.Text(text)), g.Group(children))
}

// collapsible returns content that opens on a click on summary.
func collapsible(summary string, children ...g.Node) g.Node {
	return h.Details(h.Summary(g.Text(summary)), g.Group(children))
}

// textBox returns text on the lesson background.
func textBox(text g.Node) g.Node { return h.Div(h.Class("paper"), text) }

// smallLine returns a second line in a cell, such as a unit.
func smallLine(children ...g.Node) g.Node { return h.Small(children...) }

func code(text string) g.Node { return h.Code(untrustedText(text)) }

// prose returns text with line breaks, in the script's reading direction.
func prose(text string) g.Node { return h.Pre(h.Dir("auto"), untrustedText(text)) }

func keyboardKeys(names ...string) g.Node {
	var out g.Group
	for i, name := range names {
		out = append(out, g.If(i > 0, space()), h.Kbd(g.Text(name)))
	}
	return out
}

// timeNode returns a time in UTC; page.js converts it to the reader's zone.
func timeNode(at time.Time, attributes ...g.Node) g.Node {
	if at.IsZero() {
		return g.Text(noValue)
	}
	at = at.UTC()
	return h.Time(h.DateTime(at.Format(time.RFC3339)), g.Group(attributes), g.Text(at.Format("2006-01-02 15:04 UTC")))
}

func script(name string) g.Node { return h.Script(h.Src("/static/"+name), h.Defer()) }

func icon(size string) g.Node {
	return h.Img(h.Src("/static/icon.svg"), h.Alt(""), h.Width(size), h.Height(size))
}

// scrollRegion returns content that can be scrolled, with the keyboard as well. name is an ariaLabel or
// ariaLabelledBy.
func scrollRegion(name g.Node, children ...g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.Role("region"), name, h.TabIndex("0"), g.Group(children))
}

// grid returns a scrollable table.
func grid(name g.Node, head g.Node, rows ...g.Node) g.Node {
	return scrollRegion(name, h.Table(h.Class("figures"), head, h.TBody(rows...)))
}

// cards returns a table that becomes one card per row on a narrow screen. The cells come from cell, which adds labels.
func cards(name g.Node, head g.Node, rows ...g.Node) g.Node {
	return scrollRegion(name, h.Table(h.Class("figures cards"), head, h.TBody(rows...)))
}

func headingRow(heads ...g.Node) g.Node { return h.THead(h.Tr(heads...)) }

func numberColumn(children ...g.Node) g.Node { return h.Th(h.Scope("col"), g.Group(children)) }

func wordColumn(children ...g.Node) g.Node {
	return h.Th(h.Scope("col"), h.Class("text"), g.Group(children))
}

func numberColumns(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return numberColumn(g.Text(name)) })
}

func wordColumns(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return wordColumn(g.Text(name)) })
}

func rowHead(children ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(children)) }

func numberCells(texts ...string) g.Node {
	return g.Map(texts, func(text string) g.Node { return h.Td(g.Text(text)) })
}

func wordCells(children ...g.Node) g.Node {
	return g.Map(children, func(n g.Node) g.Node { return h.Td(h.Class("text"), n) })
}

// cell returns a table cell. label names the value if the row is shown as a card.
func cell(label string, children ...g.Node) g.Node {
	return h.Td(h.Data("label", label), g.Group(children))
}
