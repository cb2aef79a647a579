package admin

import (
	"cmp"
	"context"
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/inject"
	"precept/inject/lesson"
)

// oldText holds what was measured with an older text of a lesson, or with another presentation, such as a caution.
type oldText struct {
	row     *report.Row
	session report.LessonSession // a session that got the text
	text    string               // as the model saw it; empty if unreadable
}

const maxTextsRead = 10

// readOlderTexts sorts older by session, newest first, and sets the sessions and the first maxTextsRead texts. The
// texts come from stored sessions, because the bank has only the current text.
func readOlderTexts(ctx context.Context, archive Archive, survey *report.Survey, tenant string, older []oldText) {
	for i := range older {
		older[i].session, _ = survey.Example(older[i].row.Arm)
	}
	slices.SortStableFunc(older, func(a, b oldText) int {
		return cmp.Or(b.session.Began.Compare(a.session.Began), strings.Compare(a.row.Arm, b.row.Arm))
	})
	for i := range older[:min(len(older), maxTextsRead)] {
		old := &older[i]
		if old.session.Session == "" {
			continue
		}
		block, err := archive.InsertedText(ctx, tenant, old.session.Session, old.row.Slug)
		if err != nil {
			continue // the session was deleted, and the page says so
		}
		old.text = inject.LessonLines(block, trial.LessonSlug(old.row.Slug))
	}
}

// olderTexts returns the older texts with the measurements.
func olderTexts(f frame, older []oldText, slug, block string) g.Node {
	if len(older) == 0 {
		return nil
	}
	current := inject.LessonLines(block, trial.LessonSlug(slug))
	return g.Group{
		mutedText(g.Text("Each older text and each other presentation is measured separately.")),
		cards(
			ariaLabel("Older texts"),
			headingRow(wordColumns("Text", "State", "Verdict"), numberColumns("Effect, points", "95% interval", "Rewarded, sessions")),
			limitedList(older, lastRow, func(o oldText) g.Node {
				e := rowEffect(o.row)
				return h.Tr(
					rowHead(h.Class("name"), code(o.row.Arm)),
					cell("State", h.Class("text"), g.Text(o.row.State)), cell("Verdict", h.Class("text"), g.Text(string(o.row.Verdict))),
					cell("Effect, points", g.Text(e.points())), cell("95% interval", g.Text(e.interval())), cell("Rewarded, sessions", g.Text(countText(o.row.Rewarded))),
				)
			}),
		),
		g.Map(older[:min(len(older), maxTextsRead)], func(o oldText) g.Node { return o.html(f, current) }),
	}
}

// html returns the older text, or how it differs from current.
func (o oldText) html(f frame, current string) g.Node {
	summary := h.Summary(g.Text("The text "), code(o.row.Arm))
	if o.text == "" {
		return h.Details(summary, mutedText(g.Text("No stored session shows this text: the sessions were deleted, have no reward, or are part of a run.")))
	}
	text, marks := prose(o.text), ""
	if current != "" {
		text = diffNode(o.text, current)
		marks = " Since then, lines marked − were removed, and lines marked + were added."
	}
	return h.Details(
		summary,
		mutedText(
			g.Text("From the session "),
			h.A(h.Href(f.sessionHref(o.session.Session)), h.Code(g.Textf("%.12s", o.session.Session))),
			g.Text(" which began "), timeNode(o.session.Began), g.Text("."+marks),
		),
		textBox(text),
	)
}

func eventsTable(events []lesson.Event) g.Node {
	if len(events) == 0 {
		return mutedText(g.Text("The audit log has no entry about this lesson."))
	}
	return g.Group{
		mutedText(g.Text("Audit log, newest first.")),
		grid(
			ariaLabel("Audit log"), headingRow(wordColumns("When", "What", "Text")),
			limitedList(events, lastRow, func(e lesson.Event) g.Node {
				return h.Tr(wordCells(timeNode(e.Time)), h.Td(h.Class("text wrap"), eventText(&e)), wordCells(h.Code(g.Textf("%.12s", e.Hash))))
			}),
		),
	}
}

// triggerList returns the triggers, or noTriggers if none is set.
func triggerList(l *lesson.Lesson, noTriggers string) g.Node {
	row := func(name string, values ...g.Node) g.Node {
		return h.Div(h.Dt(g.Text(name)), h.Dd(values...))
	}
	t := &l.Trigger
	var out g.Group
	for _, f := range []struct {
		name   string
		values []string
	}{
		{"fires on the words", t.Keywords},
		{"or on requests of kind", t.RequestKinds},
		{"or on the tags", t.Tags},
		{"or on errors like", t.ErrorPatterns},
		{"or on errors of kind", t.ErrorKinds},
		{"not on", t.NotKeywords},
		{"only with the tools", t.Tools},
		{"only for the models", t.Models},
		{"only for", targets(t.Targets)},
	} {
		if len(f.values) > 0 {
			value := func(v string) g.Node { return g.Group{code(v), space()} }
			out = append(out, row(f.name, limitedList(f.values, h.Span, value)))
		}
	}
	if out == nil {
		out = g.Group{row("never", g.Text(noTriggers))}
	}
	return h.Dl(h.Class("facets"), out)
}

func targets(list []lesson.Target) (out []string) {
	for _, t := range list {
		var parts []string
		for _, p := range [][2]string{{"agent", t.Operator}, {"role", t.Role}, {"skill", t.Skill}} {
			if p[1] != "" {
				parts = append(parts, p[0]+" "+p[1])
			}
		}
		out = append(out, strings.Join(parts, " and "))
	}
	return out
}

func findingList(list []lesson.Finding) g.Node {
	return h.Ul(h.Class("checks"), limitedList(list, h.Li, func(f lesson.Finding) g.Node {
		return h.Li(h.Class(ifElse(f.Severity == lesson.Error, "bad", "warn")), g.Text(f.String()))
	}))
}
