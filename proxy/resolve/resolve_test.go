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
	if first.Session == second.Session {
		t.Errorf("both requests have session %p, want two sessions", first.Session)
	}
	if !first.IsNew {
		t.Error("first request: IsNew = false, want true")
	}
	if !second.IsNew {
		t.Error("second request: IsNew = false, want true")
	}
	if first.Thread.Method != session.ByNew {
		t.Errorf("Method = %s, want %s", first.Thread.Method, session.ByNew)
	}
}

func TestSessionNameSelectsSession(t *testing.T) {
	c := newClient(t)
	first := c.sendTurn(firstRequest, firstAnswer, "Precept-Session", "mine")
	second := c.sendTurn(secondRequest, "done", "Precept-Session", "mine")
	if first.Session != second.Session {
		t.Errorf("second request: Session = %p, want %p", first.Session, second.Session)
	}
	if second.IsNew {
		t.Error("second request: IsNew = true, want false")
	}
	if second.Name != "mine" {
		t.Errorf(`second request: Name = %q, want "mine"`, second.Name)
	}
	if second.Thread.Method != session.ByHeader {
		t.Errorf("second request: Method = %s, want %s", second.Thread.Method, session.ByHeader)
	}
}

func TestRepeatedReplySelectsSession(t *testing.T) {
	c := newClient(t)
	first := c.sendTurn(firstRequest, firstAnswer)
	second := c.sendTurn(secondRequest, "done")
	if first.Session != second.Session {
		t.Errorf("second turn: Session = %p, want %p", first.Session, second.Session)
	}
	if second.Thread.Method != session.ByEcho {
		t.Errorf("second turn: Method = %s, want %s", second.Thread.Method, session.ByEcho)
	}
}

