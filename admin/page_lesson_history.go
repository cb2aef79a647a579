package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/inject"
	"precept/lesson"
	"precept/report"
)

// oldText is an older text of the lesson, or the same presented in another way, with what was
// measured of it.
type oldText struct {
	row   *report.Row
	sight report.Sight // a session that got it
	text  string       // what the model saw of it there; "" when no stored session tells
}

// textsShown is how many older texts are looked up in stored sessions: those that were seen last.
const textsShown = 10

// recall fills in what the older texts said. The bank keeps the text of now alone; what was shown
// stands in the sessions that got it, for as long as they are kept.
func (v *lessonView) recall(ctx context.Context, s *Server, tenant string) {
	if s.options.Archive == nil {
		return
	}
	for i := range v.older {
		v.older[i].sight, _ = v.stored.survey.Seen(v.older[i].row.Arm)
	}
	slices.SortStableFunc(v.older, func(a, b oldText) int {
		return cmp.Or(b.sight.Began.Compare(a.sight.Began), strings.Compare(a.row.Arm, b.row.Arm))
	})
	for i := range v.older[:min(len(v.older), textsShown)] {
		one := &v.older[i]
		if one.sight.Session == "" {
			continue
		}
		block, err := s.options.Archive.Block(ctx, tenant, one.sight.Session, v.slug)
		if err != nil {
			continue // forgotten meanwhile: the page says that no stored session tells it
		}
		one.text = inject.Part(block, v.slug)
	}
}

// olderTexts are what was measured of older texts, and what they said.
func (v *lessonView) olderTexts(f frame) g.Node {
	if len(v.older) == 0 {
		return nil
	}
	now := inject.Part(v.block, v.slug)
	return g.Group{
		scroll(labelled("Older texts"), h.Table(
			h.Class("figures"), h.Caption(g.Text("Older texts, and other presentations: each was an arm of its own.")),
			columns(
				wordColumn(g.Text("Text")), wordColumn(g.Text("State")), wordColumn(g.Text("Verdict")),
				column(g.Text("Effect, points")), column(g.Text("95% interval")), column(g.Text("Told, sessions")),
			),
			h.TBody(g.Map(v.older, oldText.tr)),
		)),
		g.Map(v.older, func(o oldText) g.Node { return o.html(f, now) }),
	}
}

func (o oldText) tr() g.Node {
	effect, lo, hi := shownOf(o.row)
	return h.Tr(
		rowHead(code(o.row.Arm)), h.Td(h.Class("text"), g.Text(o.row.State)),
		h.Td(h.Class("text"), g.Text(string(o.row.Verdict))),
		h.Td(g.Text(points(effect))), h.Td(g.Text(interval(effect, lo, hi))), h.Td(g.Text(count(o.row.Told))),
	)
}

// html is the text as a session got it, with what has changed since.
func (o oldText) html(f frame, now string) g.Node {
	summary := h.Summary(g.Text("The text of "), code(o.row.Arm))
	if o.text == "" {
		return h.Details(summary, quiet(g.Text("No stored session tells it: those that got it are gone, "+
			"have not closed with a reward, or share their coins with a run.")))
	}
	text, marks := prose(o.text), ""
	if now != "" {
		text = diffOf(o.text, now)
		marks = " Lines marked − are gone, lines marked + are new in the text of now."
	}
	return h.Details(
		summary,
		quiet(
			g.Text("As the session "),
			h.A(h.Href(f.session(o.sight.Session)), h.Code(g.Textf("%.12s", o.sight.Session))),
			g.Text(" got it, which began "), timeOf(o.sight.Began), g.Text("."+marks),
		),
		paper(text),
	)
}

// log is what was done with the lesson.
func (v *lessonView) log() g.Node {
	if len(v.events) == 0 {
		return quiet(g.Text("Nobody has acted on it: a file that a person put into the directory is in force " +
			"without approval, and is not logged."))
	}
	return scroll(labelled("Audit log"), h.Table(
		h.Class("figures"), h.Caption(g.Text("Audit log, newest first")),
		columns(
			wordColumn(g.Text("When")), wordColumn(g.Text("What")), wordColumn(g.Text("By")),
			wordColumn(g.Text("From")), wordColumn(g.Text("To")), wordColumn(g.Text("Text")),
		),
		h.TBody(g.Map(v.events, func(e lesson.Event) g.Node {
			by := e.By
			if e.Agent != "" {
				by += " (agent " + e.Agent + ")"
			}
			cell := func(value g.Node) g.Node { return h.Td(h.Class("text"), value) }
			return h.Tr(
				cell(timeOf(e.Time)), rowHead(g.Text(e.Action)), cell(quoted(by)),
				cell(g.Text(string(e.From))), cell(g.Text(string(e.To))), cell(h.Code(g.Textf("%.12s", e.Hash))),
			)
		})),
	))
}
