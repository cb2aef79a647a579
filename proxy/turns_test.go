package proxy_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"precept/internal/sample"
	"precept/internal/session"
)

func TestLessonIsInsertedAgainAfterCompaction(t *testing.T) {
	for _, api := range []string{"chat", "responses", "messages"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			up := newUpstream(t, newModel(t))
			f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
			h := http.Header{"X-Session-Id": {"ses_" + api}, "User-Agent": {"test/1"}}
			a := newAPIAgent(api, "do alpha")
			for i := range 3 {
				_, call, _ := a.sendNext(t, f, h)
				a.addCall(call, fmt.Sprint("cat ", i), fmt.Sprint("line ", i), false)
			}
			side := *a
			side.extra = obj{"tools": []any{}}
			side.history = append(slices.Clip(side.history), historyItem{kind: "user", text: "Summarize the conversation so far for a hand-over."})
			body := side.body()
			if f.send(t, "POST", a.path(), h, body); string(up.lastRequest(t).body) != body {
				t.Errorf("request for a summary: the upstream got %s, want %s", up.lastRequest(t).body, body)
			}
			a.history = []historyItem{a.history[0], {kind: "user", text: "What did we do so far?"}, {kind: "text", text: "We read three files."}, {kind: "user", text: "Continue if you have next steps."}}
			_, call, list := a.sendNext(t, f, h)
			if strings.Count(list, "[one]") != 1 {
				t.Errorf(`list after the compaction: count of "[one]" = %d, want 1`, strings.Count(list, "[one]"))
			}
			if strings.Index(list, "[one]") < strings.Index(list, "three files") {
				t.Errorf(`list after the compaction: Index(list, "[one]") = %d, want at least %d`, strings.Index(list, "[one]"), strings.Index(list, "three files"))
			}
			a.addCall(call, "ls", "x", false)
			_, _, next := a.sendNext(t, f, h)
			if !strings.HasPrefix(next, list) || strings.Count(next, "[one]") != 1 {
				t.Errorf("next turn's list:\n%s\nwant [one] exactly once, and the previous list at the start:\n%s", next, list)
			}
			x := storedExchangesIn(t, f, session.NamespaceXSession, "ses_"+api)["default"]
			if n := len(x); n != 5 {
				t.Errorf("stored exchanges = %d, want 5", n)
			} else if x[n-1].Turn != 5 {
				t.Errorf("[n-1].Turn = %d, want 5", x[n-1].Turn)
			}
		})
	}
}

// opencode sends the session id even in side requests (agent housekeeping), which are not turns in the session.
func TestSideRequestsInNamedSession(t *testing.T) {
	user := func(text string) obj { return obj{"role": "user", "content": text} }
	tools := func(names ...string) []obj {
		var all []obj
		for _, n := range names {
			all = append(all, obj{"type": "function", "function": obj{"name": n}})
		}
		return all
	}
	up := newUpstream(t, newModel(t))
	flags := injectAll()
	flags["debug_headers"] = "true"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	h := http.Header{"X-Session-Id": {"ses_side"}, "User-Agent": {"opencode/1.18.33 ai-sdk/x"}}
	send := func(body obj) string {
		b, _ := json.Marshal(body)
		res, _ := f.send(t, "POST", chatPath, h, string(b))
		if got := up.lastRequest(t).body; bytes.Equal(got, b) != strings.HasPrefix(res.Header.Get("Precept-Skip"), "side:") {
			t.Errorf("Precept-Skip %q: the upstream got %s, want the client's bytes if and only if the header begins with side:", res.Header.Get("Precept-Skip"), got)
		}
		return res.Header.Get("Precept-Skip")
	}
	system := obj{"role": "system", "content": "You build things."}
	main := []obj{system, user("do alpha")}
	work := tools("bash", "read", "write")
	for _, tc := range []struct {
		name string
		body obj
		side bool
	}{
		{"title before the first turn", obj{"messages": []obj{{"role": "system", "content": "Name it."}, user("Generate a title for this conversation:"), user("do alpha")}}, true},
		{"first turn", obj{"messages": main, "tools": work}, false},
		{"question without tools", obj{"messages": []obj{user("alpha in one word?")}}, true},
		{"question with an empty tool list", obj{"messages": []obj{system, user("alpha?")}, "tools": []obj{}}, true},
		{"compaction with all tools", obj{"messages": append(main[:2:2], user("CRITICAL: Respond with TEXT ONLY. Do NOT call any tools.\n\nSummarise alpha.")), "tools": work}, true},
		{"memory request with different tools", obj{"messages": append([]obj{{"role": "system", "content": "Keep notes."}}, main[1], user("Write down what matters of alpha.")), "tools": tools("remember", "forget", "recall")}, true},
		{"memory request that begins with the conversation", obj{"messages": []obj{{"role": "system", "content": "Keep notes."}, main[1], {"role": "assistant", "content": "I look."}, user("Write down what matters of alpha.")}, "tools": tools("remember")}, true},
		{"second turn", obj{"messages": append(main[:2:2], obj{"role": "assistant", "content": "done"}, user("more")), "tools": work}, false},
	} {
		if skip := send(tc.body); strings.HasPrefix(skip, "side:") != tc.side {
			t.Errorf("%s: Precept-Skip = %q, want the prefix \"side:\" = %t", tc.name, skip, tc.side)
		}
	}
	x := storedExchangesIn(t, f, session.NamespaceXSession, "ses_side")["default"]
	if len(x) != 2 {
		t.Fatalf("exchanges = %+v, want 2 exchanges", x)
	}
	if x[0].Turn != 1 {
		t.Errorf("Turn = %d, want 1", x[0].Turn)
	}
	if x[1].Turn != 2 {
		t.Errorf("[1].Turn = %d, want 2", x[1].Turn)
	}
}

