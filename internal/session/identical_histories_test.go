package session

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"precept/internal/wire"
)

// startIdentical starts n conversations with the same first message, and answers each with one call.
func (f *fixture) startIdentical(n int, reply func(i int) (id, args string)) []Resolved {
	f.t.Helper()
	first := chat(f.t, userMessage("build it"))
	all := make([]Resolved, n)
	for i := range all {
		all[i] = f.resolve(first)
		for _, other := range all[:i] {
			f.assertDifferentSessions("concurrent first requests", all[i], other)
		}
	}
	for i, r := range all {
		id, args := reply(i)
		rep := callReply(id)
		rep.Calls[0].Args = args
		f.answer(r, rep)
	}
	return all
}

func TestThreadIdenticalHistoriesAreAmbiguous(t *testing.T) {
	f := newFixture(t)
	all := f.startIdentical(100, func(int) (string, string) { return "call_1", "{}" })
	history := []obj{userMessage("build it")}
	for turn := 1; turn <= 3; turn++ {
		id := fmt.Sprintf("call_%d", turn)
		history = extend(history, callMessage(id, "{}"), resultMessage(id, "no"))
		got, ambiguous := map[ID]bool{}, map[ID]bool{}
		var resolved []Resolved
		for range all {
			r := f.resolve(chat(t, history...))
			if got[r.ID] = true; r.New {
				t.Fatalf("turn %d: request %d of %d got a new session, want an existing one", turn, len(got), len(all))
			}
			for _, d := range r.EqualSessions {
				ambiguous[d] = true
			}
			resolved = append(resolved, r)
		}
		if len(got) != len(all) || len(ambiguous) != len(all) {
			t.Fatalf("turn %d: got %d different sessions, and %d different sessions in EqualSessions, want %d of each", turn, len(got), len(ambiguous), len(all))
		}
		for _, r := range resolved {
			f.answer(r, callReply(fmt.Sprintf("call_%d", turn+1)))
		}
	}
}

func TestThreadCallArgumentsDistinguishConversations(t *testing.T) {
	f := newFixture(t)
	args := func(i int) string { return fmt.Sprintf(`{"command": "cat %d"}`, i) }
	all := f.startIdentical(50, func(i int) (string, string) { return "call_1", args(i) })
	for i := range slices.Backward(all) {
		r := f.resolve(chat(t, userMessage("build it"), callMessage("call_1", fmt.Sprintf(`{"command":"cat %d"}`, i)), resultMessage("call_1", "no")))
		if r.ID != all[i].ID || len(r.EqualSessions) != 0 {
			t.Fatalf("conversation %d: got session %s, EqualSessions = %v, want session %s and no EqualSessions", i, r.ID, r.EqualSessions, all[i].ID)
		}
	}
}

// Tool results come from the client. If several sessions end with the same call, the first request with a new result
// can therefore belong to any of these sessions. The result identifies the session in later requests.
func TestThreadResultsDistinguishConversations(t *testing.T) {
	f := newFixture(t)
	all := f.startIdentical(50, func(int) (string, string) { return "functions.bash:0", "{}" })
	history := func(i int) []obj {
		return []obj{userMessage("build it"), callMessage("functions.bash:0", "{}"), resultMessage("functions.bash:0", fmt.Sprint("found ", i))}
	}
	second := make([]Resolved, len(all))
	for i := range all {
		second[i] = f.resolveAndAnswer(chat(t, history(i)...), callReply("functions.bash:1"))
		if i < len(all)-1 && len(second[i].EqualSessions) == 0 {
			t.Fatalf("request %d: got no EqualSessions, want the sessions with the same history", i)
		}
	}
	for i := range slices.Backward(all) {
		list := extend(history(i), callMessage("functions.bash:1", "{}"), resultMessage("functions.bash:1", "the same"))
		r := f.resolveAndAnswer(chat(t, list...), textReply("Done."))
		if r.ID != second[i].ID || len(r.EqualSessions) != 0 {
			t.Fatalf("conversation %d: got session %s, EqualSessions = %v, want session %s and no EqualSessions", i, r.ID, r.EqualSessions, second[i].ID)
		}
		r = f.resolve(chat(t, extend(list, assistantMessage("Done."), userMessage("thanks"))...))
		if r.ID != second[i].ID || len(r.EqualSessions) != 0 {
			t.Fatalf("conversation %d after the reply: got session %s, EqualSessions = %v, want session %s and no EqualSessions", i, r.ID, r.EqualSessions, second[i].ID)
		}
	}
}

