package admin

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

func (v *helpIndex) html(frame) g.Node {
	return g.Group{
		title("Help", quiet(g.Text("The docs of this version; nothing is loaded from elsewhere."))),
		helpList(v.Guides, h.Class("guides")),
		h.P(
			g.Text("The endpoints for programs are described in "), h.A(h.Href("/api/openapi.yaml"), g.Text("OpenAPI")),
			g.Text(". Every number of the dashboard has its definition one hover or key away, and a link from there to the part that tells more."),
		),
		h.Details(h.Summary(g.Text("Why it is so: the decisions")), helpList(v.Decisions)),
	}
}

func helpList(pages []helpPage, attributes ...g.Node) g.Node {
	return h.Ul(g.Group(attributes), g.Map(pages, func(p helpPage) g.Node {
		return h.Li(h.A(h.Href("/help/"+p.Name), g.Text(p.Title)))
	}))
}

func (p *helpPage) html(frame) g.Node {
	return g.Group{
		h.P(h.Class("crumb"), h.A(h.Href("/help"), g.Text("Help"))),
		h.Article(h.Class("doc"), p.Body),
	}
}
