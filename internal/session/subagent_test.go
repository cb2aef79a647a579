package session_test

import (
	"encoding/binary"
	"net/http"
	"testing"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
)

// newThreader returns a threader with numbered session names instead of random ones.
func newThreader() *session.Threader {
	n := uint64(0)
	return session.NewThreader(func() (e [16]byte) {
		n++
		binary.BigEndian.PutUint64(e[8:], n)
		return e
	})
}

func newClaim(t *testing.T, req *wire.Request, headers ...string) session.Claim {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return session.Identify(h, "/v1/chat/completions", req)
}

const randomID = "toolu_01A09q90qw90lq917835lq9"

func callMessage(id string) string {
	return `{"role":"assistant","content":null,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"sh","arguments":"{}"}}]}`
}

func resultMessage(id, text string) string {
	return `{"role":"tool","tool_call_id":"` + id + `","content":"` + text + `"}`
}

func TestResolveSubagentStartsOwnSession(t *testing.T) {
	threader := newThreader()
	resolve := func(req *wire.Request) (session.Resolved, session.Claim) {
		c := newClaim(t, req, "Precept-Session", "parent")
		return threader.Resolve(testScope, c, req, testStart, nil), c
	}
	reply := func(r session.Resolved, rep wire.Reply) {
		rep.Complete = true
		threader.RecordReply(r, &rep, true)
		threader.RecordEnd(r, true, testStart)
	}
	lead := agentRequest(t, "You lead.", []string{"delegate"}, userMessage("go"))
	leader, _ := resolve(lead)
	reply(leader, wire.Reply{Text: "I delegate it"})

	task := []string{userMessage("count the files")}
	first := agentRequest(t, "You count.", []string{"sh"}, task...)
	parent, c := resolve(first)
	if parent.ID != leader.ID {
		t.Fatalf("request with the parent's session name: got session %s, want parent %s", parent.ID, leader.ID)
	}
	if _, ok := threader.ResolveSubagent(parent, c, false, testStart, nil); ok {
		t.Error("ResolveSubagent(later request with unknown echoes) = true, want false")
	}
	sub, ok := threader.ResolveSubagent(parent, c, true, testStart, nil)
	if !ok || sub.ID == leader.ID || !sub.New {
		t.Fatalf("ResolveSubagent(first request) = %+v, %v, want a new session other than %v, true", sub, ok, leader.ID)
	}
	reply(sub, wire.Reply{Calls: []wire.Call{{ID: randomID, Name: "sh", Args: "{}"}}})

	second := agentRequest(t, "You count.", []string{"sh"}, append(task, callMessage(randomID), resultMessage(randomID, "3"))...)
	parent, c = resolve(second)
	repeated, ok := threader.ResolveSubagent(parent, c, false, testStart, nil)
	if !ok || repeated.ID != sub.ID || repeated.Method != session.ByEcho {
		t.Errorf("sub-agent's next turn: got session %v (found by %s), ok = %v, want %v (found by echo), true", repeated.ID, repeated.Method, ok, sub.ID)
	}
	if next, _ := resolve(agentRequest(t, "You lead.", []string{"delegate"}, userMessage("go"), assistantMessage("I delegate it"), userMessage("and"))); next.ID != leader.ID {
		t.Errorf("parent's next request: got session %s, want %s", next.ID, leader.ID)
	}
}

// While a request is in progress, a changed request starts a new session.
func TestChangedRequestAfterFailureKeepsSession(t *testing.T) {
	threader := newThreader()
	resolve := func(messages ...string) session.Resolved {
		return threader.Resolve(testScope, session.Claim{}, parseChat(t, messages...), testStart, nil)
	}
	start := resolve(userMessage("go"))
	threader.RecordReply(start, &wire.Reply{Complete: true, Text: "I have looked at it, and this is what I would do next: nothing at all"}, true)
	threader.RecordEnd(start, true, testStart)
	reply := assistantMessage("I have looked at it, and this is what I would do next: nothing at all")
	failed := resolve(userMessage("go"), reply, userMessage("once more"))
	threader.RecordEnd(failed, false, testStart)
	// The agent rewrote the first message, so only the reply connects the request with the session.
	next := resolve(userMessage("go, it is noon"), reply, userMessage("do it otherwise"))
	if failed.ID != start.ID || next.ID != start.ID {
		t.Errorf("failed request: got session %s, next request: got session %s (found by %s), want %s for both", failed.ID, next.ID, next.Method, start.ID)
	}
	if concurrent := resolve(userMessage("go, it is one"), reply, userMessage("or so")); concurrent.ID == start.ID {
		t.Error("a different request joined a session with a request in progress, want a new session")
	}
}

