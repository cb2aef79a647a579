package session

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"precept/internal/wire"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a test constant

type fixture struct {
	t         *testing.T
	threads   *Threader
	scope     Scope
	now       time.Time
	nameCount uint64
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, scope: Scope{Tenant: "default", Credential: 1}, now: noon}
	f.threads = NewThreader(f.entropy)
	return f
}

func (f *fixture) entropy() (e [16]byte) {
	f.nameCount++
	binary.BigEndian.PutUint64(e[8:], f.nameCount)
	return e
}

type obj = map[string]any

// parse returns a request with the list under key, and the members in more.
func parse(tb testing.TB, d wire.Dialect, key string, list any, more ...obj) *wire.Request {
	tb.Helper()
	body := obj{"model": "gpt-x", key: list}
	for _, m := range more {
		maps.Copy(body, m)
	}
	data, err := json.Marshal(body)
	if err != nil {
		tb.Fatal(err)
	}
	req, err := wire.Parse(d, data)
	if err != nil {
		tb.Fatalf("parse body %s: %v", data, err)
	}
	return req
}

func chat(tb testing.TB, list ...obj) *wire.Request {
	tb.Helper()
	return parse(tb, wire.Chat, "messages", list)
}

func userMessage(text string) obj { return obj{"role": "user", "content": text} }

func assistantMessage(text string) obj { return obj{"role": "assistant", "content": text} }

func callMessage(id, args string) obj {
	return obj{"role": "assistant", "content": nil, "tool_calls": []obj{{
		"id": id, "type": "function", "function": obj{"name": "bash", "arguments": args},
	}}}
}

func resultMessage(id, text string) obj {
	return obj{"role": "tool", "tool_call_id": id, "content": text}
}

func extend(history []obj, more ...obj) []obj { return append(append([]obj{}, history...), more...) }

func (f *fixture) resolveAndAnswer(req *wire.Request, rep wire.Reply) Resolved {
	r := f.resolve(req)
	f.answer(r, rep)
	return r
}

func (f *fixture) resolve(req *wire.Request) Resolved {
	return f.threads.Resolve(f.scope, Claim{}, req, f.now, nil)
}

func (f *fixture) answer(r Resolved, rep wire.Reply) {
	rep.Complete = true
	f.threads.RecordReply(r, &rep, true)
	f.threads.RecordEnd(r, true, f.now)
}

func (f *fixture) fail(r Resolved) { f.threads.RecordEnd(r, false, f.now) }

func callReply(id string) wire.Reply {
	return wire.Reply{ID: "chatcmpl-" + id, Calls: []wire.Call{{ID: id, Name: "bash", Args: "{}"}}}
}

func textReply(s string) wire.Reply { return wire.Reply{ID: "chatcmpl-x", Text: s} }

func (f *fixture) assertSameSession(subject string, a, b Resolved) {
	f.t.Helper()
	if a.ID != b.ID {
		f.t.Errorf("%s: got session %s (found by %s) and session %s (found by %s), want the same session", subject, a.ID, a.Method, b.ID, b.Method)
	}
}

func (f *fixture) assertDifferentSessions(subject string, a, b Resolved) {
	f.t.Helper()
	if a.ID == b.ID {
		f.t.Errorf("%s: got the same session %s (found by %s and by %s), want different sessions", subject, a.ID, a.Method, b.Method)
	}
}

