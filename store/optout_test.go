package store

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
)

// conversation plays the turns of one session as the proxy does.
type conversation struct {
	*rig
	id   session.ID
	name string
}

func (r *rig) converse(name string) *conversation {
	id := session.KeyOf(us, session.SpaceName, name)
	ses := r.Add(&session.Record{
		Identity:   session.Identity{ID: id, Tenant: us, Agent: "coder", Name: name, Started: r.clk.now(), Seen: r.clk.now()},
		Assignment: picked(true),
	})
	ses.pins.Add(-1)
	return &conversation{rig: r, id: id, name: name}
}

// turn is one exchange; prepare may change it before it is offered.
func (c *conversation) turn(n int, prepare func(x *sample.Exchange)) {
	c.t.Helper()
	ses := c.Resident(c.id)
	ses.Lock()
	ses.Thread.Turns, ses.Thread.ListHash, ses.Thread.Items = n, uint64(1000+n), 2*n
	ses.Thread.LastTurn = session.LastTurn{From: 2*n - 1, Items: []uint64{uint64(2000 + n)}}
	ses.Lessons.Blocks = append(ses.Lessons.Blocks, session.Block{Anchor: wire.Anchor{Role: wire.RoleUser, Hash: uint64(3000 + n)}, Text: "x", Turn: n})
	ses.Lessons.Loops.Warned = map[string]bool{fmt.Sprint("call-", n): true}
	ses.Await(n)
	ses.Unlock()
	x := exchange(us, c.name, n, c.clk.now())
	x.New, x.NewFrom, x.Given = []json.RawMessage{
		json.RawMessage(fmt.Sprintf(`{"role":"assistant","content":"reply %d"}`, n-1)),
		json.RawMessage(fmt.Sprintf(`{"role":"user","content":"ask %d"}`, n)),
	}, 2*n-2, 1
	x.Reply.Text = fmt.Sprint("reply ", n)
	if prepare != nil {
		prepare(x)
	}
	c.Hold(x.RequestID, session.Echo{Tenant: us, Key: session.EchoKey(4000 + n), ID: c.id, At: c.clk.now()})
	c.Offer(Turn{Exchange: x, Size: 100})
	c.Release(ses, Decided)
	c.deliverAll()
}

func (c *conversation) deliverAll() {
	c.clk.add(2 * time.Second)
	c.record()
}

func readsEnv(x *sample.Exchange) {
	x.Reply.Calls = []sample.Call{{ID: "c", Name: "read", Args: `{"path":"config/.env"}`}}
}

func (c *conversation) row() string {
	c.t.Helper()
	row, _, err := c.be.Session(c.ctx(), us, c.id)
	if err != nil {
		c.t.Fatal(err)
	}
	return string(row.Data)
}

func envOut(t *testing.T) func(*Options) {
	t.Helper()
	o, err := sample.NewOptOut([]string{"*.env"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return func(opts *Options) { opts.OptOut = o }
}

// Nothing follows from a turn that opted out: not what it said, nor what gives it back, nor a hash,
// nor a key; the turns around it stay.
func TestOptedOutTurnLeavesNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, envOut(t))
	c := r.converse("s")
	c.turn(1, nil)
	before := c.row()
	for _, want := range []string{`"list_hash":1001`, "2001", "3001", "call-1"} {
		if !strings.Contains(before, want) {
			t.Errorf("after a turn that is kept %s is missing in %s", want, before)
		}
	}
	c.turn(2, readsEnv)
	after := c.row()
	if !strings.Contains(after, `"opt_out":{"turns":[2]}`) {
		t.Errorf("after a restart nobody would know that the turn opted out: %s", after)
	}
	c.turn(3, nil)
	last := c.row()
	for _, row := range []string{after, last} {
		for _, trace := range []string{"1002", "2002", "3002", "call-2", ".env"} {
			if strings.Contains(row, trace) {
				t.Errorf("%s is in the row %s", trace, row)
			}
		}
	}
	if !strings.Contains(last, "3001") || !strings.Contains(last, "2003") {
		t.Errorf("what was said in the turns that are kept is gone, too: %s", last)
	}
	list, err := r.be.Exchanges(r.ctx(), us, c.id)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d exchanges, %v", len(list), err)
	}
	third := list[1]
	if third.Turn != 3 || third.NewFrom != 5 || len(third.New) != 1 || strings.Contains(string(third.New[0]), "reply 2") {
		t.Errorf("the third exchange: from %d, %s", third.NewFrom, third.New)
	}
	found, err := r.be.FindEcho(r.ctx(), us, []session.EchoKey{4001, 4002, 4003})
	if err != nil || len(found) != 2 || found[4002] != nil {
		t.Errorf("keys %v, %v", found, err)
	}
	same(t, "counted", r.Tally.OptedOut.Load(), 1)
	if len(r.waiting.held) != 0 || r.holding != 0 {
		t.Errorf("still held: %d, %v", r.holding, r.waiting.held)
	}
}

