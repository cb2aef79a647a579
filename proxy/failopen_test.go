package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
	"precept/store/sqlite"
)

const alphaRequest = `{"messages":[{"role":"user","content":"alpha"}]}`

// blockedBackend blocks writes until the gate opens.
type blockedBackend struct {
	backend
	gate chan struct{}
}

func (bb blockedBackend) Write(ctx context.Context, b session.Batch) error {
	select {
	case <-bb.gate:
		return bb.backend.Write(ctx, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// When the store accepts writes again, precept writes all exchanges.
func TestHangingStoreDoesNotDelayTurns(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "precept.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	f := newFixtureOn(t, newUpstream(t, nil), blockedBackend{db, gate}, newBook(t, "one: alpha"), injectAll())
	for i := range 20 {
		h := http.Header{"Precept-Session": {fmt.Sprint("hangs-", i/2)}}
		f.chat(t, h, `{"messages":[{"role":"user","content":"alpha"},{"role":"assistant","content":"fine"},{"role":"user","content":"and now?"}]}`)
	}
	if n := f.Options().Tally.Exchanges.Load(); n != 0 {
		t.Errorf("exchanges written to a hanging store = %d, want 0", n)
	}
	close(gate)
	eventually(t, func() bool { return f.Options().Tally.Exchanges.Load() == 20 && f.Options().Store.Problem() == "" })
}

type failingBackend struct{ store.NullBackend }

func (failingBackend) Session(context.Context, string, session.ID) (session.Row, bool, error) {
	return session.Row{}, false, errors.New("broken")
}

func (failingBackend) Write(context.Context, session.Batch) error { return errors.New("broken") }

func (failingBackend) FindEcho(context.Context, string, []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return nil, errors.New("broken")
}

func (failingBackend) Exchanges(context.Context, string, session.ID) ([]sample.Exchange, error) {
	return nil, errors.New("broken")
}

// With a failing store, requests still get lessons, and /readyz responds with 200. Feedback gets a 503.
func TestRequestsWithFailingStore(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixtureOn(t, up, failingBackend{}, newBook(t, "one: alpha"), injectAll())
	f.chat(t, http.Header{"Precept-Session": {"a"}}, alphaRequest)
	f.chat(t, nil, alphaRequest)
	if !strings.Contains(string(up.lastRequest(t).body), "[one]") {
		t.Errorf("failing store: the upstream got %s, want lesson one", up.lastRequest(t).body)
	}
	if res, body := f.send(t, "GET", "/readyz", nil, ""); res.StatusCode != 200 {
		t.Errorf("failing store: /readyz: got status %d, body %s, want status 200", res.StatusCode, body)
	}
	eventually(t, func() bool { return f.Options().Store.Problem() != "" })
	if res, body := f.send(t, "POST", "/v1/feedback", nil, `{"session_id":"nobody","source":"user","type":"approval"}`); res.StatusCode != 503 {
		t.Errorf("failing store: status = %d, want 503, body %s", res.StatusCode, body)
	} else if res.Header.Get("Retry-After") == "" {
		t.Error("failing store: Retry-After is empty")
	}
}

// store.NullBackend stores nothing. Sessions keep the lessons in memory, and a metric counts each turn as not stored.
func TestNullBackendKeepsLessonsInMemory(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixtureOn(t, up, store.NullBackend{}, newBook(t, "one: alpha"), injectAll())
	f.chat(t, http.Header{"Precept-Session": {"a"}}, alphaRequest)
	f.chat(t, http.Header{"Precept-Session": {"a"}}, `{"messages":[{"role":"user","content":"alpha"},{"role":"assistant","content":"fine"},{"role":"user","content":"and now?"}]}`)
	if got := string(up.lastRequest(t).body); strings.Count(got, "[one]") != 1 {
		t.Errorf("second turn: the upstream got %s, want [one] exactly once", got)
	}
	eventually(t, func() bool { return f.Options().Tally.DroppedReadOnly.Load() == 2 })
}

func TestPanicInDecideForwardsClientBytes(t *testing.T) {
	up := newUpstream(t, nil)
	f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	f.MakeDecisionsPanic()
	f.chat(t, http.Header{"Precept-Session": {"a"}}, alphaRequest)
	if got := string(up.lastRequest(t).body); got != alphaRequest {
		t.Errorf("panic in decide: the upstream got %s, want the client's body %s", got, alphaRequest)
	}
	if n := f.counter("fail_open", "decide"); n != 1 {
		t.Errorf("fail_open_total{step=decide} = %v, want 1", n)
	}
	f.chat(t, http.Header{"Precept-Session": {"a"}}, alphaRequest) // blocks forever if the session is still locked
}