func TestToolLoopKeepsSession(t *testing.T) {
	for _, id := range []string{"call_%d", "toolu_01A09q90qw90lq9178%02d"} { // a sequential and a random id
		f := newFixture(t)
		history := []obj{userMessage("build it")}
		first := f.resolveAndAnswer(chat(t, history...), callReply(fmt.Sprintf(id, 0)))
		if !first.New || first.Method != ByNew || len(first.Name) != 34 {
			t.Errorf("first request: got %+v, want a new session with a generated 34-byte name", first)
		}
		for i := range 20 {
			history = extend(history, callMessage(fmt.Sprintf(id, i), "{}"), resultMessage(fmt.Sprintf(id, i), "no"))
			r := f.resolveAndAnswer(chat(t, history...), callReply(fmt.Sprintf(id, i+1)))
			f.assertSameSession(fmt.Sprint("turn ", i), first, r)
			if r.Method != ByEcho || r.New {
				t.Fatalf("turn %d: got %+v, want the known session, found by echo", i, r)
			}
		}
	}
}

func TestThreadEqualRepliesKeepSessionsSeparate(t *testing.T) {
	f := newFixture(t)
	a := f.resolveAndAnswer(chat(t, userMessage("task A")), textReply("Done."))
	b := f.resolveAndAnswer(chat(t, userMessage("task B")), textReply("Done."))
	f.assertDifferentSessions("two tasks", a, b)
	f.assertSameSession("A's next turn", a, f.resolve(chat(t, userMessage("task A"), assistantMessage("Done."), userMessage("thanks"))))
	f.assertSameSession("B's next turn", b, f.resolve(chat(t, userMessage("task B"), assistantMessage("Done."), userMessage("thanks"))))
}

func TestThreadIdenticalFirstRequestsStartSeparateSessions(t *testing.T) {
	f := newFixture(t)
	req := chat(t, userMessage("build it"))
	a, b := f.resolve(req), f.resolve(req) // two requests in progress at the same time
	f.assertDifferentSessions("two agents started at once", a, b)
	f.answer(a, callReply("call_1"))
	f.answer(b, callReply("call_1"))
	c := f.resolveAndAnswer(req, callReply("call_1")) // after both replies
	f.assertDifferentSessions("the first and the third agent", a, c)
	f.assertDifferentSessions("the second and the third agent", b, c)

	// Three identical requests continue different sessions.
	next := chat(t, userMessage("build it"), callMessage("call_1", "{}"), resultMessage("call_1", "no"))
	seen := map[ID]bool{}
	for range 3 {
		seen[f.resolve(next).ID] = true
	}
	if len(seen) != 3 || !seen[a.ID] || !seen[b.ID] || !seen[c.ID] {
		t.Errorf("next turns in three identical conversations: got sessions %v, want %s, %s and %s", seen, a.ID, b.ID, c.ID)
	}
}

// The model's call ids are sequential, so all runs of the task have equal histories.
func TestThreadRepeatedTaskStartsSeparateSessions(t *testing.T) {
	f := newFixture(t)
	var runs []Resolved
	for range 40 {
		history := []obj{userMessage("build it")}
		r := f.resolveAndAnswer(chat(t, history...), callReply("call_1"))
		for _, old := range runs {
			f.assertDifferentSessions("an earlier and a later run", old, r)
		}
		runs = append(runs, r)
		for i := 1; i < 4; i++ {
			id := fmt.Sprintf("call_%d", i)
			history = extend(history, callMessage(id, "{}"), resultMessage(id, "no"))
			f.assertSameSession("the newest run", r, f.resolveAndAnswer(chat(t, history...), callReply(fmt.Sprintf("call_%d", i+1))))
		}
	}
}

func TestThreadFirstRequestRetryKeepsSession(t *testing.T) {
	f := newFixture(t)
	req := chat(t, userMessage("hello"))
	a := f.resolve(req)
	f.fail(a)
	f.now = f.now.Add(59 * time.Second)
	b := f.resolve(req)
	f.assertSameSession("a retry within a minute", a, b)
	if b.New || b.Name != a.Name {
		t.Errorf("retry: got %+v, want session %s", b, a.Name)
	}
	f.fail(b)
	f.now = f.now.Add(61 * time.Second)
	c := f.resolve(req)
	f.assertDifferentSessions("the same request more than a minute after the failure", a, c)
	f.answer(c, textReply("hi"))
	f.assertDifferentSessions("the same request after a reply", c, f.resolve(req))

	// An agent can retry while precept still treats the first request as in progress.
	repeated := chat(t, userMessage("again"))
	d := f.resolve(repeated)
	f.assertSameSession("a declared retry", d, f.threads.Resolve(f.scope, Claim{Retry: true}, repeated, f.now, nil))
	f.assertDifferentSessions("the same request, not declared a retry", d, f.resolve(repeated))
	f.assertDifferentSessions("another request", d, f.resolve(chat(t, userMessage("other"))))
}

