package admin

import (
	"fmt"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"precept/report"
)

// figures are what the report says of the text.
func (v *lessonView) figures() []stat {
	r := v.row
	effect, lo, hi := shownOf(r)
	out := []stat{
		statOf("effect", points(effect), interval(effect, lo, hi), advise(r).Tone),
		statOf("injected", count(r.NInjected), "mean reward "+mean(r.MeanInjected), ""),
		statOf("withheld", count(r.NWithheld), "mean reward "+mean(r.MeanWithheld), ""),
		statOf("matched", count(r.Matched), count(r.Picked)+" of them picked", ""),
		statOf("p-helps", chance(r.PHelps), "a model, no proof", ""),
	}
	if v.true != nil {
		out = append(out, statOf("truth", points(v.true), "this is the demo", ""))
	}
	if r.NeedsPicks > 0 {
		out = append(out, statOf("needs", count(r.Told)+" of "+count(r.Told+r.NeedsPicks), missing(r), ""))
	}
	return out
}

// costs are what it takes of tokens and of the provider's prompt cache.
func (v *lessonView) costs() []stat {
	r := v.row
	out := []stat{
		statOf("tokens", count(r.Tokens), count(r.TokensTotal)+" in all", ""),
		statOf("cost", points(&r.Cost), "of one injection, at bandit.token_cost", ""),
	}
	if r.CachedWith != nil {
		note := "of the input tokens of sessions with it"
		if r.CachedChange != nil {
			note += ", " + points(r.CachedChange) + " points by it"
		}
		out = append(out, statOf("cached", percent(*r.CachedWith), note, ""))
	}
	if r.InputWith != nil && r.InputWithout != nil {
		note := fmt.Sprintf("%.0f where it was withheld", *r.InputWithout)
		out = append(out, statOf("input", fmt.Sprintf("%.0f", *r.InputWith), note, ""))
	}
	return out
}

// overTime is the effect as it went: a band as soon as there are two days or two looks, else the
// effect of now.
func (v *lessonView) overTime() g.Node {
	const label = "Effect in points at the end of each day, with its 95% interval, which narrows as sessions come in"
	if v.row == nil {
		return quiet(g.Text("Nothing was measured yet."))
	}
	if v.row.Verdict != report.Invalid {
		band := bandChart("Effect over time", v.row.Days, v.row.Looks)
		if drawn := chartOf(band, label+"; the numbers are in the table below"); drawn != nil {
			return g.Group{drawn, bandTable(v.row.Days)}
		}
	}
	if drawn := chartOf(looksChart("Effect over time", v.since), label); drawn != nil {
		return g.Group{drawn, quiet(g.Text("As the dashboard showed it since the server started. From the second day on " +
			"it is drawn from the counters, day by day."))}
	}
	effect, lo, hi := shownOf(v.row)
	one, ok := spanOf(effect, lo, hi)
	if !ok {
		return quiet(g.Text("There is no effect to show yet: it takes 50 sessions with a reward, of which at least " +
			"10 were withheld."))
	}
	var truths []float64
	if v.true != nil {
		truths = []float64{*v.true}
	}
	axis := fit([]span{one}, truths, -1)
	return g.Group{
		h.Div(h.Class("lone"), axis.scale(), axis.plot(effect, lo, hi, v.true)),
		quiet(g.Text("The band over time is drawn from the second day on that has an effect to show.")),
	}
}

func looksTable(looks []report.Look) g.Node {
	if len(looks) == 0 {
		return nil
	}
	return g.Group{
		h.H3(g.Text("Planned looks")),
		scroll(labelled("Planned looks"), h.Table(
			h.Class("figures"),
			columns(
				wordColumn(g.Text("Began")), column(g.Text("Told of planned picks")), column(g.Text("Effect, points")),
				wordColumn(g.Text("Verdict")),
			),
			h.TBody(g.Map(looks, func(l report.Look) g.Node {
				return h.Tr(
					h.Td(h.Class("text"), timeOf(l.Began)), h.Td(g.Textf("%d of %d", l.Told, l.Planned)),
					h.Td(g.Text(points(l.Effect))),
					h.Td(h.Class("text"), g.Text(when(l.Taken, string(l.Verdict), "not taken yet"))),
				)
			})),
		)),
	}
}

// gap explains by how much observation alone would have been wrong.
func gap(r *report.Row) string {
	const why = "a lesson fires where tasks are harder or easier than elsewhere"
	text := fmt.Sprintf("Sessions that had the lesson ended %s points away from all others.", points(r.LOODelta))
	if r.LOOGap == nil {
		return text + " That is no effect: where a lesson fires, tasks are harder or easier than elsewhere. " +
			"Only the coin tells what the lesson adds."
	}
	text += fmt.Sprintf(" The coin's answer is %s points, so that observation alone is off by %s",
		points(r.Effect), points(r.LOOGap))
	if r.Lo != nil && r.Hi != nil && *r.Lo <= *r.LOODelta && *r.LOODelta <= *r.Hi {
		return text + ", which lies within the interval: here it would not have misled you much. " +
			"Of another lesson it may, because " + why + "."
	}
	return text + ": it would have misled you, because " + why + "."
}
