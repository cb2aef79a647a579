package admin

import (
	"fmt"
	"testing"

	"precept/store"
)

// comparedOf returns sessions of two agents: the coder has higher rewards.
func comparedOf(each int, run string) *store.Recent {
	r := &store.Recent{}
	for i := range each {
		for k, agent := range []string{"coder", "tester"} {
			reward := []float64{1, 0}[k]
			r.Sessions = append(r.Sessions, store.SessionItem{ID: fmt.Sprint(agent, i), Agent: agent, Run: run, Reward: &reward, Turns: 2 + i%2, Seconds: float64(i)})
		}
	}
	return r
}

func TestComparisonNeedsTenSessionsForAnInterval(t *testing.T) {
	for each, want := range map[int]bool{9: false, 10: true} {
		c := compare(comparedOf(each, ""), &store.SessionQuery{}, &Prices{}, "agent", "coder", "tester")
		d := c.Measures[0].Difference
		if d.Mean == nil || *d.Mean != 1 || (d.Low != nil) != want {
			t.Errorf("%d sessions a side: got the difference %+v, want 1 and an interval: %t", each, d, want)
		}
		if want && *d.Low <= 0 {
			t.Errorf("%d sessions a side: the interval of a difference of 1 begins at %v, want above 0", each, *d.Low)
		}
	}
}

// The sessions of a run share one reward, and count once for the success.
func TestComparisonCountsTheRewardOfARunOnce(t *testing.T) {
	c := compare(comparedOf(50, "nightly"), &store.SessionQuery{}, &Prices{}, "agent", "coder", "tester")
	if got := c.Measures[0]; got.A.Sessions != 1 || got.B.Sessions != 1 || got.Difference.Low != nil {
		t.Errorf("got success %+v, want one run a side and no interval", got)
	}
	if got := c.Measures[4]; got.Name != "turns" || got.A.Sessions != 50 {
		t.Errorf("got turns %+v, want 50 sessions", got)
	}
}

// A session without a duration, such as an import, does not count for the duration.
func TestComparisonLeavesUnknownDurationsOut(t *testing.T) {
	c := compare(comparedOf(12, ""), &store.SessionQuery{}, &Prices{}, "agent", "coder", "tester")
	if got := c.Measures[3]; got.Name != "seconds" || got.A.Sessions != 11 {
		t.Errorf("got seconds %+v, want 11 sessions", got)
	}
}
