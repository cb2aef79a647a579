package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"precept/internal/sample"
	"precept/internal/session"
	"precept/internal/wire"
	"precept/store"
)

// conversation sends the turns of one session to the store, as the proxy does.
type conversation struct {
	fixture *fixture
	id      session.ID
	name    string
}

func (f *fixture) newConversation(name string) *conversation {
	id := sessionID(name)
	ses := f.store.Add(&session.Record{
		Identity:   session.Identity{ID: id, Tenant: tenantA, Agent: "coder", Name: name, Started: f.clock.now(), Seen: f.clock.now()},
		Assignment: newAssignment(true),
	})
	f.store.Release(ses, store.Unchanged)
	return &conversation{fixture: f, id: id, name: name}
}

// sendTurn sends turn n to the store. So that a test can search for traces of the turn, the message list's hash is
// 1000+n, the item hash is 2000+n, the block anchor hash is 3000+n, and the echo key is 4000+n. If prepare is not nil,
// prepare changes the exchange before sendTurn offers it.
func (c *conversation) sendTurn(n int, prepare func(x *sample.Exchange)) {
	c.fixture.t.Helper()
	ses := c.fixture.store.AcquireInMemory(c.id)
	ses.Record.Mutex.Lock()
	ses.Record.Thread.Turns, ses.Record.Thread.ListHash, ses.Record.Thread.Items = n, uint64(1000+n), 2*n
	ses.Record.Thread.LastTurn = session.LastTurn{FirstNew: 2*n - 1, Items: []uint64{uint64(2000 + n)}}
	ses.Record.Lessons.Blocks = append(ses.Record.Lessons.Blocks, session.Block{Anchor: wire.Anchor{Role: wire.RoleUser, Hash: uint64(3000 + n)}, Text: "x", Turn: n})
	ses.Record.Lessons.Loops.WarnedCalls = map[string]bool{fmt.Sprint("call-", n): true}
	ses.Record.AddPendingTurn(n)
	ses.Record.Mutex.Unlock()
	x := newExchange(tenantA, c.name, n, c.fixture.clock.now())
	x.New, x.FirstNew, x.Repeated = []json.RawMessage{
		json.RawMessage(fmt.Sprintf(`{"role":"assistant","content":"reply %d"}`, n-1)),
		json.RawMessage(fmt.Sprintf(`{"role":"user","content":"ask %d"}`, n)),
	}, 2*n-2, 1
	x.Reply.Text = fmt.Sprint("reply ", n)
	if prepare != nil {
		prepare(x)
	}
	c.fixture.store.HoldKeys(x.RequestID, session.Echo{Tenant: tenantA, Key: session.EchoKey(4000 + n), ID: c.id, At: c.fixture.clock.now()})
	c.fixture.store.Offer(store.Turn{Exchange: x, Size: 100})
	c.fixture.store.Release(ses, store.DecisionsChanged)
	c.deliverAll()
}

// deliverAll advances the clock by more than delayedPause, and delivers all changes.
func (c *conversation) deliverAll() {
	c.fixture.clock.add(2 * time.Second)
	c.fixture.deliver()
}

func (c *conversation) row() string {
	c.fixture.t.Helper()
	row, _ := c.fixture.row(c.id)
	return string(row.Data)
}

func (c *conversation) record() *session.Record {
	c.fixture.t.Helper()
	row, ok := c.fixture.row(c.id)
	if !ok {
		return nil
	}
	rec, err := session.Decode(c.id, row.Data)
	if err != nil {
		c.fixture.t.Fatal(err)
	}
	return rec
}

