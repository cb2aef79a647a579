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

	"github.com/prometheus/client_golang/prometheus/testutil"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/store"
	"precept/store/sqlite"
)

const alpha = `{"messages":[{"role":"user","content":"alpha"}]}`

// blockedBackend is a backend that blocks writes until its gate opens.
type blockedBackend struct {
	backend
	gate chan struct{}
}

func (s blockedBackend) Write(ctx context.Context, b session.Batch) error {
	select {
	case <-s.gate:
		return s.backend.Write(ctx, b)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// While writes to the store hang, turns are served. Their exchanges are written when the store continues.
func TestHangingStoreDoesNotDelayTurns(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "precept.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	gate := make(chan struct{})
	r := newFixtureOn(t, newUpstream(t, nil), blockedBackend{db, gate}, newBook(t, "one: alpha"), injectAll())
	for i := range 20 {
		h := http.Header{"Precept-Session": {fmt.Sprint("hangs-", i/2)}}
		r.chat(t, h, `{"messages":[{"role":"user","content":"alpha"},{"role":"assistant","content":"fine"},{"role":"user","content":"and now?"}]}`)
	}
	if n := r.Options().Tally.Exchanges.Load(); n != 0 {
		t.Errorf("exchanges written to a hanging store = %d, want 0", n)
	}
	close(gate)
	eventually(t, func() bool { return r.Options().Tally.Exchanges.Load() == 20 && r.Options().Store.Problem() == "" })
}

// failing is a backend that cannot read or write sessions.
type failing struct{ store.Volatile }

func (failing) Session(context.Context, string, session.ID) (session.Row, bool, error) {
	return session.Row{}, false, errors.New("broken")
}

func (failing) Write(context.Context, session.Batch) error { return errors.New("broken") }

func (failing) FindEcho(context.Context, string, []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	return nil, errors.New("broken")
}

func (failing) Exchanges(context.Context, string, session.ID) ([]sample.Exchange, error) {
	return nil, errors.New("broken")
}

func TestBrokenStoreKeepsLessonsAndRefusesFeedback(t *testing.T) {
	up := newUpstream(t, nil)
	r := newFixtureOn(t, up, failing{}, newBook(t, "one: alpha"), injectAll())
	r.chat(t, http.Header{"Precept-Session": {"a"}}, alpha)
	r.chat(t, nil, alpha)
	if !strings.Contains(string(up.last(t).body), "[one]") {
		t.Errorf("failing store: the upstream got %s, want lesson one", up.last(t).body)
	}
	if res, body := r.send(t, "GET", "/readyz", nil, ""); res.StatusCode != 200 {
		t.Errorf("failing store: /readyz: got status %d, body %s, want status 200", res.StatusCode, body)
	}
	eventually(t, func() bool { return r.Options().Store.Problem() != "" })
	if res, body := r.send(t, "POST", "/v1/feedback", nil, `{"session_id":"nobody","source":"user","type":"approval"}`); res.StatusCode != 503 || res.Header.Get("Retry-After") == "" {
		t.Errorf("failing store: feedback: got status %d, headers %v, body %s, want status 503 with Retry-After", res.StatusCode, res.Header, body)
	}
}

// With a volatile store, precept still injects lessons and repeats them in later turns, and counts each turn that it
// does not store.
func TestVolatileStoreKeepsLessonsInMemory(t *testing.T) {
	up := newUpstream(t, nil)
	r := newFixtureOn(t, up, store.Volatile{}, newBook(t, "one: alpha"), injectAll())
	r.chat(t, http.Header{"Precept-Session": {"a"}}, alpha)
	r.chat(t, http.Header{"Precept-Session": {"a"}}, `{"messages":[{"role":"user","content":"alpha"},{"role":"assistant","content":"fine"},{"role":"user","content":"and now?"}]}`)
	if got := string(up.last(t).body); strings.Count(got, "[one]") != 1 {
		t.Errorf("second turn: the upstream got %s, want [one] exactly once", got)
	}
	eventually(t, func() bool { return r.Options().Tally.DroppedReadOnly.Load() == 2 })
}

// If a step of precept panics, the client's bytes are forwarded, and the panic is counted.
func TestPanickingStepForwardsClientBytes(t *testing.T) {
	up := newUpstream(t, nil)
	r := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
	r.BreakDeciding()
	r.chat(t, http.Header{"Precept-Session": {"a"}}, alpha)
	if got := string(up.last(t).body); got != alpha {
		t.Errorf("the upstream got %s, want %s", got, alpha)
	}
	if n := testutil.ToFloat64(r.Options().Metrics.Series("fail_open").WithLabelValues("decide")); n != 1 {
		t.Errorf("metric of failures with step decide = %v, want 1", n)
	}
	r.chat(t, http.Header{"Precept-Session": {"a"}}, alpha) // blocks forever if the panic left the session locked
}
