package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"precept/bandit/trial"
	"precept/internal/session"
)

// sweepAll lets every idle session go.
func (r *rig) sweepAll() {
	r.sessions.live.sweep(r.clk.now(), 1<<62)
}

// lookups counts the questions to the backend for sessions.
func (r *rig) lookups() int {
	n := 0
	for _, op := range r.be.asked() {
		if op == "session" {
			n++
		}
	}
	return n
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := session.KeyOf(us, session.SpaceName, "s")
	if ses, late := r.Acquire(r.ctx(), us, id); ses != nil || late {
		t.Errorf("nobody knows it: %v %v", ses, late)
	}
	if ses := r.Resident(id); ses != nil {
		t.Errorf("in memory: %v", ses)
	}
	r.begin(us, "s", picked(true))
	r.lookups()
	same(t, "turns", r.turnsOf(id), 1)
	same(t, "questions while it is in memory", r.lookups(), 0)
	r.record()
	r = r.again(nil)
	same(t, "in use after a restart", r.Sessions(), 0)
	same(t, "turns, from the database", r.turnsOf(id), 1)
	same(t, "turns, once more", r.turnsOf(id), 1)
	same(t, "questions", r.lookups(), 1)
	same(t, "in use", r.Sessions(), 1)
}

// A backend that does not answer in time is told from one that knows no such session.
func TestAcquireLate(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(o *Options) { o.Lookup = time.Millisecond })
	id := session.KeyOf(us, session.SpaceName, "s")
	r.be.failNext("session", 1, errDown)
	if ses, late := r.Acquire(r.ctx(), us, id); ses != nil || !late {
		t.Errorf("down: %v %v", ses, late)
	}
	ended, cancel := context.WithCancel(r.ctx())
	cancel()
	if ses, late := r.Acquire(ended, us, id); ses != nil || !late {
		t.Errorf("out of time: %v %v", ses, late)
	}
	if m := r.Echoes(ended, us, []session.EchoKey{1}); m != nil {
		t.Errorf("echoes out of time: %v", m)
	}
	row := session.Row{Tenant: us, ID: id, Started: r.clk.now(), Data: []byte("{half")}
	if err := r.be.Write(r.ctx(), session.Batch{Rows: []session.Row{row}}); err != nil {
		t.Fatal(err)
	}
	r.sessions.lookup = time.Minute
	if ses, late := r.Acquire(r.ctx(), us, id); ses != nil || !late {
		t.Errorf("damaged: %v %v", ses, late)
	}
	sameList(t, "told", r.failed(), []string{"lookup", "lookup", "lookup", "decode"})
	if m := r.Echoes(r.ctx(), us, nil); m != nil {
		t.Errorf("no keys: %v", m)
	}
}

func TestConcurrentAddGivesOneRecord(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := session.KeyOf(us, session.SpaceName, "s")
	const n = 32
	var wg sync.WaitGroup
	got := make([]*Session, n)
	for i := range n {
		wg.Go(func() {
			got[i] = r.Add(&session.Record{Identity: session.Identity{ID: id, Tenant: us, Name: "s", Started: r.clk.now()}})
			got[i].Lock()
			got[i].Thread.Turns++
			got[i].Unlock()
			r.Release(got[i], Decided)
		})
	}
	wg.Wait()
	for _, ses := range got[1:] {
		same(t, "record", ses, got[0])
	}
	same(t, "pins", got[0].pins.Load(), 0)
	same(t, "in the list", len(r.dirty), 1)
	r.record()
	same(t, "turns", r.again(nil).turnsOf(id), n)
}

func TestSweep(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	names := map[string]func(id session.ID){
		"idle":   func(session.ID) {},
		"pinned": func(id session.ID) { r.Resident(id) },
		"fresh":  func(session.ID) {},
		"dirty":  func(session.ID) {},
	}
	ids := map[string]session.ID{}
	for name := range names {
		ids[name] = r.begin(us, name, picked(true))
	}
	r.record()
	for name, hold := range names {
		hold(ids[name])
	}
	r.sweepAll()
	same(t, "in use at once", r.Sessions(), 4)
	r.clk.add(idleAfter + time.Second)
	r.Release(r.Resident(ids["fresh"]), Unchanged)
	r.Release(r.Resident(ids["dirty"]), Decided)
	r.clk.add(time.Second)
	r.sweepAll()
	r.lookups()
	for name, want := range map[string]bool{"idle": false, "pinned": true, "fresh": true, "dirty": true} {
		same(t, name, r.sessions.live.has(ids[name]), want)
	}
	ses, _ := r.Acquire(r.ctx(), us, ids["idle"]) // and back, out of the database
	if ses == nil {
		t.Fatal("the session is gone")
	}
	ses.Lock()
	ses.Thread.Turns = 5
	ses.Unlock()
	r.Release(ses, Decided)
	r.clk.add(idleAfter + time.Second)
	r.sweepAll()
	same(t, "what is not written stays", r.sessions.live.has(ids["idle"]), true)
	r.record()
	r.sweepAll()
	same(t, "the written one goes", r.sessions.live.has(ids["idle"]), false)
	same(t, "turns after the second rest", r.turnsOf(ids["idle"]), 5)
	same(t, "questions", r.lookups(), 2)
}

