package admin

import (
	"cmp"
	"fmt"
	"slices"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/bandit/report"
	"precept/bandit/trial"
	"precept/internal/price"
	"precept/store"
)

// verdictLine returns a verdict in words with the next action.
func verdictLine(r *report.Row) g.Node {
	a := advise(r)
	note := r.ZeroNote()
	switch r.Verdict {
	case report.Helps, report.Harms, report.LikelyHelps, report.LikelyHarms, report.Benched: // the advice repeats Note
	default:
		note = r.Note
	}
	return g.If(a.Words != "", h.P(
		h.Class("verdict-line"), h.Strong(h.Class(a.Tone), g.Text(a.Words+".")), g.Text(" "+a.NextAction),
		g.Iff(r.RarelyChosen() != "", func() g.Node { return g.Text(" " + sentence(r.RarelyChosen())) }),
		g.If(note != "", g.Group{space(), h.Span(h.Class("quiet"), g.Text("("+note+")"))}),
	))
}

func effectStat(key string, r *report.Row) stat {
	value, note := effectText(r)
	return newStat(key, value, note, advise(r).Tone)
}

// effectText returns the effect and the interval, or a placeholder and the reason.
func effectText(r *report.Row) (value, note string) {
	switch e := rowEffect(r); {
	case e != nil:
		return e.points(), e.interval()
	case r.Verdict == report.Invalid:
		return noValue, "not reliable"
	case isPast(r) || r.State == "archived":
		return noValue, "not enough data"
	default:
		return stillCounting, "not enough data"
	}
}

// lessonStats returns a row's figures; only the demo has a true effect.
func lessonStats(f frame, r *report.Row, trueEffect *float64) []stat {
	e := rowEffect(r)
	mean := func(x *float64) string { // omitted while the row has no effect
		return ifElse(e == nil, "", "mean reward "+decimalText(x, 3))
	}
	out := []stat{
		effectStat("effect", r),
		newStat("injected", countText(r.NInjected), mean(r.MeanInjected), "").withLink(f.rewardedSessions(r.Slug, store.FateInjected)),
		newStat("withheld", countText(r.NWithheld), mean(r.MeanWithheld), "").withLink(f.rewardedSessions(r.Slug, store.FateWithheld)),
		newStat("matched", countText(r.Matched), countText(r.Picked)+" picked", "").withLink(f.sessionsInWindow("lesson", r.Slug, "arm", store.FateMatched)),
	}
	if e != nil {
		out = append(out, newStat("p-helps", chanceText(r.PHelps), "a prediction, not a proof", ""))
	}
	if trueEffect != nil {
		out = append(out, newStat("truth", points(trueEffect), "this is the demo", ""))
	}
	if r.NeedsPicks > 0 {
		picks := countText(r.Rewarded)
		if !r.NeedsUnclear && r.RoundedNeeds() == r.NeedsPicks {
			picks = progressText(r)
		}
		out = append(out, newStat("needs", picks, missingPicks(r), ""))
	}
	return out
}

func lessonSessions(f frame, slug string) g.Node {
	sessionsLink := func(name, arm, verdict string) g.Node {
		return h.Li(h.A(h.Href(f.Link("/sessions", "lesson", slug, "arm", arm, "verdict", verdict)), g.Text(name)))
	}
	return h.Nav(h.Class("arm-links"), ariaLabel("Sessions with the lesson"), h.Span(h.Class("quiet"), g.Text("Sessions with any of the lesson's texts:")), h.Ul(
		sessionsLink("injected", store.FateInjected, ""), sessionsLink("injected, poor", store.FateInjected, "poor"),
		sessionsLink("withheld", store.FateWithheld, ""), sessionsLink("withheld, poor", store.FateWithheld, "poor"),
		sessionsLink("control", store.FateControl, ""), sessionsLink("matched", store.FateMatched, ""),
	))
}

func lessonCosts(r *report.Row, p *Prices, m *meanPrice) []stat {
	out := []stat{
		newStat("tokens", countText(r.Tokens), countText(r.TokensTotal)+" in all", ""),
		lessonMoney(r, p, m),
		newStat("cost", points(&r.Cost), "per injection, at bandit.token_cost", ""),
	}
	if r.CachedWith != nil {
		note := "of input tokens in sessions with the lesson"
		if r.CachedChange != nil {
			note += "; the lesson changes the share by " + points(r.CachedChange) + " points"
		}
		out = append(out, newStat("cached", percent(*r.CachedWith), note, ""))
	}
	if r.InputWith != nil && r.InputWithout != nil {
		out = append(out, newStat("input", decimalText(r.InputWith, 0), decimalText(r.InputWithout, 0)+" without the lesson", ""))
	}
	return out
}

