package session_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
)

// storedThreader is a Threader with a store that maps echo keys (hashes of ids and texts that agents send back) to
// sessions.
type storedThreader struct {
	*testing.T
	threader  *session.Threader
	now       time.Time
	stored    map[session.EchoKey][]session.ID
	nameCount uint64 // session names so far
}

func newStoredThreader(t *testing.T) *storedThreader {
	t.Helper()
	st := &storedThreader{T: t, now: testStart, stored: map[session.EchoKey][]session.ID{}}
	st.restart()
	return st
}

func (t *storedThreader) restart() {
	t.threader = session.NewThreader(func() (e [16]byte) {
		t.nameCount++
		binary.BigEndian.PutUint64(e[8:], t.nameCount)
		return e
	})
}

func (t *storedThreader) findKeys(keys []session.EchoKey) map[session.EchoKey][]session.ID {
	found := map[session.EchoKey][]session.ID{}
	for _, k := range keys {
		found[k] = slices.Clone(t.stored[k])
	}
	return found
}

func (t *storedThreader) storeKeys(id session.ID, keys []session.EchoKey) {
	for _, k := range keys {
		t.stored[k] = append([]session.ID{id}, t.stored[k]...)
	}
}

func (t *storedThreader) resolve(c session.Claim, messages ...string) session.Resolved {
	t.Helper()
	r := t.threader.Resolve(testScope, c, parseChat(t, messages...), t.now, t.findKeys)
	t.storeKeys(r.ID, r.Echoes)
	return r
}

func (t *storedThreader) reply(r session.Resolved, rep wire.Reply) session.Resolved {
	rep.Complete = true
	t.storeKeys(r.ID, t.threader.RecordReply(r, &rep, true))
	t.threader.RecordEnd(r, true, t.now)
	return r
}

func callReply(ids ...string) (rep wire.Reply) {
	for _, id := range ids {
		rep.Calls = append(rep.Calls, wire.Call{ID: id, Name: "sh", Args: "{}"})
	}
	return rep
}

func randomCallID(n int) string { return fmt.Sprintf("toolu_01A09q90qw90lq917%06d", n) }

// Resolve ignores items that no session has.
func TestResolvePrefersSessionWithLongerSharedHistory(t *testing.T) {
	x, y, z := sessionID("x"), sessionID("y"), sessionID("z")
	history := []string{userMessage("go")}
	for n := range 3 {
		history = append(history, callMessage(randomCallID(n)), resultMessage(randomCallID(n), "ok"))
	}
	for name, tc := range map[string]struct {
		owners [][]session.ID // for each request key, newest first
		want   session.ID
	}{
		"one session":                          {[][]session.ID{{x}}, x},
		"two sessions, no older key is known":  {[][]session.ID{{x, y}}, x},
		"the second session has the older key": {[][]session.ID{{x, y}, {y}}, y},
		"a third session has the older key":    {[][]session.ID{{x, y}, {z}}, x},
		"a third session has an older key, and the second has an even older key": {[][]session.ID{{x, y}, {z}, {z, y}}, y},
		"the newest key is unknown":            {[][]session.ID{nil, {y}}, y},
		"each older key leaves fewer sessions": {[][]session.ID{{x, y, z}, {z, y}, {x, z}}, z},
	} {
		threader := newThreader()
		r := threader.Resolve(testScope, session.Claim{}, parseChat(t, history...), testStart, func(keys []session.EchoKey) map[session.EchoKey][]session.ID {
			found := map[session.EchoKey][]session.ID{}
			for _, key := range keys { // a call and its result share one key
				if n := len(found); found[key] == nil && n < len(tc.owners) {
					found[key] = append([]session.ID{}, tc.owners[n]...)
				}
			}
			return found
		})
		if r.ID != tc.want || r.Method != session.ByEcho || r.New || r.Name != "" {
			t.Errorf("%s: got session %s, found by %s (New = %v, Name = %q), want session %s, found by echo (New = false, no name)", name, r.ID, r.Method, r.New, r.Name, tc.want)
		}
	}
}