func TestThreadLaterTurnRetryKeepsSession(t *testing.T) {
	f := newFixture(t)
	req := chat(t, userMessage("go"))
	a, b := f.resolve(req), f.resolve(req)
	f.answer(a, callReply("call_1"))
	f.answer(b, callReply("call_1"))
	next := chat(t, userMessage("go"), callMessage("call_1", "{}"), resultMessage("call_1", "no"))
	x := f.resolve(next)
	f.fail(x)
	f.assertSameSession("the failed request's retry", x, f.resolve(next))
	f.assertDifferentSessions("the request repeated a second time", x, f.resolve(next))
}

func TestThreadTenantsAreSeparate(t *testing.T) {
	f := newFixture(t)
	a := f.resolveAndAnswer(chat(t, userMessage("go")), callReply("toolu_01A09q90qw90lq917835"))
	next := chat(t, userMessage("go"), callMessage("toolu_01A09q90qw90lq917835", "{}"), resultMessage("toolu_01A09q90qw90lq917835", "x"))
	f.assertDifferentSessions("another tenant", a, f.resolveIn(Scope{Tenant: "other", Credential: 1}, next))
	f.assertSameSession("another credential", a, f.resolveIn(Scope{Tenant: "default", Credential: 2}, next))
}

func (f *fixture) resolveIn(scope Scope, req *wire.Request) Resolved {
	return f.threads.Resolve(scope, Claim{}, req, f.now, nil)
}

// The agents' histories have the same first message and call ids, but different results. In turn 3, each agent sends a
// new credential.
func TestThreadTokenRefreshKeepsSession(t *testing.T) {
	f := newFixture(t)
	requestAfter := func(turns int, output string) *wire.Request {
		history := []obj{userMessage("go")}
		for n := range turns {
			history = extend(history, callMessage(fmt.Sprint("call_", n), "{}"), resultMessage(fmt.Sprint("call_", n), fmt.Sprint(output, n)))
		}
		return chat(t, history...)
	}
	scopeOf := func(agent, refreshes int) Scope {
		return Scope{Tenant: "default", Credential: uint64(10*agent + refreshes)}
	}
	var sessions [2]Resolved
	for turn := range 6 {
		for agent := range sessions {
			r := f.resolveIn(scopeOf(agent, turn/3), requestAfter(turn, fmt.Sprint("files of ", agent, " ")))
			f.answer(r, callReply(fmt.Sprint("call_", turn)))
			if turn == 0 {
				sessions[agent] = r
			} else {
				f.assertSameSession(fmt.Sprint("turn ", turn), sessions[agent], r)
			}
		}
	}
	f.assertDifferentSessions("the two agents", sessions[0], sessions[1])
}

func TestThreadEarlierHistoryStartsNewSession(t *testing.T) {
	f := newFixture(t)
	a := f.resolveAndAnswer(chat(t, userMessage("go")), callReply("call_0"))
	secondTurn := chat(t, userMessage("go"), callMessage("call_0", "{}"), resultMessage("call_0", "x"))
	f.assertSameSession("the next turn", a, f.resolveAndAnswer(secondTurn, callReply("call_1")))
	f.assertDifferentSessions("an earlier state under another credential", a, f.resolveIn(Scope{Tenant: "default", Credential: 2}, secondTurn))
}

