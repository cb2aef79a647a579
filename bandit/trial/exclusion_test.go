package trial_test

import (
	"encoding/json"
	"testing"

	"precept/bandit/trial"
)

// If a session is excluded for several reasons, only the first is counted. A missing reason, or a reason from a newer
// version of precept, is counted as unknown.
func TestExcludedSessionCountsReason(t *testing.T) {
	decode := func(text string) (a trial.Assignment) {
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	excludedTwice := sampleAssignment()
	excludedTwice.Exclude(trial.ExcludedTwin)
	excludedTwice.Exclude(trial.ExcludedLate)
	c := trial.NewCounters()
	for _, a := range []trial.Assignment{excludedTwice, decode(`{"ex":true,"exf":"late"}`), decode(`{"ex":true,"exf":"secret"}`), decode(`{"ex":true}`), decode(`{"ex":true,"exf":"newer"}`), trial.MemberAssignment(), {}} {
		c.Add(a.ClosingDeltas())
	}
	got := c.Global().All
	want := trial.AllSessions{Closed: 1, Members: 1}
	for i, why := range trial.ExclusionReasons() {
		want.Excluded[i] = map[trial.ExclusionReason]int64{trial.ExcludedTwin: 1, trial.ExcludedLate: 1, trial.ExcludedKeys: 1, trial.ExcludedUnknown: 2}[why]
	}
	if got.Closed != want.Closed || got.Members != want.Members || got.Excluded != want.Excluded {
		t.Errorf("counts = %+v, want %+v", got, want)
	}
}
