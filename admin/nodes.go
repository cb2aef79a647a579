package admin

import (
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// quoted is what others said, as text: it is escaped, nothing in it hides, and it is bounded. Words
// of ours are g.Text.
func quoted(text string) g.Node { return g.Text(visible(bounded(text, textMost))) }

// some are the first of a list that others can make as long as they like; the last element says how
// many more there are.
func some[T any](list []T, last func(...g.Node) g.Node, one func(T) g.Node) g.Node {
	const most = 100
	if len(list) <= most {
		return g.Map(list, one)
	}
	return append(g.Map(list[:most], one), last(g.Text("and "+count(len(list)-most)+" more")))
}

// lastRow is the last element of some rows.
func lastRow(children ...g.Node) g.Node {
	return h.Tr(h.Td(h.Class("text quiet"), h.ColSpan("6"), g.Group(children)))
}

// space parts two nodes of a line.
func space() g.Node { return g.Text(" ") }

// toned is the class that colours a node; a node without a tone has none.
func toned(tone string) g.Node { return g.If(tone != "", h.Class(tone)) }

func quiet(children ...g.Node) g.Node {
	return h.P(h.Class("quiet"), g.Group(children))
}

func warning(text string) g.Node { return h.P(h.Class("warning"), g.Text(text)) }

// problem says why there is nothing to see, or not all.
func problem(text string) g.Node {
	return h.P(h.Class("problem"), h.Role("alert"), quoted(text))
}

// labelled and labelledBy name a part of a page to those who do not see it.
func labelled(name string) g.Node { return h.Aria("label", name) }

func labelledBy(id string) g.Node { return h.Aria("labelledby", id) }

// heading is a heading that a part of the page is named by.
func heading(id, text string) g.Node { return h.H2(h.ID(id), g.Text(text)) }

// section is a part of a page below its heading.
func section(id, title string, children ...g.Node) g.Node {
	return h.Section(labelledBy(id), heading(id, title), g.Group(children))
}

// title is the top of a page.
func title(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("heading"), h.H1(quoted(cut(text, 200))), g.Group(children))
}

// empty stands where there is nothing to show, and says why.
func empty(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("empty"), h.H2(g.Text(text)), g.Group(children))
}

// folded is what opens below a line of words.
func folded(words string, children ...g.Node) g.Node {
	return h.Details(h.Summary(g.Text(words)), g.Group(children))
}

// paper is what a text of a lesson stands on.
func paper(text g.Node) g.Node { return h.Div(h.Class("paper"), text) }

// small is a second line, such as a unit.
func small(children ...g.Node) g.Node { return h.Small(children...) }

func code(text string) g.Node { return h.Code(quoted(text)) }

// prose is a text as it was written, in the direction of its script.
func prose(text string) g.Node { return h.Pre(h.Dir("auto"), quoted(text)) }

// keys are what to press, drawn as keys.
func keys(names ...string) g.Node {
	var out g.Group
	for i, name := range names {
		out = append(out, g.If(i > 0, space()), h.Kbd(g.Text(name)))
	}
	return out
}

// timeOf is a moment; page.js writes it in the reader's zone.
func timeOf(at time.Time, more ...g.Node) g.Node {
	if at.IsZero() {
		return g.Text(none)
	}
	at = at.UTC()
	return h.Time(h.DateTime(at.Format(time.RFC3339)), g.Group(more), g.Text(at.Format("2006-01-02 15:04 UTC")))
}

// script is one of ours that runs when the page has been read.
func script(name string) g.Node { return h.Script(h.Src("/static/"+name), h.Defer()) }

func icon(size string) g.Node {
	return h.Img(h.Src("/static/icon.svg"), h.Alt(""), h.Width(size), h.Height(size))
}

// scroll lets what is wider than the screen be moved, also by keys; name is labelled or labelledBy.
func scroll(name g.Node, children ...g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.Role("region"), name, h.TabIndex("0"), g.Group(children))
}

// grid is a table that is as wide as what stands in it, and scrolls: its head, and its rows.
func grid(name g.Node, head g.Node, rows ...g.Node) g.Node {
	return scroll(name, h.Table(h.Class("figures"), head, h.TBody(rows...)))
}

// columns are the head of a table.
func columns(heads ...g.Node) g.Node { return h.THead(h.Tr(heads...)) }

// column is the head of a column of numbers, wordColumn of one of words.
func column(children ...g.Node) g.Node { return h.Th(h.Scope("col"), g.Group(children)) }

func wordColumn(children ...g.Node) g.Node {
	return h.Th(h.Scope("col"), h.Class("text"), g.Group(children))
}

// numbers and words are the heads of several.
func numbers(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return column(g.Text(name)) })
}

func words(names ...string) g.Node {
	return g.Map(names, func(name string) g.Node { return wordColumn(g.Text(name)) })
}

// rowHead is what names a row.
func rowHead(children ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(children)) }

// numberCells and wordCells are what stands behind it.
func numberCells(texts ...string) g.Node {
	return g.Map(texts, func(text string) g.Node { return h.Td(g.Text(text)) })
}

func wordCells(children ...g.Node) g.Node {
	return g.Map(children, func(n g.Node) g.Node { return h.Td(h.Class("text"), n) })
}

// cell is a cell of a table that becomes cards on a narrow screen, where label stands before it.
func cell(label string, children ...g.Node) g.Node {
	return h.Td(h.Data("label", label), g.Group(children))
}
