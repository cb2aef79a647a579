package admin

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/lesson"
)

// olderTexts are what was measured of older texts, and what they said.
func (v *lessonView) olderTexts(f frame) g.Node {
	if len(v.Texts) == 0 {
		return nil
	}
	return g.Group{
		scroll(labelled("Older texts"), h.Table(
			h.Class("figures"), h.Caption(g.Text("Older texts, and other presentations: each was an arm of its own.")),
			columns(
				wordColumn(g.Text("Text")), wordColumn(g.Text("State")), wordColumn(g.Text("Verdict")),
				column(g.Text("Effect, points")), column(g.Text("95% interval")), column(g.Text("Told, sessions")),
			),
			h.TBody(g.Map(v.Texts, oldText.row)),
		)),
		g.Map(v.Texts, func(o oldText) g.Node { return o.html(f) }),
	}
}

func (o oldText) row() g.Node {
	return h.Tr(
		rowHead(code(o.Arm)), h.Td(h.Class("text"), g.Text(o.State)), h.Td(h.Class("text"), g.Text(o.Verdict)),
		h.Td(g.Text(o.Effect)), h.Td(g.Text(o.Interval)), h.Td(g.Text(o.Told)),
	)
}

// html is the text as a session got it, with what has changed since.
func (o oldText) html(f frame) g.Node {
	summary := h.Summary(g.Text("The text of "), code(o.Arm))
	if o.Text == "" {
		return h.Details(summary, quiet(g.Text("No stored session tells it: those that got it are gone, have not closed with a reward, or share their coins with a run.")))
	}
	text := prose(o.Text)
	if len(o.Changed) > 0 {
		text = diffText(o.Changed)
	}
	return h.Details(
		summary,
		quiet(
			g.Text("As the session "), h.A(h.Href(f.session(o.Sight.Session)), h.Code(g.Textf("%.12s", o.Sight.Session))), g.Text(" got it, which began "), timeOf(o.Sight.Began), g.Text("."),
			g.If(len(o.Changed) > 0, g.Text(" Lines marked − are gone, lines marked + are new in the text of now.")),
		),
		paper(text),
	)
}

// events are what was done with the lesson.
func (v *lessonView) events() g.Node {
	if len(v.Events) == 0 {
		return quiet(g.Text("Nobody has acted on it: a file that a person put into the directory is in force without approval, and is not logged."))
	}
	return scroll(labelled("Audit log"), h.Table(
		h.Class("figures"), h.Caption(g.Text("Audit log, newest first")),
		columns(wordColumn(g.Text("When")), wordColumn(g.Text("What")), wordColumn(g.Text("By")), wordColumn(g.Text("From")), wordColumn(g.Text("To")), wordColumn(g.Text("Text"))),
		h.TBody(g.Map(v.Events, func(e lesson.Event) g.Node {
			by := e.By
			if e.Agent != "" {
				by += " (agent " + e.Agent + ")"
			}
			return h.Tr(
				h.Td(h.Class("text"), timeOf(e.Time)), rowHead(g.Text(e.Action)), h.Td(h.Class("text"), quoted(by)),
				h.Td(h.Class("text"), g.Text(string(e.From))), h.Td(h.Class("text"), g.Text(string(e.To))), h.Td(h.Class("text"), h.Code(g.Textf("%.12s", e.Hash))),
			)
		})),
	))
}
