package resolve_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/label"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/proxy/resolve"
	"precept/store"
)

// fakeStore counts each session's pins. A pin keeps a session in memory until Release.
type fakeStore struct {
	inMemory        map[session.ID]*store.Session
	pins            map[*store.Session]int
	unreachable     bool // lookups time out
	shared          bool
	addMemberPanics bool
	full            bool
	refreshCount    int // number of Refresh and RefreshUnit calls
	echoes          map[session.EchoKey][]session.ID
}

func newFakeStore() *fakeStore {
	return &fakeStore{inMemory: map[session.ID]*store.Session{}, pins: map[*store.Session]int{}}
}

func (f *fakeStore) AcquireInMemory(id session.ID) *store.Session {
	ses := f.inMemory[id]
	if ses != nil {
		f.pins[ses]++
	}
	return ses
}

func (f *fakeStore) Acquire(_ context.Context, _ string, id session.ID) (*store.Session, bool) {
	return f.AcquireInMemory(id), f.unreachable
}

func (f *fakeStore) Release(ses *store.Session, _ store.Change) { f.pins[ses]-- }

func (f *fakeStore) FullReason(string) label.Reason {
	if f.full {
		return label.ExcludedBusy
	}
	return ""
}

func (f *fakeStore) Add(rec *session.Record) *store.Session {
	if f.inMemory[rec.Identity.ID] == nil {
		f.inMemory[rec.Identity.ID] = &store.Session{Record: rec}
	}
	return f.AcquireInMemory(rec.Identity.ID)
}

func (f *fakeStore) AddMember(unit *store.Session, rec *session.Record) {
	if f.addMemberPanics {
		panic("broken")
	}
	unit.Record.AddMember(rec)
}

func (f *fakeStore) ApplyOptOut(context.Context, *session.Record, int, bool) {}
func (f *fakeStore) IsShared() bool                                          { return f.shared }
func (f *fakeStore) Refresh(context.Context, *store.Session)                 { f.refreshCount++ }
func (f *fakeStore) RefreshUnit(context.Context, *store.Session)             { f.refreshCount++ }

func (f *fakeStore) FindByEchoes(_ context.Context, _ string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, bool) {
	found := map[session.EchoKey][]session.ID{}
	for _, k := range keys {
		if ids := f.echoes[k]; len(ids) > 0 && !f.unreachable {
			found[k] = slices.Clone(ids)
		}
	}
	return found, f.unreachable
}

func (f *fakeStore) pinCount() (n int) {
	for _, pins := range f.pins {
		n += pins
	}
	return n
}

type client struct {
	t             *testing.T
	store         *fakeStore
	resolver      *resolve.Resolver
	ids           byte // generated ids so far
	saltMayDiffer bool // whether other replicas may have a different salt
}

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{t: t, store: newFakeStore()}
	now := func() time.Time { return time.Unix(1e9, 0) }
	c.resolver = resolve.New(c.store, now, func() [16]byte { c.ids++; return [16]byte{c.ids} })
	return c
}

// resolveChat resolves a chat request with headers, given as pairs of a name and a value.
func (c *client) resolveChat(body string, headers ...string) (*resolve.Query, resolve.Result) {
	c.t.Helper()
	req, err := wire.Parse(wire.Chat, []byte(body))
	if err != nil {
		c.t.Fatal(err)
	}
	h := http.Header{}
	for pair := range slices.Chunk(headers, 2) {
		h.Set(pair[0], pair[1])
	}
	claim := session.Identify(h, "/v1/chat/completions", req)
	q := &resolve.Query{Scope: session.Scope{Tenant: "default"}, Claim: claim, Request: req, Learn: true, SaltUncertain: c.saltMayDiffer}
	return q, c.resolver.Resolve(c.t.Context(), q)
}

// sendTurn resolves a request and records the reply. A request without a session fails the test.
func (c *client) sendTurn(body, reply string, headers ...string) resolve.Result {
	c.t.Helper()
	q, res := c.resolveChat(body, headers...)
	if res.Session == nil {
		c.t.Fatalf("request got no session (side request: %q)", res.Side)
	}
	res.Session.Record.Begin(q.Request, time.Unix(1e9, 0))
	c.resolver.AddTurn(res.Session.Record, q)
	res.Session.Record.SetLastTurn(q.Request)
	c.resolver.RecordReply(q, &res, &wire.Reply{ID: "chatcmpl-" + reply, Text: reply, Complete: true}, true)
	c.resolver.RecordEnd(&res, true)
	return res
}

