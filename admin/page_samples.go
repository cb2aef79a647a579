package admin

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/store"
)

type samplesView struct {
	found store.SampleList
	query *store.SampleQuery
}

func (s *Server) samplesPage(c echo.Context) error {
	q, l, err := s.browseSamples(c)
	v := samplesView{l, q}
	return s.show(c, pageContent{Title: "samples", Main: v.html, Live: err == nil && q.After == "", Err: err})
}

func (v *samplesView) html(f frame) g.Node {
	q := v.query
	clear := f.withoutFilters(append(sessionFilters(), "family", "quality", "session")...)
	unapplied := v.unapplied(f)
	kept := slices.DeleteFunc(slices.Concat(unapplied, []string{"order", "view"}), func(key string) bool { return key == "lesson" }) // the form has a field for a lesson
	return g.Group{
		title("Samples", mutedText(g.Text("Learning data from the sessions, as "), termButton("sample"), g.Text(", newest first."))),
		filterForm(
			"/samples", "Filter samples", clear, hiddenQueryFields(f, kept...),
			choiceField("Family", "family", choicesWithAny(Families()...), q.Filter.Families...),
			choiceField("Quality", "quality", choicesWithAny(Qualities()...), q.Filter.Quality...),
			textField("Lesson injected", "lesson", q.Filter.Lesson, "10"),
			textField("Agent", "agent", q.Agent, "9"),
			textField("Session", "session", q.Session, "9"),
			choiceField("Created", "range", append([]choice{{"", "any time"}}, timeRanges()...), f.query.Get("range")),
			g.If(f.query.Get("range") == "", g.Group{
				dateField("Created on or after", "since", f.query.Get("since"), "2026-01-31"),
				dateField("Created before", "until", f.query.Get("until"), "2026-02-28"),
			}),
			textField("Tenant", "tenant", f.Tenant, "7"),
		),
		f.unappliedNote("Samples can be filtered only by the fields in the form.", unapplied...),
		g.Iff(f.page.Problem == "", func() g.Node { return v.list(f, clear != "") }),
		f.olderPager(g.If(v.found.RowsRead > 0, h.Span(
			g.Text(countText(len(v.found.Samples))+" shown"), g.If(clear != "", g.Text(" of "+countText(v.found.RowsRead)+" read")),
		)), q.After, v.found.Next),
		g.Iff(f.page.Problem == "", func() g.Node { return v.exports(f) }),
	}
}

// unapplied returns the sessions page's filters that do not apply to samples. A filter by lesson applies without an arm
// or with the arm "injected", because a sample names only injected lessons.
func (v *samplesView) unapplied(f frame) []string {
	applied := []string{"range", "since", "until", "agent"}
	switch arm := f.query.Get("arm"); {
	case arm == "":
		applied = append(applied, "lesson")
	case arm == store.FateInjected && f.query.Get("lesson") != "":
		applied = append(applied, "lesson", "arm")
	}
	return slices.DeleteFunc(sessionFilters(), func(key string) bool { return slices.Contains(applied, key) })
}

func (v *samplesView) list(f frame, filtered bool) g.Node {
	switch {
	case len(v.found.Samples) > 0:
		return h.Div(h.Class("samples"), g.Map(v.found.Samples, func(x store.SampleItem) g.Node { return sampleNode(f, &x) }))
	case filtered:
		older := ifElse(v.found.Next != "", "There are older samples.", "Use fewer filters.")
		return emptyState("No matching sample", h.P(g.Textf(
			"None of the %s samples read matches. %s", countText(v.found.RowsRead), older)))
	default:
		return emptyState("No sample yet", h.P(g.Text(
			"precept builds a session's samples when the session closes (reward.close_after after the start).")))
	}
}

// sampleNode returns a line that opens a preview.
func sampleNode(f frame, x *store.SampleItem) g.Node {
	answered := h.Span(h.Class("quiet"), g.Text("no text"))
	if text := gist(x.Sample.Output); text != "" {
		answered = untrustedText(text)
	}
	quality, rated := store.Unrated, ""
	if label := x.Sample.Feedback.QualityLabel; label != "" {
		quality, rated = label, ", rated by "+x.Sample.Feedback.Source+", "+x.Sample.Feedback.Type
	}
	return h.Details(
		h.Class("sample"),
		h.Summary(
			h.Span(h.Class("family"), g.Text(strings.ReplaceAll(x.Sample.Family, "_", " "))),
			h.Span(h.Class("slug "+verdictTone(quality)), g.Text(quality)),
			h.Span(h.Class("asked"), untrustedText(gist(x.Sample.Input))),
			h.Span(h.Class("quiet"), timeNode(x.Sample.CreatedAt), g.Text(" · "), untrustedText(shortenName(x.Agent))),
		),
		h.Div(
			h.Class("preview"),
			h.P(answered),
			mutedText(
				g.Text("Sample "), code(x.Sample.ID), g.Text(rated+"; "),
				h.A(h.Href(f.sessionHref(x.Session)), g.Text("the session")),
			),
			h.Pre(h.Dir("auto"), h.TabIndex("0"), untrustedText(preview(x))),
		),
	)
}

const (
	maxPreview = 16 << 10 // bytes
	maxGist    = 140      // characters
)

// preview returns indented JSON, cut at maxPreview.
func preview(x *store.SampleItem) string {
	b, err := json.MarshalIndent(&x.Sample, "", "  ")
	if err != nil {
		return "the sample cannot be shown: " + err.Error()
	}
	return truncateBytes(string(b), maxPreview)
}

// gist returns the start of the longest string in doc. gist skips members with names ending in _id.
func gist(doc map[string]any) string {
	best := ""
	for _, k := range slices.Sorted(maps.Keys(doc)) {
		if t, ok := doc[k].(string); ok && !strings.HasSuffix(k, "_id") && len(t) > len(best) {
			best = t
		}
	}
	return truncateChars(strings.Join(strings.Fields(best), " "), maxGist)
}

func (v *samplesView) exports(f frame) g.Node {
	about := map[string]string{
		"mplp":       "the samples, as JSON lines",
		"openai":     "conversations, as fine-tuning files",
		"preference": "pairs with a better and a worse answer",
		"experiment": "every random assignment with the outcome, to recompute the report",
		"parquet":    "the samples, as a Parquet file",
	}
	return section(
		"export", "Export this selection",
		mutedText(g.Text("All matching samples, not only this page, as a stream.")),
		h.Ul(h.Class("exports"), g.Map(ExportFormats(), func(format string) g.Node {
			if format == "experiment" && !appliesToExperiment(v.query) {
				return nil
			}
			return h.Li(
				h.A(h.Class("button"), h.Href(v.export(f, format)), g.Attr("download"), g.Text(format)), space(),
				h.Span(h.Class("quiet"), g.Text(about[format])),
			)
		})),
	)
}

func (v *samplesView) export(f frame, format string) string {
	p := url.Values{"format": {format}, "tenant": {v.query.Filter.Tenant}}
	for _, key := range []string{"range", "since", "until", "lesson", "agent", "session", "family", "quality"} {
		if asked := strings.Join(f.query[key], ","); asked != "" {
			p.Set(key, asked)
		}
	}
	return address("/api/export", p)
}
