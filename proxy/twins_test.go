package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// twins returns a model for n twins, which are concurrent conversations with equal words. The model answers a first
// request only when n first requests are in flight. id returns the id of the call in an answer.
func twins(n int, id func(turn int, client string) string) http.HandlerFunc {
	var waiting atomic.Int64
	all := make(chan struct{})
	return func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		turn := strings.Count(string(body), `"role":"tool"`)
		if turn == 0 {
			if waiting.Add(1) == int64(n) {
				close(all)
			}
			select {
			case <-all:
			case <-r.Context().Done():
			}
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"id":"chatcmpl-1","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"bash","arguments":"{\"command\":\"sh build.sh\"}"}}]}}]}`, id(turn, r.Header.Get("X-Who")))
	}
}

// playIdenticalAgents runs n identical agents at once, three turns each, and returns the session names
// of each agent by turn.
func (r *fixture) playIdenticalAgents(t *testing.T, n int, result func(client int) string) [][]string {
	t.Helper()
	names := make([][]string, n)
	var wg, answered sync.WaitGroup
	answered.Add(n)
	for i := range n {
		wg.Go(func() {
			a := newAgent("Please mend the build")
			for turn := range 3 {
				if turn == 1 { // the second turns begin after all first answers
					answered.Done()
					answered.Wait()
				}
				res, body := r.send(t, http.MethodPost, chatPath, http.Header{"X-Who": {fmt.Sprintf("%03d", i)}}, a.body())
				names[i] = append(names[i], res.Header.Get("Precept-Session"))
				a.addCall(firstCallID(t, body), "sh build.sh", result(i))
			}
		})
	}
	wg.Wait()
	return names
}

// Fifty concurrent conversations with equal words are fifty sessions. With random call ids, all turns of a
// conversation have the session of the first. With counted call ids ("functions.bash:0"), a conversation may change
// its session until its history differs from the others, and the sessions are excluded from the experiment. Each turn
// has its lesson, and there is one loop warning for each conversation.
func TestConcurrentIdenticalAgentsGetSeparateSessions(t *testing.T) {
	const n = 50
	for _, c := range []struct {
		name     string
		id       func(turn int, client string) string
		result   func(client int) string
		excluded float64
		from     int // the session name of a conversation does not change from this turn on
	}{
		{"random ids", func(turn int, client string) string { return fmt.Sprintf("call_A09q90qw90lq9178%s%d", client, turn) }, func(int) string { return "failed\nExit code 1" }, 0, 0},
		{"counted ids, own results", func(turn int, _ string) string { return fmt.Sprintf("functions.bash:%d", turn) }, func(client int) string { return fmt.Sprintf("failed at %d\nExit code 1", client) }, n, 1},
		{"counted ids, equal results", func(turn int, _ string) string { return fmt.Sprintf("functions.bash:%d", turn) }, func(int) string { return "failed\nExit code 1" }, n, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			up := newUpstream(t, twins(n, c.id))
			r := newFixture(t, up, "", newBook(t, "one: mend the build"), injectAll())
			distinct := map[string]bool{}
			for i, turns := range r.playIdenticalAgents(t, n, c.result) {
				for _, name := range turns {
					distinct[name] = true
				}
				for k := c.from; k < len(turns)-1; k++ {
					if turns[k] != turns[k+1] {
						t.Errorf("conversation %d has sessions %v by turn, want one session from turn %d on", i, turns, c.from)
					}
				}
			}
			lessons, loops := 0, 0
			up.mu.Lock()
			for _, s := range up.got {
				lessons += strings.Count(string(s.body), "[one]")
				loops += strings.Count(string(s.body), "[LOOP DETECTED]")
			}
			up.mu.Unlock()
			if len(distinct) != n || lessons != 3*n || loops != n {
				t.Errorf("the turns have %d different sessions, want %d; the upstream got %d lessons, want %d, and %d loop warnings, want %d", len(distinct), n, lessons, 3*n, loops, n)
			}
			m := r.Options().Metrics
			if got := testutil.ToFloat64(m.Series("sessions").WithLabelValues("new")); got != n {
				t.Errorf("the metric of sessions counts %v new ones, want %v", got, n)
			}
			if got := testutil.ToFloat64(m.Injected()); got != 2*n {
				t.Errorf("the counter of injections is %v, want %v", got, 2*n)
			}
			if got := testutil.ToFloat64(m.Series("excluded").WithLabelValues("twin")); got != c.excluded {
				t.Errorf("the metric counts %v excluded sessions with the reason twin, want %v", got, c.excluded)
			}
		})
	}
}

// Concurrent requests that continue one conversation in different ways are one session, and each request has its
// lesson once.
func TestBranchesOfOnePrefixAreOneSession(t *testing.T) {
	const n = 20
	up := newUpstream(t, callingModel())
	r := newFixture(t, up, "", newBook(t, "one: mend the build"), injectAll())
	root := newAgent("Please mend the build")
	res, body := r.send(t, http.MethodPost, chatPath, nil, root.body())
	name, call := res.Header.Get("Precept-Session"), firstCallID(t, body)
	root.addCall(call, "ls", "a.c")
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			a := &agent{list: append([]any{}, root.list...)}
			if i%2 == 1 {
				a.addUser(fmt.Sprintf("Please mend the build, way %d", i)) // a branch with its own words
			}
			for turn := range 4 {
				res, body := r.send(t, http.MethodPost, chatPath, nil, a.body())
				if got := res.Header.Get("Precept-Session"); got != name {
					t.Errorf("branch %d, turn %d is in session %s, want %s", i, turn, got, name)
				}
				a.addCall(firstCallID(t, body), fmt.Sprintf("cat %d-%d", i, turn), "fine")
			}
		})
	}
	wg.Wait()
	up.mu.Lock()
	defer up.mu.Unlock()
	for _, s := range up.got {
		if strings.Count(string(s.body), "[one]") != 1 {
			t.Fatalf("the upstream got %s, want [one] exactly once", s.body)
		}
	}
	if got := testutil.ToFloat64(r.Options().Metrics.Series("sessions").WithLabelValues("new")); got != 1 {
		t.Errorf("the metric of sessions counts %v new ones, want 1", got)
	}
}
