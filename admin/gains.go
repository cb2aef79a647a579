package admin

import (
	"fmt"
	"time"

	"precept/bandit/report"
	"precept/internal/price"
	"precept/store"
)

const week = 7 * 24 * time.Hour

// lastWeek sums the last seven days, including today. A report with a shorter window has fewer days.
func lastWeek(days []report.Day, now time.Time) (sum report.Day) {
	from := now.Add(-week).UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	for _, d := range days {
		if d.Date < from {
			continue
		}
		sum.NTreated += d.NTreated
		sum.TokensAdded += d.TokensAdded
		sum.Treated.Add(d.Treated)
		sum.Control.Add(d.Control)
	}
	return sum
}

// sessionsInWeek returns a link to one arm's sessions (such as "treated") in the last seven days, or in a shorter query
// window.
func (f frame) sessionsInWeek(arm string, extraQuery ...string) string {
	window := f.query.Get("window")
	if d, err := ParseWindow(window); err == nil && d > 0 && d < week {
		return f.rewardedSessions("", arm, append([]string{"min_reward", ""}, extraQuery...)...)
	}
	return f.Link("/sessions", append([]string{"arm", arm, "range", "7d"}, extraQuery...)...)
}

// gainStats returns the overview's figures for all lessons together, such as the effect, and this week's costs.
func gainStats(f frame, r *report.Report, p *Prices, m *meanPrice) []stat {
	weekSum := lastWeek(r.Global.Days, r.GeneratedAt)
	e := globalEffect(&r.Global)
	helps, harms := 0, 0
	for i := range r.Lessons {
		switch r.Lessons[i].Verdict {
		case report.ProvenHelps, report.TrialHelps:
			helps++
		case report.ProvenHarms, report.TrialHarms:
			harms++
		default:
		}
	}
	return append(
		[]stat{
			effectStat("together", totalRow(&r.Global)),
			newStat("treated", countText(r.Global.NTreated), ifElse(e == nil, "", "mean reward "+decimalText(r.Global.MeanTreated, 3)), "").withLink(f.rewardedSessions("", store.FateTreated)),
			newStat("control", countText(r.Global.NControl), ifElse(e == nil, "", "mean reward "+decimalText(r.Global.MeanControl, 3)), "").withLink(f.rewardedSessions("", store.FateControl)),
			newStat("proven", countText(helps), fmt.Sprintf("to help; %d proven to harm", harms), "").withLink(f.linkInReport("/lessons", "verdict", "helps")),
		},
		weekCosts(f, &weekSum, p, m)...)
}

func weekCosts(f frame, weekSum *report.Day, p *Prices, m *meanPrice) []stat {
	key, note := "session-input", "no model price is known"
	session := func(s report.Spending) string { return countText(s.Input / s.Sessions) }
	if m.known {
		key, note = "session-cost", "cost "+p.amount(m.price.Cost(price.Tokens{Input: weekSum.TokensAdded}))+" without a cache"
		session = func(s report.Spending) string {
			return p.amount(m.price.Cost(price.Tokens{Input: s.Input, Cached: s.Cached}) / float64(s.Sessions))
		}
	}
	out := []stat{newStat("spent", countText(weekSum.TokensAdded), note, "").withLink(f.sessionsInWeek(store.FateInjected))}
	with, without := weekSum.Treated, weekSum.Control
	if with.Sessions == 0 {
		return out
	}
	cached := func(s report.Spending) string {
		return percent(float64(s.Cached)/max(1, float64(s.Input))) + " cached"
	}
	note = "treated, " + cached(with)
	if without.Sessions > 0 {
		note += "; control " + session(without) + ", " + cached(without)
	}
	return append(out, newStat(key, session(with), note, "").withLink(f.sessionsInWeek(store.FateTreated)))
}
