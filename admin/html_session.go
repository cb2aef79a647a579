package admin

import (
	"fmt"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/store"
)

func (v *sessionView) html(f frame) g.Node {
	return g.Group{
		h.P(h.Class("crumb"), h.A(h.Href(f.Link("/sessions")), g.Text("Sessions"))),
		title(v.Name, quiet(
			quoted(short(v.Agent)+", "+short(v.Model)+", "+v.Dialect+"; begun "), timeOf(v.Started), g.Text(", last seen "), timeOf(v.Seen),
			g.If(!v.Closed, g.Text("; open")),
		)),
		figures(v.Figures),
		g.If(v.Control, h.P(h.Class("notice"), g.Text("This session is a control: a coin decided at its beginning that it gets no lesson."))),
		g.If(v.Excluded, warning("This session is no part of the experiment: its record could not be read in time.")),
		g.If(v.Refused, warning("The upstream refused this session's changed request; its later requests went out unchanged.")),
		g.If(len(v.OptedOut) > 0, warning(fmt.Sprintf("%d of its turns opted out: nothing of them was kept.", len(v.OptedOut)))),
		h.Div(
			h.Class("split"),
			v.turns(),
			h.Aside(labelled("About this session"), v.reward(), v.rate(f), v.coins(f), v.about(), v.forget(f)),
		),
	}
}

func (v *sessionView) turns() g.Node {
	turns := g.Node(g.Map(v.Turned, turnView.html))
	if len(v.Turned) == 0 {
		turns = h.Div(h.Class("empty"), h.P(g.Text("No turn is stored here yet. A turn appears when it is over and stored, within some seconds.")))
	}
	return h.Section(
		h.Class("turns"), labelledBy("turns"), heading("turns", "What was said"),
		g.If(v.Earlier != "", h.P(h.A(h.Href(v.Earlier), h.Rel("prev"), g.Text("Earlier turns")))),
		turns,
		g.If(v.Later != "", h.P(h.A(h.Href(v.Later), h.Rel("next"), g.Text("Later turns")))),
	)
}

func (t turnView) html() g.Node {
	name := fmt.Sprintf("Turn %d", t.Turn)
	return h.Article(
		h.Class("turn"), labelled(name),
		h.Header(
			h.H3(g.Text(name)),
			h.Span(h.Class("quiet"), fineTime(t.At), g.Map(t.Facts, func(fact string) g.Node { return quoted(" · " + fact) })),
			g.Map(t.Marks, func(mark string) g.Node { return h.Span(h.Class("mark"), g.Text(mark)) }),
		),
		g.If(t.Hidden, warning("This turn names a path that has opted out since it was kept. It is not shown.")),
		g.Map(t.Entries, entryView.html),
	)
}

func (e entryView) html() g.Node {
	var text g.Node
	switch {
	case e.Folded:
		text = h.Details(h.Summary(quoted(e.First)), prose(e.Text))
	case e.Text != "":
		text = prose(e.Text)
	}
	return h.Div(
		h.Class("said "+e.Class),
		e.who(), text,
		g.If(e.Cut > 0, quiet(g.Textf("%d further bytes are not shown; an export has them.", e.Cut))),
	)
}

// who is the line that tells whose words they are.
func (e *entryView) who() g.Node {
	aside := func(text string) g.Node { return g.Group{space(), h.Span(h.Class("quiet"), quoted(text))} }
	return h.Div(
		h.Class("who"), quoted(e.Label),
		g.Map(e.Slugs, func(slug string) g.Node { return g.Group{space(), h.Span(h.Class("slug"), quoted(slug))} }),
		g.If(e.Again, aside("inserted anew after the agent had shortened its history")),
		g.If(e.Chance != 0, aside(fmt.Sprintf("it had a chance of %.2f to be shown", e.Chance))),
		g.If(e.Rule != "", aside("(seen by "+e.Rule+")")),
	)
}

