package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"precept/session"
)

const (
	retainMost  = 10 * time.Minute       // the longest pause between two looks for what is too old
	retainStep  = 250 * time.Millisecond // the recorder has other things to do
	parkedAge   = 7 * 24 * time.Hour     // early feedback whose exchange has not come by then is given up
	forgottenIn = 24 * time.Hour         // a request that began before its session was forgotten has ended by then
)

// errUnwritten is the answer to whoever wants to forget what the backend has not been able to store
// yet.
var errUnwritten = errors.New("the store cannot be written just now; try again when it can")

// erasure is what the recorder knows of what was forgotten. Its maps are guarded by batch.mu.
type erasure struct {
	chores   chan chore
	next     time.Time // when to look for what is too old
	sessions map[session.ID]time.Time
	tenants  map[string]time.Time
}

// chore is work for the recorder's goroutine, which nothing else of the recorder's may meet half
// done.
type chore struct {
	run  func(ctx context.Context, b *batch) (int, error)
	done chan<- choreResult
}

type choreResult struct {
	n   int
	err error
}

func newErasure() erasure {
	return erasure{chores: make(chan chore), sessions: map[session.ID]time.Time{}, tenants: map[string]time.Time{}}
}

// SetRetention says how long a session is kept after it was last seen; 0 keeps it. It may be called
// at any time.
func (s *Store) SetRetention(age time.Duration) { s.retention.Store(int64(age)) }

// ForgetSession deletes a session of the tenant wherever it stands: the backend, memory, what waits
// to be written, and what a request that is under way will bring; where replicas share the backend,
// each of them follows within seconds. name is the client's name of it, ours, or its id. It says
// how many there were: equal names from different headers are different sessions. What they added
// to the counters stays.
//
// It needs Run.
func (s *Store) ForgetSession(ctx context.Context, tenant, name string) (int, error) {
	return s.chore(ctx, func(ctx context.Context, b *batch) (int, error) {
		ids, err := Named(ctx, s.be, tenant, name)
		if err != nil {
			return 0, err
		}
		for _, id := range slices.Clone(ids) { // a run goes with all of its sessions
			members, err := s.membersOf(ctx, tenant, id)
			if err != nil {
				return 0, err
			}
			ids = append(ids, members...)
		}
		e := session.Erasure{Tenant: tenant, IDs: ids, At: s.opts.Now()}
		if err := s.announce(ctx, b, e); err != nil {
			return 0, err
		}
		inMemory, _ := s.eraseHere(b, &e)
		found := 0
		for _, id := range ids {
			stored, err := s.be.Forget(ctx, tenant, id)
			if err != nil {
				return found, err
			}
			if stored || inMemory[id] {
				found++
			}
		}
		return found, nil
	})
}

// ForgetTenant deletes all sessions of a tenant likewise, and says how many there were.
func (s *Store) ForgetTenant(ctx context.Context, tenant string) (int, error) {
	return s.chore(ctx, func(ctx context.Context, b *batch) (int, error) {
		e := session.Erasure{Tenant: tenant, At: s.opts.Now()}
		if err := s.announce(ctx, b, e); err != nil {
			return 0, err
		}
		_, inMemory := s.eraseHere(b, &e)
		n, err := s.be.ForgetTenant(ctx, tenant)
		return max(n, inMemory), err
	})
}

// Named lists the sessions that a name may mean: by any kind of name, by id, and by what was noted
// under it.
func Named(ctx context.Context, be session.Finder, tenant, name string) ([]session.ID, error) {
	ids := append(session.Candidates(tenant, name), session.RunKey(tenant, name))
	key := session.EchoKeyOf(tenant, 0, "s:"+name)
	noted, err := be.FindEcho(ctx, tenant, []session.EchoKey{key})
	if err != nil {
		return nil, err
	}
	for _, id := range noted[key] {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// chore hands work to the recorder and waits for it.
func (s *Store) chore(ctx context.Context, run func(ctx context.Context, b *batch) (int, error)) (int, error) {
	done := make(chan choreResult, 1)
	select {
	case s.erased.chores <- chore{run, done}:
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the recorder: %w", ctx.Err())
	}
	r := <-done // the recorder has it, and bounds it
	return r.n, r.err
}

// do runs a chore on what the recorder holds. What can be written is written first, so that little
// is left in its hands.
func (s *Store) do(ctx context.Context, b *batch, c chore) {
	r := choreResult{}
	r.err = s.guard.Err("forget", func() (err error) {
		s.admitQueued(b)
		b.mu.Lock()
		b.putAt = time.Time{}
		b.mu.Unlock()
		b.retryAt, b.deliverAt = time.Time{}, time.Time{}
		s.flush(ctx, b)
		if err := s.behind(b); err != nil {
			return fmt.Errorf("%w (%w)", errUnwritten, err)
		}
		ctx := context.WithoutCancel(ctx) // half of it would be worse than a stop that waits
		r.n, err = c.run(ctx, b)
		return errors.Join(err, s.purge(ctx, b))
	})
	c.done <- r
}

// behind says why not everything is where it can be deleted.
func (s *Store) behind(b *batch) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case errors.Is(b.err, ErrVolatile):
		return nil
	case b.putErr == nil && b.err == nil && b.lagging:
		return errBacklog
	}
	return errors.Join(b.putErr, b.err)
}