func TestThreadCredentialChangeKeepsRefusedSession(t *testing.T) {
	f := newFixture(t)
	first := chat(t, userMessage("go"))
	otherCredential := Scope{Tenant: "default", Credential: 2}
	failed := f.resolve(first)
	f.fail(failed)
	f.assertDifferentSessions("the same request with another credential after a failure", failed, f.resolveIn(otherCredential, first))

	f = newFixture(t)
	one, two := f.resolve(first), f.resolve(first)
	for _, r := range []Resolved{one, two} {
		f.threads.RecordRefusal(r)
		f.fail(r)
	}
	a, b := f.resolveIn(otherCredential, first), f.resolveIn(otherCredential, first)
	f.assertDifferentSessions("two retries", a, b)
	if a.New || b.New || a.Name == "" {
		t.Errorf("retries: got %+v and %+v, want the named sessions of the refused requests", a, b)
	}
	f.assertDifferentSessions("a third request after two refused requests", a, f.resolveIn(otherCredential, first))
}

func TestThreadEditedHistoryKeepsSession(t *testing.T) {
	f := newFixture(t)
	ids := []string{"toolu_01AAAAqw90lq917835", "toolu_01BBBBqw90lq917835", "toolu_01CCCCqw90lq917835"}
	history := []obj{userMessage("go")}
	a := f.resolveAndAnswer(chat(t, history...), callReply(ids[0]))
	for i := range 2 {
		history = extend(history, callMessage(ids[i], "{}"), resultMessage(ids[i], "no"))
		f.resolveAndAnswer(chat(t, history...), callReply(ids[i+1]))
	}
	f.assertSameSession("first step again with different text", a, f.resolve(chat(t, extend(history[:3], userMessage("try another way"))...)))
	f.assertSameSession("beginning replaced by a summary", a, f.resolve(chat(t, extend([]obj{userMessage("(summary)")}, history[3:]...)...)))
}

func TestThreadFewShotExamplesAreIgnored(t *testing.T) {
	f := newFixture(t)
	examples := []obj{userMessage("2+2?"), assistantMessage("4"), userMessage("look"), callMessage("toolu_01EXAMPLEw90lq917835", "{}"), resultMessage("toolu_01EXAMPLEw90lq917835", "ok")}
	a := f.resolveAndAnswer(chat(t, extend(examples, userMessage("3+3?"))...), textReply("6"))
	b := f.resolveAndAnswer(chat(t, extend(examples, userMessage("4+4?"))...), textReply("8"))
	f.assertDifferentSessions("two questions after the same examples", a, b)
	f.assertSameSession("first session's next turn", a, f.resolve(chat(t, extend(examples, userMessage("3+3?"), assistantMessage("6"), userMessage("why?"))...)))
}

func TestThreadConcurrentFewShotQuestionsAreSeparate(t *testing.T) {
	f := newFixture(t)
	examples := []obj{userMessage("2+2?"), assistantMessage("4")}
	seen := map[ID]bool{}
	for i := range 20 { // the agents ask all questions before the first answer
		seen[f.resolve(chat(t, extend(examples, userMessage(fmt.Sprint(i, "+1?")))...)).ID] = true
	}
	if len(seen) != 20 {
		t.Errorf("20 questions got %d sessions, want 20", len(seen))
	}
}

// Some agents shorten earlier messages.
func TestThreadRewrittenRepliesKeepSession(t *testing.T) {
	f := newFixture(t)
	history := []obj{userMessage("a story"), assistantMessage("(earlier)"), userMessage("go on")}
	first := f.resolveAndAnswer(chat(t, history...), textReply("Once upon a time."))
	for i := range 5 {
		history = extend(history, assistantMessage(fmt.Sprint("Once ", i)), userMessage("on"))
		f.assertSameSession("a longer list", first, f.resolveAndAnswer(chat(t, history...), textReply(fmt.Sprint("Once upon a time ", i))))
	}
	f.assertDifferentSessions("earlier state with a different last message", first, f.resolve(chat(t, extend(history[:4], userMessage("a poem"))...)))
}