// The next request repeats the text of the opted-out turn.
func TestOptedOutTurnLeavesNoTrace(t *testing.T) {
	t.Parallel()
	f := newFixture(t, optOutEnvFiles(t))
	c := f.newConversation("s")
	c.sendTurn(1, nil)
	checkEqual(t, "ListHash in the session's record", c.record().Thread.ListHash, 1001)
	for _, want := range []string{"2001", "3001", "call-1"} {
		if row := c.row(); !strings.Contains(row, want) {
			t.Errorf("row after the first turn: got %s, want it to contain %s", row, want)
		}
	}
	c.sendTurn(2, readEnvFile)
	second := c.row()
	checkList(t, "opted-out turns", c.record().OptOut.Turns, []int{2})
	c.sendTurn(3, nil)
	third := c.row()
	for _, row := range []string{second, third} {
		for _, trace := range []string{"1002", "2002", "3002", "call-2", ".env"} {
			if strings.Contains(row, trace) {
				t.Errorf("the row contains the opted-out turn's %s: %s", trace, row)
			}
		}
	}
	for _, want := range []string{"3001", "2003"} {
		if !strings.Contains(third, want) {
			t.Errorf("row after turn 3 = %s, want substring %s", third, want)
		}
	}
	list, err := f.backend.Exchanges(t.Context(), tenantA, c.id)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 {
		t.Fatalf("stored exchanges = %+v, want 2 exchanges", list)
	}
	stored := list[1]
	if stored.Turn != 3 {
		t.Errorf("second exchange: Turn = %d, want 3", stored.Turn)
	}
	if stored.FirstNew != 5 {
		t.Errorf("second exchange: FirstNew = %d, want 5", stored.FirstNew)
	}
	if len(stored.New) != 1 {
		t.Fatalf("second exchange: New = %+v, want 1 item", stored.New)
	}
	if strings.Contains(string(stored.New[0]), "reply 2") {
		t.Errorf(`second exchange: New[0] = %q, want no "reply 2"`, string(stored.New[0]))
	}
	found, err := f.backend.FindEcho(t.Context(), tenantA, []session.EchoKey{4001, 4002, 4003})
	if err != nil {
		t.Fatal(err)
	}
	if len(found) != 2 {
		t.Fatalf("FindEcho = %+v, want 2 items", found)
	}
	if found[4002] != nil {
		t.Errorf("FindEcho[4002] = %+v, want nil", found[4002])
	}
	checkEqual(t, "Metrics.OptedOut", f.store.Metrics.OptedOut.Load(), 1)
	for _, trace := range []string{".env", "reply 2", "ask 2"} {
		checkList(t, "files with "+trace, filesWith(t, f.dir, trace), nil)
	}
}

func TestRowWaitsForOptOutDecision(t *testing.T) {
	t.Parallel()
	f := newFixture(t, optOutEnvFiles(t))
	c := f.newConversation("s")
	f.change(c.id, store.DecisionsChanged, func(rec *session.Record) {
		rec.Thread.Turns, rec.Thread.ListHash = 1, 1001
		rec.AddPendingTurn(1)
	})
	c.deliverAll()
	if row := c.row(); row != "" {
		t.Errorf("row before the opt-out decision: got %s, want none", row)
	}
	f.store.OptedOut(newExchange(tenantA, "s", 1, f.clock.now()), nil) // the proxy calls OptedOut like this when the full queue has refused a turn
	c.deliverAll()
	if rec := c.record(); rec == nil {
		t.Error("no row after the opt-out decision")
	} else if rec.Thread.ListHash != 1001 {
		t.Errorf("ListHash = %d, want 1001", rec.Thread.ListHash)
	}
}