// The cache key in a request becomes the session name. HasUniqueName returns true only for the agents that use a
// different key in each conversation. Their product name can have a suffix, as in codex_cli_rs.
func TestKnownAgentsHaveUniqueCacheKeys(t *testing.T) {
	body := `{"model":"m","prompt_cache_key":"k","messages":[` + userMessage("go") + `]}`
	req, err := wire.Parse(wire.Chat, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	for product, want := range map[string]bool{
		"codex/1": true, "codex_cli_rs/0.1 (x)": true, "Codex-exec": true, "pi/3": true, "opencode.x/1": true, "pilot/2": false, "codexx": false, "": false, "curl/8": false,
	} {
		c := newClaim(t, req, "User-Agent", product)
		if c.Session != "k" || c.HasUniqueName() != want {
			t.Errorf("User-Agent %q: got Session = %q, HasUniqueName = %v, want k, %v", product, c.Session, c.HasUniqueName(), want)
		}
	}
}

// KeepsIndices reports whether the earlier items have the same indices in the next request. An agent can rewrite the
// first message or the reply. If both are rewritten, the indices are unknown.
func TestKeepsIndicesAfterRewrites(t *testing.T) {
	const long = "this was the answer"
	for name, tc := range map[string]struct {
		next []string
		want bool
	}{
		"the next turn":              {[]string{userMessage("one"), assistantMessage(long), userMessage("two")}, true},
		"a rewritten first message":  {[]string{userMessage("one, with what was found"), assistantMessage(long), userMessage("two")}, true},
		"a rewritten reply":          {[]string{userMessage("one"), assistantMessage("shortened"), userMessage("two")}, true},
		"both rewritten":             {[]string{userMessage("summary"), assistantMessage("shortened"), userMessage("two")}, false},
		"the reply at a later index": {[]string{userMessage("a"), userMessage("b"), userMessage("c"), userMessage("d"), userMessage("e"), assistantMessage(long)}, false},
	} {
		r := newRecord("s")
		first := parseChat(t, userMessage("one"))
		r.Begin(first, testStart)
		r.SetLastTurn(first)
		r.AddReply(&wire.Reply{Complete: true, Text: long})
		next := parseChat(t, tc.next...)
		r.Begin(next, testStart.Add(time.Second))
		if got := r.KeepsIndices(next); got != tc.want {
			t.Errorf("%s: got KeepsIndices = %v, want %v", name, got, tc.want)
		}
	}
}

// Two agents take part in the session: a handoff call passes the conversation from the first agent to the second.
func TestAnyAgentSystemPromptContinuesSession(t *testing.T) {
	r := newRecord("s")
	turn := func(req *wire.Request, reply wire.Reply) {
		r.Begin(req, testStart)
		r.SetLastTurn(req)
		reply.Complete = true
		r.AddReply(&reply)
	}
	turn(agentRequest(t, "You lead.", []string{"hand_over"}, userMessage("go")), wire.Reply{Calls: []wire.Call{{ID: randomID, Name: "hand_over", Args: "{}"}}})
	turn(agentRequest(t, "You work.", []string{"sh"}, userMessage("go"), callMessage(randomID), resultMessage(randomID, "ok")), wire.Reply{Text: "done"})
	history := []string{userMessage("go"), callMessage(randomID), resultMessage(randomID, "ok"), assistantMessage("done"), userMessage("and now")}
	for name, tc := range map[string]struct {
		req  *wire.Request
		want bool
	}{
		"newest agent's system prompt":     {agentRequest(t, "You work.", nil, history...), true},
		"system prompt before the handoff": {agentRequest(t, "You lead.", nil, history...), true},
		"unknown system prompt":            {agentRequest(t, "You judge.", nil, history...), false},
		"another conversation":             {agentRequest(t, "You work.", nil, userMessage("stop"), assistantMessage("done")), false},
	} {
		if got := r.ContinuesWithSystemPrompt(tc.req); got != tc.want {
			t.Errorf("%s: got ContinuesWithSystemPrompt = %v, want %v", name, got, tc.want)
		}
	}
}
