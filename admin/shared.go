package admin

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"precept/internal/redact"
)

// sharedCache computes slow values for all pages, one at a time, so it takes at most one core. Requests for one key
// share a computation. A page waits at most maxPageWait and then gets an old value, if there is one. Without a worker
// (run), each request computes the value itself.
type sharedCache[K comparable, V any] struct {
	now         func() time.Time
	compute     func(context.Context, K) (V, error)
	maxAge      func(took time.Duration) time.Duration // age up to which a value is served without recomputing
	renewAfter  func(took time.Duration) time.Duration // age at which the worker recomputes a value; 0: never
	removeAfter time.Duration                          // a value without a request for this time is removed; 0: never

	flights   singleflight.Group // at most one flight (shared computation) per key
	semaphore chan struct{}      // admits one computation at a time

	mu            sync.Mutex
	workerContext context.Context // nil while no worker runs
	clearCount    int             // calls to clear
	expireCount   int             // calls to expire
	pendingCount  int             // flights that wait or compute
	values        map[K]*cachedValue[V]
}

type cachedValue[V any] struct {
	value       V
	err         error
	startedAt   time.Time // when the computation started
	duration    time.Duration
	requestedAt time.Time // last request from a page
	pinned      bool      // exempt from evict and maxIdle
}

const (
	maxPageWait    = 100 * time.Millisecond // how long a page waits for a newer value
	maxShared      = 16                     // stored values, and pending flights
	renewEvery     = 5 * time.Second        // interval between checks for old values
	maxIdle        = time.Hour              // values without a request for this time are not renewed
	waitForCurrent = -1                     // as maxWait: wait for a current value, because programs do not see a value's age
)

// errComputing is the error for a first computation that outlasts the caller's wait.
var errComputing = errors.New("the first computation is not finished yet; reload the page")

func newSharedCache[K comparable, V any](now func() time.Time, compute func(context.Context, K) (V, error), maxAge, renewAfter func(time.Duration) time.Duration) *sharedCache[K, V] {
	return &sharedCache[K, V]{now: now, compute: compute, maxAge: maxAge, renewAfter: renewAfter, semaphore: make(chan struct{}, 1), values: map[K]*cachedValue[V]{}}
}

// get returns the value for a key. old reports that the value is older than maxAge, because a newer one has not been
// computed yet, or because its computation cannot start. If there is no value yet, get waits at most maxWait (0: no
// limit) and then returns errComputing. If maxWait is waitForCurrent, get waits for a newer value, or returns
// errComputing if its computation cannot start.
func (s *sharedCache[K, V]) get(ctx context.Context, key K, maxWait time.Duration) (v V, old bool, err error) {
	s.mu.Lock()
	if s.workerContext == nil {
		s.mu.Unlock()
		v, err = s.compute(ctx, key)
		return v, false, err
	}
	previous, limit := cachedValue[V]{err: errComputing}, maxWait
	if x := s.values[key]; x != nil {
		x.requestedAt = s.now()
		if maxWait != waitForCurrent {
			previous, limit = *x, maxPageWait
		}
		if s.now().Sub(x.startedAt) <= s.maxAge(x.duration) {
			s.mu.Unlock()
			return x.value, false, x.err
		}
	}
	flight := s.startFlight(key, false) //nolint:contextcheck // the computation belongs to the worker, not to the page
	s.mu.Unlock()
	if flight == nil {
		return previous.value, true, previous.err
	}
	var timeout <-chan time.Time
	if limit > 0 {
		timeout = time.After(limit)
	}
	select {
	case r := <-flight:
		if x, ok := r.Val.(cachedValue[V]); ok {
			return x.value, false, x.err
		}
	case <-timeout:
	case <-ctx.Done():
		return previous.value, true, ctx.Err()
	}
	return previous.value, true, previous.err
}

// startFlight starts or joins the computation for a key. The channel receives a cachedValue, or nothing if the worker
// ended first. The channel is nil if maxShared computations are pending. The caller holds the lock.
func (s *sharedCache[K, V]) startFlight(key K, pin bool) <-chan singleflight.Result {
	if s.pendingCount >= maxShared {
		return nil
	}
	workerCtx := s.workerContext
	return s.flights.DoChan(flightName(key), func() (any, error) {
		s.addPending(1)
		defer s.addPending(-1)
		select {
		case s.semaphore <- struct{}{}:
			defer func() { <-s.semaphore }()
		case <-workerCtx.Done():
			return nil, workerCtx.Err()
		}
		return s.renew(workerCtx, key, pin), nil
	})
}