// isErased says whether an exchange belongs to what was forgotten while it was under way.
func (e *erasure) isErased(tenant, id string, at time.Time) bool {
	if len(e.sessions)+len(e.tenants) == 0 {
		return false
	}
	if since, ok := e.tenants[tenant]; ok && !at.After(since) {
		return true
	}
	sid, _ := session.ParseID(id)
	since, ok := e.sessions[sid]
	return ok && !at.After(since)
}

// forget takes out of the batch what is the tenant's and of the sessions.
func (b *batch) forget(tenant string, of func(session.ID) bool) {
	p := &b.next
	p.signals = slices.DeleteFunc(p.signals, func(g signal) bool { return g.Tenant == tenant && of(g.ID) })
	p.echoes = slices.DeleteFunc(p.echoes, func(e session.Echo) bool { return e.Tenant == tenant && of(e.ID) })
	p.rows = slices.DeleteFunc(p.rows, func(r session.Row) bool { return r.Tenant == tenant && of(r.ID) })
}

// forgetWaiting takes out of memory what would bring a forgotten session back.
func (s *Store) forgetWaiting(tenant string, of func(session.ID) bool) {
	s.dirtyMu.Lock()
	theirs := func(e session.Echo) bool { return e.Tenant == tenant && of(e.ID) }
	s.echoes = slices.DeleteFunc(s.echoes, theirs)
	s.moving.forget(theirs)
	s.forgetHeld(theirs)
	s.dirtyMu.Unlock()
	s.touched.forget(tenant, of)
}

// retain deletes what was last seen too long ago, a bounded step a call.
func (s *Store) retain(ctx context.Context) {
	now, age := s.opts.Now(), time.Duration(s.retention.Load())
	if now.Before(s.erased.next) {
		return
	}
	pause, parked := retainMost, parkedAge
	s.erased.next = now.Add(pause) // also when what follows panics
	if age > 0 {
		pause, parked = min(max(age/10, time.Second), pause), min(age, parked)
		step, cancel := context.WithTimeout(ctx, retainStep)
		var n int
		err := s.guard.Err("retain", func() (err error) { n, err = s.be.Retain(step, now.Add(-age)); return err })
		cancel()
		s.Tally.Retired.Add(int64(n))
		s.outlive(n > 0, now.Add(-age))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			pause = time.Second // there is more
		case err != nil && ctx.Err() == nil:
			s.opts.Failed("retain", err)
		}
	}
	s.erased.next = now.Add(pause)
	err := s.guard.Err("retain", func() error { _, err := s.be.PurgeParked(ctx, now.Add(-parked)); return err })
	if err != nil && ctx.Err() == nil {
		s.opts.Failed("retain", err)
	}
	s.batch.mu.Lock()
	s.erased.tidy(now)
	s.batch.mu.Unlock()
	s.dirtyMu.Lock()
	s.forgetHeld(func(e session.Echo) bool { return now.Sub(e.At) > forgottenIn })
	s.dirtyMu.Unlock()
}

// outlive sees to it that the spool does not keep for longer what the backend has deleted.
func (s *Store) outlive(deleted bool, before time.Time) {
	if s.spool == nil {
		return
	}
	s.batch.mu.Lock()
	s.batch.scrub = s.batch.scrub || deleted
	s.batch.mu.Unlock()
	s.spool.TidyAside(before)
}

// tidy lets go of what no request can bring back any more.
func (e *erasure) tidy(now time.Time) {
	for id, at := range e.sessions {
		if now.Sub(at) > forgottenIn {
			delete(e.sessions, id)
		}
	}
	for name, at := range e.tenants {
		if now.Sub(at) > forgottenIn {
			delete(e.tenants, name)
		}
	}
}