// A sub-agent can send the parent's session name in a later turn.
func TestLaterSubagentTurnDoesNotJoinParent(t *testing.T) {
	st := newStoredThreader(t)
	named := func(req *wire.Request) session.Claim { return newClaim(t, req, "Precept-Session", "parent") }
	lead := agentRequest(t, "You lead.", []string{"delegate"}, userMessage("go"))
	leader := st.reply(st.threader.Resolve(testScope, named(lead), lead, testStart, st.findKeys), wire.Reply{Text: "I delegate it"})
	task := agentRequest(t, "You count.", []string{"sh"}, userMessage("count the files"))
	parent := st.threader.Resolve(testScope, named(task), task, testStart, st.findKeys)
	sub, ok := st.threader.ResolveSubagent(parent, named(task), true, testStart, st.findKeys)
	if !ok {
		t.Fatal("ResolveSubagent(first request) = false, want true")
	}
	st.storeKeys(sub.ID, sub.Echoes)
	st.reply(sub, callReply(randomCallID(1)))

	st.restart()
	next := agentRequest(t, "You count.", []string{"sh"}, userMessage("count the files"), callMessage(randomCallID(1)), resultMessage(randomCallID(1), "3"))
	for i := range 2 { // the first look-up reads the store, and the second reads memory
		parent = st.threader.Resolve(testScope, named(next), next, testStart, st.findKeys)
		st.storeKeys(parent.ID, parent.Echoes)
		repeated, ok := st.threader.ResolveSubagent(parent, named(next), false, testStart, st.findKeys)
		if parent.ID != leader.ID || !ok || repeated.ID != sub.ID {
			t.Fatalf("lookup %d: got parent %s, sub-agent %s (ok = %v), want %s, %s", i+1, parent.ID, repeated.ID, ok, leader.ID, sub.ID)
		}
		st.threader.RecordEnd(repeated, true, testStart)
	}
}

// Some applications send one session name in all conversations.
func TestSplitSessionSeparatesConversationsWithSharedName(t *testing.T) {
	st := newStoredThreader(t)
	shared := session.Claim{Session: "app", Namespace: session.NamespaceMetadata, Method: session.ByBody}
	first := st.reply(st.resolve(shared, userMessage("one")), callReply(randomCallID(1)))
	if first.Method != session.ByBody || !first.SharedName {
		t.Fatalf("first request: got %+v, want Method = %q and SharedName = true", first, session.ByBody)
	}
	st.restart()
	two := st.resolve(shared, userMessage("two"))
	if two.ID != first.ID || !two.SharedName {
		t.Fatalf("request in another conversation: got session %s (SharedName = %v), want %s (true)", two.ID, two.SharedName, first.ID)
	}
	split := st.threader.SplitSession(two, shared, st.now)
	st.storeKeys(split.ID, split.Echoes)
	if split.ID == first.ID || !split.New || split.SharedName || split.Method != session.ByNew {
		t.Fatalf("SplitSession: got %+v, want ID other than %v, New = true, SharedName = false and Method = %q", split, first.ID, session.ByNew)
	}
	st.reply(split, callReply(randomCallID(2)))
	if next := st.resolve(shared, userMessage("two"), callMessage(randomCallID(2)), resultMessage(randomCallID(2), "ok")); next.ID != split.ID {
		t.Errorf("new session's next turn: got session %s (found by %s), want %s", next.ID, next.Method, split.ID)
	}
	if next := st.resolve(shared, userMessage("one"), callMessage(randomCallID(1)), resultMessage(randomCallID(1), "ok")); next.ID != first.ID {
		t.Errorf("first session's next turn: got session %s (found by %s), want %s", next.ID, next.Method, first.ID)
	}
}

// Release removes a request from the requests in progress while the reply is still arriving. The reply must then
// identify the session, even if another conversation has the same reply.
func TestReleasedRequestIsMatchedByReply(t *testing.T) {
	st := newStoredThreader(t)
	r := st.resolve(session.Claim{}, userMessage("count the files"))
	other := st.resolve(session.Claim{}, userMessage("count the lines"))
	for _, x := range []*session.Resolved{&r, &other} {
		x.Release()
		st.reply(*x, wire.Reply{Text: "Done."})
	}
	if next := st.resolve(session.Claim{}, userMessage("count the files"), assistantMessage("Done."), userMessage("again")); next.ID != r.ID {
		t.Errorf("next turn: got session %s (found by %s), want %s", next.ID, next.Method, r.ID)
	}
}

