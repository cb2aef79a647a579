//go:build !race

package report

import (
	"math"
	"slices"
	"testing"

	"precept/bandit/trial"
)

// Over 200 lessons, evaluated daily for 100 days, a sound experiment has an alarm in one list of
// twenty at most. A lesson whose coin has the probability 0.25, or with 60% of one arm and 40% of
// the other rewarded, is found.
func TestAlarmsFindFaultsAndRarelyErr(t *testing.T) {
	const lessons, days, perDay, lists = 200, 100, 30, 30
	r := seeded("list")
	alarms, loudest := 0, 0.0
	for list := range lists {
		strata, at := make([][]trial.Stratum, lessons), make([]float64, 0, 2*lessons+2)
		for l := range strata { // each has met three propensities
			strata[l] = []trial.Stratum{{Eps: 0.2}, {Eps: 0.05}, {Eps: 0.5}}
		}
		loud := false
		for range days {
			at = append(at[:0], 0, 0)
			for l := range strata {
				addSessions(r, strata[l], perDay, 1, [2]float64{0.5, 0.5}, list%3)
				at = append(at, coinsLog(strata[l]), reportingLog(strata[l]))
			}
			loudest = max(loudest, slices.Max(at))
			loud = loud || slices.Max(at) >= math.Log(alarmLevel(at))
		}
		if loud {
			alarms++
		}
	}
	t.Logf("%d of %d sound lists had an alarm; the largest e-value was %.0f", alarms, lists, math.Exp(loudest))
	if alarms > 2 {
		t.Errorf("%d of %d lists had a false alarm, want at most 2", alarms, lists)
	}
	find := func(odds float64, rewarded [2]float64, which func([]trial.Stratum) float64) bool {
		strata := []trial.Stratum{{Eps: 0.2}, {Eps: 0.05}, {Eps: 0.5}}
		for range days {
			if addSessions(r, strata, perDay, odds, rewarded, 1); which(strata) >= alarmOf200 {
				return true
			}
		}
		return false
	}
	wantShare(t, "in a list of 200: .25 withheld instead of .20, 3,000 picks", 200, 0.8, func() bool { return find(1.25, [2]float64{0.5, 0.5}, coinsLog) })
	wantShare(t, "in a list of 200: 60% of injected sessions rewarded, 40% of withheld, 3,000 picks", 200, 0.95, func() bool { return find(1, [2]float64{0.4, 0.6}, reportingLog) })
}
