package proxy_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/sqlite"
)

type failingLookupBackend struct {
	backend
	unreachable atomic.Bool
}

func (l *failingLookupBackend) FindEcho(ctx context.Context, tenant string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, error) {
	if l.unreachable.Load() {
		return nil, errors.New("no answer in time")
	}
	return l.backend.FindEcho(ctx, tenant, keys)
}

// A replica that cannot reach the store does not find the conversation's session, and starts a new session without
// lessons. When the store responds again, requests belong to the first session.
func TestFailedSessionLookupStartsExcludedSession(t *testing.T) {
	flags := injectAll()
	book, dir := newBook(t, "one: build"), t.TempDir()
	up := newUpstream(t, callingModel())
	f := newFixture(t, up, dir, book, flags)
	a := newAgent("Fix the build.")
	res, reply := f.send(t, "POST", chatPath, nil, a.body())
	first := res.Header.Get("Precept-Session")
	if !bytes.Contains(up.lastRequest(t).body, []byte("[one]")) {
		t.Fatalf("first turn: the upstream got %s, want lesson one", up.lastRequest(t).body)
	}
	a.addCall(firstCallID(t, reply), "ls", "x")
	f.stop()

	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "precept.db"), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	lookups := &failingLookupBackend{backend: db}
	lookups.unreachable.Store(true)
	f = newFixtureOn(t, up, lookups, book, flags)
	res, reply = f.send(t, "POST", chatPath, nil, a.body())
	if got := res.Header.Get("Precept-Session"); got == first {
		t.Errorf("failed lookup: session = %q, want a new one", got)
	} else if bytes.Contains(up.lastRequest(t).body, []byte("[one]")) {
		t.Errorf("failed lookup: body = %s, want no [one]", up.lastRequest(t).body)
	}
	if n := f.counter("excluded", "late"); n != 1 {
		t.Errorf("sessions_excluded_total{reason=late} = %v, want 1", n)
	}
	a.addCall(firstCallID(t, reply), "ls", "x")
	lookups.unreachable.Store(false)
	for turn := range 2 {
		res, reply = f.send(t, "POST", chatPath, nil, a.body())
		if got := res.Header.Get("Precept-Session"); got != first {
			t.Errorf("turn %d = %q, want %q", turn+3, got, first)
		} else if bytes.Count(up.lastRequest(t).body, []byte("[one]")) != 1 {
			t.Errorf(`turn %d: count of [one] = %d, want 1`, turn+3, bytes.Count(up.lastRequest(t).body, []byte("[one]")))
		}
		a.addCall(firstCallID(t, reply), "ls", "x")
	}
	if n := f.counter("excluded", "late"); n != 1 {
		t.Errorf("sessions_excluded_total{reason=late} = %v, want 1", n)
	}
}
