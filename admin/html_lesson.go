package admin

import (
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/backtest"
	"precept/report"
)

func (v *lessonView) html(f frame) g.Node {
	return g.Group{
		h.P(h.Class("crumb"), h.A(h.Href(f.Link("/lessons")), g.Text("Lessons"))),
		title(v.Title, v.about()),
		v.verdict(),
		g.Iff(len(v.Stats) > 0, func() g.Node { return figures(v.Stats) }),
		v.actions(f),
		section("time", "Effect over time", v.overTime(), g.Iff(len(v.Looks) > 0, func() g.Node { return looksTable(v.Looks) })),
		g.Iff(v.Lesson != nil, func() g.Node { return g.Group{v.texts(), v.trigger(f)} }),
		section("rewards", "Rewards with it and without it", v.rewards()),
		g.Iff(v.Gap != "", func() g.Node { return section("gap", "What observation alone would say", h.P(g.Text(v.Gap))) }),
		section("opinion", "Opinion of the judge, beside the measurement", opinionsText(v.Opinions)),
		g.Iff(len(v.Cost) > 0, func() g.Node { return section("cost", "What it costs", figures(v.Cost)) }),
		g.Iff(len(v.Findings) > 0, func() g.Node { return section("checks", "Checks", findingList(v.Findings)) }),
		section("history", "History", v.olderTexts(f), v.events()),
	}
}

// about is the line below the title.
func (v *lessonView) about() g.Node {
	line := g.Group{code(v.Slug)}
	if v.State != "" {
		line = append(line, g.Text(" · "), word("state"), g.Text(": "+v.State))
	}
	if v.Lesson != nil && v.Lesson.Category != "" {
		line = append(line, g.Text(" · in "), quoted(v.Lesson.Category))
	}
	return quiet(line)
}

func (v *lessonView) verdict() g.Node {
	if v.Advice.Words == "" {
		return nil
	}
	return h.P(
		h.Class("verdict-line"), h.Strong(h.Class(v.Advice.Tone), g.Text(v.Advice.Words+".")), g.Text(" "+v.Advice.Next),
		g.If(v.Note != "", g.Group{space(), h.Span(h.Class("quiet"), g.Text("("+v.Note+")"))}),
	)
}

// actions are what the person may do, each a form that says what it does.
func (v *lessonView) actions(f frame) g.Node {
	if len(v.Actions) == 0 || !f.Acts {
		return nil
	}
	return section("actions", "What you can do", h.Div(h.Class("actions"), g.Map(v.Actions, func(a action) g.Node {
		return h.Form(
			h.Method("post"), h.Action(actionPath(v.Slug, a.Key)),
			f.csrf(), seen(v.Lesson), hiddenField("back", f.lesson(v.Slug)),
			h.Button(g.If(a.Danger, h.Class("danger")), h.Aria("describedby", "does-"+a.Key), g.Text(a.Name)),
			h.P(h.ID("does-"+a.Key), g.Text(a.Effect)),
		)
	})))
}

func (v *lessonView) overTime() g.Node {
	const label = "Effect in points at the end of each day, with its 95% interval, which narrows as sessions come in"
	chart := func(more string) g.Node { return chartOf(v.Chart, label+more) }
	tables := when(len(v.Bands) > 0, "; the numbers are in the table below", "")
	switch {
	case v.Chart != "" && v.Since:
		return g.Group{chart(tables), quiet(g.Text("As the dashboard showed it since the server started. From the second day on it is drawn from the counters, day by day."))}
	case v.Chart != "":
		return g.Group{chart(tables), bands(v.Bands)}
	case v.Plot == nil:
		return quiet(g.Text("Nothing was measured yet."))
	case !v.Plot.Shown:
		return quiet(g.Text("There is no effect to show yet: it takes 50 sessions with a reward, of which at least 10 were withheld."))
	default:
		return g.Group{
			h.Div(h.Class("lone"), axisOf(v.Ticks), v.Plot.html()),
			quiet(g.Text("The band over time is drawn from the second day on that has an effect to show.")),
		}
	}
}

func looksTable(looks []report.Look) g.Node {
	return g.Group{
		h.H3(g.Text("Planned looks")),
		scroll(labelled("Planned looks"), h.Table(
			h.Class("figures"),
			columns(wordColumn(g.Text("Began")), column(g.Text("Told of planned picks")), column(g.Text("Effect, points")), wordColumn(g.Text("Verdict"))),
			h.TBody(g.Map(looks, func(l report.Look) g.Node {
				return h.Tr(
					h.Td(h.Class("text"), timeOf(l.Began)), h.Td(g.Textf("%d of %d", l.Told, l.Planned)), h.Td(g.Text(points(l.Effect))),
					h.Td(h.Class("text"), g.Text(when(l.Taken, string(l.Verdict), "not taken yet"))),
				)
			})),
		)),
	}
}

// texts are the lesson as it was written, and as the model sees it.
func (v *lessonView) texts() g.Node {
	block := warning("It does not fit into inject.budget_bytes, so no session gets it. Shorten it, or raise the budget.")
	if v.Block != "" {
		block = g.Group{
			paper(h.Pre(quoted(v.Block))),
			quiet(g.Text("This block stands before the user's own words, or at the top of the tool result that fired it. Other lessons of the turn share its head and end.")),
		}
	}
	return h.Section(
		h.Class("pair"),
		h.Div(h.H2(g.Text("The text")), paper(prose(v.Lesson.Body))),
		h.Div(h.H2(g.Text("As the model sees it")), block),
	)
}

