package admin

import (
	"net/url"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/lesson"
)

func (v *queueView) html(f frame) g.Node {
	if len(v.Items) == 0 {
		return g.Group{title("Queue"), emptyQueue(), queueKeys()}
	}
	return g.Group{
		title("Queue", quiet(
			g.Textf("%d to decide. Keys: ", v.Total), keys("j", "k"), g.Text(" next and previous, "), keys("a"), g.Text(" approve, "), keys("t"), g.Text(" trial, "),
			keys("r"), g.Text(" reject, "), keys("b"), g.Text(" backtest, "), keys("o"), g.Text(" open, "), keys("?"), g.Text(" help"),
		)),
		g.Map(v.Items, func(x queueItem) g.Node { return x.html(f) }),
		v.Pager.html(),
		queueKeys(),
	}
}

// keys are what to press, drawn as keys.
func keys(names ...string) g.Node {
	var out g.Group
	for i, name := range names {
		out = append(out, g.If(i > 0, space()), h.Kbd(g.Text(name)))
	}
	return out
}

func emptyQueue() g.Node {
	return empty(
		"Nothing waits for you",
		h.P(
			g.Text("What agents, the API or "), code("precept distill"), g.Text(" write waits here until somebody approves it ("), code("distill.gate: human"),
			g.Text("). Files that a person puts into the lessons directory are in force at once."),
		),
		h.P(g.Text("To have candidates made out of what goes wrong, set "), code("distill.enabled: true"), g.Text(", or run "), code("precept distill --once"), g.Text(".")),
	)
}

// queueKeys is the help that ? opens.
func queueKeys() g.Node {
	one := func(does string, names ...string) g.Node { return h.Div(h.Dt(keys(names...)), h.Dd(g.Text(does))) }
	return h.Div(
		g.Attr("popover"), h.Class("definition"), h.ID("keys"),
		h.Strong(g.Text("Keys of the queue")),
		h.Dl(
			h.Class("facets"),
			one("next, previous lesson", "j", "k"),
			one("approve: in force in this text", "a"),
			one("put on trial: in force, withheld half of the time", "t"),
			one("reject: never in force; press twice", "r"),
			one("try it on captured sessions", "b"),
			one("open its page", "o"),
			one("this help, and away with it", "?", "Esc"),
		),
	)
}

func (x *queueItem) html(f frame) g.Node {
	l := x.Lesson
	about := g.Group{code(l.Slug), g.Text(" · " + string(l.State))}
	if source := l.Approval.Source; source != "" {
		about = append(about, g.Text(" · written by "+source))
	}
	if agent := l.Scope.Agent; agent != "" {
		about = append(about, g.Text(" · for the agent "), quoted(agent))
	}
	if !l.CreatedAt.IsZero() {
		about = append(about, g.Text(" · "), timeOf(l.CreatedAt))
	}
	return h.Article(
		h.Class("candidate"), h.TabIndex("-1"), labelledBy("q-"+l.Slug), h.ID(l.Slug),
		h.H2(h.ID("q-"+l.Slug), h.A(h.Data("key", "o"), h.Href(x.Href), h.Dir("auto"), quoted(x.Title))),
		quiet(about),
		h.Div(h.Class("pair"), x.text(), x.grounds(f)),
		g.Iff(f.Acts, func() g.Node {
			return h.Div(h.Class("decide"), x.button(f, lesson.Approve, "Approve", "a", "main"), x.button(f, lesson.StartTrial, "Put on trial", "t", ""), x.button(f, lesson.Reject, "Reject", "r", "danger"))
		}),
	)
}

// text is what the lesson says, or what changes against the one that it supersedes.
func (x *queueItem) text() g.Node {
	if x.Base == "" {
		return h.Div(h.H3(g.Text("What it says")), h.Div(h.Class("paper"), h.Pre(quoted(x.Block))))
	}
	return h.Div(h.H3(g.Text("What changes against "), code(x.Base)), h.Div(h.Class("paper"), diffText(x.Diff)))
}

// grounds are what a person decides by.
func (x *queueItem) grounds(f frame) g.Node {
	checks := h.P(h.Class("good"), g.Text("All checks are clean."))
	if len(x.Findings) > 0 {
		checks = findingList(x.Findings, h.Class("checks"))
	}
	return h.Div(
		h.H3(g.Text("When it fires")), facetList(x.Trigger, "It has nothing to fire on."),
		h.H3(g.Text("Checks")), checks,
		h.H3(g.Text("Evidence")), evidenceList(x.Lesson.Evidence),
		h.H3(g.Text("Backtest")), x.backtest(f),
	)
}

func evidenceList(list []lesson.Evidence) g.Node {
	if len(list) == 0 {
		return h.P(h.Class("warn"), g.Text("It cites none."))
	}
	return h.Ul(h.Class("checks"), g.Map(list, func(e lesson.Evidence) g.Node {
		note := e.Kind
		if e.Note != "" {
			note += ": " + e.Note
		}
		return h.Li(code(e.Ref), space(), h.Span(h.Class("quiet"), quoted(note)))
	}))
}

func (x *queueItem) backtest(f frame) g.Node {
	switch b := x.Backtest; {
	case b != nil:
		by := g.Group{}
		for _, w := range b.Words {
			by = append(by, g.Text(", by "), code(w.Word), g.Textf(" in %d", w.Sessions))
		}
		return h.P(g.Text("It would have fired in "), strong(b.Fired), g.Text(" of the "), strong(b.Sessions), g.Text(" newest captured sessions"), by, g.Text("."))
	case x.Note != "":
		return h.P(h.Class("warn"), g.Text(x.Note))
	default:
		return h.P(h.A(h.Data("key", "b"), h.Href(f.With("backtest", x.Lesson.Slug)+"#"+url.PathEscape(x.Lesson.Slug)), g.Text("Try it on captured sessions")))
	}
}

// button is a form that decides on the lesson.
func (x *queueItem) button(f frame, a lesson.Action, name, key, class string) g.Node {
	return h.Form(
		h.Method("post"), h.Action(actionPath(x.Lesson.Slug, string(a))),
		seen(x.Lesson), f.csrf(), hiddenField("back", f.With("backtest", "")),
		h.Button(
			h.Data("key", key), toned(class), h.Aria("keyshortcuts", key),
			g.Text(name+" "), h.Kbd(g.Text(key)), h.Span(h.Class("hidden-text"), g.Text(" "+x.Lesson.Slug)),
		),
	)
}