func TestThreadFailedRequestCallIDFindsSession(t *testing.T) {
	f := newFixture(t)
	id := "toolu_01A09q90qw90lq917835"
	history := []obj{userMessage("go"), callMessage(id, "{}"), resultMessage(id, "no")}
	a := f.resolve(chat(t, history...))
	f.fail(a) // the reply was lost
	b := f.resolve(chat(t, extend(history, userMessage("still there?"))...))
	f.assertSameSession("id contained only in the failed request", a, b)
	if b.Method != ByEcho {
		t.Errorf("the session is found by %s, want %s", b.Method, ByEcho)
	}
}

func TestThreadNameTakesPrecedenceOverEcho(t *testing.T) {
	f := newFixture(t)
	id := "toolu_01A09q90qw90lq917835"
	claim := Claim{Session: "ci-42", Namespace: NamespaceSession, Method: ByHeader}
	a := f.threads.Resolve(f.scope, claim, chat(t, userMessage("go")), f.now, nil)
	f.answer(a, callReply(id))
	if a.Name != "ci-42" || a.Method != ByHeader || a.New || a.ID != NamedID("default", claim.Namespace, claim.Session) {
		t.Errorf("request with the name ci-42: got %+v, want the session ci-42, found by the header", a)
	}
	next := chat(t, userMessage("go"), callMessage(id, "{}"), resultMessage(id, "x"))
	f.assertSameSession("call id without a name", a, f.resolve(next))
	named := f.threads.Resolve(f.scope, Claim{Session: "other", Namespace: NamespaceSession, Method: ByHeader}, next, f.now, nil)
	f.assertDifferentSessions("call id with a different name", a, named)
	generated := f.resolveAndAnswer(chat(t, userMessage("new")), textReply("x"))
	byName := f.threads.Resolve(f.scope, Claim{Session: generated.Name, Namespace: NamespaceSession, Method: ByHeader}, chat(t, userMessage("y")), f.now, nil)
	f.assertSameSession("generated name sent as Precept-Session", generated, byName)
}

func TestThreadPreviousResponseKeepsSession(t *testing.T) {
	f := newFixture(t)
	a := f.resolve(parse(t, wire.Responses, "input", "go"))
	f.answer(a, wire.Reply{ID: "resp_1", Calls: []wire.Call{{ID: "call_1", Name: "f"}}})
	out := []obj{{"type": "function_call_output", "call_id": "call_1", "output": "x"}}
	req := parse(t, wire.Responses, "input", out, obj{"previous_response_id": "resp_1"})
	claim := Identify(nil, "/v1/responses", req)
	b := f.threads.Resolve(f.scope, claim, req, f.now, nil)
	f.assertSameSession("previous_response_id", a, b)
	if b.Method != ByBody {
		t.Errorf("the session is found by %s, want %s", b.Method, ByBody)
	}
	claim.Session, claim.Namespace, claim.Method = "conv", NamespaceConversation, ByBody
	f.assertSameSession("previous_response_id takes precedence over conversation", a, f.threads.Resolve(f.scope, claim, req, f.now, nil))
	claim.Previous = "resp_unknown"
	c := f.threads.Resolve(f.scope, claim, req, f.now, nil)
	if c.Name != "conv" || c.Method != ByBody {
		t.Errorf("unknown previous_response_id: got %+v, want the session conv, found by the body", c)
	}
	claim.Session, claim.Namespace, claim.Method = "k", NamespaceCacheKey, ByBody
	claim.Previous = "resp_1"
	f.assertSameSession("previous_response_id takes precedence over prompt_cache_key", a, f.threads.Resolve(f.scope, claim, req, f.now, nil))
	claim.Product = "codex_exec"
	f.assertDifferentSessions("codex's prompt_cache_key takes precedence over previous_response_id", a, f.threads.Resolve(f.scope, claim, req, f.now, nil))
}

