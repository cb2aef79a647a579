package report

import (
	"testing"

	"precept/bandit/trial"
)

// The flow in a report says how many sessions took part in the experiment. Counters from an earlier release can contain
// more rewards than closed sessions.
func TestFlowGroupsExperimentSessions(t *testing.T) {
	for name, tc := range map[string]struct {
		closed, outside, rewarded                   int64
		wantUnmatched, wantRewarded, wantUnrewarded int64
	}{
		"sessions without a match":   {closed: 20, outside: 2, rewarded: 7, wantUnmatched: 6, wantRewarded: 7, wantUnrewarded: 13},
		"more rewards than sessions": {closed: 20, outside: 2, rewarded: 30, wantUnmatched: 6, wantRewarded: 20},
		"more matches than sessions": {closed: 10, outside: 2, rewarded: 7, wantRewarded: 7, wantUnrewarded: 3},
	} {
		got := newFlow(trial.Stats{
			All:    trial.AllSessions{Closed: tc.closed, MeasuredRules: tc.outside, Rewarded: tc.rewarded},
			Strata: []trial.Stratum{{Assigned: [2]int64{1, 6}}, {Assigned: [2]int64{2, 3}}},
		})
		if got.Treated != 9 || got.Control != 3 || got.MeasuredRules != 2 || got.Unmatched != tc.wantUnmatched || got.Rewarded != tc.wantRewarded || got.Unrewarded != tc.wantUnrewarded {
			t.Errorf("%s: flow = %+v, want 9 treated, 3 control, 2 with a measured section, %d unmatched, %d rewarded and %d unrewarded",
				name, got, tc.wantUnmatched, tc.wantRewarded, tc.wantUnrewarded)
		}
	}
}