// All turns in the session opt out. Only the record in memory lists the opted-out turns.
func TestOptedOutSessionIsNotStored(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := runFixture(t, optOutEnvFiles(t))
		c := f.newConversation("s")
		c.sendTurn(1, readEnvFile)
		c.sendTurn(2, readEnvFile)
		e := newScore("f", 1, 1)
		e.Comment = "about the .env"
		got, err := f.store.Post(t.Context(), tenantA, []session.ID{c.id}, 0, e)
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != store.Ignored {
			t.Errorf("Post(opted-out session): Status = %s, want %s", got.Status, store.Ignored)
		}
		if got.Session != "s" {
			t.Errorf(`Post(opted-out session) = %q, want "s"`, got.Session)
		}
		f.closeSessions()
		if row := c.row(); row != "" {
			t.Errorf("stored row of the opted-out session: got %s, want none", row)
		}
		checkEqual(t, "counters as JSON", f.counters(tenantA), "null")
		names, err := f.backend.Tenants(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(names) > 0 {
			t.Errorf("tenants in the backend = %q, want none", names)
		}
		f.idleFor(idleTime)
		again := f.store.AcquireInMemory(c.id)
		if again == nil {
			t.Fatal("AcquireInMemory after idleTime = nil")
		}
		if !again.Record.IsHidden(2) {
			t.Error("turn 2 is not hidden after idleTime")
		}
	})
}

// An opt-out mark does not contain the session's id. With another secret, the store does not find the mark.
func TestOptOutMarkSurvivesARestart(t *testing.T) {
	t.Parallel()
	withSecret := func(secret string) func(o *store.Options) {
		return func(o *store.Options) {
			optOutEnvFiles(t)(o)
			o.Content.Secret = []byte(secret)
		}
	}
	f := newFixture(t, withSecret("a"))
	c := f.newConversation(markerWord)
	f.change(c.id, store.Unchanged, func(rec *session.Record) { rec.Identity.Method, rec.OptOut.ByRequest = session.ByHeader, true })
	for turn := 1; turn <= 3; turn++ {
		c.sendTurn(turn, readEnvFile)
	}
	if err := f.drain(); err != nil {
		t.Fatal(err)
	}
	f.kill()
	for _, trace := range []string{markerWord, c.id.String(), string(c.id[:]), ".env"} {
		checkList(t, "files with a trace of the session", filesWith(t, f.dir, trace), nil)
	}
	for _, secret := range []string{"b", "a", "a"} {
		f = openFixture(t, f.dir, f.clock, withSecret(secret))
		ses := f.store.Add(&session.Record{Identity: session.Identity{ID: c.id, Tenant: tenantA, Name: markerWord, Started: f.clock.now()}})
		// The values are the number of turns, the number of items, and whether all turns opted out.
		want := map[string]string{"a": "3 6 true", "b": "0 0 false"}[secret]
		checkEqual(t, "turns, items and IsFullyOptedOut with the secret "+secret, fmt.Sprint(ses.Record.Thread.Turns, ses.Record.Thread.Items, ses.Record.IsFullyOptedOut()), want)
		f.store.Release(ses, store.Unchanged)
		f.kill()
	}
}

func TestFeedbackWaitsForOptOutDecision(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, optOutEnvFiles(t))
		c := f.newConversation("s")
		f.change(c.id, store.Unchanged, func(rec *session.Record) {
			rec.Thread.Turns = 1
			rec.AddPendingTurn(1)
		})
		x := newExchange(tenantA, "s", 1, f.clock.now())
		readEnvFile(x)
		go func() {
			synctest.Wait() // until the feedback waits for the opt-out decision
			f.store.OptedOut(x, nil)
		}()
		got, err := f.store.Post(t.Context(), tenantA, []session.ID{c.id}, 0, newScore("f", 1, 1))
		if err != nil {
			t.Fatal(err)
		}
		if got.Status != store.Ignored {
			t.Errorf("Post before the opt-out decision: Status = %s, want %s", got.Status, store.Ignored)
		}
	})
}

func TestOptOutPatternsCanChangeWhileTheStoreRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t, nil)
	c := f.newConversation("s")
	c.sendTurn(1, readEnvFile)
	checkEqual(t, "stored exchanges before the pattern is set", f.exchangeCount(c.id), 1)
	f.store.SetOptOut(newOptOut(t, "*.env"))
	c.sendTurn(2, readEnvFile)
	checkEqual(t, "stored exchanges after a turn that matches the pattern", f.exchangeCount(c.id), 1)
}
