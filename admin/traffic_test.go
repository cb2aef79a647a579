package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"precept/bandit/trial"
	"precept/internal/price"
	"precept/internal/sample"
	sessionpkg "precept/internal/session"
	"precept/store"
)

var trafficNow = time.Date(2026, 11, 20, 15, 30, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant

// newTrafficFixture returns a server with four sessions of the tenant default and one session of the tenant acme. The
// model of the session "new" has no price. The session "past" has no facts, like a session that an older release
// recorded.
func newTrafficFixture(t *testing.T) *fixture {
	t.Helper()
	sessions := newSessionStore(t, trafficNow)
	for i, s := range []struct {
		name, tenant, agent, model string
		turns                      int
		facts                      sessionpkg.Facts
	}{
		// These sessions began 2, 4, 4, 5 and 6 hours ago, because addSession starts a session len(name)+turns hours
		// ago.
		{"a", "default", "coder", "gpt-test", 1, sessionpkg.Facts{Turns: 1, ErrorKinds: []string{"upstream-429"}, Errors: 2, Output: 100}},
		{"bb", "default", "Coder", "gpt-test", 2, sessionpkg.Facts{Turns: 2, ErrorKinds: []string{"upstream-429", "upstream-500", "timeout"}, Errors: 1, Output: 10}},
		{"new", "default", "writer", "other", 1, sessionpkg.Facts{Turns: 1}},
		{"past", "default", "coder", "gpt-test", 1, sessionpkg.Facts{}},
		{"tenth", "acme", "coder", "gpt-test", 1, sessionpkg.Facts{Turns: 1, Errors: 9}},
	} {
		sessions.addSession(t, s.name, s.turns, func(r *sessionpkg.Record, exchanges []sample.Exchange) {
			r.Identity.Tenant, r.Identity.Agent, r.Identity.Model, r.Facts = s.tenant, s.agent, s.model, s.facts
			r.Identity.ID = sessionpkg.NamedID(s.tenant, sessionpkg.NamespaceSession, s.name)
			r.Identity.Seen = r.Identity.Started.Add(time.Duration(i+1) * time.Minute)
			r.Thread.Used = trial.Usage{Input: int64(1000 * (i + 1)), Cached: 500}
			for n := range exchanges {
				exchanges[n].Tenant, exchanges[n].Session = s.tenant, r.Identity.ID.String()
			}
		})
	}
	return newStoreFixture(t, sessions, func(o *Options) {
		o.Program.Tenants = func(context.Context) ([]string, error) { return []string{"default", "acme"}, nil }
		o.Now = func() time.Time { return trafficNow }
		o.Program.Prices = func() Prices {
			return Prices{Currency: "USD", Models: &price.Table{Entries: []price.Entry{{Pattern: "gpt-*", Price: price.Price{Input: 2, Cached: 2, Output: 10}}}}}
		}
	})
}

func readTraffic(t *testing.T, f *fixture, query string) (out Traffic) {
	t.Helper()
	if err := json.Unmarshal([]byte(get(t, f, "/api/traffic"+query, http.StatusOK)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// As on the sessions page, agents whose names differ only in case count as one agent.
func TestTrafficFiguresAreSumsOverSessions(t *testing.T) {
	f := newTrafficFixture(t)
	x := readTraffic(t, f, "")
	cost, seconds := 0.0, 150.0 // seconds is the mean of 60, 120, 180 and 240
	var list store.SessionList
	if err := json.Unmarshal([]byte(get(t, f, "/api/sessions", http.StatusOK)), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Sessions {
		if c := list.Sessions[i].Cost; c != nil {
			cost += *c
		}
	}
	want := TrafficSum{
		Sessions: 4, Turns: 5, Failed: 2, Statuses: []store.FacetValue{{Value: "429", Sessions: 2}, {Value: "500", Sessions: 1}}, Errors: 3,
		Input: 10000, Cached: 2000, Output: 110, Unknown: 1, Cost: &cost, Unpriced: 1, Seconds: &seconds,
	}
	if got, want := asJSON(t, x.Sum), asJSON(t, want); got != want {
		t.Errorf("sum over all sessions = %q, want %q", got, want)
	} else if cost == 0 {
		t.Error("sum over all sessions: cost = 0, want at least 1")
	}
	if !x.Complete {
		t.Error("traffic: Complete = false, want true")
	}
	if x.SessionsRead != 4 {
		t.Errorf("traffic: SessionsRead = %d, want 4", x.SessionsRead)
	}
	if x.Seconds != 300 {
		t.Errorf("traffic: Seconds = %d, want 300", x.Seconds)
	}
	if x.Currency != "USD" {
		t.Errorf(`traffic: Currency = %q, want "USD"`, x.Currency)
	}
	buckets, models, agents := make([]TrafficSum, 0), make([]TrafficSum, 0), make([]TrafficSum, 0)
	for _, b := range x.Buckets {
		buckets = append(buckets, b.Sum)
	}
	for _, m := range x.Models {
		models = append(models, m.Sum)
	}
	for _, a := range x.Agents {
		agents = append(agents, a.Sum)
	}
	for name, parts := range map[string][]TrafficSum{"buckets": buckets, "models": models, "agents": agents} {
		if got, want := asJSON(t, sumParts(parts)), asJSON(t, sumParts([]TrafficSum{want})); got != want {
			t.Errorf("sum over the %s: got %s, want %s", name, got, want)
		}
	}
	if len(x.Agents) != 2 {
		t.Fatalf("rows: Agents = %+v, want 2 items", x.Agents)
	}
	if x.Agents[0].Value != "coder" {
		t.Errorf(`rows: Value = %q, want "coder"`, x.Agents[0].Value)
	}
	if x.Agents[0].Sum.Sessions != 3 {
		t.Errorf("rows: Sessions = %d, want 3", x.Agents[0].Sum.Sessions)
	}
	if x.Models[1].Value != "other" {
		t.Errorf(`rows: [1].Value = %q, want "other"`, x.Models[1].Value)
	}
	if x.Models[1].Sum.Cost != nil {
		t.Errorf("rows: Cost = %+v, want nil", x.Models[1].Sum.Cost)
	}
	if x.Models[1].Sum.Unpriced != 1 {
		t.Errorf("rows: Unpriced = %d, want 1", x.Models[1].Sum.Unpriced)
	}
	if got := readTraffic(t, f, "?tenants=true&model=gpt-test").Tenants; len(got) != 2 {
		t.Errorf("tenants with tenants=true = %+v, want 2 items", got)
	} else if got[0].Value != "acme" {
		t.Errorf(`tenants with tenants=true: Value = %q, want "acme"`, got[0].Value)
	} else if got[0].Sum.Errors != 9 {
		t.Errorf("tenants with tenants=true: Errors = %d, want 9", got[0].Sum.Errors)
	} else if got[1].Sum.Sessions != 3 {
		t.Errorf("tenants with tenants=true: Sessions = %d, want 3", got[1].Sum.Sessions)
	} else if len(x.Tenants) != 0 {
		t.Errorf("tenants with tenants=true = %+v, want none", x.Tenants)
	}
	for query, want := range map[string]int{"?tenant=acme": 1, "?agent=coder": 3, "?error_kind=upstream-500": 1, "?range=1h": 0, "?since=2026-11-20T12:00:00Z": 1, "?until=2026-11-20T12:00:00Z": 3, "?model=other&words=x": 1} {
		if got := readTraffic(t, f, query).Sum.Sessions; got != want {
			t.Errorf("/api/traffic%s: got %d sessions, want %d", query, got, want)
		}
	}
}

// sumParts returns the sum over the parts. It rounds the cost, so that the order of the parts does not matter.
func sumParts(parts []TrafficSum) (sum TrafficSum) {
	cost, statuses := 0.0, map[string]int{}
	for i := range parts {
		p := &parts[i]
		sum.Sessions, sum.Turns, sum.Failed, sum.Errors = sum.Sessions+p.Sessions, sum.Turns+p.Turns, sum.Failed+p.Failed, sum.Errors+p.Errors
		sum.Input, sum.Cached, sum.Output = sum.Input+p.Input, sum.Cached+p.Cached, sum.Output+p.Output
		sum.Unknown, sum.Unpriced = sum.Unknown+p.Unknown, sum.Unpriced+p.Unpriced
		for _, s := range p.Statuses {
			statuses[s.Value] += s.Sessions
		}
		if p.Cost != nil {
			cost += *p.Cost
		}
	}
	cost = float64(int64(cost*1e9+0.5)) / 1e9
	sum.Cost, sum.statuses = &cost, statuses
	sum.setAggregates()
	return sum
}

// Each link on the traffic page to a list of sessions must lead to as many sessions as the page counts there. The links
// keep the filters of the page, but not a text search.
func TestTrafficLinksListCountedSessions(t *testing.T) {
	f := newTrafficFixture(t)
	for target, wantLinks := range map[string]int{"/traffic": 35, "/traffic?tenant=acme": 11, "/traffic?tenants=true": 37, "/traffic?agent=coder&range=24h&words=nowhere": 33, "/traffic?error_kind=upstream-500": 13} {
		root, err := html.Parse(strings.NewReader(get(t, f, target, http.StatusOK)))
		if err != nil {
			t.Fatal(err)
		}
		links := 0
		for n := range root.Descendants() {
			if n.Type != html.ElementNode || n.Data != "a" || !strings.HasPrefix(attribute(n, "href"), "/sessions?") {
				continue
			}
			want, ok := linkedSessions(n)
			if !ok {
				continue
			}
			links++
			var list store.SessionList
			address := attribute(n, "href")
			if err := json.Unmarshal([]byte(get(t, f, "/api"+address, http.StatusOK)), &list); err != nil {
				t.Fatal(err)
			}
			if want >= 0 && len(list.Sessions) != want || len(list.Sessions) == 0 {
				t.Errorf("%s, link %s with text %q: got a list of %d sessions, want as many as the text says", target, address, textIn(n), len(list.Sessions))
			}
		}
		if links != wantLinks {
			t.Errorf("%s: got %d links to sessions, want %d", target, links, wantLinks)
		}
	}
}

// linkedSessions returns the number of sessions that a link in a bar or row states, or -1 if the bar or row shows
// another figure, such as tokens. For links elsewhere on the page, ok is false.
func linkedSessions(link *html.Node) (n int, ok bool) {
	for at := link.Parent; at != nil; at = at.Parent {
		switch class := attribute(at, "class"); {
		case class == "strip":
			if text := textIn(at); !strings.HasPrefix(text, "Sessions ") {
				return -1, true
			}
			_, text, _ := strings.Cut(textIn(link), ": ")
			_, err := fmt.Sscan(text, &n)
			return n, err == nil
		case class == "figures traffic cards":
			_, err := fmt.Sscan(textIn(link), &n)
			return n, err == nil
		case class == "figures":
			return -1, true
		}
	}
	return 0, false
}

func TestTrafficBucketLengthFitsTimeRange(t *testing.T) {
	zone := time.FixedZone("", 2*60*60)
	for _, c := range []struct {
		oldest      time.Duration // age of the oldest session
		window      time.Duration // length of the time range up to now, or 0 for all time
		wantLength  time.Duration // length of a bucket
		wantBuckets int
		wantSecond  string // start of the second bucket
	}{
		{40 * time.Second, 0, 5 * time.Second, 9, "2026-11-20T17:29:25+02:00"},
		{10 * time.Minute, 0, 15 * time.Second, 41, "2026-11-20T17:20:15+02:00"},
		{time.Hour, 0, time.Minute, 61, "2026-11-20T16:31:00+02:00"},
		{2 * time.Hour, 0, 5 * time.Minute, 25, "2026-11-20T15:35:00+02:00"},
		{12 * time.Hour, 0, 15 * time.Minute, 49, "2026-11-20T05:45:00+02:00"},
		{2 * time.Hour, 24 * time.Hour, time.Hour, 25, "2026-11-19T18:00:00+02:00"},
		{71 * time.Hour, 0, time.Hour, 72, "2026-11-17T19:00:00+02:00"},
		{73 * time.Hour, 0, 24 * time.Hour, 4, "2026-11-18T00:00:00+02:00"},
		{time.Hour, 30 * 24 * time.Hour, 24 * time.Hour, 31, "2026-10-22T00:00:00+02:00"},
		{time.Hour, 20000 * 24 * time.Hour, time.Minute, 61, "2026-11-20T16:31:00+02:00"},
		{800 * 24 * time.Hour, 0, 7 * 24 * time.Hour, 115, "2024-09-18T00:00:00+02:00"},
	} {
		r := store.Recent{Complete: true, OldestStart: trafficNow.Add(-c.oldest)}
		for i := range 50 {
			r.Sessions = append(r.Sessions, store.SessionItem{Started: r.OldestStart.Add(c.oldest * time.Duration(i) / 50)})
		}
		r.Sessions = append(r.Sessions, store.SessionItem{Started: trafficNow})
		q := store.SessionQuery{}
		if c.window > 0 {
			q.Since = trafficNow.Add(-c.window)
		}
		x := computeTraffic(&r, &q, &Prices{}, trafficNow, zone)
		inBuckets := 0
		for i, b := range x.Buckets {
			inBuckets += b.Sum.Sessions
			if i > 0 && !b.Since.Equal(x.Buckets[i-1].Until) {
				t.Errorf("oldest session %s ago: got a bucket %d that begins at %s, want it to begin at %s, where the previous bucket ends", c.oldest, i, b.Since, x.Buckets[i-1].Until)
			}
		}
		got := ""
		if len(x.Buckets) > 1 {
			got = x.Buckets[1].Since.In(zone).Format(time.RFC3339)
		}
		if x.Seconds != int(c.wantLength/time.Second) {
			t.Errorf("oldest session %s ago, window %s: Seconds = %d, want %d", c.oldest, c.window, x.Seconds, int(c.wantLength/time.Second))
		}
		if len(x.Buckets) != c.wantBuckets {
			t.Errorf("oldest session %s ago, window %s: Buckets = %+v, want %d items", c.oldest, c.window, x.Buckets, c.wantBuckets)
		}
		if got != c.wantSecond {
			t.Errorf("oldest session %s ago, window %s = %q, want %q", c.oldest, c.window, got, c.wantSecond)
		}
		if x.Sum.Sessions != 51 {
			t.Errorf("oldest session %s ago, window %s: Sessions = %d, want 51", c.oldest, c.window, x.Sum.Sessions)
		}
		if inBuckets != 51 {
			t.Errorf("oldest session %s ago, window %s: inBuckets = %d, want 51", c.oldest, c.window, inBuckets)
		}
	}
}

func TestTrafficPageStatesRangeAndMissingData(t *testing.T) {
	oldest := trafficNow.Add(-90 * time.Minute)
	some := store.Recent{Sessions: []store.SessionItem{{ID: "s", Agent: "a", Started: oldest, Errors: new(0), Output: new(int64(0)), ErrorKinds: []string{"upstream-529"}}}, OldestStart: oldest}
	all := store.Recent{Sessions: some.Sessions, OldestStart: oldest, Complete: true}
	for _, c := range []struct {
		target   string
		recent   store.Recent
		wantText []string // a leading ! means that the page must not contain the text
	}{
		{"/traffic", some, []string{"Only the newest 1 session are counted, since ", "<strong>1</strong><span class=\"quiet\"> in the newest 1 session, at most ", ">By model, in the newest 1 session<", "?agent=a&amp;since=2026-11-20T14%3A00%3A00Z&amp;until=", "status 529"}},
		{"/traffic?range=7d", some, []string{"?agent=a&amp;since=2026-11-20T14%3A00%3A00Z&amp;until="}},
		{"/traffic?range=7d", all, []string{"?agent=a&amp;range=7d", "!Only the newest", "!in the newest", "No session has a failed tool result.", "Started, UTC", "Each bar covers a day"}},
		{"/traffic?zone=%2B02:00&range=24h&words=x", all, []string{"Started, UTC+02:00", "2026-11-20 16:00", "Session filters that do not apply here: words x. "}},
		{"/traffic?agent=a", all, []string{"!each tenant"}},
		{"/traffic", store.Recent{Complete: true}, []string{"No session yet", "OPENAI_BASE_URL=http://127.0.0.1:9080/v1", "!<svg class=\"traffic"}},
		{"/traffic?range=7d", store.Recent{Complete: true}, []string{"No session is in this time range."}},
		{"/traffic?agent=b", all, []string{"None of the 1 sessions matches."}},
		{"/traffic?range=never", all, []string{"not one of 1h, today"}},
	} {
		f := newFixture(t, func(o *Options) {
			o.Now, o.Address.DataURL = func() time.Time { return trafficNow }, "http://127.0.0.1:9080"
			o.Read.Archive = fakeSessionList{recent: c.recent}
		})
		page := body(t, f.do(t, http.MethodGet, c.target, bearer(token)))
		for _, want := range c.wantText {
			want, unwanted := strings.CutPrefix(want, "!")
			if strings.Contains(page, want) == unwanted {
				t.Errorf("%s: page contains %q = %t, want %t", c.target, want, unwanted, !unwanted)
			}
		}
	}
}

// The input and the cost of a parent session include the tokens of its sub-agents. The sums therefore count these
// tokens only once, as tokens of the model of the sub-agent. If the parent session is not selected, the tokens still
// count.
func TestTrafficCountsSubAgentTokensOnce(t *testing.T) {
	at := trafficNow.Add(-time.Hour)
	r := store.Recent{Complete: true, OldestStart: at, Sessions: []store.SessionItem{
		{
			ID: "main", Model: "large", Started: at, Input: 1500, Output: new(int64(100)), Errors: new(0),
			Models: []store.ModelUsage{{Model: "large", Input: 1000, Output: 100}, {Model: "small", Input: 500, Output: 50}},
		},
		{
			ID: "sub", Parent: "main", Model: "small", Started: at, Input: 500, Output: new(int64(50)), Errors: new(0),
			Models: []store.ModelUsage{{Model: "small", Input: 500, Output: 50}},
		},
	}}
	prices := &Prices{Models: &price.Table{Entries: []price.Entry{{Pattern: "large", Price: price.Price{Input: 1000, Output: 1000}}, {Pattern: "small", Price: price.Price{Input: 100, Output: 100}}}}}
	got := computeTraffic(&r, &store.SessionQuery{}, prices, trafficNow, time.UTC)
	if x := got.Sum; x.Sessions != 2 {
		t.Errorf("sum over both sessions = %d, want 2", x.Sessions)
	} else if x.Input != 1500 {
		t.Errorf("sum over both sessions: Input = %d, want 1500", x.Input)
	} else if x.Output != 150 {
		t.Errorf("sum over both sessions: Output = %d, want 150", x.Output)
	} else if x.Cost == nil {
		t.Error("sum over both sessions: Cost = nil")
	} else if fmt.Sprintf("%.4f", *x.Cost) != "1.1550" {
		t.Errorf(`sum over both sessions: Cost = %q, want "1.1550"`, fmt.Sprintf("%.4f", *x.Cost))
	} else if x.Unpriced != 0 {
		t.Errorf("sum over both sessions: Unpriced = %d, want 0", x.Unpriced)
	}
	for _, row := range got.Models {
		want := map[string]int64{"large": 1000, "small": 500}[row.Value]
		if row.Sum.Sessions != 1 {
			t.Errorf("model %s: Sessions = %d, want 1", row.Value, row.Sum.Sessions)
		}
		if row.Sum.Input != want {
			t.Errorf("model %s: Input = %d, want %d", row.Value, row.Sum.Input, want)
		}
	}
	got = computeTraffic(&r, &store.SessionQuery{Model: "small"}, prices, trafficNow, time.UTC)
	if x := got.Sum; x.Sessions != 1 {
		t.Errorf("sum over the sessions with the model of the sub-agent = %d, want 1", x.Sessions)
	} else if x.Input != 500 {
		t.Errorf("sum over the sessions with the model of the sub-agent: Input = %d, want 500", x.Input)
	} else if x.Cost == nil {
		t.Error("sum over the sessions with the model of the sub-agent: Cost = nil")
	} else if fmt.Sprintf("%.4f", *x.Cost) != "0.0550" {
		t.Errorf(`sum over the sessions with the model of the sub-agent: Cost = %q, want "0.0550"`, fmt.Sprintf("%.4f", *x.Cost))
	}
}

// The comparison says at the table how many sessions it covers, and whether there are older ones.
func TestComparePageStatesRange(t *testing.T) {
	sessions := []store.SessionItem{{ID: "s", Agent: "a", Started: trafficNow}, {ID: "t", Agent: "b", Started: trafficNow}}
	for complete, want := range map[bool]string{true: "<p>From 2 sessions since ", false: "<p>Only from the newest 2 sessions since "} {
		f := newFixture(t, func(o *Options) {
			o.Now, o.Read.Archive = func() time.Time { return trafficNow }, fakeSessionList{recent: store.Recent{Sessions: sessions, OldestStart: trafficNow, Complete: complete}}
		})
		page := body(t, f.do(t, http.MethodGet, "/compare", bearer(token)))
		if !strings.Contains(page, want) || strings.Contains(page, "; older sessions in the time range are not counted") == complete {
			t.Errorf("complete %t: the page lacks %q, or is wrong about older sessions", complete, want)
		}
	}
}
