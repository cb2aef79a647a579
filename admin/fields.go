package admin

import (
	"slices"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// field is a field of a filter with its label.
func field(label, name string, input g.Node) g.Node {
	return h.Div(h.Class("field"), h.Label(h.For(name), g.Text(label)), input)
}

// entryOf is where a word to search by is written.
func entryOf(name, value, size string) g.Node {
	return h.Input(
		h.ID(name), h.Name(name), h.Value(visible(value)), h.MaxLength("256"), g.Attr("size", size),
	)
}

func wordField(label, name, value, size string) g.Node {
	return field(label, name, entryOf(name, value, size))
}

func dateField(label, name, value, example string) g.Node {
	return field(label, name, h.Input(
		h.ID(name), h.Name(name), h.Value(visible(value)), h.MaxLength("40"), g.Attr("size", "11"),
		h.Placeholder(example),
	))
}

// choiceField is a list of words of which one can be chosen, or none.
func choiceField(label, name string, words []string, chosen ...string) g.Node {
	return field(label, name, h.Select(
		h.ID(name), h.Name(name), option("", "any", false),
		g.Map(words, func(w string) g.Node {
			return option(w, strings.ReplaceAll(w, "_", " "), slices.Contains(chosen, w))
		}),
	))
}

func shareField(label, name string, value *float64) g.Node {
	text := ""
	if value != nil {
		text = strconv.FormatFloat(*value, 'g', -1, 64)
	}
	return field(label, name, h.Input(
		h.ID(name), h.Name(name), h.Type("number"), h.Min("0"), h.Max("1"), h.Step("any"), h.Value(text),
	))
}

// tickField is a box that asks for something.
func tickField(label, name, value string, ticked bool) g.Node {
	return h.Label(
		h.Class("check"),
		h.Input(h.Type("checkbox"), h.Name(name), h.Value(value), g.If(ticked, h.Checked())),
		g.Text(" "+label),
	)
}

// showButton sends a filter off, and takes it away where there is one.
func showButton(filtered bool, clear string) g.Node {
	return h.Div(
		h.Class("field"), h.Button(h.Class("main"), g.Text("Show")),
		g.If(filtered, g.Group{space(), h.A(h.Href(clear), g.Text("Clear"))}),
	)
}

// windowField is a field for the window of a report, with the usual ones to choose from.
func windowField(value string) g.Node {
	return g.Group{
		h.Label(g.Text("Window "), h.Input(
			h.Name("window"), h.Value(value), h.Placeholder("all"), g.Attr("size", "4"), h.List("windows"),
		)),
		h.DataList(
			h.ID("windows"), h.Option(h.Value("24h")), h.Option(h.Value("7d")), h.Option(h.Value("30d")),
		),
	}
}