func (v *sessionView) reward() g.Node {
	from := "nobody has told"
	if r := &v.Rewarded; r.Value != nil {
		from = fmt.Sprintf("from tier %d, by %s", r.Tier, r.Definition)
		if r.Counted != nil {
			from += "; counted"
		} else if !v.Closed {
			from += "; counted when the session closes"
		}
	}
	return g.Group{
		heading("reward", "Reward"),
		h.P(h.Strong(h.Class(v.Tone), g.Text(v.Reward)), space(), h.Span(h.Class("quiet"), quoted(from))),
		g.Iff(len(v.Rewarded.Sources) > 0, func() g.Node { return h.Ul(h.Class("sources"), g.Map(v.Rewarded.Sources, sourceItem)) }),
	}
}

// sourceItem is what somebody or something told of the session.
func sourceItem(x store.SourceItem) g.Node {
	told := fmt.Sprintf(" %.2f by %s", x.Score, x.Source)
	if x.Rater != "" {
		told += " (" + x.Rater + ")"
	}
	if x.Rule != "" {
		told += ", rule " + x.Rule
	}
	if x.Turn != 0 {
		told += fmt.Sprintf(", turn %d", x.Turn)
	}
	return h.Li(
		g.If(x.Decides, h.Class("decides")),
		h.Strong(g.Text(x.Type)), quoted(told+", "), timeOf(x.At),
		g.If(x.Decides, g.Group{space(), h.Span(h.Class("slug"), g.Text("decides"))}),
		g.If(x.Comment != "", g.Group{h.Br(), h.Q(quoted(x.Comment))}),
	)
}

// rate is the form for a person's word.
func (v *sessionView) rate(f frame) g.Node {
	if !f.Acts {
		return nil
	}
	return g.Group{
		heading("rate", "Your word"),
		h.Form(
			h.Method("post"), h.Action(f.Link(sessionPath(v.ID)+"/rate")), h.Class("rate"), f.csrf(),
			h.Label(h.For("comment"), g.Text("Comment")), h.Input(h.ID("comment"), h.Name("comment"), h.MaxLength("4096")),
			h.Span(
				h.Class("buttons"),
				h.Button(h.Name("type"), h.Value("approval"), g.Text("It was right")),
				h.Button(h.Name("type"), h.Value("rejection"), g.Text("It was wrong")),
			),
		),
	}
}

// coins are the lessons that were picked, and how their coins fell.
func (v *sessionView) coins(f frame) g.Node {
	if len(v.Picks) == 0 {
		return g.Group{heading("coins", "Its coins"), quiet(g.Text("No lesson was picked in it."))}
	}
	return g.Group{
		heading("coins", "Its coins"),
		scroll(labelledBy("coins"), h.Table(
			columns(wordColumn(g.Text("Lesson")), wordColumn(g.Text("Fell")), column(word("propensity")), column(g.Text("Turn"))),
			h.TBody(g.Map(v.Picks, func(p store.PickItem) g.Node {
				return h.Tr(
					rowHead(h.Class("wrap"), h.A(h.Href(f.lesson(p.Slug)), quoted(p.Slug))),
					h.Td(h.Class("text"), when(p.Injected, g.Text("injected"), h.Span(h.Class("quiet"), g.Text("withheld")))),
					h.Td(g.Textf("%.2f", p.Propensity)), h.Td(g.Textf("%d", p.Turn)),
				)
			})),
		)),
	}
}

func (v *sessionView) about() g.Node {
	one := func(name string, value g.Node) g.Node { return g.Group{h.Dt(g.Text(name)), h.Dd(value)} }
	return g.Group{
		heading("about", "About it"),
		h.Dl(
			h.Class("about"),
			one("Id", code(v.ID)), one("Recognised by", quoted(v.Method)), one("Tenant", quoted(v.Tenant)), one("Follow it", code("precept watch "+v.ID)),
		),
	}
}

// forget is the form that deletes the session.
func (v *sessionView) forget(f frame) g.Node {
	if !f.Acts {
		return nil
	}
	return g.Group{
		heading("delete", "Delete"),
		quiet(g.Text("Its record, turns, samples and feedback are deleted here and in memory. What it added to the lessons' counts stays: sums, which name nobody. It cannot be undone.")),
		h.Form(
			h.Method("post"), h.Action(f.Link(sessionPath(v.ID)+"/forget")), f.csrf(),
			h.Label(h.Class("check"), h.Input(h.Type("checkbox"), h.Name("sure"), h.Value("yes"), h.Required()), g.Text(" I am sure")),
			h.Button(h.Class("danger"), g.Text("Delete this session")),
		),
	}
}
