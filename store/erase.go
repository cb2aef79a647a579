package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"precept/internal/guard"
	"precept/internal/label"
	"precept/internal/session"
	"precept/store/outbox"
)

const (
	retainMost    = 10 * time.Minute       // the longest pause between two looks for what is too old
	retainStep    = 250 * time.Millisecond // the shipper has other things to do
	parkedAge     = 7 * 24 * time.Hour     // early feedback whose exchange has not come by then is given up
	erasuresEvery = time.Second
	lateErasure   = time.Minute // what was announced longer ago has been deleted from the backend for good
)

// errUnwritten is the answer to whoever wants to forget what the backend has not been able to store
// yet.
var errUnwritten = errors.New("the store cannot be written just now; try again when it can")

// deleter is a backend that deletes: one session, a tenant's, and what is too old.
type deleter interface {
	Forget(ctx context.Context, tenant string, id session.ID) (bool, error)
	ForgetTenant(ctx context.Context, tenant string) (sessions int, err error)
	Retain(ctx context.Context, before time.Time) (int, error)
	PurgeParked(ctx context.Context, before time.Time) (int, error)
	session.Finder
}

// announcer is where the replicas of a fleet tell each other what is forgotten.
type announcer interface {
	// Announce tells the others, and where in their list that stands.
	Announce(ctx context.Context, e session.Erasure) (place string, err error)
	// Erasures lists what was announced behind a place.
	Erasures(ctx context.Context, after string) ([]session.Erasure, error)
}

// eraser deletes: what somebody wants forgotten, here or at another replica, and what is too old.
// It works in the shipper's goroutine, with nothing delivered meanwhile.
type eraser struct {
	be       deleter
	fleet    announcer // nil: the backend is this process' own
	sessions *sessions
	waiting  *waiting
	touched  *touched
	tombs    *tombstones
	handoff  *handoff
	shipper  *shipper
	guard    *guard.Guard
	tally    *Tally
	now      func() time.Time
	failed   func(step label.Step, err error)
	hurry    func(ctx context.Context) // hands over what came, at once

	retention atomic.Int64 // nanoseconds; 0 keeps everything
	chores    chan chore

	next      time.Time // when to look for what is too old
	elsewhere time.Time // when to look for what other replicas have forgotten
	followed  string    // the last announcement of another replica that was followed
	announced []string  // our own
}

// chore is work for the eraser, which nothing of the recorder's may meet half done.
type chore struct {
	run  func(ctx context.Context) (int, error)
	done chan<- choreResult
}

type choreResult struct {
	n   int
	err error
}

// SetRetention says how long a session is kept after it was last seen; 0 keeps it. It may be called
// at any time.
func (x *eraser) SetRetention(age time.Duration) { x.retention.Store(int64(age)) }

