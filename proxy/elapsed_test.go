package proxy

import (
	"io"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"precept/session"
	"precept/store"
)

// setBack is a time that was read from a clock on the wall which somebody had set by d: what has
// passed since any other time is what it was. The package time has no other way to make one.
func setBack(at time.Time, d time.Duration) time.Time {
	(*struct {
		wall uint64 // a bit, 33 bits of seconds, 30 of nanoseconds
		ext  int64  // the reading that is never set
		loc  *time.Location
	})(unsafe.Pointer(&at)).wall -= uint64(d/time.Second) << 30
	return at
}

// toldShut is a reply's body that knows that it was closed.
type toldShut struct {
	io.Reader
	shut bool
}

func (b *toldShut) Close() error { b.shut = true; return nil }

// The clock on the wall is set by an hour while a read waits: the stream is neither cut, nor kept
// open for an hour more.
func TestIdleLimitWhileTheClockIsSet(t *testing.T) {
	const limit = time.Minute
	for name, k := range map[string]struct {
		set, waited time.Duration
		cut         bool
	}{
		"set ahead":                       {-time.Hour, limit / 2, false},
		"set back":                        {time.Hour, limit / 2, false},
		"set back, and nothing has come":  {time.Hour, 2 * limit, true},
		"set ahead, and nothing has come": {-time.Hour, 2 * limit, true},
	} {
		first := time.Now()
		now := first
		body := &toldShut{Reader: strings.NewReader("a piece")}
		tn := &turn{}
		tn.p = &Proxy{opts: Options{Now: func() time.Time { return now }}}
		tn.watch.first = first
		w := &tn.watch.body
		w.watch(tn, body, limit)
		w.since.Store(1) // a read has begun with the headers
		now = setBack(first.Add(k.waited), k.set)
		if got := now.Round(0).Sub(first.Round(0)); got != k.waited-k.set {
			t.Fatalf("%s: the clock on the wall says that %v have passed, want %v", name, got, k.waited-k.set)
		}
		w.checkIdle()
		if body.shut != k.cut {
			t.Errorf("%s: cut is %v after %v, with a limit of %v", name, body.shut, k.waited, limit)
		}
		_ = w.Close()
	}
}

// What comes, be it a comment, keeps a stream open; when nothing has come for the limit it is cut.
func TestIdleLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit, pieces = time.Minute, 6
		from, to := io.Pipe()
		tn := &turn{}
		tn.p = &Proxy{opts: Options{Now: time.Now, Log: slog.New(slog.DiscardHandler)}}
		tn.w, tn.target, tn.r = &clientWriter{id: "req_1"}, &target{}, httptest.NewRequest("POST", chatPath, nil)
		tn.watch.first = time.Now()
		w := &tn.watch.body
		w.watch(tn, from, limit)
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
		if cut, want := time.Since(tn.watch.first), pieces*(limit-time.Second)+limit; cut != want {
			t.Errorf("cut after %v, want %v", cut, want)
		}
	})
}

// A turn that waits for no answers, as nearly all do, takes no timer.
func TestNoAnswersNoTimer(t *testing.T) {
	tn := &turn{}
	tn.p, tn.ses, tn.r = &Proxy{commands: newCommandQueue()}, &store.Session{Record: &session.Record{}}, httptest.NewRequest("POST", chatPath, nil)
	if n := testing.AllocsPerRun(100, func() { tn.mailbox().collect(t.Context()) }); n != 0 {
		t.Errorf("%v allocations where nothing is waited for", n)
	}
}
