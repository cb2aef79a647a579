package session_test

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"precept/internal/session"
	"precept/internal/wire"
)

func TestEachChangeMarksRecordDirty(t *testing.T) {
	one := parseChat(t, userMessage("one"))
	for name, change := range map[string]func(r *session.Record){
		"a request":             func(r *session.Record) { r.Begin(one, testStart) },
		"a request's new items": func(r *session.Record) { r.SetLastTurn(one) },
		"a reply":               func(r *session.Record) { r.AddReply(&wire.Reply{}) },
		"a member":              func(r *session.Record) { r.AddMember(newRecord("member")) },
		"a member's turn":       func(r *session.Record) { r.CountTurn(testStart) },
		"a member's tokens":     func(r *session.Record) { r.AddUsage("m", wire.Usage{}) },
	} {
		r := newRecord("s")
		r.State.Dirty = false
		if change(r); !r.State.Dirty {
			t.Errorf("%s: got Dirty = false, want true", name)
		}
	}
}

func TestNewRecordDefaults(t *testing.T) {
	east := testStart.In(time.FixedZone("east", 7200))
	run := session.NewRun("default", session.Claim{}, "r", sessionID("r"), east)
	rec := session.NewRecord("default", session.Claim{}, session.Resolved{ID: sessionID("s")}, east)
	if run.Identity.Started.Location() != time.UTC || rec.Identity.Started.Location() != time.UTC || rec.Identity.Name != sessionID("s").String() {
		t.Errorf("got Started = %v (run), %v (session), Name = %q, want both in UTC and Name = %s", run.Identity.Started, rec.Identity.Started, rec.Identity.Name, sessionID("s"))
	}
}

// A store keeps the row with the later Seen, so Begin sets a later Seen even if the clock goes back.
func TestSeenAdvancesIfClockGoesBack(t *testing.T) {
	r := newRecord("s")
	for i, at := range []time.Time{testStart, testStart.Add(-24 * time.Hour), testStart.Add(-23 * time.Hour), testStart.Add(time.Hour)} {
		before := r.Identity.Seen
		r.Begin(parseChat(t, userMessage(strings.Repeat("more ", i+1))), at)
		if i > 0 && !r.Identity.Seen.After(before) {
			t.Errorf("turn %d: got Seen = %v, want a time after %v", i+1, r.Identity.Seen, before)
		}
	}
	if want := testStart.Add(time.Hour); !r.Identity.Seen.Equal(want) {
		t.Errorf("got Seen = %v, want %v", r.Identity.Seen, want)
	}
}

// AddReply counts an unknown token count (-1) as zero. After a rewritten first message, only the newest reply shows
// that the request continues the record's list.
func TestAddReplySumsUsageAndKeepsReply(t *testing.T) {
	for reply, want := range map[string]bool{"the third answer": true, "the first answer": false} {
		r := newRecord("s")
		first := parseChat(t, userMessage("one"))
		r.Begin(first, testStart)
		r.SetLastTurn(first)
		r.AddReply(&wire.Reply{Complete: true, Text: "the first answer", Usage: wire.Usage{Input: 100, Cached: 40}})
		r.AddReply(&wire.Reply{Complete: true, Text: "the second answer", Usage: wire.Usage{Input: 7, Cached: 2}})
		r.AddReply(&wire.Reply{Complete: true, Text: "the third answer", Usage: wire.Usage{Input: -1, Cached: -1}})
		if r.Thread.Used.Input != 107 || r.Thread.Used.Cached != 42 {
			t.Errorf("got usage %+v, want Input = 107 and Cached = 42", r.Thread.Used)
		}
		next := parseChat(t, userMessage("one, rewritten"), assistantMessage(reply), userMessage("two"))
		r.Begin(next, testStart)
		if got := r.KeepsIndices(next); got != want {
			t.Errorf("request with %q: got KeepsIndices = %v, want %v", reply, got, want)
		}
	}
}

