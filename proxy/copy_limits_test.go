package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// sendTurns sends four requests without a session name, each with the call in the previous reply.
func sendTurns(t *testing.T, f *fixture, up *upstream, callID func(reply []byte) string) (sessions int, last string) {
	t.Helper()
	a := newAgent("alpha: Write the parser of invoices.")
	names := map[string]bool{}
	for range 4 {
		res, reply := f.send(t, "POST", chatPath, nil, a.body())
		names[res.Header.Get("Precept-Session")] = true
		a.addCall(callID(reply), "ls", "x")
	}
	return len(names), string(up.lastRequest(t).body)
}

// precept copies a reply only up to limits.capture_bytes, but also reads the ids of later calls.
func TestCaptureLimitDoesNotSplitASession(t *testing.T) {
	for _, limit := range []string{"1MiB", "1000", "100", "0"} {
		up := newUpstream(t, callingModel())
		flags := injectAll()
		flags["limits.capture_bytes"] = limit
		f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
		sessions, last := sendTurns(t, f, up, func(reply []byte) string { return firstCallID(t, reply) })
		if sessions != 1 {
			t.Errorf("limits.capture_bytes %s: sessions = %d, want 1", limit, sessions)
		}
		if !strings.Contains(last, "Lessons from past") {
			t.Errorf(`limits.capture_bytes %s: last = %q, want substring "Lessons from past"`, limit, last)
		}
	}
}

// The copy of each reply exceeds limits.capture_total_bytes. precept drops the copy, but still reads the call id.
func TestDroppedCopyDoesNotSplitASession(t *testing.T) {
	for _, stream := range []bool{false, true} {
		t.Run(fmt.Sprint("stream=", stream), func(t *testing.T) {
			var n atomic.Int64
			id := func() string { return randomCallID(n.Load()) }
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				n.Add(1)
				if !stream {
					w.Header().Set("Content-Type", "application/json")
					fmt.Fprintf(w, `{"id":"c","model":"m","choices":[{"index":0,"finish_reason":"tool_calls","message":{"role":"assistant","content":"%s","tool_calls":[{"id":%q,"type":"function","function":{"name":"bash","arguments":"{}"}}]}}]}`, strings.Repeat("Let me think. ", 100), id())
					return
				}
				w.Header().Set("Content-Type", "text/event-stream")
				for range 100 {
					_, _ = io.WriteString(w, `data: {"id":"c","choices":[{"index":0,"delta":{"content":"Let me think. "}}]}`+"\n\n")
				}
				fmt.Fprintf(w, `data: {"id":"c","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":%q,"type":"function","function":{"name":"bash","arguments":"{}"}}]}}]}`+"\n\n", id())
				_, _ = io.WriteString(w, `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`+"\n\ndata: [DONE]\n\n")
			})
			flags := injectAll()
			flags["limits.capture_total_bytes"] = "1KiB"
			f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
			if sessions, last := sendTurns(t, f, up, func([]byte) string { return id() }); sessions != 1 {
				t.Errorf("sessions = %d, want 1", sessions)
			} else if !strings.Contains(last, "Lessons from past") {
				t.Errorf(`sessions: last = %q, want substring "Lessons from past"`, last)
			}
		})
	}
}