// The application sends the same session name in all its conversations.
func TestThreadSharedNameKeepsSessionsSeparate(t *testing.T) {
	for _, namespace := range []Namespace{NamespaceCacheKey, NamespaceMetadata} {
		for name, reply := range map[string]func(n int) (wire.Reply, []obj){
			"calls": func(n int) (wire.Reply, []obj) {
				id := fmt.Sprintf("call_01A09q90qw90lq91%04d", n)
				return callReply(id), []obj{callMessage(id, "{}"), resultMessage(id, "x")}
			},
			"texts": func(n int) (wire.Reply, []obj) {
				text := fmt.Sprintf("An answer about the matter number %d, in some words.", n)
				return textReply(text), []obj{assistantMessage(text), userMessage(fmt.Sprint("and then? ", n))}
			},
		} {
			f := newFixture(t)
			claim := Claim{Session: "my-app", Namespace: namespace, Method: ByBody}
			lists := make([][]obj, 20)
			newest := make([]Resolved, 20) // for each conversation
			seen := map[ID]bool{}
			for i := range lists { // all in progress at once
				lists[i] = []obj{userMessage(fmt.Sprint("task ", i/2))} // two per task
				newest[i] = f.threads.Resolve(f.scope, claim, chat(t, lists[i]...), f.now, nil)
				seen[newest[i].ID] = true
			}
			if len(seen) != 20 {
				t.Fatalf("%s, %s: got %d sessions for 20 conversations, want 20", namespace, name, len(seen))
			}
			for turn := range 3 {
				for i := range lists {
					rep, more := reply(turn*100 + i)
					f.answer(newest[i], rep)
					lists[i] = append(lists[i], more...)
				}
				for i := range lists {
					r := f.threads.Resolve(f.scope, claim, chat(t, lists[i]...), f.now, nil)
					if r.ID != newest[i].ID {
						t.Errorf("%s, %s: turn %d in conversation %d: got session %s (found by %s), want %s", namespace, name, turn, i, r.ID, r.Method, newest[i].ID)
					}
					newest[i] = r
				}
			}
		}
	}
}

func TestIdenticalTasksWithSharedNameStaySeparate(t *testing.T) {
	f := newFixture(t)
	claim := Claim{Session: "my-app", Namespace: NamespaceCacheKey, Method: ByBody}
	lists, newest := make([][]obj, 6), make([]Resolved, 6)
	for turn := range 3 {
		seen := map[ID]bool{}
		for i := range lists {
			if turn == 0 {
				lists[i] = []obj{userMessage("the same task")}
			}
			r := f.threads.Resolve(f.scope, claim, chat(t, lists[i]...), f.now, nil)
			if turn > 0 {
				f.assertSameSession(fmt.Sprintf("conversation %d in turn %d", i, turn), newest[i], r)
			}
			newest[i], seen[r.ID] = r, true
			id := fmt.Sprintf("call_01A09q90qw90lq91%04d", 10*turn+i)
			f.answer(r, callReply(id))
			lists[i] = append(lists[i], callMessage(id, "{}"), resultMessage(id, "x"))
		}
		if len(seen) != len(lists) {
			t.Errorf("turn %d: got %d sessions, want %d, one for each conversation", turn, len(seen), len(lists))
		}
	}
}