// MergeUnit keeps the data of the record with more turns or, at the same turn count, with the later Seen. The larger
// member count always wins. In a run, so do the later Seen and the usage with more input tokens.
func TestMergeUnitPrefersReplicaWithMoreTurns(t *testing.T) {
	for name, tc := range map[string]struct {
		turns int           // remote turns minus local turns
		seen  time.Duration // remote Seen minus local Seen
		want  string
	}{
		"more turns":            {1, -time.Second, "there"},
		"same turns, later":     {0, time.Second, "there"},
		"same turns, same time": {0, 0, "here"},
		"same turns, earlier":   {0, -time.Second, "here"},
		"fewer turns, later":    {-1, time.Second, "here"},
	} {
		local, remote := newRecord("s"), newRecord("s")
		local.Identity.Agent, remote.Identity.Agent = "here", "there"
		local.Thread.Turns, remote.Thread.Turns = 3, 3+tc.turns
		remote.Identity.Seen, remote.Unit.Members = local.Identity.Seen.Add(tc.seen), 5
		if local.MergeUnit(remote); local.Identity.Agent != tc.want || local.Unit.Members != 5 {
			t.Errorf("%s: got agent %q and %d members, want agent %q and 5", name, local.Identity.Agent, local.Unit.Members, tc.want)
		}
	}
	local, remote := newRecord("r"), newRecord("r")
	local.Unit.IsRun, remote.Unit.IsRun = true, true
	local.Thread.Used.Input, remote.Thread.Used.Input, remote.Thread.Used.Cached = 5, 5, 9
	remote.Identity.Seen = local.Identity.Seen.Add(time.Second)
	if local.MergeUnit(remote); local.Thread.Used.Cached != 0 || !local.Identity.Seen.Equal(remote.Identity.Seen) {
		t.Errorf("run: got usage %+v, Seen = %v, want Cached = 0, Seen = %v", local.Thread.Used, local.Identity.Seen, remote.Identity.Seen)
	}
}

// Stores hold session IDs, so NamedID must never change. The ID's hash covers the lengths of the tenant and the
// namespace, so that different names always get different IDs.
func TestSessionIDsAreUniqueAndStable(t *testing.T) {
	want := sha256.Sum256([]byte("precept session\x00\x05alice\x04nameci-42"))
	if got := session.NamedID("alice", session.NamespaceSession, "ci-42"); string(got[:]) != string(want[:16]) {
		t.Errorf("NamedID(alice, ci-42) = %s, want %x", got, want[:16])
	}
	seen := map[session.ID]string{}
	for _, names := range [][2]string{{"a", "bc"}, {"ab", "c"}, {"", "abc"}, {"a\x04name", "bc"}} {
		id := session.NamedID(names[0], session.NamespaceSession, names[1])
		if other, ok := seen[id]; ok {
			t.Errorf("%q and %s have the same session ID, want different IDs", names, other)
		}
		seen[id] = fmt.Sprint(names)
	}
	named := session.Claim{Session: "reviewer", Namespace: session.NamespaceSession, Method: session.ByHeader}
	ids := map[session.ID]bool{}
	for _, run := range []string{"", "r1", "r2"} {
		for _, name := range []string{"reviewer", "writer"} {
			named.Session = name
			ids[newThreader().Resolve(session.Scope{Tenant: "t", Run: run}, named, nil, testStart, nil).ID] = true
		}
	}
	if len(ids) != 6 {
		t.Errorf("got %d session IDs for two names in two runs and without a run, want 6", len(ids))
	}
}

func TestParseRequestIDReadsSession(t *testing.T) {
	id := sessionID("s")
	for requestID, want := range map[string]bool{
		"req_" + id.String() + "0123456789abcdef":  true,
		id.String() + "0123456789abcdef0123":       false,
		"res_" + id.String() + "0123456789abcdef":  false,
		"req_" + id.String() + "0123456789abcde":   false,
		"req_" + id.String() + "0123456789abcdef0": false,
		"req_" + strings.Repeat("x", 48):           false,
		"":                                         false,
	} {
		if got, ok := session.ParseRequestID(requestID); ok != want || ok && got != id {
			t.Errorf("ParseRequestID(%q) = %s, %v, want ok = %v and, if true, %s", requestID, got, ok, want, id)
		}
	}
}