// ForgetSession deletes a session of the tenant wherever it stands: the backend, memory, what waits
// to be written, and what a request that is under way will bring; where replicas share the backend,
// each of them follows within seconds. name is the client's name of it, ours, or its id. It says
// how many there were: equal names from different headers are different sessions. What they added
// to the counters stays.
//
// It needs Run.
func (x *eraser) ForgetSession(ctx context.Context, tenant, name string) (int, error) {
	return x.chore(ctx, func(ctx context.Context) (int, error) {
		ids, err := idsNamed(ctx, x.be, tenant, name)
		if err != nil {
			return 0, err
		}
		for _, id := range slices.Clone(ids) { // a run goes with all of its sessions
			members, err := x.membersOf(ctx, tenant, id)
			if err != nil {
				return 0, err
			}
			ids = append(ids, members...)
		}
		e := session.Erasure{Tenant: tenant, IDs: ids, At: x.now()}
		if err := x.announce(ctx, e); err != nil {
			return 0, err
		}
		inMemory, _, err := x.eraseHere(&e)
		if err != nil {
			return 0, err
		}
		found := 0
		for _, id := range ids {
			stored, err := x.be.Forget(ctx, tenant, id)
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
func (x *eraser) ForgetTenant(ctx context.Context, tenant string) (int, error) {
	return x.chore(ctx, func(ctx context.Context) (int, error) {
		e := session.Erasure{Tenant: tenant, At: x.now()}
		if err := x.announce(ctx, e); err != nil {
			return 0, err
		}
		_, inMemory, err := x.eraseHere(&e)
		if err != nil {
			return 0, err
		}
		n, err := x.be.ForgetTenant(ctx, tenant)
		return max(n, inMemory), err
	})
}

// membersOf are the sessions that draw through a session.
func (x *eraser) membersOf(ctx context.Context, tenant string, id session.ID) (all []session.ID, err error) {
	of, ok, err := x.sessions.Known(ctx, tenant, id)
	if err != nil || !ok {
		return nil, err
	}
	err = session.EachMember(ctx, x.be, tenant, &of, func(ids []session.ID) error {
		all = append(all, ids...)
		return nil
	})
	return all, err
}

// chore hands work to the eraser's goroutine and waits for it.
func (x *eraser) chore(ctx context.Context, run func(ctx context.Context) (int, error)) (int, error) {
	done := make(chan choreResult, 1)
	select {
	case x.chores <- chore{run, done}:
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the recorder: %w", ctx.Err())
	}
	r := <-done // it is begun, and bounded by itself
	return r.n, r.err
}

// do runs a chore. What can be written is written first, so that little is left in the recorder's
// hands.
func (x *eraser) do(ctx context.Context, c chore) {
	r := choreResult{}
	r.err = x.guard.Err(label.StepForget, func() (err error) {
		x.hurry(ctx)
		if err := x.shipper.behind(); err != nil {
			return fmt.Errorf("%w (%w)", errUnwritten, err)
		}
		ctx := context.WithoutCancel(ctx) // half of it would be worse than a stop that waits
		r.n, err = c.run(ctx)
		return errors.Join(err, x.purge())
	})
	c.done <- r
}

// eraseHere takes what was forgotten out of memory, and out of what waits to be written. It returns
// how many sessions were in use.
func (x *eraser) eraseHere(e *session.Erasure) (found map[session.ID]bool, n int, err error) {
	of := func(id session.ID) bool { return len(e.IDs) == 0 || slices.Contains(e.IDs, id) }
	x.handoff.mu.Lock()
	defer x.handoff.mu.Unlock()
	x.tombs.put(e)
	found = map[session.ID]bool{}
	if len(e.IDs) == 0 {
		n = x.sessions.live.forgetTenant(e.Tenant)
	}
	for _, id := range e.IDs {
		if x.sessions.live.forget(e.Tenant, id) {
			found[id] = true
			n++
		}
	}
	x.handoff.forget(e.Tenant, of)
	x.shipper.tail.forget(e.Tenant, of)
	x.waiting.forget(func(k session.Echo) bool { return k.Tenant == e.Tenant && of(k.ID) })
	x.touched.forget(e.Tenant, of)
	if box := x.handoff.outbox; box != nil {
		var ids []outbox.SessionID // all of the tenant's
		for _, id := range e.IDs {
			ids = append(ids, id)
		}
		err = box.Forget(e.Tenant, ids)
	}
	return found, n, err
}

// announce tells the other replicas, before anything is deleted: one that does not know could write
// it again.
func (x *eraser) announce(ctx context.Context, e session.Erasure) error {
	if x.fleet == nil {
		return nil
	}
	place, err := x.fleet.Announce(ctx, e)
	if err == nil {
		x.announced = append(x.announced, place)
	}
	return err
}

// watch looks what other replicas have forgotten. It runs before anything is delivered: what an
// outbox kept while this replica was away may be of a session that was forgotten since.
func (x *eraser) watch(ctx context.Context, now time.Time) error {
	if x.fleet == nil || now.Before(x.elsewhere) {
		return nil
	}
	for {
		list, err := x.fleet.Erasures(ctx, x.followed)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			e := &list[i]
			if !slices.Contains(x.announced, e.Place) && e.Tenant != "" {
				if err := x.follow(ctx, e, now); err != nil {
					return err
				}
			}
			x.followed = e.Place
		}
	}
	x.announced, x.elsewhere = nil, now.Add(erasuresEvery)
	return nil
}

// follow forgets here what was forgotten elsewhere. What this replica has written meanwhile is
// deleted again.
func (x *eraser) follow(ctx context.Context, e *session.Erasure, now time.Time) error {
	if _, _, err := x.eraseHere(e); err != nil {
		return err
	}
	if err := x.purge(); err != nil {
		return err
	}
	if now.Sub(e.At) > lateErasure {
		return nil
	}
	if len(e.IDs) == 0 {
		_, err := x.be.ForgetTenant(ctx, e.Tenant)
		return err
	}
	for _, id := range e.IDs {
		if _, err := x.be.Forget(ctx, e.Tenant, id); err != nil {
			return err
		}
	}
	return nil
}

// purge takes the text of what was forgotten out of the files of the outbox.
func (x *eraser) purge() error {
	box := x.handoff.outbox
	if box == nil {
		return nil
	}
	return errors.Join(box.Tidy(), box.TidyAside(time.Time{}))
}

// outlive sees to it that the outbox does not keep for longer what the backend has deleted.
func (x *eraser) outlive(deleted bool, before time.Time) {
	box := x.handoff.outbox
	if box == nil {
		return
	}
	if deleted {
		box.Scrub()
	}
	if err := box.TidyAside(before); err != nil {
		x.failed(label.StepRetain, err)
	}
}

// retain deletes what was last seen too long ago, a bounded step a call.
func (x *eraser) retain(ctx context.Context) {
	now, age := x.now(), time.Duration(x.retention.Load())
	if now.Before(x.next) {
		return
	}
	pause, parked := retainMost, parkedAge
	x.next = now.Add(pause) // also when what follows panics
	if age > 0 {
		pause, parked = min(max(age/10, time.Second), pause), min(age, parked)
		step, cancel := context.WithTimeout(ctx, retainStep)
		var n int
		err := x.guard.Err(label.StepRetain, func() (err error) { n, err = x.be.Retain(step, now.Add(-age)); return err })
		cancel()
		x.tally.Retired.Add(int64(n))
		x.outlive(n > 0, now.Add(-age))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			pause = time.Second // there is more
		case err != nil && ctx.Err() == nil:
			x.failed(label.StepRetain, err)
		}
	}
	x.next = now.Add(pause)
	err := x.guard.Err(label.StepRetain, func() error { _, err := x.be.PurgeParked(ctx, now.Add(-parked)); return err })
	if err != nil && ctx.Err() == nil {
		x.failed(label.StepRetain, err)
	}
	x.tombs.tidy(now)
	x.waiting.expire(now.Add(-forgottenIn))
}
