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
	retainMost    = 10 * time.Minute       // longest pause between two deletions by age
	retainStep    = 250 * time.Millisecond // longest deletion by age, because deliveries wait meanwhile
	parkedAge     = 7 * 24 * time.Hour     // age at which parked feedback is deleted
	erasuresEvery = time.Second            // pause between two look-ups of the erasures of other replicas
	lateErasure   = time.Minute            // an older erasure of another replica is complete in the backend
)

// errUnwritten refuses to forget sessions that the backend could not store yet: they would come back.
var errUnwritten = errors.New("the store cannot be written now; try again later")

// deleter is the part of a backend that deletes by session, by tenant and by age.
type deleter interface {
	Forget(ctx context.Context, tenant string, id session.ID) (bool, error)
	ForgetTenant(ctx context.Context, tenant string) (sessions int, err error)
	Retain(ctx context.Context, before time.Time) (int, error)
	PurgeParked(ctx context.Context, before time.Time) (int, error)
	session.Finder
}

// announcer is the part of a shared backend by which replicas announce erasures.
type announcer interface {
	// Announce adds an erasure to the list of all replicas, and returns its place in the list.
	Announce(ctx context.Context, e session.Erasure) (place string, err error)
	// Erasures returns the erasures after a place.
	Erasures(ctx context.Context, after string) ([]session.Erasure, error)
}

// eraser deletes sessions: on request, here or on another replica, and by age. The eraser works in
// the goroutine of the shipper, while nothing is delivered.
type eraser struct {
	be       deleter
	fleet    announcer // nil: this process owns the backend
	sessions *sessions
	waiting  *waiting
	touched  *touched
	posts    *poster
	tombs    *tombstones
	shipper  *shipper
	guard    *guard.Guard
	tally    *Tally
	options  *Options
	hurry    func(ctx context.Context) // records and ships everything at once

	retention atomic.Int64 // nanoseconds; 0 keeps everything
	chores    chan chore

	next     time.Time // time of the next deletion by age
	replicas follower
}

// follower is the progress with the erasures of other replicas.
type follower struct {
	due          time.Time // time of the next look-up
	last         string    // position of the last erasure that was applied
	ownPositions []string  // positions of the erasures of this replica since last
}

// chore is a deletion that a caller waits for.
type chore struct {
	run  func(ctx context.Context) (int, error)
	done chan<- choreResult
}

type choreResult struct {
	n   int
	err error
}

func (x *eraser) setRetention(age time.Duration) { x.retention.Store(int64(age)) }

