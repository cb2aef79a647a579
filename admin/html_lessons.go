package admin

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

func (v *lessonsView) html(f frame) g.Node {
	return g.Group{
		title("Lessons", v.form(f)),
		g.Map(v.Warnings, problem),
		v.list(f),
	}
}

func (v *lessonsView) form(f frame) g.Node {
	choose := func(name, key, chosen string, first g.Node, choices []zoom) g.Node {
		return h.Label(g.Text(name+" "), h.Select(h.Name(key), first, g.Map(choices, func(z zoom) g.Node { return option(z.Key, z.Name, z.Key == chosen) })))
	}
	anyOne := option("", "any", false)
	states := make([]zoom, 0, len(v.States))
	for _, s := range v.States {
		states = append(states, zoom{s, s})
	}
	return h.Form(
		h.Method("get"), h.Action("/lessons"), h.Role("search"),
		hiddenField("tenant", f.Tenant), hiddenField("sort", v.Filter.Sort),
		h.Label(g.Text("Name "), h.Input(h.Type("search"), h.Name("q"), h.Value(v.Filter.Words), h.MaxLength("256"), g.Attr("size", "14"))),
		choose("Verdict", "verdict", v.Filter.Verdict, anyOne, verdicts()),
		choose("State", "state", v.Filter.State, anyOne, states),
		choose("Scale", "zoom", v.Filter.Zoom, nil, zooms()),
		windows(v.Filter.Window),
		h.Label(h.Class("check"), h.Input(h.Type("checkbox"), h.Name("old"), h.Value("1"), g.If(v.Filter.Old, h.Checked())), g.Text(" older texts")),
		h.Button(g.Text("Show")),
	)
}

func (v *lessonsView) list(f frame) g.Node {
	switch {
	case len(v.Table.Rows) > 0:
		return g.Group{scroll(labelled("Effects of lessons"), v.Table.html(f.Sorts())), v.Pager.html()}
	case v.Total > 0:
		return empty("No lesson fits the filter", h.P(g.Textf("There are %d lessons. ", v.Total), h.A(h.Href(f.Link("/lessons")), g.Text("Show all of them."))))
	case f.Problem != "":
		return nil
	default:
		return noLessons()
	}
}