func TestSideRequestStartsNoSession(t *testing.T) {
	up := newUpstream(t, newModel(t))
	flags := injectAll()
	flags["debug_headers"] = "true"
	f := newFixture(t, up, "", newBook(t, "one: alpha"), flags)
	for _, system := range []string{"You are a title generator.", "You are an expert at writing Git commits. Write a short commit message."} {
		b, _ := json.Marshal(obj{"messages": []obj{{"role": "system", "content": system}, {"role": "user", "content": "do alpha"}}})
		res, _ := f.send(t, "POST", chatPath, bearerHeader("k"), string(b))
		if got := up.lastRequest(t).body; !bytes.Equal(got, b) {
			t.Errorf("%s: got %.60q, want %.60q", system, got, b)
		} else if !strings.HasPrefix(res.Header.Get("Precept-Skip"), "side:") {
			t.Errorf(`%s: Precept-Skip = %q, want prefix "side:"`, system, res.Header.Get("Precept-Skip"))
		}
	}
	if n := counterTotal(f.Options().Metrics.Series("sessions")); n != 0 {
		t.Errorf("sessions_total after the side requests = %v, want 0", n)
	}
	if failed := counterTotal(f.Options().Metrics.Series("fail_open")); failed != 0 {
		t.Errorf("fail_open_total = %v, want 0", failed)
	}
	a := newAPIAgent("chat", "do alpha")
	if _, _, list := a.sendNext(t, f, bearerHeader("k")); strings.Count(list, "[one]") != 1 {
		t.Errorf("first turn: the upstream got %s, want [one] exactly once", list)
	}
	if n := counterTotal(f.Options().Metrics.Series("sessions")); n != 1 {
		t.Errorf("sessions_total after one conversation = %v, want 1", n)
	}
}

// An agent repeats each failed request until the model answers. precept must count a loop only once, in spite of the
// retries.
func TestRetryBelongsToSameTurn(t *testing.T) {
	for name, failingReply := range map[string]http.HandlerFunc{
		"429": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTooManyRequests) },
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"stream cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: {\"id\":\"c\",\"choices\":[{\"delta\":{\"content\":\"par\"}}]}\n\n")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		},
		"stream without a reply": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, ": nothing\n\n")
		},
	} {
		for _, named := range []bool{true, false} {
			t.Run(fmt.Sprint(name, " named=", named), func(t *testing.T) { t.Parallel(); sendWithRetries(t, failingReply, named) })
		}
	}
}