const (
	firstRequest  = `{"messages":[{"role":"user","content":"Please fix the build of the parser."}]}`
	secondRequest = `{"messages":[{"role":"user","content":"Please fix the build of the parser."},{"role":"assistant","content":"The build of the parser is fixed."},{"role":"user","content":"Now test it."}]}`
	firstAnswer   = "The build of the parser is fixed."
)

func TestEqualFirstRequestsStartSeparateSessions(t *testing.T) {
	c := newClient(t)
	first, second := c.sendTurn(firstRequest, firstAnswer), c.sendTurn(firstRequest, "another")
	if first.Session == second.Session || !first.IsNew || !second.IsNew || first.Thread.Method != session.ByNew {
		t.Errorf("got sessions %s (new: %v, method: %s) and %s (new: %v), want two new sessions", first.Name, first.IsNew, first.Thread.Method, second.Name, second.IsNew)
	}
}

func TestSessionNameSelectsSession(t *testing.T) {
	c := newClient(t)
	first := c.sendTurn(firstRequest, firstAnswer, "Precept-Session", "mine")
	second := c.sendTurn(secondRequest, "done", "Precept-Session", "mine")
	if first.Session != second.Session || second.IsNew || second.Name != "mine" || second.Thread.Method != session.ByHeader {
		t.Errorf("second request: got session %p, name %q, new %v, method %v; want session %p, name \"mine\", new false, method %v", second.Session, second.Name, second.IsNew, second.Thread.Method, first.Session, session.ByHeader)
	}
}

func TestRepeatedReplySelectsSession(t *testing.T) {
	c := newClient(t)
	first := c.sendTurn(firstRequest, firstAnswer)
	second := c.sendTurn(secondRequest, "done")
	if first.Session != second.Session || second.Thread.Method != session.ByEcho {
		t.Errorf("second turn: got session %s, method %s, want %s, %s", second.Name, second.Thread.Method, first.Name, session.ByEcho)
	}
}

func TestSessionsInRunShareUnit(t *testing.T) {
	c := newClient(t)
	first := c.sendTurn(firstRequest, firstAnswer, "Precept-Run", "ci-1")
	second := c.sendTurn(`{"messages":[{"role":"user","content":"Something else."}]}`, "yes", "Precept-Run", "ci-1")
	if first.Session == second.Session || first.Unit == nil || first.Unit != second.Unit {
		t.Fatalf("got sessions %p and %p with units %p and %p, want two sessions with one unit", first.Session, second.Session, first.Unit, second.Unit)
	}
	if unit := first.Unit.Record.Unit; !unit.IsRun || unit.Members != 2 {
		t.Errorf("unit = %+v, want a run with 2 members", unit)
	}
	if !slices.ContainsFunc(second.EchoKeys, func(e session.Echo) bool { return e.Key == session.RunEchoKey("default", "ci-1") }) {
		t.Errorf("second session: EchoKeys = %v, want the run's key among them", second.EchoKeys)
	}
}

// The sub-agent sends the parent's session name, but different tools.
func TestSubAgentSharesParentUnit(t *testing.T) {
	c := newClient(t)
	parent := c.sendTurn(`{"messages":[{"role":"system","content":"You build."},{"role":"user","content":"Fix it."}],"tools":[{"type":"function","function":{"name":"bash"}}]}`, firstAnswer, "Precept-Session", "mine")
	sub := c.sendTurn(`{"messages":[{"role":"system","content":"You search."},{"role":"user","content":"Find the parser."}],"tools":[{"type":"function","function":{"name":"grep"}}]}`, "found", "Precept-Session", "mine")
	if sub.Session == parent.Session {
		t.Error("the sub-agent got the parent's session")
	}
	if sub.Unit != parent.Session {
		t.Errorf("sub-agent's unit = %p, want the parent session %p", sub.Unit, parent.Session)
	}
	if sub.Name != "mine" {
		t.Errorf("sub-agent's session name = %q, want \"mine\"", sub.Name)
	}
}

func TestTitleRequestHasNoSession(t *testing.T) {
	c := newClient(t)
	c.sendTurn(firstRequest, firstAnswer)
	_, res := c.resolveChat(`{"messages":[{"role":"system","content":"Generate a title for this conversation."},{"role":"user","content":"` + "User: Please fix the build of the parser.\\nAssistant: " + firstAnswer + `"}]}`)
	if res.Session != nil || res.Side == "" || res.Name == "" {
		t.Errorf("title request: session = %v, Side = %q, name = %q, want no session, a reason and a name", res.Session, res.Side, res.Name)
	}
}

