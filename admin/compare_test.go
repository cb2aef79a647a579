package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"precept/store"
)

// coderAndTesterSessions returns perAgent sessions of the agent coder with reward 1, and as many sessions of the agent
// tester with reward 0. The first session of each agent has no duration.
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

// asJSON returns a value as JSON for failure messages, in which %v would show the addresses of pointers.
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
		d := c.Measures[0].Difference // difference between the mean rewards
		if d.Mean == nil {
			t.Fatalf("%d sessions per agent: Mean = nil", perAgent)
		}
		if *d.Mean != 1 {
			t.Errorf("%d sessions per agent: Mean = %v, want 1", perAgent, *d.Mean)
		}
		if (d.Low != nil) != hasInterval {
			t.Errorf("%d sessions per agent: Low is set = %v, want %v", perAgent, d.Low != nil, hasInterval)
		}
		if hasInterval && *d.Low <= 0 {
			t.Errorf("%d sessions per agent, difference of 1: got lower bound %v, want a bound above 0", perAgent, *d.Low)
		}
	}
}

func TestComparisonCountsEachRunRewardOnce(t *testing.T) {
	c := compare(coderAndTesterSessions(50, "nightly"), &store.SessionQuery{}, &Prices{}, "agent", "coder", "tester")
	if got := c.Measures[0]; got.A.Sessions != 1 {
		t.Errorf("measure success with all sessions of an agent in one run = %d, want 1", got.A.Sessions)
	} else if got.B.Sessions != 1 {
		t.Errorf("measure success with all sessions of an agent in one run = %d, want 1", got.B.Sessions)
	} else if got.Difference.Low != nil {
		t.Errorf("measure success with all sessions of an agent in one run: Low = %+v, want nil", got.Difference.Low)
	}
	if got := c.Measures[4]; got.Name != "turns" {
		t.Errorf(`measure turns with all sessions of an agent in one run: Name = %q, want "turns"`, got.Name)
	} else if got.A.Sessions != 50 {
		t.Errorf("measure turns with all sessions of an agent in one run = %d, want 50", got.A.Sessions)
	}
}

// A comparison omits sessions without a duration, for example imported sessions, from the measure seconds.
func TestComparisonOmitsUnknownDurations(t *testing.T) {
	c := compare(coderAndTesterSessions(12, ""), &store.SessionQuery{}, &Prices{}, "agent", "coder", "tester")
	if got := c.Measures[3]; got.Name != "seconds" {
		t.Errorf(`12 sessions per agent, one without a duration: Name = %q, want "seconds"`, got.Name)
	} else if got.A.Sessions != 11 {
		t.Errorf("12 sessions per agent, one without a duration = %d, want 11", got.A.Sessions)
	}
}

func TestComparePageNeedsTwoAgents(t *testing.T) {
	for want, list := range map[string][]store.SessionItem{
		"No agent yet":            nil,
		"There is only one agent": {{ID: "a", Agent: "coder"}, {ID: "b", Agent: "coder"}},
	} {
		f, _, _ := newLessonFixture(t, func(o *Options) { o.Read.Archive = listArchive{o.Read.Archive, list} })
		if page := get(t, f, "/compare", 200); !strings.Contains(page, want) {
			t.Errorf("Compare page with %d sessions: got no text %q, want this text", len(list), want)
		}
	}
}

func TestCompareAPINamesInvalidParameter(t *testing.T) {
	f, _, _ := newRoleFixture(t)
	for target, want := range map[string]string{"/api/compare?by=agnet": "by: ", "/api/compare?limit=x": "limit: "} {
		res := f.do(t, "GET", target, bearer(token))
		if text := body(t, res); res.StatusCode != 400 {
			t.Errorf("%s: status = %d, want 400, body %s", target, res.StatusCode, text)
		} else if !strings.Contains(text, want) {
			t.Errorf("%s: got %q, want substring %q", target, text, want)
		}
	}
}
