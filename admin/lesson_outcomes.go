package admin

import (
	"slices"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/store"
)

// outcomeUnits are the units of outcomes, in the order of the table. One axis per unit keeps unlike numbers apart.
func outcomeUnits() []outcomeUnit {
	return []outcomeUnit{
		{"share", "Share of sessions, change in points", "points", 100},
		{"errors/10", "Failed calls per session, change in calls", "calls", 10},
		{"percent", "Length of a session, change in per cent", "per cent", 100},
	}
}

type outcomeUnit struct {
	key, title, name string
	factor           float64 // from an outcomeEffect to the number on the scale
}

// outcomeTable returns the effects on outcomes as a forest plot with an axis for each unit. A negative effect is good:
// fewer errors, turns or tokens.
func outcomeTable(f frame, r *report.Row) g.Node {
	var groups g.Group
	for _, unit := range outcomeUnits() {
		var outcomes []*report.Outcome
		var effects []*effect
		for i := range r.Outcomes {
			if x := &r.Outcomes[i]; x.Unit == unit.key {
				e := outcomeEffect(x)
				if x.IsVague() {
					e = nil
				}
				outcomes, effects = append(outcomes, x), append(effects, e)
			}
		}
		if len(outcomes) == 0 {
			continue
		}
		a := fitAxis(effects, nil, 0)
		a.factor, a.unit = unit.factor, unit.name
		rows := g.Group{h.Tr(h.Class("unit"), h.Th(h.Scope("rowgroup"), h.ColSpan("3"), g.Text(unit.title)), h.Td(h.Class("plot"), a.scale()))}
		for i, x := range outcomes {
			rows = append(rows, outcomeRow(x, effects[i], a))
		}
		groups = append(groups, h.TBody(rows))
	}
	return g.Group{
		g.If(r.Guardrail != "", h.P(h.Strong(h.Class("bad"), g.Text("Guardrail: "+r.Guardrail+".")),
			g.Text(" An outcome in report.guardrails rises with the lesson. The verdict does not change."))),
		h.P(h.Class("quiet"), g.Text("Outcomes are measured after the pick, in every closed session in which the lesson was picked and could be withheld at random, with or without a reward. An effect to the left of 0 means less with the lesson, such as fewer errors. No outcome changes the verdict. "),
			h.A(h.Href(f.helpHref("EXPERIMENT#outcomes")), g.Text("More"))),
		scrollRegion(ariaLabelledBy("outcomes"), h.Table(
			h.Class("cards"),
			headingRow(wordColumn(g.Text("Outcome")), wordColumn(g.Text("Verdict")), numberColumn(g.Text("Change, 95% at any time")), numberColumn(h.Class("plot"), g.Text("Forest plot"))),
			groups,
		)),
	}
}

func outcomeRow(x *report.Outcome, e *effect, a axis) g.Node {
	tone := ""
	switch d := x.Verdict.Direction(); {
	case d < 0:
		tone = "good"
	case d > 0:
		tone = "bad"
	}
	text := "no effect yet"
	switch {
	case x.IsVague():
		text = report.TooWide
	case x.Effect != nil:
		text = strings.ReplaceAll(x.Interval(), "-", "−")
	}
	return h.Tr(
		rowHead(g.Text(x.Name), smallLine(g.Text(outcomeHelp()[x.Name]))),
		h.Td(h.Class("text wrap"), h.Strong(h.Class(tone), g.Text(string(x.Verdict))), smallLine(g.Text(verdictHelp(x)))),
		cell("Change, 95%", g.Text(text)),
		h.Td(h.Class("plot"), a.row(e, nil, x.Name+": "+text, tone)),
	)
}