// A request with the session's unique name continues the session after a failed request, with a rewritten first
// message, and with a list truncated at the front.
func TestThreadUniqueMetadataNameKeepsSession(t *testing.T) {
	f := newFixture(t)
	claim := Claim{Session: "chat-1", Namespace: NamespaceMetadata, Method: ByBody}
	request := func(list ...obj) Resolved { return f.threads.Resolve(f.scope, claim, chat(t, list...), f.now, nil) }
	a := request(userMessage("with context 1: hello"))
	f.threads.RecordEnd(a, false, f.now)
	f.assertSameSession("retried", a, request(userMessage("with context 1: hello")))
	f.answer(a, textReply("hi"))
	list := []obj{userMessage("with context 1: hello"), assistantMessage("hi"), userMessage("more")}
	f.assertSameSession("next turn", a, request(list...))
	f.answer(a, textReply("ok"))
	f.assertSameSession("a list truncated at the front", a, request(userMessage("more"), assistantMessage("ok"), userMessage("still")))
	f.answer(a, textReply("yes"))
	f.assertSameSession("a list with a rewritten first message", a, request(userMessage("with context 2: hello"), assistantMessage("hi"), userMessage("more"), assistantMessage("ok"), userMessage("still"), assistantMessage("yes"), userMessage("end")))
	if a.Name != "chat-1" {
		t.Errorf(`first request: got %+v, want Name = "chat-1"`, a)
	}
}

func TestThreadAsksStoreOnce(t *testing.T) {
	f := newFixture(t)
	id := "toolu_01A09q90qw90lq917835"
	a := f.resolveAndAnswer(chat(t, userMessage("go")), callReply(id))
	elsewhere := newFixture(t) // another replica
	next := chat(t, userMessage("go"), callMessage(id, "{}"), resultMessage(id, "x"), assistantMessage("done"), userMessage("more"))
	lookups := 0
	findKeys := func(keys []EchoKey) map[EchoKey][]ID {
		lookups++
		if len(keys) == 0 || len(keys) > maxTrail+4 {
			t.Errorf("findKeys got %d keys, want 1 to %d", len(keys), maxTrail+4)
		}
		return map[EchoKey][]ID{TenantEchoKey("default", "c:"+id): {a.ID}}
	}
	b := elsewhere.threads.Resolve(f.scope, Claim{}, next, f.now, findKeys)
	f.assertSameSession("found in the store", a, b)
	if lookups != 1 || b.Method != ByEcho || b.New || b.Name != "" {
		t.Errorf("got %d lookups and %+v, want 1 lookup and the stored session, found by echo", lookups, b)
	}
	f.assertSameSession("found in memory afterwards", a, elsewhere.threads.Resolve(f.scope, Claim{}, next, f.now, findKeys))
	if lookups != 1 {
		t.Errorf("second request: got %d lookups, want still 1", lookups)
	}
	elsewhere.threads.Resolve(f.scope, Claim{}, chat(t, userMessage("fresh")), f.now, findKeys)
	if lookups != 1 {
		t.Errorf("request without a history: got %d lookups, want still 1", lookups)
	}
}

func TestThreadReturnsEachNewKeyOnce(t *testing.T) {
	f := newFixture(t)
	id := "toolu_01A09q90qw90lq917835"
	r := f.resolve(chat(t, userMessage("go")))
	rep := callReply(id)
	rep.Complete = true
	if got := f.threads.RecordReply(r, &rep, true); len(got) != 2 { // call and reply
		t.Errorf("new reply: got %d new keys, want 2", len(got))
	}
	if got := f.threads.RecordReply(r, &rep, true); len(got) != 0 {
		t.Errorf("known reply: got %d new keys, want 0", len(got))
	}
	if next := f.resolve(chat(t, userMessage("go"), callMessage(id, "{}"), resultMessage(id, "x"))); len(next.Echoes) != 0 {
		t.Errorf("request with known calls: got %d new keys, want 0", len(next.Echoes))
	}
}

func TestThreadItemReferenceFindsSession(t *testing.T) {
	f := newFixture(t)
	a := f.resolve(parse(t, wire.Responses, "input", []obj{{"role": "user", "content": "go"}}))
	f.answer(a, wire.Reply{ID: "resp_1", Text: "ok", ItemIDs: []string{"msg_bc068d65db054a6d1a349360"}})
	next := parse(t, wire.Responses, "input", []obj{
		{"role": "user", "content": "go"}, {"type": "item_reference", "id": "msg_bc068d65db054a6d1a349360"}, {"role": "user", "content": "on"},
	})
	f.assertSameSession("reply's item id", a, f.resolve(next))
}

