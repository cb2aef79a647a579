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
	maxPurgePause   = 10 * time.Minute       // longest pause between deletions by age
	purgeStep       = 250 * time.Millisecond // longest deletion by age; deliveries have to wait for its end
	parkedAge       = 7 * 24 * time.Hour     // feedback without a known session is deleted at this age
	erasuresEvery   = time.Second            // pause between reads of other replicas' erasures (deletions)
	completeErasure = time.Minute            // age from which an erasure is no longer repeated in the backend; see repeatErasure
	erasureLimit    = writeLimit / 2         // longest time to repeat an erasure; deliveries have to wait for its end
	erasureRetry    = 10 * time.Second       // pause before another replica's failed erasure is retried
)

// errUnwritten means that the deletion did not run, because some rows are undelivered. Delivering them after the
// deletion would store the deleted sessions again.
var errUnwritten = errors.New("the deletion did not run, because precept cannot write to the store; repeat the deletion later")

type deletionBackend interface {
	Forget(ctx context.Context, tenant string, id session.ID) (bool, error)
	ForgetTenant(ctx context.Context, tenant string) (sessions int, err error)
	PurgeSessions(ctx context.Context, before time.Time) (int, error)
	PurgeParked(ctx context.Context, before time.Time) (int, error)
	session.Finder
}

// announcer is a shared backend's list of erasures, the deletions that all replicas must repeat.
type announcer interface {
	Announce(ctx context.Context, e session.Erasure) (position string, err error)
	// Erasures returns the erasures after a position.
	Erasures(ctx context.Context, after string) ([]session.Erasure, error)
}

// sessionDeleter deletes sessions by age, on request, and when another replica announces an erasure. It holds
// deliveryMu, so that no delivery runs during a deletion.
type sessionDeleter struct {
	backend     deletionBackend
	announcer   announcer // nil means this process owns the backend
	sessions    *sessions
	changes     *changeQueue
	rewardQueue *rewardQueue
	posts       *poster
	tombstones  *tombstones
	deliverer   *deliverer
	direct      *directWrites
	guard       *guard.Guard
	metrics     *Metrics
	options     *Options
	flushNow    func(ctx context.Context) // records and delivers everything immediately

	retention atomic.Int64 // nanoseconds; 0 means never
	deletions chan deletion

	nextDeletionByAge time.Time
	clockGuard        clockGuard
	erasures          erasureCursor
}

// clockGuard delays deletions by age after the clock has jumped forward, because every session looks old if the clock
// is wrong.
type clockGuard struct {
	clock, tick time.Time // at the last check; tick is the ticker's time
	heldUntil   time.Time // in the ticker's time
}

// check returns how far the clock has moved relative to the ticker, or 0 if this is too little to delay deletions.
// maxAge is the shortest age at which something is deleted.
func (g *clockGuard) check(now, tick time.Time, maxAge time.Duration) (moved time.Duration) {
	if !g.tick.IsZero() {
		moved = now.Round(0).Sub(g.clock) - tick.Sub(g.tick) // Round removes the monotonic reading, which does not move with the clock
	}
	g.clock, g.tick = now.Round(0), tick
	if moved <= max(maxAge/4, time.Hour) {
		return 0
	}
	g.heldUntil = tick.Add(min(maxAge/4, time.Hour))
	return moved
}

// erasureCursor is this replica's position in the shared list of erasures.
type erasureCursor struct {
	nextRead     time.Time
	lastPosition string // last applied erasure's position

	failed    []session.Erasure // other replicas' failed erasures, retried at nextRetry
	nextRetry time.Time
}

// deletion is a requested deletion. The deliverer's goroutine runs it, and the caller waits for done.
type deletion struct {
	run  func(ctx context.Context) (int, error)
	done chan<- deletionResult
}

type deletionResult struct {
	n   int
	err error
}

func (d *sessionDeleter) setRetention(age time.Duration) { d.retention.Store(int64(age)) }

