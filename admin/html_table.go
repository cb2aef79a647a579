package admin

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// stroke is a line of a drawing.
func stroke(class, d string) g.Node { return g.El("path", h.Class(class), g.Attr("d", d)) }

// drawing is one of ours, which label tells to those who do not see it.
func drawing(class, size, label string, children ...g.Node) g.Node {
	return h.SVG(h.Class(class), g.Attr("viewBox", "0 0 "+size), h.Role("img"), labelled(label), g.Group(children))
}

// axisOf is the scale above the forest plot.
func axisOf(ticks []tick) g.Node {
	return drawing("forest", "240 24", "scale in points", g.Map(ticks, func(t tick) g.Node {
		return g.Group{g.El("text", g.Attr("x", t.At), g.Attr("y", "16"), g.Text(t.Text)), stroke("tick", "M"+t.At+" 20v4")}
	}))
}

// html is one line of the forest plot.
func (p *plot) html() g.Node {
	var marks g.Group
	for _, t := range p.Ticks {
		marks = append(marks, stroke(when(t.Zero, "zero", "grid"), "M"+t.At+" -80v190"))
	}
	if p.Shown {
		marks = append(marks,
			stroke("reach", "M"+p.Lo+" 15H"+p.Hi),
			g.If(p.CutLow, stroke("cut", "M"+p.Lo+" 11l-6 4 6 4z")),
			g.If(p.CutHigh, stroke("cut", "M"+p.Hi+" 11l6 4-6 4z")),
			g.If(!p.OffLow && !p.OffHigh, g.El("circle", h.Class("effect"), g.Attr("cx", p.At), g.Attr("cy", "15"), g.Attr("r", "4.5"))),
		)
	}
	if p.HasTruth {
		marks = append(marks, stroke("truth", "M"+p.Truth+" 5v20"))
	}
	return drawing("forest "+p.Tone, "240 30", p.Label, marks)
}

func (s *sparkline) html() g.Node {
	return drawing("spark", "84 22", s.Label, stroke("zero", "M0 "+s.Zero+"H84"), g.El("polyline", g.Attr("points", s.Line)))
}

// html is the table of effects. With sorts its heads sort.
func (t *table) html(by *sorts) g.Node {
	return h.Table(
		h.Class("effects cards"),
		h.Caption(g.Text(t.Caption)),
		columns(t.heads(by)...),
		h.TBody(g.Map(t.Rows, t.row)),
	)
}

func (t *table) heads(by *sorts) []g.Node {
	sort := func(of func(*sorts) sorter) g.Node {
		if by == nil {
			return nil
		}
		return g.Group{space(), of(by).html()}
	}
	name := g.Text("Lesson")
	if by != nil {
		name = by.Name.html()
	}
	return []g.Node{
		wordColumn(name),
		wordColumn(word("verdict"), g.Text(", and what to do"), sort(func(s *sorts) sorter { return s.Verdict })),
		column(word("effect"), sort(func(s *sorts) sorter { return s.Effect }), small(g.Text("points, "), word("interval"))),
		g.If(t.Demo, column(word("truth"), small(g.Text("points")))),
		column(h.Class("plot"), h.Span(h.Class("hidden-text"), g.Text("Forest plot, "+t.Axis.Text())), axisOf(t.Ticks)),
		column(word("injected"), sort(func(s *sorts) sorter { return s.Told }), small(word("withheld"), g.Text(", sessions"))),
		wordColumn(word("over-time"), small(word("needs"), sort(func(s *sorts) sorter { return s.Needs }))),
		g.If(t.Refusals, column(word("refused"), small(g.Text("with / without")))),
		column(word("tokens"), sort(func(s *sorts) sorter { return s.Tokens })),
	}
}

func (t *table) row(r row) g.Node {
	name := quoted(r.Name)
	if r.Href != "" {
		name = h.A(h.Href(r.Href), name)
	}
	return h.Tr(
		g.If(r.All, h.Class("all")),
		rowHead(h.Class("name"), name, g.If(r.State != "", small(g.Text(r.State)))),
		h.Td(h.Class("text wrap verdict"), h.Strong(h.Class(r.Advice.Tone), g.Text(r.Advice.Words)), small(g.Text(r.Advice.Next))),
		cell("Effect, points", h.Class("effect "+r.Advice.Tone), g.Text(r.Effect), small(g.Text(r.Interval))),
		g.If(t.Demo, cell("True effect, points", g.Text(r.Truth))),
		h.Td(h.Class("plot"), r.Plot.html()),
		cell("Injected, withheld", g.Text(r.Injected), small(g.Text(r.Withheld))),
		cell("Over time, progress", h.Class("text over"), r.overTime()),
		g.If(t.Refusals, cell("Refused with / without", g.Text(r.Refused))),
		cell("Tokens", g.Text(r.Tokens)),
	)
}

// cell is a cell of a table that becomes cards on a narrow screen, where label stands before it.
func cell(label string, children ...g.Node) g.Node {
	return h.Td(h.Data("label", label), g.Group(children))
}

// overTime is how the effect went, and how far its verdict is.
func (r *row) overTime() g.Node {
	var out g.Group
	if r.Spark != nil {
		out = append(out, r.Spark.html())
	}
	switch {
	case r.Needs != nil:
		done, wanted := strconv.FormatInt(r.Needs.Done, 10), strconv.FormatInt(r.Needs.Wanted, 10)
		out = append(out, h.Progress(h.Max(wanted), h.Value(done), labelled(done+" of "+wanted+" picks")), small(g.Text(r.Needs.Text)))
	case !r.All:
		out = append(out, small(g.Text("enough picks")))
	}
	return out
}