// forgetSession deletes the sessions of a name, a run with all of its sessions.
func (x *eraser) forgetSession(ctx context.Context, tenant, name string) (int, error) {
	return x.chore(ctx, func(ctx context.Context) (int, error) {
		ids, err := idsNamed(ctx, x.be, tenant, name)
		if err != nil {
			return 0, err
		}
		for _, id := range slices.Clone(ids) { // the sessions of a run
			members, err := x.membersOf(ctx, tenant, id)
			if err != nil {
				return 0, err
			}
			ids = append(ids, members...)
		}
		e := session.Erasure{Tenant: tenant, IDs: ids, At: x.options.Now()}
		if err := x.announce(ctx, e); err != nil {
			return 0, err
		}
		inMemory, _, err := x.eraseHere(ctx, &e)
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

// forgetTenant deletes all sessions of a tenant.
func (x *eraser) forgetTenant(ctx context.Context, tenant string) (int, error) {
	return x.chore(ctx, func(ctx context.Context) (int, error) {
		e := session.Erasure{Tenant: tenant, At: x.options.Now()}
		if err := x.announce(ctx, e); err != nil {
			return 0, err
		}
		_, inMemory, err := x.eraseHere(ctx, &e)
		if err != nil {
			return 0, err
		}
		n, err := x.be.ForgetTenant(ctx, tenant)
		return max(n, inMemory), err
	})
}

// membersOf returns the sessions that share the coins of a run or a parent session.
func (x *eraser) membersOf(ctx context.Context, tenant string, id session.ID) (all []session.ID, err error) {
	of, ok, err := x.sessions.member(ctx, tenant, id)
	if err != nil || !ok {
		return nil, err
	}
	err = session.EachMember(ctx, x.be, tenant, &of, func(ids []session.ID) error {
		all = append(all, ids...)
		return nil
	})
	return all, err
}

// chore gives work to the goroutine of the shipper, and waits for the result.
func (x *eraser) chore(ctx context.Context, run func(ctx context.Context) (int, error)) (int, error) {
	done := make(chan choreResult, 1)
	select {
	case x.chores <- chore{run, done}:
	case <-ctx.Done():
		return 0, fmt.Errorf("wait for the recorder: %w", ctx.Err())
	}
	r := <-done // ctx does not end the chore, which has its own time limit
	return r.n, r.err
}

// do runs a chore, after a delivery of everything that can be delivered.
func (x *eraser) do(ctx context.Context, c chore) {
	r := choreResult{}
	r.err = x.guard.Err(label.StepForget, func() (err error) {
		x.hurry(ctx)
		if err := x.shipper.lagReason(); err != nil {
			return fmt.Errorf("%w (%w)", errUnwritten, err)
		}
		ctx := context.WithoutCancel(ctx) // half a deletion would be worse than a stop that waits
		r.n, err = c.run(ctx)
		x.forgotten()
		return errors.Join(err, x.purge())
	})
	c.done <- r
}

// eraseHere removes forgotten sessions from memory, from the batches that wait and from the outbox. eraseHere returns
// the sessions that were in memory, and their number.
func (x *eraser) eraseHere(ctx context.Context, e *session.Erasure) (found map[session.ID]bool, n int, err error) {
	of := func(id session.ID) bool { return len(e.IDs) == 0 || slices.Contains(e.IDs, id) }
	// Before the tombstones: an unavailable backend stops the erasure without an effect, and the memory still has
	// the keys of replies.
	before, err := x.posts.lateOf(ctx, e.Tenant, len(e.IDs) == 0, of)
	if err != nil {
		return nil, 0, err
	}
	if found, n, err = x.eraseQueued(e, of); err != nil {
		return found, n, err
	}
	// After the tombstones: posts that were kept meanwhile. The tombstones cover the posts that are kept later.
	after, err := x.posts.lateOf(ctx, e.Tenant, len(e.IDs) == 0, of)
	if err != nil {
		return found, n, err
	}
	if box := x.shipper.handoff.outbox; box != nil {
		err = box.DropPosts(append(before, after...))
	}
	return found, n, err
}

// eraseQueued adds the tombstones of an erasure, and removes the sessions from memory and from the outbox.
func (x *eraser) eraseQueued(e *session.Erasure, of func(session.ID) bool) (found map[session.ID]bool, n int, err error) {
	x.shipper.handoff.mu.Lock()
	defer x.shipper.handoff.mu.Unlock()
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
	x.shipper.handoff.forget(e.Tenant, of)
	x.shipper.tail.forget(e.Tenant, of)
	x.waiting.forget(func(k session.Echo) bool { return k.Tenant == e.Tenant && of(k.ID) })
	x.touched.forget(e.Tenant, of)
	if box := x.shipper.handoff.outbox; box != nil {
		var ids []outbox.SessionID // none: all sessions of the tenant
		for _, id := range e.IDs {
			ids = append(ids, id)
		}
		err = box.Forget(e.Tenant, ids)
	}
	return found, n, err
}

// forgotten empties the caches that may hold deleted sessions.
func (x *eraser) forgotten() {
	x.options.Exchanges.forget()
	x.erased()
}

func (x *eraser) erased() {
	if x.options.Hooks.Erased != nil {
		x.options.Hooks.Erased()
	}
}

// announce publishes the erasure to other replicas before the deletion: a replica that does not
// know of the erasure could write the session again.
func (x *eraser) announce(ctx context.Context, e session.Erasure) error {
	if x.fleet == nil {
		return nil
	}
	place, err := x.fleet.Announce(ctx, e)
	if err == nil {
		x.replicas.ownPositions = append(x.replicas.ownPositions, place)
	}
	return err
}

// watch follows the erasures of other replicas. watch runs before each delivery, because the outbox
// may contain a session that was forgotten while this replica was down.
func (x *eraser) watch(ctx context.Context, now time.Time) error {
	if x.fleet == nil || now.Before(x.replicas.due) {
		return nil
	}
	for {
		list, err := x.fleet.Erasures(ctx, x.replicas.last)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			e := &list[i]
			if !slices.Contains(x.replicas.ownPositions, e.Place) && e.Tenant != "" {
				if err := x.follow(ctx, e, now); err != nil {
					return err
				}
			}
			x.replicas.last = e.Place
		}
	}
	x.replicas.ownPositions, x.replicas.due = nil, now.Add(erasuresEvery)
	return nil
}

// follow repeats the erasure of another replica, also in the backend, because this replica may have
// written the session since.
func (x *eraser) follow(ctx context.Context, e *session.Erasure, now time.Time) error {
	defer x.forgotten()
	if _, _, err := x.eraseHere(ctx, e); err != nil {
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

// purge removes the text of deleted rows from the files of the outbox.
func (x *eraser) purge() error {
	box := x.shipper.handoff.outbox
	if box == nil {
		return nil
	}
	return errors.Join(box.Tidy(), box.TidyAside(time.Time{}))
}

// outlive removes from the outbox what the backend deleted by age.
func (x *eraser) outlive(deleted bool, before time.Time) {
	box := x.shipper.handoff.outbox
	if box == nil {
		return
	}
	if deleted {
		box.Scrub()
	}
	if err := box.TidyAside(before); err != nil {
		x.options.Hooks.Failed(label.StepRetain, err)
	}
}

// retain deletes sessions and parked feedback by age, with a time limit.
func (x *eraser) retain(ctx context.Context) {
	now, age := x.options.Now(), time.Duration(x.retention.Load())
	if now.Before(x.next) {
		return
	}
	pause, parked := retainMost, parkedAge
	x.next = now.Add(pause) // also if a deletion panics
	if age > 0 {
		pause, parked = min(max(age/10, time.Second), pause), min(age, parked)
		step, cancel := context.WithTimeout(ctx, retainStep)
		var n int
		err := x.guard.Err(label.StepRetain, func() (err error) { n, err = x.be.Retain(step, now.Add(-age)); return err })
		cancel()
		x.tally.Retired.Add(int64(n))
		if n > 0 {
			x.options.Exchanges.retire(now.Add(-age))
			x.erased()
		}
		x.outlive(n > 0, now.Add(-age))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			pause = time.Second // further erasures are waiting
		case err != nil && ctx.Err() == nil:
			x.options.Hooks.Failed(label.StepRetain, err)
		}
	}
	x.next = now.Add(pause)
	err := x.guard.Err(label.StepRetain, func() error { _, err := x.be.PurgeParked(ctx, now.Add(-parked)); return err })
	if box := x.shipper.handoff.outbox; box != nil {
		expired, failed := box.DropPostsBefore(now.Add(-parked))
		x.tally.Late.Expired.Add(expired)
		err = errors.Join(err, failed)
	}
	if err != nil && ctx.Err() == nil {
		x.options.Hooks.Failed(label.StepRetain, err)
	}
	x.tombs.tidy(now)
	x.waiting.expire(now.Add(-forgottenIn))
}