// The reply to a side request can be a summary that replaces the history. Only a complete reply counts as a summary.
func TestRequestWithSummaryContinuesSummarisedSession(t *testing.T) {
	const recap = "The parser was moved to its own package and all of its forty tests pass once more with the race detector on."
	for complete, want := range map[bool]bool{true: true, false: false} {
		st := newStoredThreader(t)
		r := st.reply(st.resolve(session.Claim{}, userMessage("move the parser")), callReply(randomCallID(1)))
		side := st.resolve(session.Claim{}, userMessage("Sum it up, please: the parser was to be moved."))
		st.threader.AddSummary(side, r.ID, &wire.Reply{Complete: complete, Text: recap})
		st.threader.RecordEnd(side, complete, st.now)
		if next := st.resolve(session.Claim{}, userMessage(recap), userMessage("go on")); (next.ID == r.ID) != want {
			t.Errorf("summary with Complete = %v: got session %s (found by %s), which equals session %s = %v, want %v", complete, next.ID, next.Method, r.ID, next.ID == r.ID, want)
		}
	}
}

func TestTruncatedHistoryKeepsSessionAfterRestart(t *testing.T) {
	st := newStoredThreader(t)
	r := st.reply(st.resolve(session.Claim{}, userMessage("upgrade the parser")), callReply(randomCallID(1)))
	truncated := `{"role":"user","content":[{"type":"text","text":"upgrade the parser"},{"type":"text","text":"<SYSTEM_NOTICE>Earlier context was compacted.</SYSTEM_NOTICE>"}]}`
	st.restart()
	if next := st.resolve(session.Claim{}, truncated); next.ID != r.ID || next.Method != session.ByEcho || next.New {
		t.Errorf("truncated history: got session %s, found by %s (New = %v), want %s, found by echo", next.ID, next.Method, next.New, r.ID)
	}
	st.restart()
	for k := range st.stored { // a second session with the same first message
		st.stored[k] = append(st.stored[k], sessionID("another"))
	}
	if next := st.resolve(session.Claim{}, truncated); next.ID == r.ID || !next.New {
		t.Errorf("truncated history in two sessions: got session %s (found by %s), want a new session", next.ID, next.Method)
	}
}

func TestRetryWithinAMinuteKeepsSession(t *testing.T) {
	for after, want := range map[time.Duration]bool{time.Second: true, time.Minute: true, time.Minute + 1: false} {
		st := newStoredThreader(t)
		r := st.resolve(session.Claim{}, userMessage("go"))
		st.threader.RecordEnd(r, false, st.now)
		st.now = st.now.Add(after)
		repeated := st.resolve(session.Claim{}, userMessage("go"))
		if (repeated.ID == r.ID) != want || repeated.New == want || len(repeated.EqualSessions) > 0 {
			t.Errorf("retry after %v: got same session = %v, New = %v, EqualSessions = %v, want same session = %v, New = %v, no EqualSessions", after, repeated.ID == r.ID, repeated.New, repeated.EqualSessions, want, !want)
		}
		if want && repeated.Name != r.Name {
			t.Errorf("retry after %v: got name %s, want %s", after, repeated.Name, r.Name)
		}
	}
}

func TestRetryIsFoundAmongManyAnsweredRequests(t *testing.T) {
	st := newStoredThreader(t)
	slow := st.resolve(session.Claim{}, userMessage("go"))
	for i := range 300 {
		st.reply(st.resolve(session.Claim{}, userMessage("go")), callReply(randomCallID(i)))
	}
	st.threader.RecordEnd(slow, false, st.now)
	if repeated := st.resolve(session.Claim{}, userMessage("go")); repeated.ID != slow.ID {
		t.Errorf("retry: got session %s, want %s", repeated.ID, slow.ID)
	}
}

// A declared retry continues the first attempt's session, even if this attempt is still in progress. After several
// identical requests, the session is ambiguous.
func TestDeclaredRetryKeepsSession(t *testing.T) {
	retry := session.Claim{Retry: true}
	st := newStoredThreader(t)
	a := st.resolve(session.Claim{}, userMessage("go"))
	if repeated := st.resolve(retry, userMessage("go")); repeated.ID != a.ID || len(repeated.EqualSessions) > 0 {
		t.Errorf("declared retry: got same session = %v, EqualSessions = %v, want the same session and no EqualSessions", repeated.ID == a.ID, repeated.EqualSessions)
	}
	b := st.resolve(session.Claim{}, userMessage("go"))
	if b.ID == a.ID {
		t.Fatal("two concurrent first requests got one session, want two")
	}
	if repeated := st.resolve(retry, userMessage("go")); !slices.Equal(repeated.EqualSessions, []session.ID{a.ID}) || repeated.ID != a.ID {
		t.Errorf("retry after two identical first requests: got session %s, EqualSessions = %v, want session %s and EqualSessions = [%[3]s]", repeated.ID, repeated.EqualSessions, a.ID)
	}

	// A retry continues the session with an identical request in progress.
	st = newStoredThreader(t)
	a = st.resolve(session.Claim{}, userMessage("go"))
	b = st.resolve(session.Claim{}, userMessage("go"))
	st.reply(a, callReply("call_1"))
	st.reply(b, callReply("call_1"))
	history := []string{userMessage("go"), callMessage("call_1")}
	inFlight := st.resolve(session.Claim{}, append(history, resultMessage("call_1", "mine"))...)
	st.resolve(session.Claim{}, append(history, resultMessage("call_1", "other"))...)
	if repeated := st.resolve(retry, append(history, resultMessage("call_1", "mine"))...); repeated.ID != inFlight.ID {
		t.Errorf("declared retry in a later turn: got session %s (found by %s), want %s", repeated.ID, repeated.Method, inFlight.ID)
	}
	if third := st.resolve(session.Claim{}, append(history, resultMessage("call_1", "a third one"))...); third.ID == a.ID || third.ID == b.ID {
		t.Errorf("retry with a third result: got session %s, want a new session", third.ID)
	}
}