// sendWithRetries sends three turns, each with two failed attempts before the successful one.
func sendWithRetries(t *testing.T, failingReply http.HandlerFunc, named bool) {
	t.Helper()
	var failing atomic.Bool
	model := newModel(t)
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if failing.Load() {
			failingReply(w, r)
			return
		}
		model(w, r)
	})
	f := newFixture(t, up, "", newBook(t, "one: alpha", "two: alpha", "three: no rule to make"), map[string]string{"bandit.epsilon": "0.3", "bandit.control": "0"})
	h := bearerHeader("k", "User-Agent", "test/1")
	if named {
		h.Set("Precept-Session", "retry")
	}
	a, c := newAPIAgent("chat", "do alpha"), client(t)
	session := ""
	for turn := range 3 {
		var bodies []string
		for attempt := range 3 {
			failing.Store(attempt < 2)
			req, err := http.NewRequestWithContext(t.Context(), "POST", f.url+chatPath, strings.NewReader(a.body()))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = h.Clone()
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
			bodies = append(bodies, string(up.lastRequest(t).body))
			if session == "" {
				session = res.Header.Get("Precept-Session")
			}
			if got := res.Header.Get("Precept-Session"); got != session {
				t.Errorf("turn %d, attempt %d: session = %s, want %s", turn, attempt, got, session)
			}
			if attempt == 2 {
				a.addCall(res.Header.Get("X-Call"), "make x", "make: *** No rule to make target 'x'.  Stop.\nExit code 2", true)
			}
		}
		if bodies[0] != bodies[1] {
			t.Errorf("turn %d: bodies[0] = %q, want %q", turn, bodies[0], bodies[1])
		}
		if bodies[0] != bodies[2] {
			t.Errorf("turn %d: bodies[0] = %q, want %q", turn, bodies[0], bodies[2])
		}
	}
	loops, complete := 0, 0
	for i, x := range defaultTenantExchanges(t, f, session) {
		loops += x.Loops
		if x.Outcome == sample.Complete {
			complete++
		}
		if want := i/3 + 1; x.Turn != want {
			t.Errorf("exchange %d: turn = %d, want %d", i, x.Turn, want)
		}
	}
	if loops != 1 {
		t.Errorf("loops = %d, want 1", loops)
	}
	if complete != 3 {
		t.Errorf("complete = %d, want 3", complete)
	}
}

// The client gets a refusal only if the upstream also refuses the request without lessons.
func TestRefusedRequestIsRetriedWithoutLessons(t *testing.T) {
	for _, status := range []int{400, 413, 422} {
		for _, api := range []string{"chat", "responses", "messages"} {
			t.Run(fmt.Sprint(status, " ", api), func(t *testing.T) {
				t.Parallel()
				var always atomic.Bool
				model := newModel(t)
				up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
					b, _ := io.ReadAll(r.Body)
					if always.Load() || bytes.Contains(b, []byte("[one]")) {
						w.WriteHeader(status)
						fmt.Fprintf(w, `{"error":"refused %d bytes"}`, len(b))
						return
					}
					r.Body = io.NopCloser(bytes.NewReader(b))
					model(w, r)
				})
				f := newFixture(t, up, "", newBook(t, "one: alpha"), injectAll())
				h := http.Header{"Precept-Session": {"refused"}}
				a := newAPIAgent(api, "do alpha")
				_, call, _ := a.sendNext(t, f, h)
				if n := up.requestCount(); n != 2 {
					t.Errorf("requests = %d, want 2", n)
				} else if string(up.lastRequest(t).body) != a.body() {
					t.Errorf("the upstream: body = %q, want %q", string(up.lastRequest(t).body), a.body())
				}
				a.addCall(call, "ls", "x", false)
				a.addUserMessage("alpha again")
				a.sendNext(t, f, h)
				if n := up.requestCount(); n != 3 {
					t.Errorf("requests = %d, want 3", n)
				}
				always.Store(true)
				body := newAPIAgent(api, "do alpha").body()
				res, b := f.send(t, "POST", a.path(), http.Header{"Precept-Session": {"both"}}, body)
				if want := fmt.Sprintf(`{"error":"refused %d bytes"}`, len(body)); res.StatusCode != status {
					t.Errorf("both requests refused: status = %d, want %d, body %s", res.StatusCode, status, b)
				} else if string(b) != want {
					t.Errorf("both requests refused: body = %q, want %q", string(b), want)
				}
			})
		}
	}
}
