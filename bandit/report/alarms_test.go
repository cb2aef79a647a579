//go:build !race

package report

import (
	"math"
	"slices"
	"testing"

	"precept/bandit/trial"
)

// Of 30 reports on 200 lessons, evaluated daily for 100 days, at most two have a false alarm. The checks find a lesson
// that is withheld 25% more often than stated, and a lesson with rewards in 60% of the injected and 40% of the withheld
// sessions.
func TestChecksDetectBiasWithFewFalseAlarms(t *testing.T) {
	const lessons, days, perDay, reports = 200, 100, 30, 30
	r := seededRand("list")
	alarms, largest := 0, 0.0
	for report := range reports {
		strata, logEs := make([][]trial.Stratum, lessons), make([]float64, 0, 2*lessons+2)
		for l := range strata { // with three propensities
			strata[l] = []trial.Stratum{{Eps: 0.2}, {Eps: 0.05}, {Eps: 0.5}}
		}
		alarmed := false
		for range days {
			logEs = append(logEs[:0], 0, 0) // the checks on all sessions
			for l := range strata {
				addSessions(r, strata[l], perDay, 1, [2]float64{0.5, 0.5}, report%3)
				logEs = append(logEs, assignmentLogE(strata[l]), reportingLogE(strata[l]))
			}
			largest = max(largest, slices.Max(logEs))
			alarmed = alarmed || slices.Max(logEs) >= math.Log(alarmLevel(logEs))
		}
		if alarmed {
			alarms++
		}
	}
	t.Logf("%d of %d valid reports had a false alarm; largest e-value %.0f", alarms, reports, math.Exp(largest))
	if alarms > 2 {
		t.Errorf("%d of %d valid reports had a false alarm, want at most 2", alarms, reports)
	}
	find := func(epsFactor float64, rewarded [2]float64, logE func([]trial.Stratum) float64) bool {
		strata := []trial.Stratum{{Eps: 0.2}, {Eps: 0.05}, {Eps: 0.5}}
		for range days {
			if addSessions(r, strata, perDay, epsFactor, rewarded, 1); logE(strata) >= alarmFor200Lessons {
				return true
			}
		}
		return false
	}
	assertShare(t, "among 200 lessons: 25% more picks withheld than stated, 3,000 picks", 200, 0.8, func() bool { return find(1.25, [2]float64{0.5, 0.5}, assignmentLogE) })
	assertShare(t, "among 200 lessons: 60% injected rewarded, 40% withheld, 3,000 picks", 200, 0.95, func() bool { return find(1, [2]float64{0.4, 0.6}, reportingLogE) })
}
