package chaos

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"precept/test/harness"
)

// If the number of sessions in memory has reached limits.sessions, precept excludes a new session from the experiment
// with the reason busy, and does not store its exchanges.
func TestChaosFloodLosesNoExchangeWithinTheLimit(t *testing.T) {
	t.Parallel()
	const (
		limit   = 32  // limits.sessions
		flood   = 150 // requests in the flood
		earlier = 2   // sessions that began before the flood
	)
	var floodRequests atomic.Int64
	release := make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if strings.Contains(string(body), "flood") {
			floodRequests.Add(1)
			<-release
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, harness.ChatReply("chatcmpl-1", "yes"))
	}))
	t.Cleanup(model.Close)
	dir := t.TempDir()
	p := harness.StartWithUpstream(t, dir, model.URL, "--limits-sessions", strconv.Itoa(limit))
	sumMetric := func(name string) int {
		t.Helper()
		_, page := harness.Get(t, p.AdminURL+"/metrics", "token")
		sum := 0
		for line := range strings.Lines(page) {
			if strings.HasPrefix(line, name) {
				n, err := strconv.Atoi(line[strings.LastIndexByte(line, ' ')+1 : len(line)-1])
				if err != nil {
					t.Fatal(err)
				}
				sum += n
			}
		}
		return sum
	}
	const busy = `precept_sessions_excluded_total{reason="busy"}`
	sendTurn := func(session int, laterMessages string) {
		t.Helper()
		header := http.Header{"Precept-Session": {fmt.Sprint("earlier-", session)}}
		if code, answer := harness.Post(t, p.DataURL+"/v1/chat/completions", header, `{"model":"m","messages":[{"role":"user","content":"one"}`+laterMessages+`]}`); code != http.StatusOK {
			t.Errorf("request in an earlier session: got status %d, body %s, want 200", code, answer)
		}
	}
	for i := range earlier {
		sendTurn(i, "")
	}
	p.WaitUntilDrained(dir)

	var all sync.WaitGroup
	for i := range flood {
		all.Go(func() {
			if code, answer := harness.Post(t, p.DataURL+"/v1/chat/completions", nil, fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":"flood %d"}]}`, i)); code != http.StatusOK {
				t.Errorf("flood request: got status %d, body %s, want 200", code, answer)
			}
		})
	}
	p.Eventually("the arrival of every flood request at the model", func() bool { return floodRequests.Load() == flood })
	if n := sumMetric("precept_sessions_live"); n > limit {
		t.Errorf("sessions in memory: got %d, want at most %d", n, limit)
	}
	begun, excluded := sumMetric("precept_sessions_total")-earlier, sumMetric(busy)
	if begun+excluded != flood || begun < limit/2 {
		t.Errorf("sessions in the flood: got %d in the experiment and %d excluded as busy, want %d in total and at least %d in the experiment", begun, excluded, flood, limit/2)
	}
	for i := range earlier {
		sendTurn(i, `,{"role":"assistant","content":"yes"},{"role":"user","content":"two"}`)
	}
	if n := sumMetric(busy); n != excluded {
		t.Errorf("sessions excluded as busy after the flood: got %d, want 0", n-excluded)
	}
	close(release)
	all.Wait()
	p.Eventually("every exchange with a session in the store", func() bool { return harness.Doctor(t, dir).Stored == int64(2*earlier+begun) })
	p.Stop()
	if d := harness.Doctor(t, dir); d.Store["sessions"] != int64(earlier+begun) {
		t.Errorf("stored sessions: got %d, want %d", d.Store["sessions"], earlier+begun)
	}
}