// A row that is written while it is not known whether the turn may be kept says nothing of it, and
// is written again.
func TestRowsWaitForTheJudgement(t *testing.T) {
	t.Parallel()
	r := newRig(t, envOut(t))
	c := r.converse("s")
	ses := r.Resident(c.id)
	ses.Lock()
	ses.Thread.Turns, ses.Thread.ListHash = 1, 1001
	ses.Await(1)
	ses.Unlock()
	r.Release(ses, Decided)
	c.deliverAll()
	if row := c.row(); row != "" {
		t.Errorf("a row before anything is known: %s", row)
	}
	x := exchange(us, "s", 1, r.clk.now())
	r.OptedOut(x, nil) // as for a turn that found the queue full
	c.deliverAll()
	if row := c.row(); !strings.Contains(row, `"list_hash":1001`) {
		t.Errorf("the row was not written again: %q", row)
	}
}

// A session of which nothing may be kept is not there at all, whatever is said of it.
func TestSilentSessionIsNotThere(t *testing.T) {
	t.Parallel()
	r := newRig(t, envOut(t))
	c := r.converse("s")
	c.turn(1, readsEnv)
	c.turn(2, readsEnv)
	e := score("f", 1, 1)
	e.Comment = "about the .env"
	got, err := r.Post(r.ctx(), us, []session.ID{c.id}, 0, e)
	if err != nil || got.Status != Ignored || got.Session != "s" {
		t.Errorf("feedback: %+v, %v", got, err)
	}
	r.age()
	if row := c.row(); row != "" {
		t.Errorf("a row: %s", row)
	}
	same(t, "counters", r.counters(us), none)
	names, err := r.be.Tenants(r.ctx())
	if err != nil || len(names) > 0 {
		t.Errorf("tenants %v, %v", names, err)
	}
	r.clk.add(idleAfter + time.Minute)
	r.sessions.live.sweep(r.clk.now(), 1<<62)
	again := r.Resident(c.id)
	if again == nil || !again.Hidden(2) {
		t.Error("after a while nobody knows that its turns opted out")
	}
}

// Feedback that comes before the recorder has looked waits for it.
func TestFeedbackWaitsForTheJudgement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, envOut(t))
		c := r.converse("s")
		ses := r.Resident(c.id)
		ses.Lock()
		ses.Thread.Turns = 1
		ses.Await(1)
		ses.Unlock()
		x := exchange(us, "s", 1, r.clk.now())
		readsEnv(x)
		go func() {
			synctest.Wait() // until the feedback waits
			r.OptedOut(x, nil)
		}()
		got, err := r.Post(r.ctx(), us, []session.ID{c.id}, 0, score("f", 1, 1))
		if err != nil || got.Status != Ignored {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestOptOutIsExchangedWhileItRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	c := r.converse("s")
	c.turn(1, readsEnv)
	same(t, "kept without a pattern", r.exchanges(c.id), 1)
	var o Options
	envOut(t)(&o)
	r.SetOptOut(o.OptOut)
	c.turn(2, readsEnv)
	same(t, "kept with one", r.exchanges(c.id), 1)
}
