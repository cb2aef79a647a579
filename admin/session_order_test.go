package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/price"
	"precept/internal/sample"
	sessionpkg "precept/internal/session"
	"precept/store"
)

// newCostFixture returns a server with three sessions. The session "cheap" is the longest, "expensive" costs the most,
// and "unpriced" uses a model without a price.
func newCostFixture(t *testing.T) *fixture {
	t.Helper()
	sessions := newSessionStore(t, time.Now())
	for i, name := range []string{"cheap", "expensive", "unpriced"} {
		sessions.addSession(t, name, 1, func(r *sessionpkg.Record, _ []sample.Exchange) {
			r.Identity.Model = ifElse(name == "unpriced", "other", "gpt-test")
			r.Identity.Agent = ifElse(name == "expensive", "writer", "coder")
			r.Thread.Used = trial.Usage{Input: int64(1000 * (i + 1))}
			r.Identity.Seen = r.Identity.Started.Add(time.Duration(9-i) * time.Minute)
			r.Facts = sessionpkg.Facts{Turns: 1, Task: "task of " + name}
		})
	}
	return newStoreFixture(t, sessions, func(o *Options) {
		o.Now = time.Now
		o.Program.Prices = func() Prices {
			return Prices{Models: &price.Table{Entries: []price.Entry{{Pattern: "gpt-*", Price: price.Price{Input: 2}}}}}
		}
	})
}

// In both orders by cost, the sessions without a known cost come last.
func TestSessionsSortByCostAndDuration(t *testing.T) {
	f := newCostFixture(t)
	task := regexp.MustCompile(`>task of (\w+)<`)
	for order, want := range map[string]string{
		"costliest": "expensive cheap unpriced", "cheapest": "cheap expensive unpriced", "longest": "cheap expensive unpriced", "shortest": "unpriced expensive cheap",
	} {
		page := get(t, f, "/sessions?order="+order, http.StatusOK)
		var got []string
		for _, found := range task.FindAllStringSubmatch(page, -1) {
			got = append(got, found[1])
		}
		if strings.Join(got, " ") != want {
			t.Errorf("page with order=%s = %q, want %q", order, strings.Join(got, " "), want)
		}
		if !strings.Contains(page, "3 sessions. "+strings.ToUpper(order[:1])+order[1:]+" first. ") {
			t.Errorf("page with order=%s = %q, want substring %q", order, page, "3 sessions. "+strings.ToUpper(order[:1])+order[1:]+" first. ")
		}
		var list store.SessionList
		if err := json.Unmarshal([]byte(get(t, f, "/api/sessions?limit=2&order="+order, http.StatusOK)), &list); err != nil {
			t.Fatal(err)
		}
		first := fmt.Sprint(list.Sessions[0].Name, " ", list.Sessions[1].Name)
		if !strings.HasPrefix(want, first) {
			t.Errorf("first two sessions from the API with order=%s: want = %q, want prefix %q", order, want, first)
		}
		if list.Next == "" {
			t.Errorf("first two sessions from the API with order=%s: Next is empty", order)
		}
		if list.Total == nil {
			t.Fatalf("first two sessions from the API with order=%s: Total = nil", order)
		}
		if *list.Total != (store.Total{Sessions: 3, InRange: 3, Exact: true}) {
			t.Errorf("first two sessions from the API with order=%s: Total = %+v, want %+v", order, *list.Total, (store.Total{Sessions: 3, InRange: 3, Exact: true}))
		}
	}
}

func TestColumnHeadingsSortSessions(t *testing.T) {
	f := newCostFixture(t)
	for target, links := range map[string][]string{
		"/sessions?agent=coder":                 {`href="/sessions?agent=coder&order=costliest" aria-label="Sort by cost, costliest first"`, `order=longest" aria-label`},
		"/sessions?agent=coder&order=costliest": {`href="/sessions?agent=coder&order=cheapest" aria-label="Sort by cost, cheapest first"`},
	} {
		page := html.UnescapeString(get(t, f, target, http.StatusOK))
		for _, want := range links {
			if !strings.Contains(page, want) {
				t.Errorf("%s: got no link %s, want this link", target, want)
			}
		}
	}
}

// A text search and an export cannot be ordered by cost. For such a search, the sessions page shows the newest sessions
// first and says why; the API returns an error.
func TestTextSearchAndExportRefuseCostOrder(t *testing.T) {
	f := newCostFixture(t)
	if page := get(t, f, "/sessions?words=question&order=costliest", http.StatusOK); !strings.Contains(page, "Newest first, because a text search has no order by cost or duration. ") {
		t.Error("text search with order=costliest: got a page without the order and the reason, want both")
	}
	for _, target := range []string{"/api/sessions?words=question&order=costliest", "/api/export/sessions?order=longest", "/api/sessions?order=largest"} {
		if answer := get(t, f, target, http.StatusBadRequest); !strings.Contains(answer, "order: ") {
			t.Errorf("%s: got body %s, want an error about the parameter order", target, answer)
		}
	}
}

