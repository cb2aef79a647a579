package admin

import (
	"net/url"
	"strconv"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// quoted is what others said, as text: it is escaped, and nothing in it hides. Words of ours are
// g.Text.
func quoted(text string) g.Node { return g.Text(visible(text)) }

// space parts two nodes of a line.
func space() g.Node { return g.Text(" ") }

// when is one thing or another.
func when[T any](condition bool, then, otherwise T) T {
	if condition {
		return then
	}
	return otherwise
}

// toned is the class that colours a node; a node without a tone has none.
func toned(tone string) g.Node { return g.If(tone != "", h.Class(tone)) }

func quiet(children ...g.Node) g.Node {
	return h.P(h.Class("quiet"), g.Group(children))
}

func warning(text string) g.Node { return h.P(h.Class("warning"), g.Text(text)) }

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
	return h.Div(h.Class("heading"), h.H1(quoted(text)), g.Group(children))
}

// empty stands where there is nothing to show, and says why.
func empty(text string, children ...g.Node) g.Node {
	return h.Div(h.Class("empty"), h.H2(g.Text(text)), g.Group(children))
}

// scroll lets what is wider than the screen be moved, also by keys; name is labelled or labelledBy.
func scroll(name g.Node, children ...g.Node) g.Node {
	return h.Div(h.Class("scroll"), h.Role("region"), name, h.TabIndex("0"), g.Group(children))
}

// columns are the head of a table.
func columns(heads ...g.Node) g.Node { return h.THead(h.Tr(heads...)) }

// column is the head of a column of numbers, wordColumn of one of words.
func column(children ...g.Node) g.Node { return h.Th(h.Scope("col"), g.Group(children)) }

func wordColumn(children ...g.Node) g.Node {
	return h.Th(h.Scope("col"), h.Class("text"), g.Group(children))
}

// rowHead is what names a row.
func rowHead(children ...g.Node) g.Node { return h.Th(h.Scope("row"), g.Group(children)) }

// small is a second line, such as a unit.
func small(children ...g.Node) g.Node { return h.Small(children...) }

func code(text string) g.Node { return h.Code(quoted(text)) }

// prose is a text as it was written, in the direction of its script.
func prose(text string) g.Node { return h.Pre(h.Dir("auto"), quoted(text)) }

// timeOf is a moment; page.js writes it in the reader's zone.
func timeOf(at time.Time, more ...g.Node) g.Node {
	if at.IsZero() {
		return g.Text(none)
	}
	at = at.UTC()
	return h.Time(h.DateTime(at.Format(time.RFC3339)), g.Group(more), g.Text(at.Format("2006-01-02 15:04 UTC")))
}

// fineTime is a moment to the second, where several stand close together.
func fineTime(at time.Time) g.Node { return timeOf(at, g.Attr("data-fine")) }

// hiddenField is a field of a form that nobody sees.
func hiddenField(name, value string) g.Node {
	return h.Input(h.Type("hidden"), h.Name(name), h.Value(value))
}

// option is a choice of a list.
func option(value, name string, chosen bool) g.Node {
	return h.Option(h.Value(value), g.If(chosen, h.Selected()), quoted(name))
}

// script is one of ours that runs when the page has been read.
func script(name string) g.Node { return h.Script(h.Src("/static/"+name), h.Defer()) }

// charts is what a page with charts loads.
func charts() g.Node {
	return g.Group{h.Link(h.Rel("stylesheet"), h.Href("/static/uplot.css")), script("uplot.js"), script("chart.js")}
}

// chartOf is drawn by chart.js out of JSON; without any there is no chart.
func chartOf(json, label string) g.Node {
	if json == "" {
		return nil
	}
	return h.Div(h.Class("chart"), h.Data("chart", json), h.Role("img"), labelled(label))
}

// strong is a count that matters.
func strong(n int) g.Node { return h.Strong(g.Text(strconv.Itoa(n))) }

// actionPath is where a form about a lesson goes.
func actionPath(slug, action string) string { return "/lessons/" + url.PathEscape(slug) + "/" + action }
