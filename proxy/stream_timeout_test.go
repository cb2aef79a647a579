package proxy

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"precept/internal/session"
	"precept/store"
)

// A comment line keeps a stream open, although a comment is not an event.
func TestIdleStreamIsCutAtLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, pieces = time.Minute, 6
		fromUpstream, upstream := io.Pipe()
		start := time.Now()
		f := &forwarder{
			p: &Proxy{opts: Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)}}, w: &clientWriter{id: "req_1"},
			r: httptest.NewRequest("POST", "/v1/chat/completions", nil), out: &outgoing{target: &target{}}, observer: noObserver{},
		}
		w := &f.reply
		w.limit(f, fromUpstream, limit)
		go func() {
			for range pieces {
				time.Sleep(limit - time.Second)
				_, _ = io.WriteString(upstream, ": keep-alive\n\n")
			}
		}()
		got, err := io.ReadAll(w)
		if err == nil {
			t.Error("error = nil, want an error")
		}
		if strings.Count(string(got), ": keep-alive") != pieces {
			t.Errorf(`keep-alive") = %d, want %d`, strings.Count(string(got), ": keep-alive"), pieces)
		}
		if cut, want := time.Since(start), pieces*(limit-time.Second)+limit; cut != want {
			t.Errorf("stream was cut after %v, want %v", cut, want)
		}
	})
}

// A mailbox holds the answers to a session's /lesson commands until the next turn collects them.
func TestEmptyMailboxCollectDoesNotAllocate(t *testing.T) {
	m := mailbox{pending: &pendingReplies{}, ses: &store.Session{Record: &session.Record{}}}
	if n := testing.AllocsPerRun(100, func() { m.collect(t.Context()) }); n != 0 {
		t.Errorf("collect without a pending answer: allocations = %v, want 0", n)
	}
}
