package store

import (
	"context"
	"sync/atomic"

	"precept/sample"
	"precept/session"
	"precept/store/guard"
)

// kit is what all parts of the store work with. Nothing in it changes after Open but what guards
// itself.
type kit struct {
	opts  *Options
	be    Backend
	guard *guard.Guard
	tally *Tally
	live  *live
	state *state
}

// state is how far the recorder and the delivery have come, for whoever must not wait for their
// locks.
type state struct {
	delivered atomic.Int64 // the flush up to which the backend has everything
	lagging   atomic.Bool  // something of what was said in sessions is in the spool alone
	blind     atomic.Bool  // the same, and the sessions are not in memory either
	held      atomic.Int64 // bytes of exchanges in memory
	since     atomic.Int64 // when the oldest exchange that waits for the backend ended, in microseconds since 1970; 0: none waits
	spooled   atomic.Int64 // bytes of the spool
	down      atomic.Bool  // the last write to the backend failed
	unspooled atomic.Bool  // the last write to the spool failed
}

func (s *state) healthy(ok bool) { s.down.Store(!ok) }

// Shared says whether other replicas may serve the sessions that are in memory here.
func (k *kit) Shared() bool { return k.opts.Fleet != nil }

// inTheDark says that a session may be known although neither memory nor the backend has it.
func (k *kit) inTheDark() bool {
	return k.state.blind.Load() || k.live.blind.Load() > k.state.delivered.Load()
}

// failedTo tells of a failed write, and at which step. What it held is kept for the next one.
func (k *kit) failedTo(step string, err error) {
	k.tally.WriteErrors.Add(1)
	k.opts.Failed(step, err)
}

// Known says who a session is, and whether the tenant has it.
func (k *kit) Known(ctx context.Context, tenant string, id session.ID) (session.Member, bool, error) {
	if ses := k.live.peek(id); ses != nil {
		defer ses.pins.Add(-1)
		ses.Lock()
		defer ses.Unlock()
		return ses.Member(), ses.Tenant == tenant, nil
	}
	row, ok, err := k.be.Session(ctx, tenant, id)
	if err != nil || !ok {
		return session.Member{}, false, err
	}
	rec, err := session.Decode(id, row.Data)
	if err != nil {
		return session.Member{}, false, err
	}
	return rec.Member(), true, nil
}

// AtRequest is the value of a panic at what one request left behind.
type AtRequest struct {
	Request string // its id
	Value   any
}

// refOf names the session of an exchange.
func refOf(x *sample.Exchange) session.Ref {
	id, _ := session.ParseID(x.Session)
	return session.Ref{Tenant: x.Tenant, ID: id}
}
