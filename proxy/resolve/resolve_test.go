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

// fake is a store in memory. fake counts the pins of each session (AcquireInMemory, Acquire and Add pin, Release
// unpins), so that a test finds a pin that is never released.
type fake struct {
	live        map[session.ID]*store.Session
	pins        map[*store.Session]int
	unreachable bool // the backend does not answer in time
	shared      bool // other replicas use the backend
	broken      bool // AddMember panics
	full        bool // memory has no room for a new session
	read        int  // calls of Refresh and Rejoin
	echoes      map[session.EchoKey][]session.ID
}

func newFake() *fake {
	return &fake{live: map[session.ID]*store.Session{}, pins: map[*store.Session]int{}}
}

func (f *fake) AcquireInMemory(id session.ID) *store.Session {
	ses := f.live[id]
	if ses != nil {
		f.pins[ses]++
	}
	return ses
}

func (f *fake) Acquire(_ context.Context, _ string, id session.ID) (*store.Session, bool) {
	return f.AcquireInMemory(id), f.unreachable
}

func (f *fake) Release(ses *store.Session, _ store.Change) { f.pins[ses]-- }

func (f *fake) FullReason(string) label.Reason {
	if f.full {
		return label.ExcludedBusy
	}
	return ""
}

func (f *fake) Add(rec *session.Record) *store.Session {
	if f.live[rec.Identity.ID] == nil {
		f.live[rec.Identity.ID] = &store.Session{Record: rec}
	}
	return f.AcquireInMemory(rec.Identity.ID)
}

func (f *fake) AddMember(unit *store.Session, rec *session.Record) {
	if f.broken {
		panic("broken")
	}
	unit.Record.AddMember(rec)
}

func (f *fake) ApplyOptOut(context.Context, *session.Record, int, bool) {}
func (f *fake) Shared() bool                                            { return f.shared }
func (f *fake) Refresh(context.Context, *store.Session)                 { f.read++ }
func (f *fake) Rejoin(context.Context, *store.Session)                  { f.read++ }

func (f *fake) Echoes(_ context.Context, _ string, keys []session.EchoKey) (map[session.EchoKey][]session.ID, bool) {
	found := map[session.EchoKey][]session.ID{}
	for _, k := range keys {
		if ids := f.echoes[k]; len(ids) > 0 && !f.unreachable {
			found[k] = slices.Clone(ids)
		}
	}
	return found, f.unreachable
}

// pinned returns the number of pins that are not released.
func (f *fake) pinned() (n int) {
	for _, pins := range f.pins {
		n += pins
	}
	return n
}

// client sends requests to a resolver.
type client struct {
	t             *testing.T
	store         *fake
	resolver      *resolve.Resolver
	drawn         byte // number of random ids
	saltMayDiffer bool // the salt may have changed: it may differ from the salt of other replicas
}

func newClient(t *testing.T) *client {
	t.Helper()
	c := &client{t: t, store: newFake()}
	now := func() time.Time { return time.Unix(1e9, 0) }
	c.resolver = resolve.New(c.store, now, func() [16]byte { c.drawn++; return [16]byte{c.drawn} })
	return c
}

// resolveChat resolves a chat request with a header "Name: value" for each pair.
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
	q := &resolve.Query{Scope: session.Scope{Tenant: "default"}, Claim: claim, Request: req, Learn: true, Unsure: c.saltMayDiffer}
	return q, c.resolver.Resolve(c.t.Context(), q)
}

