package admin

import (
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// filterForm returns a page's filter form. clearHref is the page's address without filters, or empty if no filter is
// set.
func filterForm(action, name, clearHref string, fields ...g.Node) g.Node {
	return h.Form(
		h.Method("get"), h.Action(action), h.Class("filters"), h.Role("search"), ariaLabel(name), g.Group(fields),
		h.Div(
			h.Class("field"), h.Button(h.Class("main"), g.Text("Show")),
			g.If(clearHref != "", g.Group{space(), h.A(h.Href(clearHref), g.Text("Clear"))}),
		),
	)
}

// field returns a form field with a label; name is the input's HTML id.
func field(label, name string, input g.Node) g.Node {
	return h.Div(h.Class("field"), h.Label(h.For(name), g.Text(label)), input)
}

func textInput(name, value, size string, attributes ...g.Node) g.Node {
	return h.Input(
		h.ID(name), h.Name(name), h.Value(escapeHidden(value)), h.MaxLength("256"), g.Attr("size", size), g.Group(attributes),
	)
}

func textField(label, name, value, size string, attributes ...g.Node) g.Node {
	return field(label, name, textInput(name, value, size, attributes...))
}

func dateField(label, name, value, example string) g.Node {
	return textField(label, name, value, "11", h.Placeholder(example))
}

// choice is an option: Key in the query, Name on the page.
type choice struct{ Key, Name string }

// choicesWithAny returns a filter's options. The first option, any, does not filter.
func choicesWithAny(words ...string) []choice {
	out := []choice{{"", "any"}}
	for _, w := range words {
		out = append(out, choice{w, strings.ReplaceAll(w, "_", " ")})
	}
	return out
}

func choiceField(label, name string, choices []choice, chosen ...string) g.Node {
	return field(label, name, h.Select(h.ID(name), h.Name(name), g.Map(choices, func(c choice) g.Node {
		return option(c, slices.Contains(chosen, c.Key))
	})))
}

func option(c choice, chosen bool) g.Node {
	return h.Option(h.Value(c.Key), g.If(chosen, h.Selected()), untrustedText(c.Name))
}

func checkboxField(label, name, value string, checked bool) g.Node {
	return checkbox(label, h.Name(name), h.Value(value), g.If(checked, h.Checked()))
}

func checkbox(label string, attributes ...g.Node) g.Node {
	return h.Label(
		h.Class("check"), h.Input(h.Type("checkbox"), g.Group(attributes)), g.Text(" "+label),
	)
}

func windowField(value string) g.Node {
	return g.Group{
		textField("Window", "window", value, "5", h.Placeholder("all"), h.List("windows")),
		h.DataList(
			h.ID("windows"), h.Option(h.Value("24h")), h.Option(h.Value("7d")), h.Option(h.Value("30d")),
		),
	}
}

// hiddenQueryFields returns hidden fields that keep the values of the query keys in a form.
func hiddenQueryFields(f frame, keys ...string) g.Node {
	return g.Map(keys, func(key string) g.Node {
		value := f.query.Get(key)
		return g.If(value != "", hiddenField(key, escapeHidden(value)))
	})
}

func hiddenField(name, value string) g.Node {
	return h.Input(h.Type("hidden"), h.Name(name), h.Value(value))
}