func TestUnreachableStoreExcludesSession(t *testing.T) {
	c := newClient(t)
	c.store.unreachable = true
	res := c.sendTurn(firstRequest, firstAnswer, "Precept-Session", "mine")
	if !res.Session.Record.Assignment.Excluded || !res.Session.Record.State.StartedOffline || !slices.Equal(res.Excluded, []label.Reason{label.ExcludedLate}) {
		t.Errorf("unreachable store: Excluded = %v, StartedOffline = %v, reasons = %v; want Excluded and StartedOffline true, reasons = [%v]", res.Session.Record.Assignment.Excluded, res.Session.Record.State.StartedOffline, res.Excluded, label.ExcludedLate)
	}
}

func TestExcludedForNamesReason(t *testing.T) {
	check := func(name string, rec *session.Record, want label.Reason) {
		t.Helper()
		if counted := trial.ExclusionReasons(); !slices.Contains(counted[:], trial.ExclusionReason(want)) {
			t.Errorf("%s: reports count reasons %v, want %s among them", name, counted, want)
		}
		if a := &rec.Assignment; !a.Excluded || a.ExcludedFor != trial.ExclusionReason(want) {
			t.Errorf("%s: Excluded = %v, ExcludedFor = %q, want true, %q", name, a.Excluded, a.ExcludedFor, want)
		}
	}
	c := newClient(t)
	c.store.unreachable = true
	late := c.sendTurn(firstRequest, firstAnswer, "Precept-Session", "mine", "Precept-Run", "nightly")
	check("session with an unreachable store", late.Session.Record, label.ExcludedLate)
	check("run with an unreachable store", late.Unit.Record, label.ExcludedLate)
	c = newClient(t)
	c.saltMayDiffer = true
	uncertain := c.sendTurn(firstRequest, firstAnswer, "Precept-Run", "nightly")
	check("session with an uncertain salt", uncertain.Session.Record, label.ExcludedKeys)
	check("run with an uncertain salt", uncertain.Unit.Record, label.ExcludedKeys)
	c = newClient(t)
	first, second := c.sendTurn(firstRequest, firstAnswer), c.sendTurn(firstRequest, firstAnswer)
	if c.sendTurn(secondRequest, "done"); first.Session == second.Session {
		t.Fatal("identical first requests share a session")
	}
	check("first identical conversation", first.Session.Record, label.ExcludedTwin)
	check("second identical conversation", second.Session.Record, label.ExcludedTwin)
}

// The request continues an unnamed conversation. The session can only be found by an echo (a text or an id from a
// reply).
func TestFailedEchoLookupExcludesSession(t *testing.T) {
	c := newClient(t)
	c.store.unreachable = true
	res := c.sendTurn(secondRequest, "done")
	if !res.IsNew || !res.Session.Record.Assignment.Excluded || !slices.Equal(res.Excluded, []label.Reason{label.ExcludedLate}) {
		t.Errorf("unreachable store: IsNew = %v, Excluded = %v, reasons = %v; want IsNew and Excluded true, reasons = [%v]", res.IsNew, res.Session.Record.Assignment.Excluded, res.Excluded, label.ExcludedLate)
	}
	if next := c.sendTurn(firstRequest, firstAnswer); next.Session.Record.Assignment.Excluded || len(next.Excluded) > 0 {
		t.Errorf("first request of a conversation, which needs no lookup: Excluded = %v, reasons = %v, want no exclusion", next.Session.Record.Assignment.Excluded, next.Excluded)
	}
}

func TestSessionInMemoryNeedsNoStore(t *testing.T) {
	c := newClient(t)
	first := c.sendTurn(firstRequest, firstAnswer)
	c.store.unreachable = true
	if second := c.sendTurn(secondRequest, "done"); second.Session != first.Session || second.Session.Record.Assignment.Excluded || len(second.Excluded) > 0 {
		t.Errorf("second turn with an unreachable store: got session %p, reasons %v, want session %p and no exclusion", second.Session, second.Excluded, first.Session)
	}
}