// turn resolves a request, fails the test if the request gets no session, and records the reply.
func (c *client) turn(body, reply string, headers ...string) resolve.Result {
	c.t.Helper()
	q, res := c.resolveChat(body, headers...)
	if res.Session == nil {
		c.t.Fatalf("the request has no session (side request: %q), want one", res.Side)
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

func TestEqualFirstRequestsAreTwoSessions(t *testing.T) {
	c := newClient(t)
	one, two := c.turn(firstRequest, firstAnswer), c.turn(firstRequest, "another")
	if one.Session == two.Session || !one.New || !two.New || one.Thread.Method != session.ByNew {
		t.Errorf("the sessions of equal first requests are %s (new: %v, found by %s) and %s (new: %v), want two new sessions", one.Name, one.New, one.Thread.Method, two.Name, two.New)
	}
}

func TestSessionNameSelectsSession(t *testing.T) {
	c := newClient(t)
	one := c.turn(firstRequest, firstAnswer, "Precept-Session", "mine")
	two := c.turn(secondRequest, "done", "Precept-Session", "mine")
	if one.Session != two.Session || two.New || two.Name != "mine" || two.Thread.Method != session.ByHeader {
		t.Errorf("second request: got session %p, name %q, new %v, method %v; want session %p, name \"mine\", new false, method %v", two.Session, two.Name, two.New, two.Thread.Method, one.Session, session.ByHeader)
	}
}

// A request without a session name is assigned to the session whose earlier reply (an id or text) the agent sends back.
func TestReplayedReplySelectsSession(t *testing.T) {
	c := newClient(t)
	one := c.turn(firstRequest, firstAnswer)
	two := c.turn(secondRequest, "done")
	if one.Session != two.Session || two.Thread.Method != session.ByEcho {
		t.Errorf("the second turn has session %s, found by %s; want %s, found by %s", two.Name, two.Thread.Method, one.Name, session.ByEcho)
	}
}

func TestSessionsOfARunShareARandomizationUnit(t *testing.T) {
	c := newClient(t)
	one := c.turn(firstRequest, firstAnswer, "Precept-Run", "ci-1")
	two := c.turn(`{"messages":[{"role":"user","content":"Something else."}]}`, "yes", "Precept-Run", "ci-1")
	if one.Session == two.Session || one.Unit == nil || one.Unit != two.Unit {
		t.Fatalf("the requests of a run have sessions %p and %p with randomization units %p and %p, want two sessions with one unit", one.Session, two.Session, one.Unit, two.Unit)
	}
	if unit := one.Unit.Record.Unit; !unit.IsRun || unit.Members != 2 {
		t.Errorf("randomization unit: got %+v, want a run with 2 members", unit)
	}
	if !slices.ContainsFunc(two.Noted, func(e session.Echo) bool { return e.Key == session.RunEcho("default", "ci-1") }) {
		t.Errorf("second session: Noted = %v, want the key of the run among them", two.Noted)
	}
}

// A sub-agent that sends the session name of its parent, but other tools, gets a separate session in the randomization
// unit of its parent. The result carries the name of the parent.
func TestSubAgentSharesRandomizationUnitOfParent(t *testing.T) {
	c := newClient(t)
	parent := c.turn(`{"messages":[{"role":"system","content":"You build."},{"role":"user","content":"Fix it."}],"tools":[{"type":"function","function":{"name":"bash"}}]}`, firstAnswer, "Precept-Session", "mine")
	sub := c.turn(`{"messages":[{"role":"system","content":"You search."},{"role":"user","content":"Find the parser."}],"tools":[{"type":"function","function":{"name":"grep"}}]}`, "found", "Precept-Session", "mine")
	if sub.Session == parent.Session {
		t.Error("the sub-agent got the session of its parent, want a separate session")
	}
	if sub.Unit != parent.Session {
		t.Errorf("the randomization unit of the sub-agent is %p, want the parent session %p", sub.Unit, parent.Session)
	}
	if sub.Name != "mine" {
		t.Errorf("the sub-agent got session name %q, want \"mine\"", sub.Name)
	}
}

func TestTitleRequestHasNoSession(t *testing.T) {
	c := newClient(t)
	c.turn(firstRequest, firstAnswer)
	_, res := c.resolveChat(`{"messages":[{"role":"system","content":"Generate a title for this conversation."},{"role":"user","content":"` + "User: Please fix the build of the parser.\\nAssistant: " + firstAnswer + `"}]}`)
	if res.Session != nil || res.Side == "" || res.Name == "" {
		t.Errorf("the side request has session %v, reason %q and name %q, want no session, a reason and a name", res.Session, res.Side, res.Name)
	}
}

func TestUnreachableStoreExcludesSession(t *testing.T) {
	c := newClient(t)
	c.store.unreachable = true
	res := c.turn(firstRequest, firstAnswer, "Precept-Session", "mine")
	if !res.Session.Record.Assignment.Excluded || !res.Session.Record.State.Provisional || !slices.Equal(res.Excluded, []label.Reason{label.ExcludedLate}) {
		t.Errorf("with an unreachable store: Excluded = %v, Provisional = %v, reasons = %v; want true, true, [%v]", res.Session.Record.Assignment.Excluded, res.Session.Record.State.Provisional, res.Excluded, label.ExcludedLate)
	}
}

// The records of an excluded session and its run name the reason.
func TestExcludedRecordNamesReason(t *testing.T) {
	check := func(name string, rec *session.Record, want label.Reason) {
		t.Helper()
		if counted := trial.ExclusionReasons(); !slices.Contains(counted[:], trial.ExclusionReason(want)) {
			t.Errorf("%s: the reports count the reasons %v, want %s among them", name, counted, want)
		}
		if a := &rec.Assignment; !a.Excluded || a.ExcludedFor != trial.ExclusionReason(want) {
			t.Errorf("%s: got excluded %v for %q, want true for %q", name, a.Excluded, a.ExcludedFor, want)
		}
	}
	c := newClient(t)
	c.store.unreachable = true
	late := c.turn(firstRequest, firstAnswer, "Precept-Session", "mine", "Precept-Run", "nightly")
	check("the session with an unreachable store", late.Session.Record, label.ExcludedLate)
	check("its run with an unreachable store", late.Unit.Record, label.ExcludedLate)
	c = newClient(t)
	c.saltMayDiffer = true
	saltMayDiffer := c.turn(firstRequest, firstAnswer, "Precept-Run", "nightly")
	check("the session with a salt that may have changed", saltMayDiffer.Session.Record, label.ExcludedKeys)
	check("its run with a salt that may have changed", saltMayDiffer.Unit.Record, label.ExcludedKeys)
	c = newClient(t)
	one, other := c.turn(firstRequest, firstAnswer), c.turn(firstRequest, firstAnswer)
	if c.turn(secondRequest, "done"); one.Session == other.Session {
		t.Fatal("identical conversations share a session, want two sessions")
	}
	check("the first of two equal histories", one.Session.Record, label.ExcludedTwin)
	check("the second of two equal histories", other.Session.Record, label.ExcludedTwin)
}

// A conversation without a name continues at a replica whose store does not answer in time.
func TestFailedEchoLookupExcludesSession(t *testing.T) {
	c := newClient(t)
	c.store.unreachable = true
	res := c.turn(secondRequest, "done")
	if !res.New || !res.Session.Record.Assignment.Excluded || !slices.Equal(res.Excluded, []label.Reason{label.ExcludedLate}) {
		t.Errorf("with an unreachable store: New = %v, Excluded = %v, reasons = %v; want true, true, [%v]", res.New, res.Session.Record.Assignment.Excluded, res.Excluded, label.ExcludedLate)
	}
	if next := c.turn(firstRequest, firstAnswer); next.Session.Record.Assignment.Excluded || len(next.Excluded) > 0 {
		t.Errorf("the session of a first request, which needs no lookup, is excluded: %v, for %v, want no exclusion", next.Session.Record.Assignment.Excluded, next.Excluded)
	}
}

func TestSessionInMemoryIsNeverLate(t *testing.T) {
	c := newClient(t)
	one := c.turn(firstRequest, firstAnswer)
	c.store.unreachable = true
	if two := c.turn(secondRequest, "done"); two.Session != one.Session || two.Session.Record.Assignment.Excluded || len(two.Excluded) > 0 {
		t.Errorf("second turn with an unreachable store: got session %p, want session %p from memory; excluded for %v, want no exclusion", two.Session, one.Session, two.Excluded)
	}
}

// A replica whose salt may differ from the salt of the other replicas may make other random assignments than they do.
// Its new sessions are excluded from the experiment.
func TestUncertainSaltExcludesSession(t *testing.T) {
	c := newClient(t)
	c.saltMayDiffer = true
	res := c.turn(firstRequest, firstAnswer)
	if !res.Session.Record.Assignment.Excluded || !slices.Equal(res.Excluded, []label.Reason{label.ExcludedKeys}) {
		t.Errorf("with a salt that may have changed: Excluded = %t, reasons = %v; want true, [%v]", res.Session.Record.Assignment.Excluded, res.Excluded, label.ExcludedKeys)
	}
}

// If replicas share the store, a session whose list grew by more than the replies of this replica is read again.
func TestSessionContinuedElsewhereIsReadAgain(t *testing.T) {
	c := newClient(t)
	c.store.shared = true
	c.turn(firstRequest, firstAnswer, "Precept-Session", "mine")
	before := c.store.read
	res := c.turn(`{"messages":[{"role":"user","content":"Please fix the build of the parser."},{"role":"assistant","content":"`+firstAnswer+`"},{"role":"user","content":"Now test it."},{"role":"assistant","content":"Tested."},{"role":"user","content":"Ship it."}]}`, "shipped", "Precept-Session", "mine")
	if c.store.read == before || !res.Moved {
		t.Errorf("the session was read %d times from the store, want at least once; moved: %v, want true", c.store.read-before, res.Moved)
	}
}

// Without room in memory, a request of a new conversation gets a name, no session, and the reason busy. Known sessions
// continue.
func TestFullMemoryExcludesNewSessions(t *testing.T) {
	for name, headers := range map[string][]string{
		"unnamed": nil, "named": {"Precept-Session", "mine"}, "of a run": {"Precept-Run", "ci-1"},
	} {
		c := newClient(t)
		old := c.turn(`{"messages":[{"role":"user","content":"Something else."}]}`, "yes", "Precept-Session", "old", "Precept-Run", "ci-1")
		pins, members := c.store.pinned(), old.Unit.Record.Unit.Members
		c.store.full = true
		_, res := c.resolveChat(firstRequest, headers...)
		if res.Session != nil || res.Unit != nil || res.New || res.Side != "" || res.Name == "" || !slices.Equal(res.Excluded, []label.Reason{label.ExcludedBusy}) {
			t.Errorf("%s: got session %v, unit %v, new %v, side %q, name %q, excluded for %v; want a name only, excluded for %v", name, res.Session, res.Unit, res.New, res.Side, res.Name, res.Excluded, label.ExcludedBusy)
		}
		if n := c.store.pinned(); n != pins || old.Unit.Record.Unit.Members != members {
			t.Errorf("%s: after the request there are %d pins and %d members of the run, want %d and %d as before", name, n, old.Unit.Record.Unit.Members, pins, members)
		}
		continued := c.turn(`{"messages":[{"role":"user","content":"Something else."},{"role":"assistant","content":"yes"},{"role":"user","content":"Go on."}]}`, "yes", "Precept-Session", "old", "Precept-Run", "ci-1")
		if continued.Session != old.Session || len(continued.Excluded) != 0 {
			t.Errorf("%s: the old conversation has session %v, want %v; excluded for %v, want no exclusion", name, continued.Session, old.Session, continued.Excluded)
		}
		c.store.full = false
		if res = c.turn(firstRequest, firstAnswer, headers...); res.Session == nil || !res.New {
			t.Errorf("%s: with room in memory the request has session %v, new: %v, want a new session", name, res.Session, res.New)
		}
	}
}

func TestPanicLeavesNoPin(t *testing.T) {
	c := newClient(t)
	c.store.broken = true
	func() {
		defer func() {
			if recover() == nil {
				t.Error("Resolve returns after a panic of the store, want the panic")
			}
		}()
		c.resolveChat(firstRequest, "Precept-Run", "ci-1")
	}()
	if n := c.store.pinned(); n != 0 {
		t.Errorf("%d pins are not released after the panic, want 0", n)
	}
}

// A result pins its session and its unit, and no other session.
func TestResultHoldsTwoPins(t *testing.T) {
	c := newClient(t)
	res := c.turn(firstRequest, firstAnswer, "Precept-Run", "ci-1")
	if n := c.store.pinned(); n != 2 || c.store.pins[res.Session] != 1 || c.store.pins[res.Unit] != 1 {
		t.Errorf("a result holds %d pins, %d of its session and %d of its unit, want one of each only", n, c.store.pins[res.Session], c.store.pins[res.Unit])
	}
}
