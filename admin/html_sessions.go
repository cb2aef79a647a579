package admin

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

func (v *sessionsView) html(f frame) g.Node {
	return g.Group{
		title("Sessions", h.Form(
			h.Method("get"), h.Action("/sessions"), h.Class("jump"), h.Role("search"), labelled("Open a session"),
			hiddenField("tenant", f.Tenant),
			h.Label(h.For("session"), g.Text("Name or id")),
			entryField("session", v.Query.Session, "22"),
			h.Button(g.Text("Find")),
		)),
		v.filters(f),
		v.list(f),
		olderPager(v.counts(), v.First, v.Next),
		quiet(g.Text("What was redacted or opted out is not here: it was never stored.")),
	}
}

// entryField is a field for a word to search by.
func entryField(name, value, size string, more ...g.Node) g.Node {
	return h.Input(h.ID(name), h.Name(name), h.Value(visible(value)), h.MaxLength("256"), g.Attr("size", size), g.Group(more))
}

// field is a field of a filter with its label.
func field(label, name string, input g.Node) g.Node {
	return h.Div(h.Class("field"), h.Label(h.For(name), g.Text(label)), input)
}

func wordField(label, name, value, size string) g.Node {
	return field(label, name, entryField(name, value, size))
}

func dateField(label, name, value, example string) g.Node {
	return field(label, name, h.Input(h.ID(name), h.Name(name), h.Value(visible(value)), h.MaxLength("40"), g.Attr("size", "11"), h.Placeholder(example)))
}

func choiceField(label, name string, choices []choice) g.Node {
	return field(label, name, h.Select(
		h.ID(name), h.Name(name), option("", "any", false),
		g.Map(choices, func(c choice) g.Node { return option(c.Value, c.Name, c.Chosen) }),
	))
}

func rewardField(label, name string, value *float64) g.Node {
	text := ""
	if value != nil {
		text = strconv.FormatFloat(*value, 'g', -1, 64)
	}
	return field(label, name, h.Input(h.ID(name), h.Name(name), h.Type("number"), h.Min("0"), h.Max("1"), h.Step("any"), h.Value(text)))
}

// showButton sends a filter off, and takes it away where there is one.
func showButton(filtered bool, clear string) g.Node {
	return h.Div(h.Class("field"), h.Button(h.Class("main"), g.Text("Show")), g.If(filtered, g.Group{space(), h.A(h.Href(clear), g.Text("Clear"))}))
}

func (v *sessionsView) filters(f frame) g.Node {
	q := &v.Query
	return h.Form(
		h.Method("get"), h.Action("/sessions"), h.Class("filters"), h.Role("search"), labelled("Filter sessions"),
		g.Iff(!f.Viewer, func() g.Node {
			return g.Group{wordField("Words said", "words", q.Words, "18"), wordField("Tool called", "tool", q.Tool, "10"), wordField("Error text", "error", q.Error, "14")}
		}),
		wordField("Agent", "agent", q.Agent, "10"),
		wordField("Model", "model", q.Model, "12"),
		wordField("Lesson", "lesson", q.Lesson, "14"),
		choiceField("Verdict", "verdict", v.Verdicts),
		rewardField("Reward from", "min_reward", q.MinReward),
		rewardField("to", "max_reward", q.MaxReward),
		dateField("Begun from (UTC)", "since", v.Since, "2026-01-31"),
		dateField("before (UTC)", "until", v.Until, "2026-02-28"),
		wordField("Tenant", "tenant", f.Tenant, "9"),
		h.Label(h.Class("check"), h.Input(h.Type("checkbox"), h.Name("loops"), h.Value("true"), g.If(q.Loops, h.Checked())), g.Text(" with a loop")),
		showButton(v.Filtered, f.Link("/sessions")),
	)
}

func (v *sessionsView) list(f frame) g.Node {
	if len(v.Rows) == 0 {
		return g.If(f.Problem == "", v.none())
	}
	searched := when(v.Searched, "Sessions are read one by one for what was said in them.", "")
	return scroll(labelled("Sessions"), h.Table(
		h.Class("list cards"), h.Caption(g.Text("Newest first. "+searched)),
		columns(
			wordColumn(g.Text("Session")), wordColumn(g.Text("Begun")), wordColumn(g.Text("Agent")), wordColumn(g.Text("Model")),
			column(word("turns")), column(word("loops")), wordColumn(word("session-lessons")), column(word("session-reward")), wordColumn(word("session-verdict")),
		),
		h.TBody(g.Map(v.Rows, func(r sessionRow) g.Node { return r.html(f) })),
	))
}

func (r *sessionRow) html(f frame) g.Node {
	name := visible(short(r.Name))
	return h.Tr(
		rowHead(
			h.Class("wrap name"),
			when(f.Viewer, h.Span(h.Title(name), g.Text(name)), h.A(h.Href(r.Href), h.Title(name), g.Text(name))),
			r.found(),
		),
		cell("Begun", h.Class("text"), timeOf(r.Started)),
		cell("Agent", h.Class("text agent"), quoted(short(r.Agent))),
		cell("Model", h.Class("text agent"), quoted(short(r.Model))),
		cell("Turns", g.Text(strconv.Itoa(r.Turns))),
		cell("Loops", g.If(r.Loops > 0, h.Class("warn")), g.Text(strconv.Itoa(r.Loops))),
		cell("Lessons", h.Class("text wrap slugs"), r.lessons()),
		cell("Reward", h.Class(r.Tone), g.Text(r.Reward)),
		cell("Verdict", h.Class("text "+r.Tone), g.Text(r.Verdict)),
	)
}

// found is where a search hit.
func (r *sessionRow) found() g.Node {
	if r.Found == nil {
		return nil
	}
	return h.Span(h.Class("hit"), quoted(fmt.Sprintf("turn %d, %s: %s", r.Found.Turn, r.Found.Role, r.Found.Text)))
}

func (r *sessionRow) lessons() g.Node {
	return g.Group{
		g.If(r.Control, h.Span(h.Class("slug control"), g.Text("control"))),
		g.Map(r.Injected, func(slug string) g.Node { return h.Span(h.Class("slug"), quoted(slug)) }),
		g.Map(r.Withheld, func(slug string) g.Node {
			return h.Span(h.Class("slug ghost"), h.Title("withheld by a coin"), quoted(slug))
		}),
		g.If(r.Excluded, h.Span(h.Class("quiet"), g.Text("not in the experiment"))),
	}
}

// none says why there are no sessions to show.
func (v *sessionsView) none() g.Node {
	switch {
	case !v.Filtered:
		return empty("No session yet", h.P(
			g.Text("A session appears when its first turn is over and stored, within some seconds. Point an agent at precept's data listener: "),
			h.Code(g.Text("OPENAI_BASE_URL=http://127.0.0.1:8080/v1")), g.Text("."),
		))
	case v.Next != "":
		return empty("No session here", h.P(g.Textf("None of the %d sessions back to ", v.Looked), timeOf(v.Back), g.Text(" fits. There are older ones.")))
	default:
		return empty("No session here", h.P(g.Textf("None of %d sessions fits what is asked for. Ask for less, or look at another tenant.", v.Looked)))
	}
}

// counts says how many are shown.
func (v *sessionsView) counts() g.Node {
	if v.Looked == 0 {
		return nil
	}
	return h.Span(
		g.Textf("%d shown", len(v.Rows)),
		g.If(v.Filtered, g.Group{g.Textf(" of %d looked at, back to ", v.Looked), timeOf(v.Back)}),
	)
}