// paper is what a text of a lesson stands on.
func paper(text g.Node) g.Node { return h.Div(h.Class("paper"), text) }

func (v *lessonView) trigger(f frame) g.Node {
	description := v.Lesson.Trigger.Description
	return section(
		"trigger", "When it fires",
		g.If(description != "", h.P(h.Dir("auto"), quoted(description))),
		facetList(v.Trigger, "It has no words, tags or errors to fire on."),
		v.backtest(f),
	)
}

// backtest is where the lesson would have fired, once somebody asks.
func (v *lessonView) backtest(f frame) g.Node {
	switch b := v.Backtest; {
	case b != nil:
		return g.Group{
			h.P(g.Text("It would have fired in "), strong(b.Fired), g.Text(" of the "), strong(b.Sessions), g.Text(" newest captured sessions.")),
			wordsTable("Words that fired", "By which words", "Words", b.Words, b.Silent),
			examples(f, b.Examples),
			nearMisses(f, &b.Near),
		}
	case v.BacktestNote != "":
		return warning(v.BacktestNote)
	default:
		return h.P(h.A(h.Class("button"), h.Href(f.With("backtest", "1")+"#trigger"), g.Text("Try it on captured sessions")))
	}
}

// wordsTable counts sessions by word; silent ones stood in none.
func wordsTable(label, caption, head string, words []backtest.Word, silent []string) g.Node {
	row := func(word string, sessions int) g.Node {
		return h.Tr(rowHead(quoted(word)), h.Td(g.Textf("%d", sessions)))
	}
	return scroll(labelled(label), h.Table(
		h.Class("figures"), h.Caption(g.Text(caption)),
		columns(wordColumn(g.Text(head)), column(g.Text("Sessions"))),
		h.TBody(
			g.Map(words, func(w backtest.Word) g.Node { return row(w.Word, w.Sessions) }),
			g.Map(silent, func(w string) g.Node { return row(w, 0) }),
		),
	))
}

// examples lead to some sessions.
func examples(f frame, names []string) g.Node {
	if len(names) == 0 {
		return nil
	}
	return quiet(g.Text("Such as "), g.Map(names, func(name string) g.Node {
		return g.Group{h.A(h.Href(f.Link("/sessions", "session", name)), code(name)), space()}
	}))
}

func nearMisses(f frame, near *backtest.Near) g.Node {
	if near.Sessions == 0 {
		return quiet(g.Text("In no other one it came near: nowhere did a trigger stand that something kept from firing, or all words of one of its phrases apart."))
	}
	return g.Group{
		h.P(g.Text("In "), strong(near.Sessions), g.Text(" others it came near, and would not have fired:")),
		wordsTable("Near misses", "Near misses: what kept it from firing", "Why not", near.Why, nil),
		examples(f, near.Examples),
	}
}

// rewards are the rewards of both arms, in tenths.
func (v *lessonView) rewards() g.Node {
	read := g.Group{}
	if !v.RewardsAt.IsZero() {
		read = g.Group{
			g.Text(" They were read at "), timeOf(v.RewardsAt),
			g.Text(when(v.RewardsOld, "; newer ones are being read, and stand here in a moment.", ".")),
		}
	}
	if len(v.Rewards) == 0 {
		return quiet(g.Text(v.RewardsNote), read)
	}
	return scroll(labelled("Rewards of both arms"), h.Table(
		h.Class("figures spread"),
		h.Caption(g.Text("Share of the sessions of each arm, by "), word("reward"), g.Text(". "+v.RewardsNote), read),
		columns(wordColumn(g.Text("Reward")), wordColumn(g.Text("Injected and withheld")), column(g.Text("Injected, sessions")), column(g.Text("Withheld, sessions"))),
		h.TBody(g.Map(v.Rewards, bar.html)),
	))
}

func (b bar) html() g.Node {
	rect := func(class, y, width string) g.Node {
		return g.El("rect", h.Class(class), g.Attr("x", "0"), g.Attr("y", y), h.Width(width), h.Height("7"))
	}
	return h.Tr(
		rowHead(g.Text(b.Range)),
		h.Td(h.Class("text"), h.SVG(
			h.Class("bars"), g.Attr("viewBox", "0 0 200 18"), h.Aria("hidden", "true"),
			rect("with", "1", b.InjectedWidth), rect("without", "10", b.WithheldWidth),
		)),
		h.Td(g.Text(b.InjectedShare+" "), small(g.Textf("%d", b.Injected))),
		h.Td(g.Text(b.WithheldShare+" "), small(g.Textf("%d", b.Withheld))),
	)
}

func opinionsText(o *report.Opinions) g.Node {
	if o == nil {
		return quiet(
			g.Text("No judge has said anything of it. "), h.Code(g.Text("precept distill")),
			g.Text(" asks one for sessions in which lessons were in force; its opinion would stand here, and in no number above."),
		)
	}
	return h.P(g.Textf("In the sessions that it read, the judge found the lesson followed %d times, ignored %d, irrelevant %d, contradicted %d. This is an opinion; no number above holds it.",
		o.Followed, o.Ignored, o.Irrelevant, o.Contradicted))
}