// Replicas with different salts would assign lessons differently, so precept excludes a session if the salts may
// differ.
func TestUncertainSaltExcludesSession(t *testing.T) {
	c := newClient(t)
	c.saltMayDiffer = true
	res := c.sendTurn(firstRequest, firstAnswer)
	if !res.Session.Record.Assignment.Excluded || !slices.Equal(res.Excluded, []label.Reason{label.ExcludedKeys}) {
		t.Errorf("salts may differ: Excluded = %t, reasons = %v, want Excluded = true, reasons = [%v]", res.Session.Record.Assignment.Excluded, res.Excluded, label.ExcludedKeys)
	}
}

func TestSessionFromOtherReplicaIsRefreshed(t *testing.T) {
	c := newClient(t)
	c.store.shared = true
	c.sendTurn(firstRequest, firstAnswer, "Precept-Session", "mine")
	before := c.store.refreshCount
	res := c.sendTurn(`{"messages":[{"role":"user","content":"Please fix the build of the parser."},{"role":"assistant","content":"`+firstAnswer+`"},{"role":"user","content":"Now test it."},{"role":"assistant","content":"Tested."},{"role":"user","content":"Ship it."}]}`, "shipped", "Precept-Session", "mine")
	if c.store.refreshCount == before || !res.MayHaveMoved {
		t.Errorf("refreshes = %d, MayHaveMoved = %v, want at least 1, true", c.store.refreshCount-before, res.MayHaveMoved)
	}
}

// If memory is full, a request of a new conversation gets a name and the reason ExcludedBusy, but no session. Existing
// sessions continue.
func TestFullMemoryExcludesNewSessions(t *testing.T) {
	for name, headers := range map[string][]string{
		"unnamed": nil, "named": {"Precept-Session", "mine"}, "in a run": {"Precept-Run", "ci-1"},
	} {
		c := newClient(t)
		old := c.sendTurn(`{"messages":[{"role":"user","content":"Something else."}]}`, "yes", "Precept-Session", "old", "Precept-Run", "ci-1")
		pins, members := c.store.pinCount(), old.Unit.Record.Unit.Members
		c.store.full = true
		_, res := c.resolveChat(firstRequest, headers...)
		if res.Session != nil || res.Unit != nil || res.IsNew || res.Side != "" || res.Name == "" || !slices.Equal(res.Excluded, []label.Reason{label.ExcludedBusy}) {
			t.Errorf("%s: session = %v, unit = %v, IsNew = %v, Side = %q, name = %q, reasons = %v; want only a name and [%v]", name, res.Session, res.Unit, res.IsNew, res.Side, res.Name, res.Excluded, label.ExcludedBusy)
		}
		if n := c.store.pinCount(); n != pins || old.Unit.Record.Unit.Members != members {
			t.Errorf("%s: after the request: %d pins, %d run members, want %d and %d as before", name, n, old.Unit.Record.Unit.Members, pins, members)
		}
		continued := c.sendTurn(`{"messages":[{"role":"user","content":"Something else."},{"role":"assistant","content":"yes"},{"role":"user","content":"Go on."}]}`, "yes", "Precept-Session", "old", "Precept-Run", "ci-1")
		if continued.Session != old.Session || len(continued.Excluded) != 0 {
			t.Errorf("%s: existing conversation: session = %v, reasons = %v, want %v and no exclusion", name, continued.Session, continued.Excluded, old.Session)
		}
		c.store.full = false
		if res = c.sendTurn(firstRequest, firstAnswer, headers...); res.Session == nil || !res.IsNew {
			t.Errorf("%s: with room in memory: session = %v, IsNew = %v, want a new session", name, res.Session, res.IsNew)
		}
	}
}

func TestPanicInResolveLeavesNoPin(t *testing.T) {
	c := newClient(t)
	c.store.addMemberPanics = true
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Resolve did not panic, although the store did")
			}
		}()
		c.resolveChat(firstRequest, "Precept-Run", "ci-1")
	}()
	if n := c.store.pinCount(); n != 0 {
		t.Errorf("%d pins were not released after the panic", n)
	}
}

func TestResolvePinsSessionAndUnitOnce(t *testing.T) {
	c := newClient(t)
	res := c.sendTurn(firstRequest, firstAnswer, "Precept-Run", "ci-1")
	if n := c.store.pinCount(); n != 2 || c.store.pins[res.Session] != 1 || c.store.pins[res.Unit] != 1 {
		t.Errorf("got %d pins, %d on the session and %d on the unit, want 2, 1 and 1", n, c.store.pins[res.Session], c.store.pins[res.Unit])
	}
}
