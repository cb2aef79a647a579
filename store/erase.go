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
	maxRetainPause  = 10 * time.Minute       // longest pause between two deletions by age
	retainStep      = 250 * time.Millisecond // longest duration of one deletion by age, because deliveries wait meanwhile
	parkedAge       = 7 * 24 * time.Hour     // age at which parked feedback, which waits for its session, is deleted
	erasuresEvery   = time.Second            // pause between two reads of the erasures of other replicas
	completeErasure = time.Minute            // age after which an erasure is complete in the backend
	erasureLimit    = writeLimit / 2         // longest duration of one erasure of another replica, because deliveries wait
	erasureRetry    = 10 * time.Second       // pause before a failed erasure of another replica is tried again
)

// errUnwritten is the error for a deletion while some rows are not in the backend. A later delivery of
// these rows would store the deleted sessions again.
var errUnwritten = errors.New("the store cannot be written now; try again later")

// deleter is the part of a backend that deletes by session, by tenant and by age.
type deleter interface {
	Forget(ctx context.Context, tenant string, id session.ID) (bool, error)
	ForgetTenant(ctx context.Context, tenant string) (sessions int, err error)
	Retain(ctx context.Context, before time.Time) (int, error)
	PurgeParked(ctx context.Context, before time.Time) (int, error)
	session.Finder
}

// announcer is the part of a shared backend with the list of erasures, which all replicas read.
type announcer interface {
	// Announce appends an erasure to the list, and returns its position.
	Announce(ctx context.Context, e session.Erasure) (place string, err error)
	// Erasures returns the erasures after a position.
	Erasures(ctx context.Context, after string) ([]session.Erasure, error)
}

// eraser deletes sessions by age, on request, and when another replica announces an erasure. The eraser works in the
// goroutine of the shipper and under its lock, so that no delivery runs during a deletion.
type eraser struct {
	backend     deleter
	announcer   announcer // nil means this process owns the backend
	sessions    *sessions
	changes     *changeQueue
	rewardQueue *rewardQueue
	posts       *poster
	tombstones  *tombstones
	shipper     *shipper
	guard       *guard.Guard
	tally       *Tally
	options     *Options
	flushNow    func(ctx context.Context) // records and ships everything at once

	retention atomic.Int64 // age in nanoseconds at which sessions are deleted; 0 means never
	deletions chan deletion

	nextDeletionByAge time.Time // time of the next deletion by age
	erasures          erasureCursor
}

// erasureCursor is the position of this replica in the list of erasures.
type erasureCursor struct {
	nextRead     time.Time // time of the next read of the list
	lastPosition string    // position of the last erasure that was applied
	ownPositions []string  // positions of the erasures of this replica since last

	failed    []session.Erasure // erasures of other replicas that failed and are tried again
	nextRetry time.Time         // time of the next attempt at the failed erasures
}

// deletion is a requested deletion, which the goroutine of the shipper runs. The caller waits for the result in done.
type deletion struct {
	run  func(ctx context.Context) (int, error)
	done chan<- deletionResult
}

type deletionResult struct {
	n   int
	err error
}

func (er *eraser) setRetention(age time.Duration) { er.retention.Store(int64(age)) }

