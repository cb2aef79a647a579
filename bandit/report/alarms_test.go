//go:build !race

package report

import (
	"math"
	"slices"
	"testing"

	"precept/bandit/trial"
)

// The test evaluates 30 reports on 200 lessons daily for 100 days. At most two reports may have a false alarm. The
// checks must find a lesson that is withheld 25% more often than recorded, and a lesson with rewards in 60% of the
// injected sessions but only 40% of the withheld ones.
func TestChecksDetectBiasWithFewFalseAlarms(t *testing.T) {
	const lessons, days, perDay, reports = 200, 100, 30, 30
	r := seededRand("list")
	alarms, largest := 0, 0.0
	for report := range reports {
		strata, logEs := make([][]trial.Stratum, lessons), make([]float64, 0, 2*lessons+2)
		for l := range strata { // with three different probabilities of withholding
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
		t.Errorf("valid reports with a false alarm: got %d of %d, want at most 2", alarms, reports)
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