func TestSessionsInRunShareUnit(t *testing.T) {
	c := newClient(t)
	first := c.sendTurn(firstRequest, firstAnswer, "Precept-Run", "ci-1")
	second := c.sendTurn(`{"messages":[{"role":"user","content":"Something else."}]}`, "yes", "Precept-Run", "ci-1")
	if first.Session == second.Session {
		t.Fatalf("both requests have session %p, want two sessions", first.Session)
	}
	if first.Unit == nil {
		t.Fatal("Unit = nil")
	}
	if first.Unit != second.Unit {
		t.Fatalf("Unit = %p, want %p", first.Unit, second.Unit)
	}
	if unit := first.Unit.Record.Unit; !unit.IsRun {
		t.Error("unit: IsRun = false, want true")
	} else if unit.Members != 2 {
		t.Errorf("unit: Members = %d, want 2", unit.Members)
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
	if res.Session != nil {
		t.Errorf("title request: Session = %p, want nil", res.Session)
	}
	if res.Side == "" {
		t.Error("title request: Side is empty")
	}
	if res.Name == "" {
		t.Error("title request: Name is empty")
	}
}

func TestUnreachableStoreExcludesSession(t *testing.T) {
	c := newClient(t)
	c.store.unreachable = true
	res := c.sendTurn(firstRequest, firstAnswer, "Precept-Session", "mine")
	if !res.Session.Record.Assignment.Excluded {
		t.Error("unreachable store: Excluded = false, want true")
	}
	if !res.Session.Record.State.StartedOffline {
		t.Error("unreachable store: StartedOffline = false, want true")
	}
	if !slices.Equal(res.Excluded, []label.Reason{label.ExcludedLate}) {
		t.Errorf("unreachable store: Excluded = %q, want %q", res.Excluded, []label.Reason{label.ExcludedLate})
	}
}

func TestExcludedForNamesReason(t *testing.T) {
	check := func(name string, rec *session.Record, want label.Reason) {
		t.Helper()
		if counted := trial.ExclusionReasons(); !slices.Contains(counted[:], trial.ExclusionReason(want)) {
			t.Errorf("%s: reports count reasons %v, want %s among them", name, counted, want)
		}
		if a := &rec.Assignment; !a.Excluded {
			t.Errorf("%s: Excluded = false, want true", name)
		} else if a.ExcludedFor != trial.ExclusionReason(want) {
			t.Errorf("%s: ExcludedFor = %s, want %s", name, a.ExcludedFor, trial.ExclusionReason(want))
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
	if !res.IsNew {
		t.Error("unreachable store: IsNew = false, want true")
	}
	if !res.Session.Record.Assignment.Excluded {
		t.Error("unreachable store: Excluded = false, want true")
	}
	if !slices.Equal(res.Excluded, []label.Reason{label.ExcludedLate}) {
		t.Errorf("unreachable store: Excluded = %q, want %q", res.Excluded, []label.Reason{label.ExcludedLate})
	}
	if next := c.sendTurn(firstRequest, firstAnswer); next.Session.Record.Assignment.Excluded {
		t.Error("first request of a conversation, which needs no lookup: Excluded = true, want false")
	} else if len(next.Excluded) > 0 {
		t.Errorf("first request of a conversation, which needs no lookup: Excluded = %q, want none", next.Excluded)
	}
}

func TestSessionInMemoryNeedsNoStore(t *testing.T) {
	c := newClient(t)
	first := c.sendTurn(firstRequest, firstAnswer)
	c.store.unreachable = true
	if second := c.sendTurn(secondRequest, "done"); second.Session != first.Session {
		t.Errorf("second turn with an unreachable store: Session = %p, want %p", second.Session, first.Session)
	} else if second.Session.Record.Assignment.Excluded {
		t.Error("second turn with an unreachable store: Excluded = true, want false")
	} else if len(second.Excluded) > 0 {
		t.Errorf("second turn with an unreachable store: Excluded = %q, want none", second.Excluded)
	}
}

// Replicas with different salts would assign lessons differently, so precept excludes a session if the salts may
// differ.
func TestUncertainSaltExcludesSession(t *testing.T) {
	c := newClient(t)
	c.saltMayDiffer = true
	res := c.sendTurn(firstRequest, firstAnswer)
	if !res.Session.Record.Assignment.Excluded {
		t.Error("salts may differ: Excluded = false, want true")
	}
	if !slices.Equal(res.Excluded, []label.Reason{label.ExcludedKeys}) {
		t.Errorf("salts may differ: Excluded = %q, want %q", res.Excluded, []label.Reason{label.ExcludedKeys})
	}
}

func TestSessionFromOtherReplicaIsRefreshed(t *testing.T) {
	c := newClient(t)
	c.store.shared = true
	c.sendTurn(firstRequest, firstAnswer, "Precept-Session", "mine")
	before := c.store.refreshCount
	res := c.sendTurn(`{"messages":[{"role":"user","content":"Please fix the build of the parser."},{"role":"assistant","content":"`+firstAnswer+`"},{"role":"user","content":"Now test it."},{"role":"assistant","content":"Tested."},{"role":"user","content":"Ship it."}]}`, "shipped", "Precept-Session", "mine")
	if c.store.refreshCount == before {
		t.Errorf("refreshes = %d, want at least 1", c.store.refreshCount-before)
	}
	if !res.MayHaveMoved {
		t.Error("MayHaveMoved = false, want true")
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
		if res.Session != nil {
			t.Errorf("%s: Session = %p, want nil", name, res.Session)
		}
		if res.Unit != nil {
			t.Errorf("%s: Unit = %p, want nil", name, res.Unit)
		}
		if res.IsNew {
			t.Errorf("%s: IsNew = true, want false", name)
		}
		if res.Side != "" {
			t.Errorf(`%s: Side = %s, want ""`, name, res.Side)
		}
		if res.Name == "" {
			t.Errorf("%s: Name is empty", name)
		}
		if !slices.Equal(res.Excluded, []label.Reason{label.ExcludedBusy}) {
			t.Errorf("%s: Excluded = %q, want %q", name, res.Excluded, []label.Reason{label.ExcludedBusy})
		}
		if n := c.store.pinCount(); n != pins {
			t.Errorf("%s: got %d, want %d", name, n, pins)
		} else if old.Unit.Record.Unit.Members != members {
			t.Errorf("%s: Members = %d, want %d", name, old.Unit.Record.Unit.Members, members)
		}
		continued := c.sendTurn(`{"messages":[{"role":"user","content":"Something else."},{"role":"assistant","content":"yes"},{"role":"user","content":"Go on."}]}`, "yes", "Precept-Session", "old", "Precept-Run", "ci-1")
		if continued.Session != old.Session {
			t.Errorf("%s: Session = %p, want %p", name, continued.Session, old.Session)
		}
		if len(continued.Excluded) != 0 {
			t.Errorf("%s: Excluded = %q, want none", name, continued.Excluded)
		}
		c.store.full = false
		if res = c.sendTurn(firstRequest, firstAnswer, headers...); res.Session == nil {
			t.Errorf("%s: Session = nil", name)
		} else if !res.IsNew {
			t.Errorf("%s: IsNew = false, want true", name)
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
	if n := c.store.pinCount(); n != 2 {
		t.Errorf("pins = %d, want 2", n)
	} else if c.store.pins[res.Session] != 1 {
		t.Errorf("pins[res.Session] = %d, want 1", c.store.pins[res.Session])
	} else if c.store.pins[res.Unit] != 1 {
		t.Errorf("pins[res.Unit] = %d, want 1", c.store.pins[res.Unit])
	}
}