// forgetSession deletes the sessions with a name. If the name belongs to a run or a parent session, forgetSession also
// deletes the sessions of the run or the child sessions.
func (er *eraser) forgetSession(ctx context.Context, tenant, name string) (int, error) {
	return er.runInShipper(ctx, func(ctx context.Context) (int, error) {
		ids, err := idsOfName(ctx, er.backend, tenant, name)
		if err != nil {
			return 0, err
		}
		for _, id := range slices.Clone(ids) { // also delete the sessions of a run
			members, err := er.membersOf(ctx, tenant, id)
			if err != nil {
				return 0, err
			}
			ids = append(ids, members...)
		}
		e := session.Erasure{Tenant: tenant, IDs: ids, At: er.options.Now()}
		if err := er.announce(ctx, e); err != nil {
			return 0, err
		}
		defer er.tombstones.finish(&e)
		inMemory, _, err := er.eraseLocal(ctx, &e)
		if err != nil {
			return 0, err
		}
		found := 0
		for _, id := range ids {
			stored, err := er.backend.Forget(ctx, tenant, id)
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
func (er *eraser) forgetTenant(ctx context.Context, tenant string) (int, error) {
	return er.runInShipper(ctx, func(ctx context.Context) (int, error) {
		e := session.Erasure{Tenant: tenant, At: er.options.Now()}
		if err := er.announce(ctx, e); err != nil {
			return 0, err
		}
		defer er.tombstones.finish(&e)
		_, inMemory, err := er.eraseLocal(ctx, &e)
		if err != nil {
			return 0, err
		}
		n, err := er.backend.ForgetTenant(ctx, tenant)
		return max(n, inMemory), err
	})
}

// membersOf returns the sessions of a run, or the child sessions of a parent session.
func (er *eraser) membersOf(ctx context.Context, tenant string, id session.ID) (all []session.ID, err error) {
	member, ok, err := er.sessions.member(ctx, tenant, id)
	if err != nil || !ok {
		return nil, err
	}
	err = session.EachMember(ctx, er.backend, tenant, &member, func(ids []session.ID) error {
		all = append(all, ids...)
		return nil
	})
	return all, err
}

// runInShipper calls run in the goroutine of the shipper, and returns the result.
func (er *eraser) runInShipper(ctx context.Context, run func(ctx context.Context) (int, error)) (int, error) {
	done := make(chan deletionResult, 1)
	select {
	case er.deletions <- deletion{run, done}:
	case <-ctx.Done():
		return 0, fmt.Errorf("the deletion did not begin, because the store is busy; repeat the request: %w", ctx.Err())
	}
	r := <-done // a deletion that has begun does not end with ctx
	return r.n, r.err
}

// runDeletion delivers all rows, then runs c and sends the result to the caller of c. If rows remain undelivered, the
// result is errUnwritten, and c does not run.
func (er *eraser) runDeletion(ctx context.Context, c deletion) {
	r := deletionResult{}
	r.err = er.guard.RunErr(label.StepForget, func() (err error) {
		er.flushNow(ctx)
		if err := er.shipper.lagReason(); err != nil {
			return fmt.Errorf("%w (%w)", errUnwritten, err)
		}
		ctx := context.WithoutCancel(ctx) // a stop waits for the deletion: an incomplete deletion would leave content
		r.n, err = c.run(ctx)
		er.clearCaches()
		return errors.Join(err, er.purge())
	})
	c.done <- r
}

// eraseLocal removes deleted sessions from the memory, the batches and the outbox of this process, and adds
// their tombstones, which reject later content of the sessions. found has the ids of the sessions that were in memory,
// and n is their number. For the erasure of a tenant only n is set.
func (er *eraser) eraseLocal(ctx context.Context, e *session.Erasure) (found map[session.ID]bool, n int, err error) {
	ids := make(map[session.ID]bool, len(e.IDs))
	for _, id := range e.IDs {
		ids[id] = true
	}
	match := func(id session.ID) bool { return len(ids) == 0 || ids[id] }
	// This look-up must come first. The memory still has the echo keys that connect posts with the sessions. If the
	// backend does not answer, the erasure has had no effect yet.
	before, last, err := er.posts.latePostNumbers(ctx, 0, e.Tenant, len(e.IDs) == 0, match)
	if err != nil {
		return nil, 0, err
	}
	if found, n, err = er.eraseQueued(e, match); err != nil {
		return found, n, err
	}
	// The second look-up finds the posts that were written during the first one. The tombstones cover later posts.
	after, _, err := er.posts.latePostNumbers(ctx, last, e.Tenant, len(e.IDs) == 0, match)
	if err != nil {
		return found, n, err
	}
	if box := er.shipper.handoff.outbox; box != nil {
		err = box.DropPosts(append(before, after...))
	}
	return found, n, err
}

// eraseQueued adds the tombstones of an erasure, and removes the sessions from memory, the batches and the
// outbox.
func (er *eraser) eraseQueued(e *session.Erasure, match func(session.ID) bool) (found map[session.ID]bool, n int, err error) {
	er.shipper.handoff.mu.Lock()
	defer er.shipper.handoff.mu.Unlock()
	er.tombstones.add(e)
	found = map[session.ID]bool{}
	if len(e.IDs) == 0 {
		n = er.sessions.live.forgetTenant(e.Tenant)
	}
	for _, id := range e.IDs {
		if er.sessions.live.forget(e.Tenant, id) {
			found[id] = true
			n++
		}
	}
	er.shipper.handoff.forget(e.Tenant, match)
	er.shipper.undelivered.forget(e.Tenant, match)
	er.changes.forget(func(k session.Echo) bool { return k.Tenant == e.Tenant && match(k.ID) })
	er.rewardQueue.forget(e.Tenant, match)
	if box := er.shipper.handoff.outbox; box != nil {
		var ids []outbox.SessionID // nil selects all sessions of the tenant
		for _, id := range e.IDs {
			ids = append(ids, id)
		}
		err = box.Forget(e.Tenant, ids)
	}
	return found, n, err
}

// clearCaches empties the cache of exchanges, and calls Hooks.OnErasure, so that other packages empty their caches.
func (er *eraser) clearCaches() {
	er.options.Exchanges.forget()
	er.callErased()
}

func (er *eraser) callErased() {
	if er.options.Hooks.OnErasure != nil {
		er.options.Hooks.OnErasure()
	}
}

// announce announces an erasure to the other replicas. announce must run before the deletion, because a replica that
// does not know the erasure could write the session again.
func (er *eraser) announce(ctx context.Context, e session.Erasure) error {
	if er.announcer == nil {
		return nil
	}
	place, err := er.announcer.Announce(ctx, e)
	if err == nil {
		er.erasures.ownPositions = append(er.erasures.ownPositions, place)
	}
	return err
}

// followReplicas repeats the new erasures of other replicas. followReplicas runs before each delivery,
// because the outbox may contain a session that was deleted while this replica was down. An erasure that fails is
// tried again later, and does not stop the deliveries: its tombstones keep the deleted sessions out of them.
func (er *eraser) followReplicas(ctx context.Context, now time.Time) error {
	clockSetBack := er.erasures.nextRead.Sub(now) > erasuresEvery
	if er.announcer == nil || now.Before(er.erasures.nextRead) && !clockSetBack {
		return nil
	}
	er.retryErasures(ctx, now)
	for {
		list, err := er.announcer.Erasures(ctx, er.erasures.lastPosition)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			e := &list[i]
			if !slices.Contains(er.erasures.ownPositions, e.Position) && e.Tenant != "" {
				er.tryErasure(ctx, e, now)
			}
			er.erasures.lastPosition = e.Position
		}
	}
	er.erasures.ownPositions, er.erasures.nextRead = nil, now.Add(erasuresEvery)
	return nil
}

// retryErasures tries the failed erasures of other replicas again, if this is due.
func (er *eraser) retryErasures(ctx context.Context, now time.Time) {
	clockSetBack := er.erasures.nextRetry.Sub(now) > erasureRetry
	if len(er.erasures.failed) == 0 || now.Before(er.erasures.nextRetry) && !clockSetBack {
		return
	}
	failed := er.erasures.failed
	er.erasures.failed = nil
	for i := range failed {
		er.tryErasure(ctx, &failed[i], now)
	}
}

// tryErasure repeats the erasure of another replica. If the erasure fails, tryErasure reports the error, and keeps the
// erasure for retryErasures.
func (er *eraser) tryErasure(ctx context.Context, e *session.Erasure, now time.Time) {
	er.tombstones.add(e) // first, so that a failed erasure lets no deleted session into a delivery
	defer er.tombstones.finish(e)
	erasureCtx, cancel := context.WithTimeout(ctx, erasureLimit)
	defer cancel()
	err := er.guard.RunErr(label.StepForget, func() error { return er.repeatErasure(erasureCtx, e, now) })
	if err == nil {
		return
	}
	er.erasures.failed, er.erasures.nextRetry = append(er.erasures.failed, *e), now.Add(erasureRetry)
	err = fmt.Errorf("the erasure by another replica is incomplete here; precept repeats it in %s: %w", erasureRetry, err)
	er.options.Hooks.OnFailure(label.StepForget, err)
}

// repeatErasure repeats the erasure of another replica in memory and in the outbox. An erasure that is younger than
// completeErasure is repeated in the backend, too, because this replica may have written the session since.
func (er *eraser) repeatErasure(ctx context.Context, e *session.Erasure, now time.Time) error {
	defer er.clearCaches()
	if _, _, err := er.eraseLocal(ctx, e); err != nil {
		return err
	}
	if err := er.purge(); err != nil {
		return err
	}
	if now.Sub(e.At) > completeErasure {
		return nil
	}
	if len(e.IDs) == 0 {
		_, err := er.backend.ForgetTenant(ctx, e.Tenant)
		return err
	}
	for _, id := range e.IDs {
		if _, err := er.backend.Forget(ctx, e.Tenant, id); err != nil {
			return err
		}
	}
	return nil
}

// purge removes the content of deleted rows from the files of the outbox.
func (er *eraser) purge() error {
	box := er.shipper.handoff.outbox
	if box == nil {
		return nil
	}
	return errors.Join(box.Tidy(), box.DeleteAside(time.Time{}))
}

// deleteOldAside deletes damaged outbox files that were set aside before a time. If deleted is true, the backend has
// deleted sessions by age, and the content of deleted rows is also removed from the outbox's file.
func (er *eraser) deleteOldAside(deleted bool, before time.Time) {
	box := er.shipper.handoff.outbox
	if box == nil {
		return
	}
	if deleted {
		box.RequestScrub()
	}
	if err := box.DeleteAside(before); err != nil {
		er.options.Hooks.OnFailure(label.StepRetain, err)
	}
}

// deleteByAge deletes old sessions and old parked feedback, if this is due. The deletion of sessions has a time
// limit; the rest follows a second later.
func (er *eraser) deleteByAge(ctx context.Context) {
	now, age := er.options.Now(), time.Duration(er.retention.Load())
	er.tombstones.correctClock(now)
	clockSetBack := er.nextDeletionByAge.Sub(now) > maxRetainPause
	if now.Before(er.nextDeletionByAge) && !clockSetBack {
		return
	}
	pause, parkedMaxAge := maxRetainPause, parkedAge
	er.nextDeletionByAge = now.Add(pause) // even if a deletion panics
	if age > 0 {
		pause, parkedMaxAge = min(max(age/10, time.Second), pause), min(age, parkedMaxAge)
		deletionCtx, cancel := context.WithTimeout(ctx, retainStep)
		var n int
		err := er.guard.RunErr(label.StepRetain, func() (err error) { n, err = er.backend.Retain(deletionCtx, now.Add(-age)); return err })
		cancel()
		er.tally.Retired.Add(int64(n))
		if n > 0 {
			er.options.Exchanges.retire(now.Add(-age))
			er.callErased()
		}
		er.deleteOldAside(n > 0, now.Add(-age))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			pause = time.Second // more old sessions must be deleted
		case err != nil && ctx.Err() == nil:
			er.options.Hooks.OnFailure(label.StepRetain, err)
		}
	}
	er.nextDeletionByAge = now.Add(pause)
	err := er.guard.RunErr(label.StepRetain, func() error { _, err := er.backend.PurgeParked(ctx, now.Add(-parkedMaxAge)); return err })
	if box := er.shipper.handoff.outbox; box != nil {
		expired, dropErr := box.DropPostsBefore(now.Add(-parkedMaxAge))
		er.tally.Late.Expired.Add(expired)
		err = errors.Join(err, dropErr)
	}
	if err != nil && ctx.Err() == nil {
		er.options.Hooks.OnFailure(label.StepRetain, err)
	}
	er.tombstones.deleteOld(now)
	er.changes.dropHeldBefore(now.Add(-tombstoneAge))
}