// An unknown Precept-Learn value opts out of learning; an unknown Precept-Inject value has no effect. Without a header
// for the agent, the name is the first product in the User-Agent. Tags above 64 bytes are dropped.
func TestIdentifyParsesSwitchesAgentAndTags(t *testing.T) {
	for value, want := range map[string]bool{
		"off": true, "OFF": true, " false ": true, "no": true, "0": true,
		"": false, "on": false, "true": false, "yes": false, "1": false, "disabled": false, "none": false, "00": false,
	} {
		h := http.Header{"Precept-Inject": {value}, "Precept-Learn": {value}}
		c, unknown := session.Identify(h, "/", nil), session.UnknownLearnValue(h)
		isUnknown := slices.Contains([]string{"disabled", "none", "00"}, value)
		if c.InjectOff != want || c.LearnOff != (want || isUnknown) || (unknown == value) != (isUnknown || value == "") {
			t.Errorf("%q: got InjectOff = %v, LearnOff = %v, UnknownLearnValue = %q, want %v, %v, unknown = %v",
				value, c.InjectOff, c.LearnOff, unknown, want, want || isUnknown, isUnknown)
		}
	}
	for agent, want := range map[string]string{
		"azAZ09-_.x/1.2 (linux)":      "azAZ09-_.x",
		"{a}":                         session.DefaultAgent,
		"a:b":                         "a",
		"a@b":                         "a",
		"a[b":                         "a",
		"a`b":                         "a",
		"a{b":                         "a",
		"a/b":                         "a",
		strings.Repeat("a", 70) + "/": strings.Repeat("a", 64),
	} {
		if got := session.Identify(http.Header{"User-Agent": {agent}}, "/", nil).Agent; got != want {
			t.Errorf("User-Agent %q: got agent %q, want %q", agent, got, want)
		}
	}
	long := strings.Repeat("t", 64)
	c := session.Identify(http.Header{"Precept-Tags": {long + "," + long + "x, ok"}}, "/", nil)
	if fmt.Sprint(c.Tags) != fmt.Sprint([]string{long, "ok"}) {
		t.Errorf("got tags %q, want %q", c.Tags, []string{long, "ok"})
	}
}

// Turns are numbered from one, so an opt-out for turn zero hides nothing. An opt-out mark with fewer list items than
// the session is outdated, and hides nothing either.
func TestTurnZeroOrOutdatedMarkHidesNothing(t *testing.T) {
	r := newRecord("s")
	one := parseChat(t, userMessage("one"), assistantMessage("ok"), userMessage("two"))
	r.Begin(one, testStart)
	r.AddPendingTurn(0)
	r.SetOptedOut(0, true)
	row, fields := mustRow(t, r)
	thread, _ := fields["thread"].(map[string]any)
	if r.IsFullyOptedOut() || !r.HasVisibleTurn() || thread["list_hash"] == nil || thread["first_words"] == nil {
		t.Errorf("got IsFullyOptedOut = %v, HasVisibleTurn = %v, row %s, want IsFullyOptedOut = false, HasVisibleTurn = true, and list_hash and first_words in the row", r.IsFullyOptedOut(), r.HasVisibleTurn(), row.Data)
	}
	if r.Hide(session.OptOutMark{Turns: 1, Items: 2}); r.IsFullyOptedOut() {
		t.Error("mark with 2 items, session with 3 items: got IsFullyOptedOut = true, want false")
	}
	if r.Hide(session.OptOutMark{Turns: 1, Items: 3}); !r.IsFullyOptedOut() {
		t.Error("mark with 3 items, session with 3 items: got IsFullyOptedOut = false, want true")
	}
}