// forgetSession deletes the sessions that name identifies and, for a run or a parent session, the members.
func (d *sessionDeleter) forgetSession(ctx context.Context, tenant, name string) (int, error) {
	return d.runInDeliverer(ctx, func(ctx context.Context) (int, error) {
		ids, err := idsByName(ctx, d.backend, tenant, name)
		if err != nil {
			return 0, err
		}
		for _, id := range slices.Clone(ids) { // also delete a run's sessions
			members, err := d.members(ctx, tenant, id)
			if err != nil {
				return 0, err
			}
			ids = append(ids, members...)
		}
		e := session.Erasure{Tenant: tenant, IDs: ids, At: d.options.Now()}
		if err := d.announce(ctx, e); err != nil {
			return 0, err
		}
		defer d.tombstones.finish(&e)
		inMemory, _, err := d.deleteLocal(ctx, &e)
		if err != nil {
			return 0, err
		}
		found := 0
		for _, id := range ids {
			stored, err := d.backend.Forget(ctx, tenant, id)
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

func (d *sessionDeleter) forgetTenant(ctx context.Context, tenant string) (int, error) {
	return d.runInDeliverer(ctx, func(ctx context.Context) (int, error) {
		e := session.Erasure{Tenant: tenant, At: d.options.Now()}
		if err := d.announce(ctx, e); err != nil {
			return 0, err
		}
		defer d.tombstones.finish(&e)
		_, inMemory, err := d.deleteLocal(ctx, &e)
		if err != nil {
			return 0, err
		}
		n, err := d.backend.ForgetTenant(ctx, tenant)
		return max(n, inMemory), err
	})
}

func (d *sessionDeleter) members(ctx context.Context, tenant string, id session.ID) (all []session.ID, err error) {
	member, ok, err := d.sessions.member(ctx, tenant, id)
	if err != nil || !ok {
		return nil, err
	}
	err = session.EachMember(ctx, d.backend, tenant, &member, func(ids []session.ID) error {
		all = append(all, ids...)
		return nil
	})
	return all, err
}

// runInDeliverer passes run to the deliverer's goroutine, and waits for the result.
func (d *sessionDeleter) runInDeliverer(ctx context.Context, run func(ctx context.Context) (int, error)) (int, error) {
	done := make(chan deletionResult, 1)
	select {
	case d.deletions <- deletion{run, done}:
	case <-ctx.Done():
		return 0, fmt.Errorf("the deletion did not run, because the store is busy; repeat the deletion later: %w", ctx.Err())
	}
	r := <-done // a deletion that has begun continues after ctx is done
	return r.n, r.err
}

// runDeletion delivers all rows, then runs the deletion and sends the result to the caller. If rows remain undelivered,
// the result is errUnwritten.
func (d *sessionDeleter) runDeletion(ctx context.Context, request deletion) {
	r := deletionResult{}
	r.err = d.guard.RunErr(label.StepErase, func() (err error) {
		d.flushNow(ctx)
		if err := d.deliverer.lagError(); err != nil {
			return fmt.Errorf("%w (%w)", errUnwritten, err)
		}
		ctx := context.WithoutCancel(ctx) // an interrupted deletion would leave some content
		r.n, err = request.run(ctx)
		d.clearCaches()
		return errors.Join(err, d.scrubOutbox())
	})
	request.done <- r
}

// deleteLocal removes deleted sessions from this process's memory and outbox, and adds tombstones to reject later
// content. It returns the number of sessions found in memory, and their ids (none when a whole tenant is deleted).
func (d *sessionDeleter) deleteLocal(ctx context.Context, e *session.Erasure) (found map[session.ID]bool, n int, err error) {
	ids := make(map[session.ID]bool, len(e.IDs))
	for _, id := range e.IDs {
		ids[id] = true
	}
	match := func(id session.ID) bool { return len(ids) == 0 || ids[id] }
	d.direct.drop(func(w *directWrite) bool { return w.tenant == e.Tenant }) // all the tenant's posts, because a post's session can be unknown
	// This look-up comes first, while memory still has the echo keys that connect posted feedback with sessions. If the
	// backend does not answer, nothing is deleted yet.
	before, last, err := d.posts.latePostNumbers(ctx, 0, e.Tenant, len(e.IDs) == 0, match)
	if err != nil {
		return nil, 0, err
	}
	if found, n, err = d.deleteQueued(e, match); err != nil {
		return found, n, err
	}
	// The second look-up finds posts written during the first one. Tombstones reject later posts.
	after, _, err := d.posts.latePostNumbers(ctx, last, e.Tenant, len(e.IDs) == 0, match)
	if err != nil {
		return found, n, err
	}
	if box := d.deliverer.handoff.outbox; box != nil {
		err = box.DropPosts(append(before, after...))
	}
	return found, n, err
}

// deleteQueued adds tombstones, and removes deleted sessions from memory, from all queues and from the outbox.
func (d *sessionDeleter) deleteQueued(e *session.Erasure, match func(session.ID) bool) (found map[session.ID]bool, n int, err error) {
	d.deliverer.handoff.mu.Lock()
	defer d.deliverer.handoff.mu.Unlock()
	d.tombstones.add(e)
	found = map[session.ID]bool{}
	if len(e.IDs) == 0 {
		n = d.sessions.live.forgetTenant(e.Tenant)
	}
	for _, id := range e.IDs {
		if d.sessions.live.forget(e.Tenant, id) {
			found[id] = true
			n++
		}
	}
	d.deliverer.handoff.forget(e.Tenant, match)
	d.deliverer.undelivered.forget(e.Tenant, match)
	d.changes.forget(func(k session.Echo) bool { return k.Tenant == e.Tenant && match(k.ID) })
	d.rewardQueue.forget(e.Tenant, match)
	if box := d.deliverer.handoff.outbox; box != nil {
		var ids []outbox.SessionID // nil selects all sessions of the tenant
		for _, id := range e.IDs {
			ids = append(ids, id)
		}
		err = box.Forget(e.Tenant, ids)
	}
	return found, n, err
}

// clearCaches empties the exchange cache and, through Hooks.OnErasure, other packages' caches.
func (d *sessionDeleter) clearCaches() {
	d.options.Exchanges.invalidateAll()
	d.callErased()
}

func (d *sessionDeleter) callErased() {
	if d.options.Hooks.OnErasure != nil {
		d.options.Hooks.OnErasure()
	}
}

// announce announces an erasure to the other replicas. It runs before the deletion, because a replica that does not
// know of the erasure can write the session again.
func (d *sessionDeleter) announce(ctx context.Context, e session.Erasure) error {
	if d.announcer == nil {
		return nil
	}
	if _, err := d.announcer.Announce(ctx, e); err != nil {
		return err
	}
	d.direct.add("", len(e.IDs)*len(session.ID{}), func(ctx context.Context) { d.eraseAgain(ctx, &e) })
	return nil
}

// eraseAgain repeats this replica's erasure after the backend has lost the erasure, the announcement or both. Memory
// and outbox no longer have the content.
func (d *sessionDeleter) eraseAgain(ctx context.Context, e *session.Erasure) {
	err := d.guard.RunErr(label.StepErase, func() error { return errors.Join(d.announce(ctx, *e), d.deleteStored(ctx, e)) })
	if err != nil {
		d.retryLater(e, d.options.Now(), fmt.Errorf("the store lost a deletion, and repeating the deletion failed; precept tries again in %s: %w", erasureRetry, err))
	}
	d.clearCaches()
}

func (d *sessionDeleter) retryLater(e *session.Erasure, now time.Time, err error) {
	d.erasures.failed, d.erasures.nextRetry = append(d.erasures.failed, *e), now.Add(erasureRetry)
	d.options.Hooks.OnFailure(label.StepErase, err)
}

// followReplicas repeats other replicas' new erasures before each delivery, because the outbox can contain a session
// that was deleted while this replica was down. A failed erasure does not stop deliveries, because tombstones keep
// deleted sessions out.
func (d *sessionDeleter) followReplicas(ctx context.Context, now time.Time) error {
	clockSetBack := d.erasures.nextRead.Sub(now) > erasuresEvery
	if d.announcer == nil || now.Before(d.erasures.nextRead) && !clockSetBack {
		return nil
	}
	d.retryErasures(ctx, now)
	for {
		list, err := d.announcer.Erasures(ctx, d.erasures.lastPosition)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		for i := range list {
			e := &list[i]
			if e.Tenant != "" && !d.tombstones.has(e) { // has knows own and repeated erasures
				d.tryErasure(ctx, e, now)
			}
			d.erasures.lastPosition = e.Position
		}
	}
	d.erasures.nextRead = now.Add(erasuresEvery)
	return nil
}

func (d *sessionDeleter) retryErasures(ctx context.Context, now time.Time) {
	clockSetBack := d.erasures.nextRetry.Sub(now) > erasureRetry
	if len(d.erasures.failed) == 0 || now.Before(d.erasures.nextRetry) && !clockSetBack {
		return
	}
	failed := d.erasures.failed
	d.erasures.failed = nil
	for i := range failed {
		d.tryErasure(ctx, &failed[i], now)
	}
}

func (d *sessionDeleter) tryErasure(ctx context.Context, e *session.Erasure, now time.Time) {
	d.tombstones.add(e) // before the erasure, so that no delivery stores a deleted session even if the erasure fails
	defer d.tombstones.finish(e)
	erasureCtx, cancel := context.WithTimeout(ctx, erasureLimit)
	defer cancel()
	err := d.guard.RunErr(label.StepErase, func() error { return d.repeatErasure(erasureCtx, e, now) })
	if err == nil {
		return
	}
	d.retryLater(e, now, fmt.Errorf("a deletion by another replica is incomplete on this replica; precept tries again in %s: %w", erasureRetry, err))
}

// repeatErasure repeats another replica's erasure in memory and in the outbox. A recent erasure (see completeErasure)
// is also repeated in the backend, because this replica might have written the session since.
func (d *sessionDeleter) repeatErasure(ctx context.Context, e *session.Erasure, now time.Time) error {
	defer d.clearCaches()
	if _, _, err := d.deleteLocal(ctx, e); err != nil {
		return err
	}
	if err := d.scrubOutbox(); err != nil {
		return err
	}
	if now.Sub(e.At) > completeErasure {
		return nil
	}
	return d.deleteStored(ctx, e)
}

func (d *sessionDeleter) deleteStored(ctx context.Context, e *session.Erasure) error {
	if len(e.IDs) == 0 {
		_, err := d.backend.ForgetTenant(ctx, e.Tenant)
		return err
	}
	for _, id := range e.IDs {
		if _, err := d.backend.Forget(ctx, e.Tenant, id); err != nil {
			return err
		}
	}
	return nil
}

// scrubOutbox removes deleted rows' content from the outbox file, and deletes all damaged outbox files.
func (d *sessionDeleter) scrubOutbox() error {
	box := d.deliverer.handoff.outbox
	if box == nil {
		return nil
	}
	return errors.Join(box.Tidy(), box.DeleteDamagedFiles(time.Time{}))
}

// deleteDamagedFiles deletes old damaged outbox files. If sessions were deleted by age, it also removes deleted rows'
// content from the outbox file.
func (d *sessionDeleter) deleteDamagedFiles(deleted bool, before time.Time) {
	box := d.deliverer.handoff.outbox
	if box == nil {
		return
	}
	if deleted {
		box.RequestScrub()
	}
	if err := box.DeleteDamagedFiles(before); err != nil {
		d.options.Hooks.OnFailure(label.StepRetain, err)
	}
}

// ParkedAge returns the age at which parked feedback is deleted, given the retention period for sessions. A retention
// period of 0 means that sessions are never deleted.
func ParkedAge(retention time.Duration) time.Duration {
	if retention > 0 {
		return min(retention, parkedAge)
	}
	return parkedAge
}

// deleteByAge deletes old sessions, and old feedback parked for an unknown session, if a deletion is due. If the time
// limit ends the deletion, the rest follows a second later. tick is the ticker's time.
func (d *sessionDeleter) deleteByAge(ctx context.Context, tick time.Time) {
	now, age := d.options.Now(), time.Duration(d.retention.Load())
	d.tombstones.correctClock(now)
	parkedMaxAge := ParkedAge(age)
	if moved := d.clockGuard.check(now, tick, parkedMaxAge); moved > 0 {
		d.options.Hooks.OnFailure(label.StepRetain, fmt.Errorf("the clock has moved forward by %s; deletions by age wait for %s; correct the clock if it is wrong",
			moved.Round(time.Second), d.clockGuard.heldUntil.Sub(tick)))
	}
	if tick.Before(d.clockGuard.heldUntil) {
		return
	}
	clockSetBack := d.nextDeletionByAge.Sub(now) > maxPurgePause
	if now.Before(d.nextDeletionByAge) && !clockSetBack {
		return
	}
	pause := maxPurgePause
	d.nextDeletionByAge = now.Add(pause) // also holds if a deletion panics
	if age > 0 {
		pause = min(max(age/10, time.Second), pause)
		deletionCtx, cancel := context.WithTimeout(ctx, purgeStep)
		var n int
		err := d.guard.RunErr(label.StepRetain, func() error {
			earliest, _, err := d.options.AgeNow(deletionCtx)
			if err == nil {
				n, err = d.backend.PurgeSessions(deletionCtx, earliest.Add(-age))
			}
			return err
		})
		cancel()
		d.metrics.Expired.Add(int64(n))
		if n > 0 {
			d.options.Exchanges.dropOlder(now.Add(-age))
			d.callErased()
		}
		d.deleteDamagedFiles(n > 0, now.Add(-age))
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			pause = time.Second
		case err != nil && ctx.Err() == nil:
			d.options.Hooks.OnFailure(label.StepRetain, err)
		}
	}
	d.nextDeletionByAge = now.Add(pause)
	err := d.guard.RunErr(label.StepRetain, func() error { _, err := d.backend.PurgeParked(ctx, now.Add(-parkedMaxAge)); return err })
	if box := d.deliverer.handoff.outbox; box != nil {
		expired, dropErr := box.DropPostsBefore(now.Add(-parkedMaxAge))
		d.metrics.Late.Expired.Add(expired)
		err = errors.Join(err, dropErr)
	}
	if err != nil && ctx.Err() == nil {
		d.options.Hooks.OnFailure(label.StepRetain, err)
	}
	d.tombstones.deleteOld(now)
	d.changes.dropHeldBefore(now.Add(-tombstoneAge))
}
