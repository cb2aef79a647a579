package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"precept/bandit/trial"
	"precept/inject/backtest"
	"precept/internal/sample"
	sessionpkg "precept/internal/session"
)

// nearMissSurveyor is a survey of the stored sessions in which one lesson nearly matched.
type nearMissSurveyor struct{ emptySource }

func (nearMissSurveyor) Nearest(context.Context, string, string, []string) ([]backtest.Reason, error) {
	return []backtest.Reason{{Slug: "restart-the-database", Why: `nearest phrase "database down": only "database" occurs`}}, nil
}

// newWorkStore returns a store with 24 sessions of two agents. The lesson read-the-log matched in each session. In one
// session, a tool failed because its connection was refused.
func newWorkStore(t *testing.T) *sessionStore {
	t.Helper()
	s := newSessionStore(t, time.Now())
	for i := range 24 {
		id := s.addSession(t, fmt.Sprint("work-", i), 1, func(r *sessionpkg.Record, ex []sample.Exchange) {
			r.Identity.Agent = []string{"coder", "writer"}[i%2]
			r.Facts = sessionpkg.Facts{Turns: 1, Task: fmt.Sprint("Fix ticket ", i), Output: 64}
			r.Lessons.Matched = []string{"read-the-log"}
			r.Assignment.Picks = []trial.Pick{{Slug: "read-the-log", Arm: "read-the-log@1", Injected: i%3 > 0, Propensity: 0.8, Turn: 1}}
			if i == 7 {
				r.Facts.ErrorKinds, r.Facts.Errors = []string{"connection-refused"}, 1
				ex[0].New = append(ex[0].New, json.RawMessage(`{"role":"tool","tool_call_id":"c1","content":"Error: connect ECONNREFUSED 127.0.0.1:5432\nexit code: 1"}`))
			}
		})
		s.closeRewarded(t, id, float64(i%4)/3, "")
	}
	return s
}

func TestBrowserTasksTakeAtMostThreeClicks(t *testing.T) {
	tb, sessionStore := newTab(t), newWorkStore(t)
	f := newStoreFixture(t, sessionStore, func(o *Options) { o.Now, o.Read.Survey = time.Now, nearMissSurveyor{} })
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	tb.do(t, chromedp.Navigate(LoginLink(server.URL, token)), chromedp.WaitVisible(chromedp.CSS("nav")))
	const sessions, compare = "nav a[href='/sessions']", "nav a[href='/compare']"
	for name, task := range map[string]struct {
		text   string   // text that the test types into #error before the second click
		clicks []string // CSS selectors for the clicked elements
		result string   // JavaScript expression that is true when the task is done
	}{
		"find the session with an error": {
			"ECONNREFUSED",
			[]string{sessions, ".filters button.main", ".list th.name a"},
			`document.querySelector("h1").textContent == "Fix ticket 7"`,
		},
		"find a lesson's poor sessions": {
			"",
			[]string{sessions, "a[aria-label^='read-the-log: injected']", "section[aria-labelledby='facet-verdict'] a[title='poor']"},
			`document.querySelectorAll(".list tbody tr").length > 0 && [...document.querySelectorAll(".list tbody tr")].every(r => r.textContent.includes("poor") && r.querySelector(".slug:not(.ghost)"))`,
		},
		"find out why a lesson was not injected": {
			"",
			[]string{sessions, ".list th.name a"},
			`document.querySelector(".fates .not_matched").textContent.includes('only "database" occurs')`,
		},
		"compare two agents": {
			"",
			[]string{compare},
			`document.querySelectorAll(".compared tbody tr").length >= 6 && document.querySelector(".compared thead").textContent.includes("coder") && document.querySelector(".compared thead").textContent.includes("writer")`,
		},
		"export the poor sessions": {
			"",
			[]string{sessions, "section[aria-labelledby='facet-verdict'] a[title='poor']"},
			`new URL(document.querySelector(".export-row a").href).searchParams.get("verdict") == "poor"`, // a third click on this link would export the sessions
		},
	} {
		tb.do(t, chromedp.Navigate(server.URL+"/"), chromedp.WaitVisible(chromedp.CSS("nav")))
		for i, selector := range task.clicks {
			if i == 1 && task.text != "" {
				tb.do(t, chromedp.WaitVisible(chromedp.CSS("#error")), chromedp.SendKeys(chromedp.CSS("#error"), task.text))
			}
			tb.eval(t, `document.documentElement.dataset.before = "1"`)
			tb.do(t, chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.Click(chromedp.CSS(selector)), chromedp.WaitVisible(chromedp.CSS("html:not([data-before]) main")))
		}
		if len(task.clicks) > 3 {
			t.Errorf("task %q: clicks = %q, want at most 3 items", name, task.clicks)
		}
		if tb.eval(t, task.result) != "true" {
			t.Errorf(`task %q: eval(task.result) = %q, want "true"`, name, tb.eval(t, task.result))
		}
	}
	if got := tb.reportedErrors(); len(got) > 0 {
		t.Errorf("browser errors: got %q, want none", got)
	}
}

func TestExportListAndComparisonFilterSessions(t *testing.T) {
	f := newStoreFixture(t, newWorkStore(t), nil)
	for format, want := range map[string]int{"jsonl": 6, "csv": 7, "transcripts": 6} { // number of lines by format; csv has one more line, the heading
		out := get(t, f, "/api/export/sessions?verdict=poor&agent=coder&format="+format, 200)
		if got := strings.Count(out, "\n"); got != want {
			t.Errorf("export as %s = %d, want %d", format, got, want)
		} else if strings.Contains(out, `"writer"`) {
			t.Errorf(`export as %s = %q, want no "\"writer\""`, format, out)
		} else if !strings.Contains(out, "Fix ticket 0") {
			t.Errorf(`export as %s = %q, want substring "Fix ticket 0"`, format, out)
		}
	}
	for arm, want := range map[string]int{"treated": 24, "injected": 16, "withheld": 8, "control": 0} {
		if out := get(t, f, "/api/sessions?lesson=read-the-log&min_reward=0&arm="+arm, 200); strings.Count(out, `"session_id"`) != want {
			t.Errorf("sessions with arm %s: got %d, want %d", arm, strings.Count(out, `"session_id"`), want)
		}
	}
	if page := get(t, f, "/compare", 200); !strings.Contains(page, "Success, mean reward") {
		t.Errorf(`comparison = %q, want substring "Success, mean reward"`, page)
	} else if !strings.Contains(page, "/sessions?agent=writer&amp;arm=injected&amp;lesson=read-the-log") {
		t.Errorf(`comparison = %q, want substring "/sessions?agent=writer&amp;arm=injected&amp;lesson=read-the-log"`, page)
	}
}
