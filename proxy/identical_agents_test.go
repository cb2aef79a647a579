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

// identicalAgentsModel returns a model that answers only after the first requests from all n agents have arrived. id
// returns the call id in a reply.
func identicalAgentsModel(n int, id func(turn int, client string) string) http.HandlerFunc {
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

// runIdenticalAgents returns the session names by agent and turn.
func (f *fixture) runIdenticalAgents(t *testing.T, n int, result func(client int) string) [][]string {
	t.Helper()
	names := make([][]string, n)
	var wg, answered sync.WaitGroup
	answered.Add(n)
	for i := range n {
		wg.Go(func() {
			a := newAgent("Please fix the build")
			for turn := range 3 {
				if turn == 1 { // all agents have their first reply
					answered.Done()
					answered.Wait()
				}
				res, body := f.send(t, http.MethodPost, chatPath, http.Header{"X-Who": {fmt.Sprintf("%03d", i)}}, a.body())
				names[i] = append(names[i], res.Header.Get("Precept-Session"))
				a.addCall(firstCallID(t, body), "sh build.sh", result(i))
			}
		})
	}
	wg.Wait()
	return names
}

// With sequential call ids ("functions.bash:0"), a conversation can change sessions until the histories differ. All
// sessions are then excluded from the experiment as twins.
func TestConcurrentIdenticalAgentsGetSeparateSessions(t *testing.T) {
	const n = 50
	randomID := func(turn int, client string) string { return fmt.Sprintf("call_A09q90qw90lq9178%s%d", client, turn) }
	sequentialID := func(turn int, _ string) string { return fmt.Sprintf("functions.bash:%d", turn) }
	equalResult := func(int) string { return "failed\nExit code 1" }
	differentResult := func(client int) string { return fmt.Sprintf("failed at %d\nExit code 1", client) }
	for _, tc := range []struct {
		name     string
		id       func(turn int, client string) string
		result   func(client int) string
		excluded float64 // sessions excluded as twins
		stable   int     // turn from which each conversation keeps one session
	}{
		{"random ids", randomID, equalResult, 0, 0},
		{"sequential ids, different results", sequentialID, differentResult, n, 1},
		{"sequential ids, equal results", sequentialID, equalResult, n, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := newUpstream(t, identicalAgentsModel(n, tc.id))
			f := newFixture(t, up, "", newBook(t, "one: fix the build"), injectAll())
			distinct := map[string]bool{}
			for i, turns := range f.runIdenticalAgents(t, n, tc.result) {
				for _, name := range turns {
					distinct[name] = true
				}
				for k := tc.stable; k < len(turns)-1; k++ {
					if turns[k] != turns[k+1] {
						t.Errorf("conversation %d: sessions by turn = %v, want the same session from turn %d", i, turns, tc.stable)
					}
				}
			}
			lessons, loops := 0, 0
			up.mu.Lock()
			for _, s := range up.requests {
				lessons += strings.Count(string(s.body), "[one]")
				loops += strings.Count(string(s.body), "[LOOP DETECTED]")
			}
			up.mu.Unlock()
			if len(distinct) != n {
				t.Errorf("distinct = %+v, want %d items", distinct, n)
			}
			if lessons != 3*n {
				t.Errorf("lessons = %d, want %d", lessons, 3*n)
			}
			if loops != n {
				t.Errorf("loops = %d, want %d", loops, n)
			}
			m := f.Options().Metrics
			if got := f.counter("sessions", "new"); got != n {
				t.Errorf("sessions_total = %v, want %v", got, n)
			}
			if got := testutil.ToFloat64(m.Injected()); got != 2*n {
				t.Errorf("lessons_injected_total = %v, want %v", got, 2*n)
			}
			if got := f.counter("excluded", "twin"); got != tc.excluded {
				t.Errorf("sessions_excluded_total{reason=twin} = %v, want %v", got, tc.excluded)
			}
		})
	}
}

func TestConversationBranchesShareSession(t *testing.T) {
	const n = 20
	up := newUpstream(t, callingModel())
	f := newFixture(t, up, "", newBook(t, "one: fix the build"), injectAll())
	root := newAgent("Please fix the build")
	res, body := f.send(t, http.MethodPost, chatPath, nil, root.body())
	name, call := res.Header.Get("Precept-Session"), firstCallID(t, body)
	root.addCall(call, "ls", "a.c")
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			a := &agent{list: append([]any{}, root.list...)}
			if i%2 == 1 {
				a.addUserMessage(fmt.Sprintf("Please fix the build, way %d", i)) // the branches differ
			}
			for turn := range 4 {
				res, body := f.send(t, http.MethodPost, chatPath, nil, a.body())
				if got := res.Header.Get("Precept-Session"); got != name {
					t.Errorf("branch %d, turn %d: session = %s, want %s", i, turn, got, name)
				}
				a.addCall(firstCallID(t, body), fmt.Sprintf("cat %d-%d", i, turn), "fine")
			}
		})
	}
	wg.Wait()
	up.mu.Lock()
	defer up.mu.Unlock()
	for _, s := range up.requests {
		if strings.Count(string(s.body), "[one]") != 1 {
			t.Fatalf("the upstream got %s, want [one] exactly once", s.body)
		}
	}
	if got := f.counter("sessions", "new"); got != 1 {
		t.Errorf("sessions_total = %v, want 1", got)
	}
}