// The sessions page states how many sessions match. This total is exact only if the archive knows all sessions in the
// time range.
func TestSessionsPageStatesTheTotal(t *testing.T) {
	three := []store.SessionItem{{ID: "s-1", Agent: "a"}, {ID: "s-2", Agent: "a"}, {ID: "s-3", Agent: "b"}}
	for _, c := range []struct {
		target   string
		next     string // next page of the list
		complete bool   // whether the archive knows all sessions in the time range
		caption  string
		total    string // total in the API, as JSON
	}{
		{"/sessions", "", true, "1 of 7 sessions. ", `{"sessions":1,"of":7,"exact":true}`}, // if there is no next page, the list contains all sessions
		{"/sessions?agent=a", "n", true, "2 of 7 sessions. ", `{"sessions":2,"of":7,"exact":true}`},
		{"/sessions?agent=a", "n", false, "2 of the newest 7 sessions; older sessions are not counted. ", `{"sessions":2,"of":7,"exact":false}`},
		{"/sessions?agent=a&range=7d", "n", true, "2 of 7 sessions in the time range. ", `{"sessions":2,"of":7,"exact":true}`},
		{"/sessions?words=x", "n", true, "At least 1 session. ", `{"sessions":1,"of":7,"exact":false}`},
		{"/sessions?words=x&after=p", "n", true, "", `null`},
	} {
		f := newFixture(t, func(o *Options) {
			o.Read.Archive = fakeSessionList{list: store.SessionList{Sessions: three[:1], RowsRead: 7, Next: c.next}, recent: store.Recent{Sessions: three, Complete: c.complete}}
		})
		if page := get(t, f, c.target, http.StatusOK); !strings.Contains(page, "<caption>"+c.caption+"Newest first") {
			_, page, _ = strings.Cut(page, "<caption>")
			t.Errorf("%s: got caption %.90s, want a caption that begins with %q", c.target, page, c.caption)
		}
		if got := get(t, f, "/api"+c.target, http.StatusOK); !strings.Contains(got, `"total":`+c.total) {
			t.Errorf("/api%s: got body %s, want the total %s", c.target, got, c.total)
		}
	}
}

// fakeSessionList is an archive that returns list as a page of sessions, and recent as the sessions in a time range.
type fakeSessionList struct {
	emptyArchive
	list   store.SessionList
	recent store.Recent
}

func (l fakeSessionList) Browse(context.Context, store.SessionQuery) (store.SessionList, error) {
	return l.list, nil
}

func (l fakeSessionList) Recent(context.Context, string, time.Time, time.Time) (store.Recent, error) {
	return l.recent, nil
}

func TestNavigationKeepsSessionFilters(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Read.Archive = twoAgentSessions{} })
	const filters = "?agent=a&order=oldest&range=7d&tag=x&tenant=acme&verdict=poor&view=v1&words=make"
	for _, c := range []struct {
		page     string
		wantText []string // a leading ! means that the page must not contain the text
	}{
		{"/sessions" + filters, []string{`href="/traffic` + filters + `"`, `href="/compare` + filters + `"`, `href="/samples` + filters + `"`, `href="/lessons?tenant=acme"`, `href="/sessions?tenant=acme"`}},
		{"/traffic" + filters, []string{
			`href="/sessions` + filters + `"`, `href="/compare` + filters + `"`, `aria-label="Remove the filter tag x"`,
			"Session filters that do not apply here: words make. The traffic figures cannot search conversations.",
		}},
		{"/compare" + filters + "&by=agent", []string{
			`href="/sessions` + filters + `"`, `href="/samples` + filters + `"`,
			"Session filters that do not apply here: words make. A comparison is between two agents, and cannot search conversations.",
		}},
		{"/compare?by=agent&agent=a&a=b&b=c", []string{"do not apply here: agent a. A comparison is between two agents"}},
		{"/samples" + filters + "&family=dialog_response", []string{
			`href="/sessions` + filters + `"`, `href="/compare` + filters + `"`,
			"Session filters that do not apply here: verdict poor, tag x, words make. Samples can be filtered only by the fields in the form.",
			`name="verdict" value="poor"`, `<option value="7d" selected>`, `href="/samples?order=oldest&tenant=acme">Clear`, `range=7d`,
		}},
		{"/samples?lesson=l&arm=withheld", []string{"do not apply here: lesson l, arm withheld.", `id="lesson" name="lesson" value=""`}},
		{"/samples?lesson=l&arm=injected", []string{"!do not apply", `id="lesson" name="lesson" value="l"`}},
	} {
		page := html.UnescapeString(get(t, f, c.page, http.StatusOK))
		for _, want := range c.wantText {
			want, unwanted := strings.CutPrefix(want, "!")
			if strings.Contains(page, want) == unwanted {
				t.Errorf("%s: page contains %q = %t, want %t", c.page, want, unwanted, !unwanted)
			}
		}
	}
}

// A comparison of agents does not filter its sessions by the agent in the query, because one side would then be empty.
// It compares this agent with another agent.
func TestCompareUsesAgentFilterAsSide(t *testing.T) {
	f := newFixture(t, func(o *Options) { o.Read.Archive = twoAgentSessions{} })
	for query, want := range map[string]string{ // the two agents that are compared
		"agent=b": "b a", "agent=b&b=b": "a b", "agent=b&a=a": "a b", "by=model&agent=b": " ",
	} {
		var c Comparison
		if err := json.Unmarshal([]byte(get(t, f, "/api/compare?"+query, http.StatusOK)), &c); err != nil {
			t.Fatal(err)
		}
		if got := c.A.Value + " " + c.B.Value; got != want {
			t.Errorf("/api/compare?%s: got the compared agents %q, want %q", query, got, want)
		}
	}
}
