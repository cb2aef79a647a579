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

// What comes, be it a comment, keeps a stream open; when nothing has come for the limit it is cut.
func TestIdleLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, pieces = time.Minute, 6
		from, to := io.Pipe()
		begun := time.Now()
		f := &forwarding{
			p: &Proxy{opts: Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)}}, w: &clientWriter{id: "req_1"},
			r: httptest.NewRequest("POST", "/v1/chat/completions", nil), out: &outgoing{target: &target{}}, observer: bystander{},
		}
		w := &f.reply
		w.limit(f, from, limit)
		go func() {
			for range pieces {
				time.Sleep(limit - time.Second)
				_, _ = io.WriteString(to, ": keep-alive\n\n")
			}
		}()
		got, err := io.ReadAll(w)
		if err == nil || strings.Count(string(got), ": keep-alive") != pieces {
			t.Errorf("ended with %v after %q", err, got)
		}
		if cut, want := time.Since(begun), pieces*(limit-time.Second)+limit; cut != want {
			t.Errorf("cut after %v, want %v", cut, want)
		}
	})
}

// A turn that waits for no answers, as nearly all do, takes no timer.
func TestNoAnswersNoTimer(t *testing.T) {
	m := mailbox{pending: &pendingReplies{}, ses: &store.Session{Record: &session.Record{}}}
	if n := testing.AllocsPerRun(100, func() { m.collect(t.Context()) }); n != 0 {
		t.Errorf("%v allocations where nothing is waited for", n)
	}
}
