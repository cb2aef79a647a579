package report

import (
	"fmt"
	"math"

	"precept/bandit/trial"
)

// allReportingLogE returns the log e-value against "lessons do not change which sessions have a reward". There are few
// control sessions, so the check also compares two larger groups: the sessions with an injected first pick, and the
// sessions in which all first picks were withheld.
func allReportingLogE(g trial.Stats) float64 {
	return combineLogE(reportingLogE(g.Strata), multipliedReportingLogE(validStrata(g.All.AnyInjected)))
}

// checkReporting tests allReportingLogE against the alarm threshold, and counts treated and control sessions.
func checkReporting(g trial.Stats, bar float64) Reporting {
	t := newSRM(allReportingLogE(g), bar)
	r := Reporting{EValue: t.EValue, Alarm: t.Alarm, OK: t.OK}
	for _, s := range g.Strata {
		r.RewardedTreated += s.RewardedInArm(1)
		r.RewardedControl += s.RewardedInArm(0)
		r.AssignedTreated += s.Assigned[1]
		r.AssignedControl += s.Assigned[0]
	}
	return r
}

// globalRow returns the row for all lessons. valid is false if a check on random assignment or reporting failed.
func globalRow(in Input, s trial.Stats, valid bool) Global {
	var n1, n0, y1, y0 float64
	all := sums{count: s.N, sum: s.Z, sumOfSquares: s.ZZ}
	var days []Day
	for _, d := range s.Days {
		all.injected += d.N1
		all.withheld += d.N0
		if in.Window > 0 && d.Day < windowStart(in) {
			continue
		}
		n1, n0, y1, y0 = n1+d.N1, n0+d.N0, y1+d.S1, y0+d.S0
		if d.N1+d.N0 > 0 || d.Added > 0 || d.Spent != [2]trial.Spending{} {
			days = append(days, Day{
				formatDay(d.Day), int64(d.N1), int64(d.N0), mean(d.S1, d.N1), mean(d.S0, d.N0), d.Added,
				newSpending(d.Spent[1]), newSpending(d.Spent[0]),
			})
		}
	}
	g := Global{
		NTreated: int64(n1), NControl: int64(n0), MeanTreated: mean(y1, n1),
		MeanControl: mean(y0, n0), Days: days,
		RefusedTreated: s.Refused[1], RefusedControl: s.Refused[0], MeasuredRules: s.All.MeasuredRules, Verdict: Unproven,
	}
	shown := all
	if in.Window > 0 {
		shown = sumsSince(s, windowStart(in))
	}
	if shown.hasEnoughPicks() {
		e, lo, hi := shown.interval(globalTightestAt)
		g.Effect, g.Lo, g.Hi = new(e), new(lo), new(hi)
	}
	if in.Bands {
		g.Bands = bands(s, globalTightestAt)
	}
	switch {
	case !valid:
		g.Verdict = Invalid
	case all.hasEnoughPicks():
		_, lo, hi := all.interval(globalTightestAt)
		g.Verdict = intervalVerdict(lo, hi)
	}
	return g
}

// RulesNote says how many sessions are not compared with control, because of a measured rules file section.
func (g *Global) RulesNote() string {
	text := fmt.Sprintf("%d sessions with a match contain a measured section of a rules file. They count", g.MeasuredRules)
	if g.MeasuredRules == 1 {
		text = "1 session with a match contains a measured section of a rules file. It counts"
	}
	return text + " for the section and for each lesson, but not in the comparison of all lessons with control."
}

func newSpending(s trial.Spending) Spending {
	return Spending{s.Sessions, int64(math.Round(s.Input)), int64(math.Round(s.Cached))}
}
