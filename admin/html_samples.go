package admin

import (
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

func (v *samplesView) html(f frame) g.Node {
	return g.Group{
		title("Samples", quiet(g.Text("What sessions left to learn from, as "), word("sample"), g.Text(", newest first."))),
		v.filters(f),
		v.list(f),
		olderPager(v.counts(), v.First, v.Next),
		v.exports(),
	}
}

func (v *samplesView) filters(f frame) g.Node {
	return h.Form(
		h.Method("get"), h.Action("/samples"), h.Class("filters"), h.Role("search"), labelled("Filter samples"),
		choiceField("Family", "family", v.Families),
		choiceField("Quality", "quality", v.Qualities),
		wordField("Lesson injected", "lesson", v.Query.Lesson, "10"),
		wordField("Agent", "agent", v.Query.Agent, "9"),
		wordField("Session id", "session", v.Query.Session, "9"),
		dateField("Made from (UTC)", "since", v.Since, "2026-01-31"),
		dateField("before (UTC)", "until", v.Until, "2026-02-28"),
		wordField("Tenant", "tenant", f.Tenant, "7"),
		showButton(v.Filtered, f.Link("/samples")),
	)
}

func (v *samplesView) list(f frame) g.Node {
	switch {
	case len(v.Rows) > 0:
		return h.Div(h.Class("samples"), g.Map(v.Rows, sampleRow.html))
	case f.Problem != "":
		return nil
	case v.Filtered:
		older := when(v.Next != "", "There are older ones.", "Ask for less.")
		return empty("No sample here", h.P(g.Textf("None of the %d samples that were looked at fits. %s", v.Looked, older)))
	default:
		return empty("No sample yet", h.P(g.Text("Samples are made when a session closes: reward.close_after behind its beginning.")))
	}
}

func (r sampleRow) html() g.Node {
	answered := h.Span(h.Class("quiet"), g.Text("no words came of it"))
	if r.Answered != "" {
		answered = quoted(r.Answered)
	}
	return h.Details(
		h.Class("sample"),
		h.Summary(
			h.Span(h.Class("family"), g.Text(r.Family)),
			h.Span(h.Class("slug "+r.Tone), g.Text(r.Quality)),
			h.Span(h.Class("asked"), quoted(r.Asked)),
			h.Span(h.Class("quiet"), timeOf(r.At), g.Text(" · "), quoted(short(r.Agent))),
		),
		h.Div(
			h.Class("preview"),
			h.P(answered),
			quiet(
				g.Text("Sample "), code(r.ID), g.If(r.Source != "", g.Text(", rated by "+r.Source)),
				g.Text("; "), h.A(h.Href(r.Href), g.Text("its session")),
			),
			h.Pre(h.Dir("auto"), h.TabIndex("0"), quoted(r.JSON)),
		),
	)
}

// counts says how many are shown.
func (v *samplesView) counts() g.Node {
	if v.Looked == 0 {
		return nil
	}
	text := strconv.Itoa(len(v.Rows)) + " shown"
	if v.Filtered {
		text += " of " + strconv.Itoa(v.Looked) + " looked at"
	}
	return h.Span(g.Text(text))
}

// exports are the links that write the selection to a file.
func (v *samplesView) exports() g.Node {
	if len(v.Exports) == 0 {
		return nil
	}
	return g.Group{
		heading("export", "Export this selection"),
		quiet(g.Text("Everything that fits, not this page alone; it is written as it is read.")),
		h.Ul(h.Class("exports"), g.Map(v.Exports, func(x exportLink) g.Node {
			return h.Li(h.A(h.Class("button"), h.Href(x.Href), g.Attr("download"), g.Text(x.Format)), space(), h.Span(h.Class("quiet"), g.Text(x.About)))
		})),
	}
}
