package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"precept/store"
)

// coderAndTesterSessions returns perAgent sessions with reward 1 by the agent coder, and as many with reward 0 by
// tester. Each agent's first session has no duration.
func coderAndTesterSessions(perAgent int, run string) *store.Recent {
	r := &store.Recent{}
	for i := range perAgent {
		for k, agent := range []string{"coder", "tester"} {
			reward := []float64{1, 0}[k]
			r.Sessions = append(r.Sessions, store.SessionItem{ID: fmt.Sprint(agent, i), Agent: agent, Run: run, Reward: &reward, Turns: 2 + i%2, Seconds: float64(i)})
		}
	}
	return r
}

// asJSON returns a value as JSON, because a failure message would show pointers as addresses.
func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestComparisonNeedsTenSessionsForAnInterval(t *testing.T) {
	for perAgent, hasInterval := range map[int]bool{9: false, 10: true} {
		c := compare(coderAndTesterSessions(perAgent, ""), &store.SessionQuery{}, &Prices{}, "agent", "coder", "tester")
		d := c.Measures[0].Difference // of the mean rewards
		if d.Mean == nil || *d.Mean != 1 || (d.Low != nil) != hasInterval {
			t.Errorf("%d sessions per agent: got difference %s, want mean 1, and an interval = %t", perAgent, asJSON(t, d), hasInterval)
		}
		if hasInterval && *d.Low <= 0 {
			t.Errorf("%d sessions per agent: lower bound for a difference of 1 = %v, want above 0", perAgent, *d.Low)
		}
	}
}

func TestComparisonCountsEachRunRewardOnce(t *testing.T) {
	c := compare(coderAndTesterSessions(50, "nightly"), &store.SessionQuery{}, &Prices{}, "agent", "coder", "tester")
	if got := c.Measures[0]; got.A.Sessions != 1 || got.B.Sessions != 1 || got.Difference.Low != nil {
		t.Errorf("success with one run per agent: got %s, want one session per agent and no interval", asJSON(t, got))
	}
	if got := c.Measures[4]; got.Name != "turns" || got.A.Sessions != 50 {
		t.Errorf("turns with one run per agent: got %s, want 50 sessions", asJSON(t, got))
	}
}

// Imported sessions, for example, have no duration.
func TestComparisonOmitsUnknownDurations(t *testing.T) {
	c := compare(coderAndTesterSessions(12, ""), &store.SessionQuery{}, &Prices{}, "agent", "coder", "tester")
	if got := c.Measures[3]; got.Name != "seconds" || got.A.Sessions != 11 {
		t.Errorf("12 sessions, one without a duration: got the measure %s, want seconds over 11 sessions", asJSON(t, got))
	}
}

func TestComparePageNeedsTwoAgents(t *testing.T) {
	for want, list := range map[string][]store.SessionItem{
		"No agent yet":            nil,
		"There is only one agent": {{ID: "a", Agent: "coder"}, {ID: "b", Agent: "coder"}},
	} {
		f, _, _ := newLessonFixture(t, func(o *Options) { o.Read.Archive = listArchive{o.Read.Archive, list} })
		if page := get(t, f, "/compare", 200); !strings.Contains(page, want) {
			t.Errorf("the Compare page with %d sessions lacks %q", len(list), want)
		}
	}
}

func TestCompareAPINamesInvalidParameter(t *testing.T) {
	f, _, _ := newRoleFixture(t)
	for target, want := range map[string]string{"/api/compare?by=agnet": "by: ", "/api/compare?limit=x": "limit: "} {
		res := f.do(t, "GET", target, bearer(token))
		if text := body(t, res); res.StatusCode != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: got status %d, body %s, want 400 and %q", target, res.StatusCode, text, want)
		}
	}
}