func TestThreadRequestsWithoutBodyStartSeparateSessions(t *testing.T) {
	f := newFixture(t)
	a := f.threads.Resolve(f.scope, Claim{}, nil, f.now, nil)
	b := f.threads.Resolve(f.scope, Claim{}, nil, f.now, nil)
	f.assertDifferentSessions("two requests without a body", a, b)
	f.threads.RecordEnd(a, false, f.now)
}

func TestThreaderMemoryIsBounded(t *testing.T) {
	f := &fixture{t: t, scope: Scope{Tenant: "x"}, now: noon}
	f.threads = newThreader(f.entropy, 640 /* echo keys */, 100 /* sessions */)
	for i := range 2000 {
		f.resolveAndAnswer(chat(t, userMessage(fmt.Sprint("task ", i))), callReply(fmt.Sprintf("toolu_01A09q90qw90lq9178%04d", i)))
	}
	if n := len(f.threads.heads.sessions.values); n > 100 {
		t.Errorf("got %d sessions in memory, want at most 100", n)
	}
	if n := len(f.threads.heads.starts.values); n > 100 {
		t.Errorf("got %d different first requests in memory, want at most 100", n)
	}
	if n := len(f.threads.index.last); n > 640 {
		t.Errorf("got %d echo keys in memory, want at most 640", n)
	}
}

func TestThreaderIsSafeForConcurrentUse(t *testing.T) {
	threads := newThreader(func() [16]byte { return [16]byte{1} }, 1000 /* echo keys */, 50 /* sessions */)
	done := make(chan bool)
	for g := range 8 {
		go func() {
			defer func() { done <- true }()
			for i := range 200 {
				req := chat(t, userMessage("go"), callMessage(fmt.Sprintf("call_%d", i%7), "{}"), resultMessage(fmt.Sprintf("call_%d", i%7), "x"))
				r := threads.Resolve(Scope{Tenant: "t", Credential: uint64(g % 2)}, Claim{}, req, noon, nil)
				rep := callReply(fmt.Sprintf("call_%d", i%7))
				rep.Complete = i%3 > 0
				threads.RecordReply(r, &rep, i%5 > 0)
				threads.RecordEnd(r, rep.Complete, noon)
			}
		}()
	}
	for range 8 {
		<-done
	}
}

func BenchmarkResolve(b *testing.B) {
	var n uint64
	threads := NewThreader(func() (e [16]byte) {
		n++
		binary.BigEndian.PutUint64(e[:], n)
		return e
	})
	scope := Scope{Tenant: "default", Credential: 1}
	history := []obj{{"role": "system", "content": "You build."}, userMessage("build it")}
	req := chat(b, history...)
	r := threads.Resolve(scope, Claim{}, req, noon, nil)
	for i := range 200 {
		id := fmt.Sprintf("call_%08x%04d", uint32(i)*2654435761, i)
		rep := callReply(id)
		rep.Complete = true
		threads.RecordReply(r, &rep, true)
		history = extend(history, callMessage(id, `{"command":"make"}`), resultMessage(id, strings.Repeat("one more line of output\n", 10)))
		req = chat(b, history...)
	}
	body := req.Body
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := wire.Parse(wire.Chat, body); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse and resolve", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			req, err := wire.Parse(wire.Chat, body)
			if err != nil {
				b.Fatal(err)
			}
			if got := threads.Resolve(scope, Claim{}, req, noon, nil); got.ID != r.ID {
				b.Fatalf("got session %s (found by %s), want %s", got.ID, got.Method, r.ID)
			}
		}
	})
}