func TestIdenticalHistoriesContinueInOrder(t *testing.T) {
	st := newStoredThreader(t)
	var all []session.Resolved
	for range 4 {
		all = append(all, st.resolve(session.Claim{}, userMessage("go")))
	}
	for _, r := range all {
		st.reply(r, callReply("call_1"))
	}
	for i, r := range all {
		next := st.resolve(session.Claim{}, userMessage("go"), callMessage("call_1"), resultMessage("call_1", "ok"))
		if next.ID != r.ID {
			t.Errorf("continuation %d: got session %s, want %s", i+1, next.ID, r.ID)
		}
		want := len(all) - i
		if want == 1 { // only one session is left
			want = 0
		}
		if len(next.EqualSessions) != want {
			t.Errorf("continuation %d: got %d EqualSessions, want %d", i+1, len(next.EqualSessions), want)
		}
	}
}

// If the store does not answer in time, the conversation gets a temporary new session. FindLostSession later finds the
// stored session by older items.
func TestFindLostSessionReplacesOfflineSession(t *testing.T) {
	for name, isStored := range map[string]bool{"the store has the first session": true, "the store has only the offline session": false} {
		t.Run(name, func(t *testing.T) {
			st := newStoredThreader(t)
			history := []string{userMessage("go")}
			first := st.reply(st.resolve(session.Claim{}, history...), callReply(randomCallID(0)))
			if !isStored {
				clear(st.stored)
			}
			st.restart()
			for n := range 40 {
				history = append(history, callMessage(randomCallID(n)), resultMessage(randomCallID(n), "ok"))
			}
			unanswered := func([]session.EchoKey) map[session.EchoKey][]session.ID { return nil }
			offline := st.threader.Resolve(testScope, session.Claim{}, parseChat(t, history...), testStart, unanswered)
			if !offline.New || offline.ID == first.ID {
				t.Fatalf("store does not answer: got %+v, want a new session", offline)
			}
			st.storeKeys(offline.ID, offline.Echoes)
			found, ok := st.threader.FindLostSession(offline, session.Claim{}, testStart, st.findKeys)
			want := offline.ID
			if isStored {
				want = first.ID
			}
			if ok != isStored || found.ID != want {
				t.Errorf("FindLostSession = session %s, %v, want %s, %v", found.ID, ok, want, isStored)
			}
		})
	}
}

func TestSubagentWithParentItemsStartsNewSession(t *testing.T) {
	st := newStoredThreader(t)
	req := agentRequest(t, "You count.", []string{"sh"}, userMessage("count the files"), callMessage(randomCallID(1)), resultMessage(randomCallID(1), "3"))
	claim := newClaim(t, req, "Precept-Session", "parent")
	parent := st.threader.Resolve(testScope, claim, req, testStart, st.findKeys)
	onlyParent := func(keys []session.EchoKey) map[session.EchoKey][]session.ID {
		found := map[session.EchoKey][]session.ID{}
		for _, k := range keys {
			found[k] = []session.ID{parent.ID}
		}
		return found
	}
	sub, ok := st.threader.ResolveSubagent(parent, claim, true, testStart, onlyParent)
	if !ok || !sub.New || sub.ID == (session.ID{}) || sub.ID == parent.ID {
		t.Errorf("ResolveSubagent = session %s (New = %v), %v, want a new session with an ID other than %s, true", sub.ID, sub.New, ok, parent.ID)
	}
}