func lessonMoney(r *report.Row, p *Prices, m *meanPrice) stat {
	switch {
	case m.known:
		return newStat("lesson-money", p.amount(m.price.Cost(price.Tokens{Input: r.TokensTotal})), p.amount(m.price.Cost(price.Tokens{Input: r.Tokens}))+" an injection", "")
	case m.reading:
		return newStat("lesson-money", stillCounting, "", "")
	}
	return newStat("lesson-money", noValue, "no model price is known", "")
}

// lessonOverTime returns a row's effect over time and the planned trials. If both the row and sinceStart have fewer
// than two values, lessonOverTime draws the current effect only.
func lessonOverTime(r *report.Row, trueEffect *float64, sinceStart []effectAt) g.Node {
	if r == nil {
		return mutedText(g.Text("No data yet."))
	}
	days := r.Days
	if r.Verdict == report.Invalid {
		days = nil
	}
	drawn := effectOverTime("Effect over time",
		"Effect in points at the end of each day, with the 95% interval, which narrows as sessions arrive", days, slices.DeleteFunc(slices.Clone(r.PlannedTrials), func(l report.PlannedTrial) bool { return l.Outcome != "" }), sinceStart)
	switch e := rowEffect(r); {
	case drawn != nil:
	case e == nil:
		drawn = mutedText(g.Textf("No effect yet: an effect needs %d sessions with a reward, at least %d with the lesson and %d with it withheld.", trial.MinPicks, trial.MinPerArm, trial.MinPerArm))
	default:
		var drawnTrueEffects []float64
		if trueEffect != nil {
			drawnTrueEffects = append(drawnTrueEffects, *trueEffect)
		}
		axis := fitAxis([]*effect{e}, drawnTrueEffects, -1)
		drawn = g.Group{
			h.Div(h.Class("lone"), axis.scale(), axis.plot(e, trueEffect)),
			mutedText(g.Text("The chart over time starts on the second day with an effect.")),
		}
	}
	return g.Group{drawn, g.If(len(r.PlannedTrials) > 0, plannedTable(r.PlannedTrials))}
}

func plannedTable(planned []report.PlannedTrial) g.Node {
	return g.Group{
		h.H3(g.Text("Planned trials")),
		grid(
			ariaLabel("Planned trials"),
			headingRow(wordColumns("Started", "Measured"), numberColumns("Picks", "Effect, 95% for a single evaluation"), wordColumns("Verdict")),
			g.Map(planned, func(l report.PlannedTrial) g.Node {
				return h.Tr(
					wordCells(timeNode(l.Began), g.Text(cmp.Or(l.Outcome, "reward"))),
					numberCells(fmt.Sprintf("%d of %d", l.Picks(), l.Planned), cmp.Or(l.Interval(), noValue)),
					wordCells(g.Text(ifElse(l.Evaluated, string(l.Verdict), "not yet"))),
				)
			}),
		),
	}
}

// differenceNote compares the effect with the difference in mean reward between sessions with the lesson and all other
// sessions, which is not an effect.
func differenceNote(r *report.Row) string {
	const reason = "a lesson fires in tasks that are harder or easier than others"
	text := fmt.Sprintf("The mean reward in sessions with the lesson differs by %s points from all other sessions.", points(r.LOODelta))
	if r.LOOGap == nil {
		return text + " This difference is not an effect: a lesson fires in tasks that are harder or easier than others. " +
			"Only the comparison with withheld sessions measures the lesson's effect."
	}
	text += fmt.Sprintf(" The measured effect is %s points, so the difference is wrong by %s points",
		points(r.Effect), points(r.LOOGap))
	if r.Lo != nil && r.Hi != nil && *r.Lo <= *r.LOODelta && *r.LOODelta <= *r.Hi {
		return text + ". The difference lies within the effect's interval: here the error is small. " +
			"For another lesson the error may be large, because " + reason + "."
	}
	return text + ": the difference is misleading, because " + reason + "."
}

// opinions returns the judge's opinions on whether sessions followed the lesson. The judge is the model that precept
// distill asks.
func opinions(r *report.Row) g.Node {
	if r == nil || r.Opinions == nil {
		return mutedText(
			g.Text("No judge's opinion yet. "), code("precept distill --judge URL"),
			g.Text(" asks a judge about sessions with lessons. The opinion appears here "+
				"and changes no number above."),
		)
	}
	o := r.Opinions
	return h.P(g.Textf("In the sessions that the judge read, the lesson was followed %d %s, ignored %d, "+
		"irrelevant %d, contradicted %d. This is an opinion and changes no number above.",
		o.Followed, plural(o.Followed, "time", "times"), o.Ignored, o.Irrelevant, o.Contradicted))
}
