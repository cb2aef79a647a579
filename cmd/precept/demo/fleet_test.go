package demo

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// recordingProxy acts as a precept without lessons. It records the requests and the feedback that it receives.
type recordingProxy struct {
	*httptest.Server
	mu       sync.Mutex
	feedback []map[string]any
	faults   []string
	results  map[string]string // the text in each reply from the model, by reply id
	requests int
	asked    map[[2]string]int            // requests by agent and model
	fail     func(path string, n int) int // status of the response to request n, or 0 if the model answers
}

func newRecordingProxy(t *testing.T, w *World, fail func(path string, n int) int) *recordingProxy {
	t.Helper()
	p := &recordingProxy{results: map[string]string{}, asked: map[[2]string]int{}, fail: fail}
	model := NewUpstream(w)
	p.Server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.requests++
		if p.fail != nil {
			if status := p.fail(r.URL.Path, p.requests); status != 0 {
				rw.WriteHeader(status)
				return
			}
		}
		for h := range r.Header {
			if strings.HasPrefix(h, "Precept") || strings.Contains(h, "Session") {
				p.faults = append(p.faults, "got a session name in header "+h)
			}
		}
		switch r.URL.Path {
		case "/v1/chat/completions":
			rec := httptest.NewRecorder()
			r.Body = io.NopCloser(strings.NewReader(string(body)))
			model.ServeHTTP(rec, r)
			var res struct {
				ID, Model string
				Choices   []struct{ Message message }
			}
			if err := json.Unmarshal(rec.Body.Bytes(), &res); err != nil {
				p.faults = append(p.faults, err.Error())
				return
			}
			p.asked[[2]string{r.UserAgent(), res.Model}]++
			p.results[res.ID] = res.Choices[0].Message.Content
			_, _ = rw.Write(rec.Body.Bytes())
		case "/v1/feedback":
			var f map[string]any
			if err := json.Unmarshal(body, &f); err != nil {
				p.faults = append(p.faults, err.Error())
			}
			p.feedback = append(p.feedback, f)
			rw.WriteHeader(http.StatusAccepted)
		default:
			p.faults = append(p.faults, "got a request for "+r.URL.Path)
		}
	}))
	t.Cleanup(p.Close)
	return p
}

// fleet returns simulated agents that send their requests to the proxy.
func (p *recordingProxy) fleet(t *testing.T, w *World, agents, sessions int) *Fleet {
	t.Helper()
	tr := &http.Transport{MaxIdleConnsPerHost: agents}
	t.Cleanup(tr.CloseIdleConnections)
	return &Fleet{World: w, BaseURL: p.URL + "/v1", Agents: agents, Sessions: sessions, Client: &http.Client{Transport: tr}}
}

func TestFleetRunsAllSessions(t *testing.T) {
	for _, tc := range []struct{ agents, sessions int }{{1, 5}, {4, 50}, {8, 3}, {3, 0}, {0, 2}} {
		w := NewWorld(21)
		p := newRecordingProxy(t, w, nil)
		f := p.fleet(t, w, tc.agents, tc.sessions)
		if err := f.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		wantSuccess, wantTurns, wantRewarded := int64(0), 0, 0
		for n := 1; n <= tc.sessions; n++ {
			tk := w.ticket(n)
			wantTurns += tk.turns
			if w.succeeds(tk, nil) {
				wantSuccess++
			}
			if n%5 > 0 { // one user in five gives no feedback
				wantRewarded++
			}
		}
		done, success := f.Done()
		if done != int64(tc.sessions) || success != wantSuccess {
			t.Errorf("finished sessions: got %d of %d, with %d successes, want all sessions, with %d successes", done, tc.sessions, success, wantSuccess)
		}
		if p.requests != wantTurns+wantRewarded || len(p.feedback) != wantRewarded || len(p.faults) > 0 {
			t.Errorf("got %d requests (want %d), %d feedback entries (want %d), faults %v (want none)", p.requests, wantTurns+wantRewarded, len(p.feedback), wantRewarded, p.faults)
		}
		for _, fb := range p.feedback {
			want := 0.0
			if p.results[fb["response_id"].(string)] == "RESULT: success" {
				want = 1
			}
			if fb["score"] != want || fb["source"] != "user" || fb["type"] != "score" {
				t.Errorf("feedback on reply %q: got %v, want a score of %v from a user", p.results[fb["response_id"].(string)], fb, want)
			}
		}
	}
}

func TestFleetHasTwoAgentsWithTwoModels(t *testing.T) {
	w := NewWorld(3)
	p := newRecordingProxy(t, w, nil)
	if err := p.fleet(t, w, 4, 60).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[[2]string]int{}
	for n := 1; n <= 60; n++ {
		tk := w.ticket(n)
		want[[2]string{tk.agent, tk.model}] += tk.turns
	}
	if len(want) != 4 || !maps.Equal(p.asked, want) {
		t.Errorf("requests by agent and model: got %v, want four pairs: %v", p.asked, want)
	}
}

func TestModelsDifferInSuccessButNotInEffects(t *testing.T) {
	w := NewWorld(1)
	chance := func(model string, lessons ...int) float64 { return w.successChance(ticket{model: model}, lessons) }
	if gap := chance(largeModel) - chance(smallModel); math.Abs(gap-modelGap) > 1e-9 {
		t.Errorf("difference between the success chances of the two models: got %v, want %v", gap, modelGap)
	}
	for i := range w.Truths {
		for _, model := range []string{largeModel, smallModel} {
			if d := chance(model, i) - chance(model); math.Abs(d-w.Truths[i].Effect) > 1e-9 {
				t.Errorf("model %s: got effect %v for lesson %s, want %v", model, d, w.Truths[i].Slug, w.Truths[i].Effect)
			}
		}
	}
}

// statusIf returns status if condition is true, and otherwise 0.
func statusIf(condition bool, status int) int {
	if condition {
		return status
	}
	return 0
}

func TestFleetRunReturnsFirstError(t *testing.T) {
	for name, tc := range map[string]struct {
		fail func(path string, n int) int
		want string
	}{
		"model unavailable": {func(_ string, n int) int { return statusIf(n > 4, 503) }, "503 Service Unavailable"},
		"feedback refused":  {func(path string, _ int) int { return statusIf(path == "/v1/feedback", 400) }, "demo: /feedback: 400"},
		"empty response":    {func(path string, _ int) int { return statusIf(path != "/v1/feedback", 200) }, "demo: no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWorld(1)
			p := newRecordingProxy(t, w, tc.fail)
			err := p.fleet(t, w, 3, 40).Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Run: err = %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestFleetStopsWhenContextEnds(t *testing.T) {
	w := NewWorld(1)
	ctx, cancel := context.WithCancel(t.Context())
	p := newRecordingProxy(t, w, func(_ string, n int) int {
		if n == 10 {
			cancel()
		}
		return 0
	})
	f := p.fleet(t, w, 2, 1_000_000)
	if err := f.Run(ctx); err == nil {
		t.Error("Run with a context that is cancelled at request 10: err = nil, want an error")
	}
	if done, _ := f.Done(); done > 10 {
		t.Errorf("Run with a context that is cancelled at request 10: got %d finished sessions, want at most 10", done)
	}
	f = p.fleet(t, w, 2, 1)
	f.BaseURL = "::"
	if err := f.Run(t.Context()); err == nil {
		t.Error(`Run with the base URL "::": err = nil, want an error`)
	}
}