func TestThreadRandomCallIDsAreUnambiguous(t *testing.T) {
	f := newFixture(t)
	id := func(i int) string { return fmt.Sprintf("call_A09q90qw90lq9178%03d", i) }
	all := f.startIdentical(100, func(i int) (string, string) { return id(i), "{}" })
	for i := range slices.Backward(all) {
		r := f.resolve(chat(t, userMessage("build it"), callMessage(id(i), "{}"), resultMessage(id(i), "no")))
		if r.ID != all[i].ID || len(r.EqualSessions) != 0 {
			t.Fatalf("conversation %d: got session %s, EqualSessions = %v, want session %s and no EqualSessions", i, r.ID, r.EqualSessions, all[i].ID)
		}
	}
}

func TestThreadRetryContinuesTheFailedSession(t *testing.T) {
	f := newFixture(t)
	retry := Claim{Retry: true}
	first := chat(t, userMessage("build it"))
	a, b, c := f.resolve(first), f.resolve(first), f.resolve(first)
	f.fail(b)
	f.assertSameSession("the failed first request", b, f.threads.Resolve(f.scope, retry, first, f.now, nil))
	for _, r := range []Resolved{a, b, c} {
		f.answer(r, callReply("call_1"))
	}
	next := chat(t, userMessage("build it"), callMessage("call_1", "{}"), resultMessage("call_1", "no"))
	waiting, failed := f.resolve(next), f.resolve(next)
	f.fail(failed)
	r := f.threads.Resolve(f.scope, retry, next, f.now, nil)
	f.assertSameSession("retry and the failed request", failed, r)
	f.assertDifferentSessions("retry and the request in progress", waiting, r)
}

func TestThreadPrefersRecentSession(t *testing.T) {
	f := newFixture(t)
	first, next := chat(t, userMessage("hi")), chat(t, userMessage("hi"), assistantMessage("Hello!"), userMessage("build it"))
	for range 5 {
		idle := f.resolveAndAnswer(first, textReply("Hello!"))
		f.now = f.now.Add(time.Hour)
		r := f.resolveAndAnswer(first, textReply("Hello!"))
		f.now = f.now.Add(time.Minute / 2)
		got := f.resolve(next)
		f.assertSameSession("newest session's next turn", r, got)
		if !slices.Contains(got.EqualSessions, idle.ID) || !slices.Contains(got.EqualSessions, r.ID) {
			t.Errorf("got EqualSessions = %v, want both sessions %s and %s", got.EqualSessions, idle.ID, r.ID)
		}
	}
}

// Conversations 0 to 10 have the same history. Conversations 11 to 19 each have a different history.
func TestThreadBranchDoesNotJoinOtherHistory(t *testing.T) {
	f := newFixture(t)
	args := func(i int) string { return fmt.Sprintf(`{"command":"cat %d"}`, max(i-10, 0)) }
	all := f.startIdentical(20, func(i int) (string, string) { return "call_1", args(i) })
	nextTurn := func(i int) *wire.Request {
		return chat(t, userMessage("build it"), callMessage("call_1", args(i)), resultMessage("call_1", "no"))
	}
	for range 15 { // eleven requests continue a conversation, and four start a branch
		r := f.resolveAndAnswer(nextTurn(0), callReply("call_2"))
		if at := slices.IndexFunc(all, func(o Resolved) bool { return o.ID == r.ID }); at > 10 {
			t.Fatalf("got conversation %d, want one from 0 to 10 or a new session", at)
		}
	}
	for i := 11; i < 20; i++ {
		if r := f.resolve(nextTurn(i)); r.ID != all[i].ID || len(r.EqualSessions) != 0 {
			t.Errorf("conversation %d: got session %s, EqualSessions = %v, want session %s and no EqualSessions", i, r.ID, r.EqualSessions, all[i].ID)
		}
	}
}