// modelTable returns the effect on the reward per model as a forest plot.
func modelTable(f frame, r *report.Row) g.Node {
	effects := make([]*effect, len(r.Models.Effects))
	for i := range r.Models.Effects {
		if x := &r.Models.Effects[i]; x.Effect != nil {
			effects[i] = &effect{*x.Effect, *x.Lo, *x.Hi}
		}
	}
	a := fitAxis(effects, nil, 0)
	side := func(n int64, arm, model string) g.Node {
		if model == trial.OtherModels {
			return g.Text(countText(n))
		}
		return f.armLink(n, r.Slug, arm, "model", model)
	}
	text, covered, reason := r.DescribeModels(), "Covered by the verdict", "too few picks, or a different effect"
	if text == "" { // there is no verdict that could cover a model
		covered, reason = "Enough picks", "too few picks"
	}
	rows := make(g.Group, len(effects))
	for i := range r.Models.Effects {
		x, state, meaning := &r.Models.Effects[i], "not yet", reason+"; with bandit.retest, precept withholds the full bandit.epsilon in sessions with this model"
		if slices.Contains(r.Models.WithVerdict, x.Model) {
			state, meaning = "yes", ""
		}
		label, shrunken := "no effect yet", ""
		if x.Effect != nil {
			label, shrunken = effects[i].points()+" "+effects[i].interval(), "shrunken "+points(x.Shrunken)
		}
		rows[i] = h.Tr(
			rowHead(h.Class("name"), untrustedText(x.Model), smallLine(
				g.Textf("%s; with a reward: ", countNoun(x.Picks, "pick")), side(x.NInjected, store.FateInjected, x.Model), g.Text(" injected, "),
				side(x.NWithheld, store.FateWithheld, x.Model), g.Text(" withheld"),
			)),
			h.Td(h.Class("text wrap"), h.Strong(g.Text(state)), smallLine(g.Text(meaning))),
			cell("Effect, points", g.Text(label), smallLine(g.Text(shrunken))),
			h.Td(h.Class("plot"), a.row(effects[i], nil, x.Model+": "+label, "")),
		)
	}
	return g.Group{
		g.If(text != "", h.P(h.Strong(untrustedText(text)))),
		h.P(h.Class("quiet"), g.Text("The effect on the reward per model appears from 50 rewarded picks on. The intervals are valid for a single evaluation, and are widened for the number of models. A shrunken effect is moved towards the lesson's effect. No verdict uses these effects. "),
			h.A(h.Href(f.helpHref("EXPERIMENT#models")), g.Text("More"))),
		scrollRegion(ariaLabelledBy("models"), h.Table(
			h.Class("cards"),
			headingRow(wordColumn(g.Text("Model")), wordColumn(g.Text(covered)), numberColumn(g.Text("Effect, points")), a.head("Points")),
			h.TBody(rows),
		)),
	}
}

// outcomeEffect returns the effect on an outcome, or nil if the effect is unknown or unreliable. An effect of 1 is
// 100 points or 100 per cent.
func outcomeEffect(x *report.Outcome) *effect {
	if x.Effect == nil || x.Verdict == report.InvalidAssignment {
		return nil
	}
	scale := 1.0
	if x.Unit == "percent" {
		scale = 0.01
	}
	return &effect{scale * *x.Effect, scale * *x.Lo, scale * *x.Hi}
}

func outcomeHelp() map[string]string {
	return map[string]string{
		"recurrence":  "sessions in which the error that the lesson should prevent occurs again",
		"errors":      "failed tool calls per session, at most 10",
		"loops":       "sessions with a repeated call",
		"corrections": "sessions in which the user corrects or refuses",
		"turns":       "requests after the pick",
		"tokens":      "input and output, as the upstream reports",
		"seconds":     "from the pick to the newest request or reply",
	}
}

// verdictHelp explains the verdict on an outcome. The amount of data is in brackets.
func verdictHelp(x *report.Outcome) string {
	var out string
	switch x.Verdict {
	case report.Prevents:
		out = "the error occurs less often with the lesson; at most one in twenty rows with this verdict may be wrong"
	case report.NoChange:
		out = "the interval is close to 0"
	case report.NotProven:
		out = "needs more picks"
	case report.InvalidAssignment:
		out = "the random assignment is broken"
	default:
		out = "less with the lesson"
		if x.Verdict.Direction() > 0 {
			out = "more with the lesson"
		}
		if x.Verdict.Proven() {
			out += "; at most one in twenty rows with this verdict may be wrong"
		} else {
			out += "; at most one in ten rows with this verdict may be wrong"
		}
	}
	return out + " (" + x.Amounts() + ")"
}