func TestSameCallIsDistinguishedByHistory(t *testing.T) {
	st := newStoredThreader(t)
	var all [2]session.Resolved
	for i := range all {
		all[i] = st.resolve(session.Claim{}, userMessage("go"))
	}
	history := func(i int) []string {
		return []string{userMessage("go"), callMessage(randomCallID(i)), resultMessage(randomCallID(i), "ok")}
	}
	for i := range all {
		st.reply(all[i], callReply(randomCallID(i)))
		st.reply(st.resolve(session.Claim{}, history(i)...), callReply("call_1"))
	}
	for _, i := range []int{1, 0} {
		next := st.resolve(session.Claim{}, append(history(i), callMessage("call_1"), resultMessage("call_1", "ok"))...)
		if next.ID != all[i].ID || len(next.EqualSessions) > 0 {
			t.Errorf("conversation %d: got session %s, EqualSessions = %v, want session %s and no EqualSessions", i, next.ID, next.EqualSessions, all[i].ID)
		}
	}
}

// A long text, or a call with long arguments, identifies a request's session, even if the first message and the call
// ids have changed.
func TestLongReplyIdentifiesSession(t *testing.T) {
	args := func(n int) string { return `{"path":"` + strings.Repeat("x", n-len(`{"path":""}`)) + `"}` }
	callMessage := func(id, args string) string {
		return `{"role":"assistant","content":null,"tool_calls":[{"id":"` + id + `","type":"function","function":{"name":"sh","arguments":` + jsonString(args) + `}}]}`
	}
	for name, tc := range map[string]struct {
		rep  wire.Reply
		back []string // messages after the first message in the next request
		want bool
	}{
		"a long text":                  {wire.Reply{Text: strings.Repeat("t", 64)}, []string{assistantMessage(strings.Repeat("t", 64)), userMessage("on")}, true},
		"a short text":                 {wire.Reply{Text: strings.Repeat("t", 63)}, []string{assistantMessage(strings.Repeat("t", 63)), userMessage("on")}, false},
		"long arguments":               {wire.Reply{Calls: []wire.Call{{ID: "call_1", Name: "sh", Args: args(64)}}}, []string{callMessage("call_9", args(64)), resultMessage("call_9", "ok")}, true},
		"short arguments":              {wire.Reply{Calls: []wire.Call{{ID: "call_1", Name: "sh", Args: args(63)}}}, []string{callMessage("call_9", args(63)), resultMessage("call_9", "ok")}, false},
		"fourth call's long arguments": {manyCalls(4, args(64)), []string{manyCallsMessage(4, callMessage, args(64)), userMessage("on")}, true},
	} {
		st := newStoredThreader(t)
		r := st.reply(st.resolve(session.Claim{}, userMessage("the plan was: one")), tc.rep)
		next := st.resolve(session.Claim{}, append([]string{userMessage("the plan is: two")}, tc.back...)...)
		if (next.ID == r.ID) != tc.want {
			t.Errorf("%s: got same session = %v (found by %s), want %v", name, next.ID == r.ID, next.Method, tc.want)
		}
	}
}

func jsonString(s string) string { return string(wire.AppendString(nil, s)) }

// manyCalls returns a reply with n calls. Only the last call has long arguments.
func manyCalls(n int, long string) (rep wire.Reply) {
	for i := range n {
		rep.Calls = append(rep.Calls, wire.Call{ID: fmt.Sprintf("call_%d", i), Name: "sh", Args: "{}"})
	}
	rep.Calls[n-1].Args = long
	return rep
}

func manyCallsMessage(n int, callMessage func(id, args string) string, long string) string {
	var list []string
	for i := range n {
		args := "{}"
		if i == n-1 {
			args = long
		}
		_, call, _ := strings.Cut(callMessage(fmt.Sprintf("call_%d", 90+i), args), `"tool_calls":[`)
		list = append(list, strings.TrimSuffix(call, "]}"))
	}
	return `{"role":"assistant","content":null,"tool_calls":[` + strings.Join(list, ",") + `]}`
}