// A session that was never written down, since nothing happened in it, is let go.
func TestSweepForgetsWhatWasNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := session.KeyOf(us, session.SpaceName, "s")
	r.Release(r.Add(&session.Record{Identity: session.Identity{ID: id, Tenant: us}}), Unchanged)
	r.clk.add(idleAfter + time.Second)
	r.sweepAll()
	if ses := r.Resident(id); ses != nil {
		t.Errorf("still there: %v", ses.Record)
	}
}

// Counts that wait for their second keep their session in memory.
func TestSweepKeepsCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	id := r.begin(us, "s", trial.Assignment{})
	r.record()
	r.Release(r.Resident(id), Counted)
	r.clk.add(idleAfter + time.Second)
	r.sweepAll()
	same(t, "in memory", r.sessions.live.has(id), true)
}

// Memory holds so many sessions and no more, those that were used last; one that was let go is
// found in the database.
func TestSessionsAreBoundedByNumber(t *testing.T) {
	t.Parallel()
	const limit = 50
	r := newRig(t, func(o *Options) { o.Sessions = limit })
	first := r.begin(us, "first", picked(true))
	for i := range 10 * limit {
		r.begin(us, fmt.Sprint("s", i), picked(true))
		r.record()
		r.Release(r.Resident(first), Unchanged) // it is in use all the time
		if n := r.Sessions(); n > limit+1 {
			t.Fatalf("%d sessions in memory after %d", n, i)
		}
	}
	same(t, "the one in use", r.sessions.live.has(first), true)
	same(t, "one that was let go", r.sessions.live.has(sessionOf("s0")), false)
	same(t, "a late one", r.sessions.live.has(sessionOf(fmt.Sprint("s", 10*limit-1))), true)
	r.lookups()
	same(t, "turns of one that returns", r.turnsOf(sessionOf("s0")), 1)
	same(t, "questions", r.lookups(), 1)
}

// While the database takes nothing, memory holds twice as many and no more. One that had to go is
// no part of the experiment when it returns before the database has it.
func TestSessionsAreBoundedDuringAnOutage(t *testing.T) {
	t.Parallel()
	const limit = 50
	r := newRig(t, func(o *Options) { o.Sessions = limit })
	r.be.failNext("write", 1_000_000, errDown)
	for i := range 10 * limit {
		r.begin(us, fmt.Sprint("s", i), picked(true))
		r.record()
		if n := r.Sessions(); n > overFull*limit+1 {
			t.Fatalf("%d sessions in memory after %d", n, i)
		}
	}
	if ses, late := r.Acquire(r.ctx(), us, sessionOf("s0")); ses != nil || !late {
		t.Errorf("it may be in the spool: %v %v", ses, late)
	}
	r.be.failNext("write", 0, nil)
	r.clk.add(2 * retryAfter)
	r.record()
	ses, late := r.Acquire(r.ctx(), us, sessionOf("s0"))
	if ses == nil || late {
		t.Errorf("after it: %v %v", ses, late)
	}
}

// The same sessions, used, released and written at the same time: no change is lost.
func TestTogether(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	const workers, rounds, sessions = 6, 60, 5
	ctx, cancel := context.WithCancel(r.ctx())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range rounds {
				name := string(rune('a' + (w+i)%sessions))
				id := session.KeyOf(us, session.SpaceName, name)
				ses, late := r.Acquire(r.ctx(), us, id)
				if late {
					t.Error("late")
					return
				}
				if ses == nil {
					ses = r.Add(&session.Record{Identity: session.Identity{ID: id, Tenant: us, Name: name, Started: r.clk.now(), Seen: r.clk.now()}})
				}
				ses.Lock()
				ses.Thread.Turns++
				ses.Unlock()
				r.Release(ses, Change(1+i%2))
				r.clk.add(time.Millisecond)
			}
		})
	}
	wg.Wait()
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r = r.again(nil)
	sum := 0
	for i := range sessions {
		sum += r.turnsOf(session.KeyOf(us, session.SpaceName, string(rune('a'+i))))
	}
	same(t, "turns", sum, workers*rounds)
}
