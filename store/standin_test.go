package store

import (
	"context"
	"testing"
	"time"

	"precept/internal/session"
	"precept/store/sqlite"
)

// slow is a backend whose look-ups take longer than a request may wait, while it is slow.
type slow struct {
	backend
	on bool
}

func (s *slow) Session(ctx context.Context, tenant string, id session.ID) (session.Row, bool, error) {
	if s.on {
		<-ctx.Done()
		return session.Row{}, false, ctx.Err()
	}
	return s.backend.Session(ctx, tenant, id)
}

// turned is one turn of a session on a replica, as the proxy has it: looked up where it is not in
// memory, begun anew where it cannot be found.
func (r *rig) turned(id session.ID, name string) *session.Record {
	r.t.Helper()
	r.clk.add(time.Second)
	ses, late := r.Resident(id), false
	switch {
	case ses == nil:
		ses, late = r.Acquire(r.ctx(), us, id)
	case ses.Unsure():
		r.Refresh(r.ctx(), ses)
	}
	if ses == nil {
		rec := &session.Record{
			Identity: session.Identity{ID: id, Tenant: us, Agent: "coder", Name: name, Method: session.ByHeader, Started: r.clk.now()},
			State:    session.State{StandIn: late},
		}
		rec.Assignment.Excluded = late
		ses = r.Add(rec)
	}
	ses.Lock()
	ses.Thread.Turns++
	ses.Identity.Seen = r.clk.now()
	ses.Unlock()
	r.Release(ses, Decided)
	r.record()
	return ses.Record
}

// A session moves to a replica that cannot look it up in time. Whatever is made there in its place
// never takes the place of the record, and gives way to it as soon as the backend answers.
func TestAStandInYields(t *testing.T) {
	t.Parallel()
	home := newRig(t, nil)
	var be *slow
	other := openRig(t, t.TempDir(), home.clk, func(o *Options) {
		be = &slow{backend: home.be.backend}
		mine := o.Backend.(*faulty).backend.(*sqlite.Store)
		t.Cleanup(func() { _ = mine.Close() })
		o.Backend, o.Lookup = &faulty{backend: be, fail: map[string]int{}}, 10*time.Millisecond
	})
	id := home.begin(us, "s", picked(true))
	home.record()
	row := func() *session.Record {
		t.Helper()
		row, ok, err := home.be.Session(t.Context(), us, id)
		if err != nil || !ok {
			t.Fatal(ok, err)
		}
		rec, err := session.Decode(id, row.Data)
		if err != nil {
			t.Fatal(err)
		}
		return rec
	}
	be.on = true
	for range 3 {
		rec := other.turned(id, "s")
		same(t, "stands in", rec.State.StandIn && rec.Assignment.Excluded, true)
		kept := row()
		same(t, "the record stays", !kept.State.StandIn && len(kept.Assignment.Picks) == 1 && !kept.Assignment.Excluded, true)
	}
	same(t, "at home", home.turned(id, "s").Thread.Turns, 2)
	be.on, other.sessions.lookup = false, 5*time.Second
	rec := other.turned(id, "s")
	same(t, "is taken up", !rec.State.StandIn && len(rec.Assignment.Picks) == 1, true)
	same(t, "out of the experiment", rec.Assignment.Excluded, true)
	same(t, "goes on", rec.Thread.Turns, 3)
	same(t, "is written", row().Thread.Turns, 3)

	// There is none: it is the session's record from then on, and nobody asks again.
	be.on, other.sessions.lookup = true, 10*time.Millisecond
	fresh := sessionOf("fresh")
	same(t, "stands in", other.turned(fresh, "fresh").State.StandIn, true)
	be.on, other.sessions.lookup = false, 5*time.Second
	other.turned(fresh, "fresh")
	other.be.asked()
	same(t, "goes on", other.turned(fresh, "fresh").Thread.Turns, 3)
	for _, op := range other.be.asked() {
		if op == "session" {
			t.Error("it is asked for again")
		}
	}
	if _, ok, err := home.be.Session(t.Context(), us, fresh); !ok || err != nil {
		t.Error(ok, err)
	}
	sameList(t, "failures at home", home.failed(), nil)
}