func (s *sharedCache[K, V]) addPending(flights int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pendingCount += flights
}

func flightName[K comparable](key K) string { return fmt.Sprintf("%#v", key) }

// renew computes and stores a value. If clear ran in the meantime, renew discards the value. If expire ran, renew
// stores the value as old.
func (s *sharedCache[K, V]) renew(ctx context.Context, key K, pin bool) cachedValue[V] {
	x := cachedValue[V]{startedAt: s.now(), pinned: pin}
	s.mu.Lock()
	clears, expires := s.clearCount, s.expireCount
	s.mu.Unlock()
	x.value, x.err = s.computeSafely(ctx, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.clearCount != clears { // the value may contain erased data
		return cachedValue[V]{err: errComputing}
	}
	x.duration, x.requestedAt = s.now().Sub(x.startedAt), s.now()
	if s.expireCount != expires {
		x.startedAt = time.Time{}
	}
	if previous := s.values[key]; previous != nil {
		x.requestedAt, x.pinned = previous.requestedAt, previous.pinned || pin
	} else {
		s.evict()
	}
	s.values[key] = &x
	return x
}

// computeSafely returns a panic as an error, because a panic within singleflight ends the process.
func (s *sharedCache[K, V]) computeSafely(ctx context.Context, key K) (v V, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the computation panicked: %s", redact.SafePanicText(r))
		}
	}()
	return s.compute(ctx, key)
}

// evict makes room by removing the least recently requested values that are not pinned. The caller holds the lock.
func (s *sharedCache[K, V]) evict() {
	for len(s.values) >= maxShared {
		var oldest K
		var found *cachedValue[V]
		for key, x := range s.values {
			if !x.pinned && (found == nil || x.requestedAt.Before(found.requestedAt)) {
				oldest, found = key, x
			}
		}
		if found == nil {
			return
		}
		delete(s.values, oldest)
	}
}

// clear removes all values after an erasure. Values still being computed are discarded.
func (s *sharedCache[K, V]) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clearCount++
	clear(s.values)
}

// expire makes all values old after an erasure. Pages show old values until a request, or the worker if renewAfter is
// not 0, has computed new ones. Values that are not pinned and were not requested for a minute are removed.
func (s *sharedCache[K, V]) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expireCount++
	for key, x := range s.values {
		x.startedAt = time.Time{}
		if !x.pinned && s.now().Sub(x.requestedAt) > time.Minute {
			delete(s.values, key)
		}
	}
}

// run is the worker. run computes pinnedKey and calls renewOld every renewEvery. run returns after the running
// computation has ended.
func (s *sharedCache[K, V]) run(ctx context.Context, pinnedKey K) error {
	s.mu.Lock()
	s.workerContext = ctx
	s.startFlight(pinnedKey, true) //nolint:contextcheck // the worker ends with ctx
	s.mu.Unlock()
	round := time.NewTicker(renewEvery)
	defer round.Stop()
	for {
		select {
		case <-ctx.Done():
			s.mu.Lock()
			s.workerContext = nil
			s.mu.Unlock()
			s.semaphore <- struct{}{} // wait for the running computation; waiting computations end with ctx
			<-s.semaphore
			return nil
		case <-round.C:
			s.renewOld() //nolint:contextcheck // the worker ends with ctx
		}
	}
}

// renewOld removes values without a request for removeAfter. renewOld renews values older than renewAfter that are
// pinned or were requested within maxIdle.
func (s *sharedCache[K, V]) renewOld() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	for key, x := range s.values {
		if s.removeAfter > 0 && now.Sub(x.requestedAt) > s.removeAfter {
			delete(s.values, key)
			continue
		}
		age := s.renewAfter(x.duration)
		if age > 0 && now.Sub(x.startedAt) > age && (x.pinned || now.Sub(x.requestedAt) <= maxIdle) {
			s.startFlight(key, x.pinned)
		}
	}
}
